"""A state file is always whole: after a crash, on a full disk, behind a link, whatever was in it before."""

import errno
import json
import os
import random
import resource
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

import pytest

from agent_harness.errors import LeaseLost, Refused, StateDamaged
from agent_harness.kernel import files


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in which no test may leave a temporary file."""
    place = tmp_path / "project"
    place.mkdir()
    yield place
    assert [path.name for path in place.iterdir() if ".tmp." in path.name] == []


@pytest.fixture
def state(folder: Path) -> Path:
    path = folder / "state.json"
    path.write_text('{"old": true}')
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# ---- replace


def test_a_new_file_appears_with_the_usual_mode(folder: Path) -> None:
    umask = os.umask(0o027)
    try:
        files.replace(folder / "new", "text\n")
    finally:
        os.umask(umask)
    assert (folder / "new").read_text() == "text\n"
    assert stat.S_IMODE((folder / "new").stat().st_mode) == 0o640


def test_the_mode_stays_and_a_mode_given_wins(state: Path) -> None:
    state.chmod(0o600)
    files.replace(state, b"1")
    assert stat.S_IMODE(state.stat().st_mode) == 0o600
    files.replace(state, b"2", mode=0o755)
    assert stat.S_IMODE(state.stat().st_mode) == 0o755


def test_a_file_with_a_mode_given_is_never_open_to_others(folder: Path) -> None:
    seen: list[int] = []

    def look() -> None:
        seen.extend(stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir())

    files.replace(folder / "secret", "x", mode=0o600, before=look)
    assert seen == [0o600]


@pytest.mark.skipif(os.getuid() != 0, reason="only an administrator gives files away")
def test_the_owner_stays(state: Path) -> None:
    os.chown(state, 65534, 65534)
    files.replace(state, "1")
    assert (state.stat().st_uid, state.stat().st_gid) == (65534, 65534)


def test_a_link_keeps_and_its_target_is_written(folder: Path, state: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "first").symlink_to("../state.json")
    (folder / "second").symlink_to("sub/first")
    files.write_json(folder / "second", {"new": True}, follow=True)
    assert (folder / "second").is_symlink()
    assert (folder / "sub" / "first").is_symlink()
    assert json.loads(state.read_text()) == {"new": True}


@pytest.mark.parametrize("there", [True, False])
def test_without_following_the_file_takes_the_place_of_the_link(folder: Path, state: Path, there: bool) -> None:
    """What the link leads to stays as it is, and is not made (tasklist.md 1)."""
    if not there:
        state.unlink()
    link = folder / "link.json"
    link.symlink_to(state)
    files.write_json(link, {"new": True})
    assert (link.is_symlink(), files.read_json(link)) == (False, {"new": True})
    assert [state.exists(), there and state.read_text()] == [there, there and '{"old": true}']


def test_a_link_to_nothing_gets_its_target(folder: Path) -> None:
    (folder / "link").symlink_to("target")
    files.replace(folder / "link", "x", follow=True)
    assert (folder / "link").is_symlink()
    assert (folder / "target").read_text() == "x"


def test_links_to_a_folder_or_in_a_circle_are_refused(folder: Path) -> None:
    (folder / "a").symlink_to("b")
    (folder / "b").symlink_to("a")
    (folder / "c").symlink_to(folder)
    for name in "ac":
        with pytest.raises(Refused, match="cannot be written"):
            files.replace(folder / name, "x", follow=True)


def test_before_runs_last_and_can_stop_it(folder: Path, state: Path) -> None:
    def stop() -> None:
        assert len(names(folder)) == 2
        assert state.read_text() == '{"old": true}'
        raise LeaseLost("fenced")

    with pytest.raises(LeaseLost, match="fenced"):
        files.write_json(state, {"new": True}, before=stop)
    assert state.read_text() == '{"old": true}'


@pytest.mark.parametrize("error", [StateDamaged("not ours"), KeyboardInterrupt(), ValueError("x")])
def test_what_before_raises_comes_out(state: Path, error: BaseException) -> None:
    def stop() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        files.replace(state, "x", before=stop)
    assert caught.value is error


@pytest.mark.parametrize(
    ("make", "why"),
    [(lambda path: path.mkdir(), "Is a directory"), (lambda path: path.parent.rmdir(), "No such file or directory")],
)
def test_a_place_that_cannot_be_written_is_one_clear_line(
    folder: Path, make: Callable[[Path], object], why: str
) -> None:
    (folder / "sub").mkdir()
    path = folder / "sub" / "state.json"
    make(path)
    with pytest.raises(Refused) as caught:
        files.replace(path, "x")
    assert str(caught.value) == f"{path} cannot be written: {why}"


def _limited() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))


def test_a_full_disk_leaves_the_old_file_and_nothing_else(folder: Path, state: Path) -> None:
    script = (
        "import sys; from agent_harness.kernel import files\n"
        "try: files.write_json(sys.argv[1], {'new': 'x' * 200_000}, backup=True)\n"
        "except files.Refused as error: print(error)\n"
    )
    command = [sys.executable, "-c", script, str(state)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True, preexec_fn=_limited)
    assert ended.stdout == f"{state} cannot be written: File too large\n"
    assert state.read_text() == '{"old": true}'
    assert names(folder) == ["state.json", "state.json.bak"]


@pytest.mark.skipif(os.getuid() != 0 or sys.platform != "linux", reason="mounts a small disk")
def test_a_really_full_disk_names_the_way_out(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("mounting is not allowed here")
    try:
        files.write_json(disk / "state.json", {"old": True})
        with pytest.raises(Refused, match="No space left on device") as caught:
            files.write_json(disk / "state.json", {"new": "x" * 100_000}, backup=True)
        assert caught.value.hint == "free some space on that disk, then run the same command again"
        assert files.read_json(disk / "state.json") == {"old": True}
        assert names(disk) == ["state.json", "state.json.bak"]
    finally:
        subprocess.run(["umount", disk], check=True)


_WRITER = """
import sys
from agent_harness.kernel import files
path, turn = sys.argv[1], 0
while True:
    turn += 1
    files.write_json(path, {"turn": turn, "text": "x" * (turn * 7919 % 60_000), "end": turn}, backup=True)
"""


@pytest.mark.kill
def test_a_writer_killed_at_any_moment_leaves_a_whole_file(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    for turn in (-1, 0):  # the first writer may be killed before it writes a second time
        files.write_json(path, {"turn": turn, "end": turn}, backup=True)
    chance = random.Random(7)
    for _ in range(12):
        with subprocess.Popen([sys.executable, "-c", _WRITER, path]) as writer:
            start = path.read_bytes() if path.exists() else None
            while (path.read_bytes() if path.exists() else None) == start:
                assert writer.poll() is None
            for _ in range(chance.randrange(400)):
                state = files.read_json(path)  # readers never wait and never see half a file
                assert state["turn"] == state["end"]
            writer.send_signal(signal.SIGKILL)
        for whole in (path, tmp_path / "state.json.bak"):
            state = files.read_json(whole)
            assert state["turn"] == state["end"]
        files.sweep(path)
        files.sweep(tmp_path / "state.json.bak")
        assert names(tmp_path) == ["state.json", "state.json.bak"]


# ---- create


def _no_link(source: str, target: str) -> None:
    raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))


@pytest.mark.parametrize("links", [True, False])
def test_a_file_is_created_once(folder: Path, monkeypatch: pytest.MonkeyPatch, links: bool) -> None:
    if not links:
        monkeypatch.setattr(os, "link", _no_link)
    new, umask = folder / "new", os.umask(0o027)
    try:
        assert files.create(str(new), "first\n")
        assert files.create(str(folder / "open"), b"", mode=0o644)
    finally:
        os.umask(umask)
    assert not files.create(str(new), "second\n")
    assert new.read_text() == "first\n"
    assert [stat.S_IMODE(each.stat().st_mode) for each in (new, folder / "open")] == [0o640, 0o644]
    (folder / "nowhere").symlink_to("missing")
    assert not files.create(str(folder / "nowhere"), "")
    with pytest.raises(Refused, match="no/new cannot be written: No such file or directory"):
        files.create(str(folder / "no/new"), "")
    assert names(folder) == ["new", "nowhere", "open"]


# ---- read


def test_a_missing_file_is_missing(folder: Path) -> None:
    with pytest.raises(FileNotFoundError):
        files.read_json(folder / "none.json")
    with pytest.raises(FileNotFoundError):
        files.read_bytes(folder / "none.json")
    assert files.digest(folder / "none.json") is None


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"", "empty"), (b"\xff", "UTF-8"), (b"{}\0", "zero byte"), (b"[]", "not a JSON object"), (b"{", "Expecting")],
)
def test_damage_names_the_file_and_the_reason(state: Path, content: bytes, why: str) -> None:
    state.write_bytes(content)
    with pytest.raises(StateDamaged, match=why) as caught:
        files.read_json(state)
    assert str(state) in str(caught.value)
    assert caught.value.hint is None
    (state.parent / "state.json.bak").write_text("{}")
    with pytest.raises(StateDamaged) as caught:
        files.read_json(state)
    assert str(caught.value.hint).endswith("state.json.bak")


def test_pipes_folders_and_devices_are_damage_and_no_wait(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    (folder / "sub").mkdir()
    (folder / "zero").symlink_to("/dev/zero")
    for name in ("pipe", "sub", "zero"):
        with pytest.raises(StateDamaged, match="is not a regular file"):
            files.read_json(folder / name)
        with pytest.raises(StateDamaged, match="is not a regular file"):
            files.digest(folder / name)


def test_a_file_without_end_does_not_fill_the_memory(folder: Path) -> None:
    with (folder / "huge").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(StateDamaged, match="larger than 64 MiB"):
        files.read_json(folder / "huge")


@pytest.mark.skipif(os.getuid() == 0, reason="an administrator may read everything")
def test_a_file_that_may_not_be_read_is_not_called_damaged(state: Path) -> None:
    state.chmod(0)
    with pytest.raises(Refused, match="cannot be read: Permission denied"):
        files.read_json(state)


def test_unknown_members_and_numbers_survive_a_change(state: Path) -> None:
    numbers = '{\n  "price": 1.10,\n  "ours": 1,\n  "far": [\n    1e400,\n    -0.0,\n    -0\n  ],\n'
    text = numbers + '  "Ω": {\n    "": "\\u0000é"\n  }\n}\n'
    state.write_text(text)
    value = files.read_json(state)
    value["ours"] += 1
    files.write_json(state, value)
    assert state.read_text() == text.replace('"ours": 1', '"ours": 2')


def test_a_value_that_is_no_json_changes_nothing(state: Path) -> None:
    for value in ({"n": float("nan")}, {"n": "\udc80"}):
        with pytest.raises(StateDamaged, match="was not written"):
            files.write_json(state, value, backup=True)
    assert names(state.parent) == ["state.json"]


def test_the_digest_is_that_of_the_content(state: Path) -> None:
    assert files.digest(state) == sha256(b'{"old": true}').hexdigest()


# ---- backup and restore


def test_the_backup_is_the_state_before_the_last_write(state: Path) -> None:
    backup = state.with_suffix(".json.bak")
    state.chmod(0o600)
    files.write_json(state, {"turn": 1}, backup=True)
    assert backup.read_text() == '{"old": true}'
    assert stat.S_IMODE(backup.stat().st_mode) == 0o600
    files.write_json(state, {"turn": 2}, backup=True)
    assert json.loads(backup.read_text()) == {"turn": 1}
    files.write_json(state, {"turn": 3})
    assert json.loads(backup.read_text()) == {"turn": 1}


@pytest.mark.parametrize("damage", ["", "{", "[]", "\0" * 20])
def test_a_damaged_file_never_replaces_a_good_backup(state: Path, damage: str) -> None:
    files.write_json(state, {"turn": 1}, backup=True)
    state.write_text(damage)
    files.write_json(state, {"turn": 2}, backup=True)
    assert state.with_suffix(".json.bak").read_text() == '{"old": true}'


def test_the_first_write_has_nothing_to_back_up(folder: Path) -> None:
    files.write_json(folder / "state.json", {}, backup=True)
    assert names(folder) == ["state.json"]


def test_restore_keeps_the_damaged_file_and_brings_the_backup_back(state: Path) -> None:
    files.write_json(state, {"turn": 1}, backup=True)
    for damage in ("{damaged", "{again"):
        state.write_text(damage)
        kept = files.restore(state)
        assert kept is not None
        assert kept.startswith(f"{state}.corrupt.")
        assert Path(kept).read_text() == damage
        assert state.read_text() == '{"old": true}'
    assert len(names(state.parent)) == 4


def test_restore_works_when_the_file_is_gone_or_a_folder(state: Path) -> None:
    files.write_json(state, {"turn": 1}, backup=True)
    state.unlink()
    assert files.restore(state) is None
    assert files.read_json(state) == {"old": True}
    state.unlink()
    state.mkdir()
    kept = files.restore(state)
    assert kept is not None
    assert Path(kept).is_dir()
    assert files.read_json(state) == {"old": True}


def test_restore_leaves_a_file_behind_a_link_alone(folder: Path, state: Path) -> None:
    """An agent can link any file of the user."""
    (folder / "link.json.bak").write_text("{}")
    state.write_text("of the user")
    (folder / "link.json").symlink_to("state.json")
    with pytest.raises(StateDamaged, match=r"link\.json is a symbolic link to a damaged file") as caught:
        files.restore(folder / "link.json")
    assert (state.read_text(), names(folder)) == ("of the user", ["link.json", "link.json.bak", "state.json"])
    assert str(caught.value.hint).endswith(f"or remove the link {folder / 'link.json'}")


@pytest.mark.parametrize(
    ("backup", "why"), [(None, "the backup is missing"), ("{", "Expecting"), ("[]", "not a JSON object")]
)
def test_without_a_valid_backup_nothing_is_done(state: Path, backup: str | None, why: str) -> None:
    state.write_text("{damaged")
    if backup is not None:
        state.with_suffix(".json.bak").write_text(backup)
    before = names(state.parent)
    with pytest.raises(StateDamaged, match=why):
        files.restore(state)
    assert names(state.parent) == before
    assert state.read_text() == "{damaged"


# ---- sweep


def test_sweep_removes_only_what_dead_writers_of_this_file_left(state: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    alive = state.parent / f"state.json.tmp.{os.getpid()}.aa"
    others = [state.parent / name for name in ("state.json.tmp", "state.json.tmp.x.y", f"other.tmp.{gone.pid}.aa")]
    left = [state.parent / f"state.json{kind}.tmp.{gone.pid}.aa" for kind in ("", ".bak")]
    for path in (alive, *left, *others):
        path.touch()
    assert files.sweep(state) == 2
    assert not any(path.exists() for path in left)
    for path in (alive, *others):
        path.unlink()
