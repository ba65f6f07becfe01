"""``harness log --follow``: lines as they come, the last ones first; it outlives rotation and runs.

Source: ``faces.md`` 3, F-REC-6.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from agent_harness.kernel import clock, files, journal
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.redact import redact
from agent_harness.session.log_rows import FollowedLog
from agent_harness.session.picture import Item

__all__ = ["FollowedLines", "shown"]

FIRST = 20
LOOK_SECONDS = 0.3
ROTATED = ".1"


class FollowedLines:
    """What some logs say, row by row: ``{"at", "log", "text"}``; of one item where it is named."""

    def __init__(self, logs: Sequence[FollowedLog], items: Sequence[Item] = (), item: Item | None = None) -> None:
        self._logs = logs
        self._items = items
        self._item = item
        self._about: dict[str, bool] = {}
        self._open: dict[str, _Growing] = {}

    def last(self, count: int = FIRST) -> list[JsonObject]:
        """The last rows that are there; what comes later is ``news``."""
        found: list[JsonObject] = []
        for log in self._logs:
            rows = [row for path in log.paths() for row in self._rows(log, self._tail(path))]
            found += rows
        return sorted(found, key=lambda row: str(clock.parse(row["at"]) or ""))[-count:]

    def _tail(self, path: str) -> list[str]:
        growing = self._open.setdefault(path, _Growing(path))
        many = 20 * FIRST if self._item else FIRST
        before = journal.tail_lines(path + ROTATED, many) if os.path.isfile(path + ROTATED) else []
        return [*before, *growing.news()][-many:]

    def news(self) -> list[JsonObject]:
        """The rows that have come since."""
        found: list[JsonObject] = []
        for log in self._logs:
            for path in log.paths():
                growing = self._open.setdefault(path, _Growing(path))
                found += self._rows(log, growing.news())
        return found

    def _rows(self, log: FollowedLog, lines: Sequence[str]) -> Iterator[JsonObject]:
        for line in lines:
            told = log.parse(line)
            if told and self._is_wanted(log.name, told[1]):
                yield {"at": told[0], "log": log.name, "text": redact(told[1])}

    def _is_wanted(self, log: str, text: str) -> bool:
        """Whether a line is about the item: it names it, or follows a line that does and names no other."""
        if self._item is None:
            return True
        named = [each.id for each in self._items if _names(text, each)]
        if named:
            self._about[log] = self._item.id in named
        return self._about.get(log, False)


def _names(text: str, item: Item) -> bool:
    at = text.find(item.name)
    while at >= 0:
        end = at + len(item.name)
        if not (text[end : end + 1].isalnum() or text[at - 1 : at].isalnum()):
            return True
        at = text.find(item.name, at + 1)
    return False


class _Growing:
    """A file of lines that grows, and that is put away for a new one now and then."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._file: int | None = None
        self._rest = b""

    def news(self) -> list[str]:
        """The whole lines since the last call; those of the file that was put away come first."""
        found = self._read()
        if self._is_another():
            self.close()
            with suppress(OSError):
                self._file = files.open_regular(self.path, os.O_RDONLY)
            found += self._read()
        return found

    def close(self) -> None:
        """Lets go of the file."""
        if self._file is not None:
            os.close(self._file)
        self._file, self._rest = None, b""

    def _is_another(self) -> bool:
        try:
            there = os.stat(self.path)
        except OSError:
            return False
        mine = os.fstat(self._file) if self._file is not None else None
        if mine is not None and (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino):
            if there.st_size < os.lseek(self._file or 0, 0, os.SEEK_CUR):  # emptied, and written anew
                os.lseek(self._file or 0, 0, os.SEEK_SET)
                self._rest = b""
            return False
        return True

    def _read(self) -> list[str]:
        if self._file is None:
            return []
        parts = [self._rest]
        while part := os.read(self._file, 1 << 16):
            parts.append(part)
        *whole, self._rest = b"".join(parts).split(b"\n")
        return [line.decode("utf-8", "replace") for line in whole if line.strip()]


def shown(lines: FollowedLines) -> Iterator[JsonObject]:
    """The last rows, and then each as it comes, for ever."""
    yield from lines.last()
    while True:
        yield from lines.news()
        time.sleep(LOOK_SECONDS)


def line(row: JsonObject) -> str:
    """A row for a person: local time first."""
    at = clock.parse(row["at"])
    return f"{f'{at.astimezone():%m-%d %H:%M:%S}' if at else row['at']}  {row['text']}"
