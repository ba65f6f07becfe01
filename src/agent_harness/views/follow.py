"""Output of ``harness log --follow``: the last log lines, and each new line. The output continues when a log is rotated
or a new run begins.

Source: ``faces.md`` 3, F-REC-6."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress

from agent_harness.errors import StateDamaged
from agent_harness.kernel import clock, files
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.redact import redact
from agent_harness.session.log_rows import FollowedLog
from agent_harness.session.project_view import Item

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import BinaryIO

__all__ = ["FollowedLines", "coming"]

FIRST = 20
LOOK_SECONDS = 0.3
ROTATED = ".1"
MOST_BYTES = 1 << 20
"""Maximum number of bytes read from one file at a time."""


class FollowedLines:
    """Reader of new log rows. With ``item``, it returns only rows about this item."""

    def __init__(self, logs: Sequence[FollowedLog], items: Sequence[Item] = (), item: Item | None = None) -> None:
        self._logs = logs
        self._items = items
        self._item = item
        self._about: dict[str, bool] = {}
        self._open: dict[str, _Growing] = {}

    def last(self) -> list[JsonObject]:
        found = [row for log in self._logs for path in log.paths() for row in self._rows(log, self._tail(path))]
        return sorted(found, key=lambda row: str(clock.parse(row["at"]) or ""))[-FIRST:]

    def _tail(self, path: str) -> list[str]:
        growing = self._open.setdefault(path, _Growing(path))
        many = 20 * FIRST if self._item else FIRST
        return [*_Growing(path + ROTATED).news(), *growing.news()][-many:]

    def news(self) -> list[JsonObject]:
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
        if self._item is None:
            return True
        named = [each.id for each in self._items if _names(text, each)]
        if named:
            self._about[log] = self._item.id in named
        # a line that names no item belongs to the item of the line before it
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
    """Reader of lines that are added to a log file. It also follows log rotation."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._stamp: object = None
        self._file: object = None  # device and inode of the file that the offset is in
        self._place = 0  # offset of the first line that was not returned yet

    def news(self) -> list[str]:
        stamp = files.stamp_of(self.path)
        if stamp is None or stamp == self._stamp:
            return []
        found: list[str] = []
        with suppress(OSError), _opened(self.path) as file:
            if _name_of(file) != self._file:
                found += self._rest()
                self._file, self._place = _name_of(file), 0
            found += self._read(file)
            self._stamp = stamp
        return found

    def _rest(self) -> list[str]:
        with suppress(OSError, StateDamaged), _opened(self.path + ROTATED) as file:
            if _name_of(file) == self._file:
                return self._read(file)
        return []

    def _read(self, file: BinaryIO) -> list[str]:
        size = os.fstat(file.fileno()).st_size
        if size < self._place:  # truncated and written again
            self._place = 0
        begin = max(self._place, size - MOST_BYTES)
        file.seek(begin)
        added = file.read(MOST_BYTES)
        whole = added[: added.rfind(b"\n") + 1]
        lines = whole.split(b"\n")[1 if begin > self._place else 0 :]  # the first is incomplete if bytes were skipped
        self._place = begin + len(whole)
        return [line.decode("utf-8", "replace") for line in lines if line.strip()]


def _opened(path: str) -> BinaryIO:
    return os.fdopen(files.open_regular(path, os.O_RDONLY | os.O_NOFOLLOW), "rb")


def _name_of(file: BinaryIO) -> tuple[int, int]:
    found = os.fstat(file.fileno())
    return found.st_dev, found.st_ino


def coming(lines: FollowedLines) -> Iterator[JsonObject]:
    """Yield each new log row. This iterator never ends."""
    while True:
        yield from lines.news()
        time.sleep(LOOK_SECONDS)


def line(row: JsonObject) -> str:
    at = clock.parse(row["at"])
    return f"{f'{at.astimezone():%m-%d %H:%M:%S}' if at else row['at']}  {row['text']}"
