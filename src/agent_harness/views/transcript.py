"""Reader of the end of a growing text file, such as a transcript. Reading a long file takes no longer than reading a
short file.

Source: ``faces.md`` F-WATCH-5."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from agent_harness.kernel import files
from agent_harness.kernel.redact import redact
from agent_harness.kernel.terminal import fitted, shown, width, wrapped

__all__ = ["END_BYTES", "ScrolledText", "TranscriptEnd"]

END_BYTES = 65_536
TORN_CHARACTERS = 4096
"""Number of characters dropped from a line whose beginning was not read, after secrets are masked."""
PAGE = 20
MOVES = {"up": 1, "k": 1, "down": -1, "j": -1, "pageup": PAGE, "pagedown": -PAGE}


class TranscriptEnd:
    """Reader of the last 64 KiB of one transcript."""

    def __init__(self, path: str | None, otherwise: str = "") -> None:
        self.path = path
        self._stamp: object = None
        self._lines: list[str] = [otherwise]

    def lines(self) -> list[str]:
        """Return the last lines of the transcript. Secrets in them are masked."""
        if self.path is None or (stamp := files.stamp_of(self.path)) is None or stamp == self._stamp:
            return self._lines
        with os.fdopen(files.open_regular(self.path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - END_BYTES))
            text = file.read(END_BYTES).decode("utf-8", "replace")
        before = size - END_BYTES
        torn, _, whole = text.partition("\n") if before > 0 else ("", "", text)
        kept = redact(whole) if whole.strip() or not torn else redact(torn)[TORN_CHARACTERS:]
        self._stamp = stamp
        self._lines = kept.rstrip("\n").split("\n")
        if before > 0:
            self._lines.insert(0, f"... more than {before} earlier bytes: {self.path}")
        return self._lines


class ScrolledText:
    """Text wrapped to its pane's width. The pane shows the end of the text until the user scrolls back."""

    def __init__(self, title: str, grows: Callable[[], Sequence[str]], *, from_end: bool = True) -> None:
        self.title = title
        self.of: str | None = None  # the item whose text it is, if any
        self._grows = grows  # returns all current lines
        self._told: Sequence[str] | None = None
        self._columns = 0
        self.rows: Sequence[str] = ()
        self.back = 0 if from_end else -1  # rows below the last one that is shown; -1: as many as there can be

    def look(self) -> None:
        """Load the current lines, unless the user has scrolled back."""
        if self.back <= 0 or self._told is None:
            told = self._grows()
            if told != self._told:
                self._told, self._columns = told, 0

    def window(self, room: int, columns: int) -> tuple[int, Sequence[str]]:
        """Return up to ``room`` visible rows, and the number of rows above these rows."""
        if columns != self._columns:
            self.rows = [row for line in self._told or () for row in _rows(shown(line), columns)]
            self._columns = columns
        most = max(0, len(self.rows) - room)
        self.back = most if self.back < 0 else min(self.back, most)
        end = len(self.rows) - self.back
        begin = max(0, end - room)
        return begin, self.rows[begin:end]

    def move(self, key: str) -> bool:
        """Scroll the text with a key. Return False if the key has another purpose."""
        if key not in (*MOVES, "g", "G", "f"):
            return False
        self.back = {"g": len(self.rows), "G": 0, "f": 0}.get(key, max(0, self.back + MOVES.get(key, 0)))
        return True

    def find(self, word: str) -> None:
        places = [n for n, row in enumerate(self.rows) if word.lower() in row.lower()]
        last = len(self.rows) - self.back - 1
        before = [n for n in places if n < last] or places
        if word and before:
            self.back = len(self.rows) - before[-1] - 1


def _rows(line: str, columns: int) -> Iterator[str]:
    for row in wrapped(line, columns):
        left = row
        while width(left) > columns > 1:
            part = fitted(left, columns)
            yield part
            left = left[len(part) :]
        yield left
