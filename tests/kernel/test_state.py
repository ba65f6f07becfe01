"""One change of one state file: what others wrote meanwhile is read again, never overwritten."""

from collections.abc import Callable
from pathlib import Path

import pytest

from agent_harness.errors import Busy
from agent_harness.kernel import files


class Counter:
    """A file with a number in it; every change adds one, and ``meanwhile`` runs between reading and writing."""

    def __init__(self, path: Path, meanwhile: Callable[[int], object]) -> None:
        self.path = path
        self.tries = 0
        self._meanwhile = meanwhile
        path.write_text("0")

    def read(self) -> int:
        return int(self.path.read_text())

    def act(self, found: int) -> int:
        self.tries += 1
        self._meanwhile(self.tries)
        return found + 1

    def write(self, found: int, unedited: Callable[[], None]) -> None:
        files.replace(self.path, str(found + 1), before=unedited)

    def change(self) -> int:
        return files.change(str(self.path), read=self.read, act=self.act, write=self.write, hint="wait")


def test_what_nobody_edits_is_written_once(tmp_path: Path) -> None:
    counter = Counter(tmp_path / "n", lambda n: None)
    assert (counter.change(), counter.path.read_text(), counter.tries) == (1, "1", 1)


@pytest.mark.parametrize("edit", ["write", "replace", "same length"])
def test_an_edit_between_reading_and_writing_is_counted_too(tmp_path: Path, edit: str) -> None:
    def meanwhile(tries: int) -> None:
        if tries > 1:
            return
        if edit == "replace":
            (tmp_path / "other").write_text("5")
            (tmp_path / "other").replace(counter.path)
        else:
            counter.path.write_text("40" if edit == "write" else "7")

    counter = Counter(tmp_path / "n", meanwhile)
    wanted = {"write": 41, "replace": 6, "same length": 8}[edit]
    assert (counter.change(), counter.path.read_text(), counter.tries) == (wanted, str(wanted), 2)


def test_a_file_that_is_made_meanwhile_is_not_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "n"
    tries: list[int] = []

    def act(found: int) -> int:
        tries.append(found)
        if len(tries) == 1:
            path.write_text("9")
        return found

    def read() -> int:
        return int(path.read_text()) if path.exists() else 0

    def write(found: int, unedited: Callable[[], None]) -> None:
        files.replace(path, str(found + 1), before=unedited)

    assert files.change(str(path), read=read, act=act, write=write, hint="wait") == 9
    assert (path.read_text(), tries) == ("10", [0, 9])


def test_edits_without_end_are_busy_and_nothing_is_written(tmp_path: Path) -> None:
    counter = Counter(tmp_path / "n", lambda tries: counter.path.write_text("1" * tries))
    with pytest.raises(Busy, match="another program keeps changing n and does not use the file's lock") as caught:
        counter.change()
    assert caught.value.hint == "wait"
    assert counter.path.read_text() == "1" * counter.tries
    assert [each.name for each in tmp_path.iterdir()] == ["n"]


def test_what_a_change_raises_drops_everything_and_is_not_repeated(tmp_path: Path) -> None:
    def meanwhile(tries: int) -> None:
        raise ZeroDivisionError

    counter = Counter(tmp_path / "n", meanwhile)
    with pytest.raises(ZeroDivisionError):
        counter.change()
    assert (counter.path.read_text(), counter.tries) == ("0", 1)
