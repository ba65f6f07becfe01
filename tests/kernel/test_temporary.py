"""Folders for temporary files: gone with their owner, however it ends and whatever was left in them."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_harness.kernel import process, temporary
from agent_harness.kernel.temporary import TemporaryFolder, remove_tree


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for temporary files that nobody else uses."""
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    return tmp_path


def test_it_is_gone_afterwards_with_all_that_is_in_it(place: Path) -> None:
    (place / "kept").mkdir()
    (place / "kept/file").touch()
    with TemporaryFolder() as folder:
        Path(folder.path, "a/b").mkdir(parents=True)
        Path(folder.path, "a/link").symlink_to(place / "kept")
        Path(folder.path, "a/b/dead").symlink_to("nowhere")
    assert [each.name for each in place.iterdir()] == ["kept"]
    assert (place / "kept/file").exists()


def test_what_a_killed_harness_left_is_removed_and_what_others_hold_is_not(place: Path) -> None:
    script = (
        "import os\n"
        "from agent_harness.kernel.temporary import TemporaryFolder\n"
        "folder = TemporaryFolder()\n"
        "open(os.path.join(folder.path, 'left'), 'w').close()\n"
        "os.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, "-c", script], check=False)
    (left,) = place.iterdir()
    assert (left / "left").exists()
    (place / "of-a-person").mkdir()
    (place / f"{temporary.PREFIX}link").symlink_to(place / "of-a-person")
    with TemporaryFolder() as mine:
        temporary.sweep()
        assert Path(mine.path).exists()
        assert not left.exists()
    assert (place / "of-a-person").exists()


@pytest.mark.parametrize("depth", [3, 4000])
def test_a_folder_of_any_depth_is_removed(place: Path, depth: int) -> None:
    top = place / "deep"
    top.mkdir()
    here = os.open(".", os.O_RDONLY)
    try:
        os.chdir(top)
        for _ in range(depth):
            Path("file").touch()
            Path("d").mkdir()
            os.chdir("d")
        Path().chmod(0)
    finally:
        os.chdir(here)
        os.close(here)
    assert remove_tree(top)
    assert not top.exists()


def test_a_link_is_not_followed_and_what_is_not_there_is_gone(place: Path) -> None:
    (place / "kept").mkdir()
    (place / "link").symlink_to(place / "kept")
    assert not remove_tree(place / "link")
    assert remove_tree(place / "nothing")
    assert (place / "kept").exists()


def test_a_command_has_temporary_files_of_its_own(place: Path) -> None:
    env = process.scrubbed_environment()
    with process.start('echo "$TMPDIR"; : > "$TMPDIR/x"; cat', cwd=place, env=env, own_temporary=True) as running:
        line = running.read_line(60)
        assert line
        folder = Path(line.decode())
        assert folder.parent == place
        running.close_input()
        running.wait()
        while not running.at_end:
            running.read_line(1)
    assert not folder.exists()


def test_nothing_is_left_of_a_command_that_cannot_start(place: Path) -> None:
    with pytest.raises(Exception, match="not found"):
        process.start(["no-such-program"], cwd=place, env={"PATH": "/nowhere"}, own_temporary=True)
    assert not list(place.iterdir())
