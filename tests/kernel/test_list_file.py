"""A state file and its backup: the old file becomes the backup, and a kill at any step leaves both whole."""

import errno
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_harness.errors import NotOwner, Refused
from agent_harness.kernel import files
from agent_harness.kernel.json import list_file


@pytest.fixture
def state(tmp_path: Path) -> Path:
    path = tmp_path / "project" / "state.json"
    path.parent.mkdir()
    path.write_text('{"tasks": [{"n": 0}, {"n": 1}]}')
    return path


def backup_of(state: Path) -> Path:
    return state.with_name(f"{state.name}.bak")


def turn(state: Path, number: int, before: Callable[[], object] = lambda: None) -> None:
    """One change, as the store of a task list makes it."""
    document = list_file.read(state, "tasks")
    document.value["turn"] = number
    list_file.write(state, document, before=before)


def value(path: Path) -> Any:
    return files.read_json(path)


def test_the_old_file_becomes_the_backup_and_nothing_is_written_twice(state: Path) -> None:
    """The state before the last write is kept as it was: the very file, mode and all (tasklist.md 8)."""
    state.chmod(0o600)
    turn(state, 1)
    old, text = state.stat().st_ino, state.read_bytes()
    turn(state, 2)
    assert backup_of(state).stat().st_ino == old
    assert backup_of(state).read_bytes() == text
    assert backup_of(state).stat().st_mode == state.stat().st_mode
    assert [state.stat().st_nlink, backup_of(state).stat().st_nlink] == [1, 1]
    state.write_text("damage in place")
    assert value(backup_of(state))["turn"] == 1


def test_a_file_that_has_another_name_is_copied(state: Path) -> None:
    """A person who linked the file elsewhere changes no backup by editing it there."""
    turn(state, 1)
    os.link(state, state.with_name("mine.json"))
    turn(state, 2)
    state.with_name("mine.json").write_text("edited in place")
    assert value(backup_of(state))["turn"] == 1


def test_a_link_is_written_through_and_the_backup_stays_beside_it(state: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    target = tmp_path / "elsewhere/real.json"
    os.rename(state, target)
    state.symlink_to(target)
    turn(state, 1)
    turn(state, 2)
    assert state.is_symlink()
    assert [value(target)["turn"], value(backup_of(state))["turn"]] == [2, 1]
    assert sorted(each.name for each in target.parent.iterdir()) == ["real.json"]


def test_a_link_where_the_backup_belongs_is_replaced(state: Path, tmp_path: Path) -> None:
    """It may lead out of the project."""
    (tmp_path / "victim").write_text("mine")
    for number in (1, 2):
        backup_of(state).unlink(missing_ok=True)
        backup_of(state).symlink_to(tmp_path / "victim")
        if number == 2:
            os.link(state, tmp_path / "second name")
        turn(state, number)
        assert not backup_of(state).is_symlink()
    assert (tmp_path / "victim").read_text() == "mine"


def test_where_no_file_can_have_two_names_the_backup_is_a_copy(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on FAT, and on the shares of some virtual machines."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refuse)
    turn(state, 1)
    turn(state, 2)
    assert [value(state)["turn"], value(backup_of(state))["turn"]] == [2, 1]


def test_nothing_changes_when_the_file_is_not_the_one_that_was_read(state: Path) -> None:
    """Neither the file nor the backup, at whichever moment that comes out (tasklist.md 8, 9.4)."""
    turn(state, 1)
    turn(state, 2)
    for moment in range(3):
        calls: list[int] = []

        def before(moment: int = moment, calls: list[int] = calls) -> None:
            calls.append(1)
            if len(calls) > moment:
                raise NotOwner("the lock was lost")

        with pytest.raises(NotOwner):
            turn(state, 3, before)
        assert value(state)["turn"] == 2
        assert value(backup_of(state))["turn"] in (1, 2)  # 2: both were vouched for when the backup was made
        assert files.sweep(state) == 0
        assert state.stat().st_nlink == 1


def test_a_backup_that_cannot_be_made_stops_the_change(state: Path) -> None:
    (backup_of(state) / "full").mkdir(parents=True)
    before = state.read_bytes()
    with pytest.raises(Refused, match="Is a directory"):
        turn(state, 1)
    assert state.read_bytes() == before
    assert sorted(each.name for each in state.parent.iterdir()) == ["state.json", "state.json.bak"]


def test_sweeping_parts_a_file_that_has_both_names(state: Path) -> None:
    """So a killed writer may leave it; an edit in place would damage both."""
    os.link(state, backup_of(state))
    files.sweep(state)
    state.write_text("damage in place")
    assert value(backup_of(state)) == {"tasks": [{"n": 0}, {"n": 1}]}


_DIES = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from agent_harness.kernel.json import list_file
steps = [int(sys.argv[3])]
document = list_file.read(sys.argv[2], "tasks")
document.value["turn"] = 3
def watch(event, arguments):
    if event in ("open", "os.link", "os.rename", "os.chmod", "os.remove"):
        steps[0] -= 1
        if steps[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
sys.addaudithook(watch)
list_file.write(sys.argv[2], document, before=lambda: None)
"""
"""A writer that is killed right before its N-th step on the disk."""


@pytest.mark.kill
def test_a_writer_killed_before_any_of_its_steps_leaves_both_files_whole(state: Path) -> None:
    """At every step the file is the old or the new one, and the backup one before it; the next writer goes on."""
    source = Path(list_file.__file__).parents[3]
    died = 0
    while True:
        for number in (1, 2):
            turn(state, number)
        command = [sys.executable, "-S", "-E", "-c", _DIES, str(source), str(state), str(died + 1)]
        code = subprocess.run(command, check=False).returncode
        now, kept = value(state)["turn"], value(backup_of(state))["turn"]
        assert (now, kept) in ((2, 1), (2, 2), (3, 2))
        files.sweep(state)
        assert sorted(each.name for each in state.parent.iterdir()) == ["state.json", "state.json.bak"]
        assert not os.path.samefile(state, backup_of(state))
        assert value(state)["turn"] == now
        if code == 0:
            break
        assert code == -signal.SIGKILL
        died += 1
    assert (now, kept) == (3, 2)
    assert died >= 6  # the new file, its mode, the old file, its second name, the backup, the change, the folder
