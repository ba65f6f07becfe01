"""Text that grows, looked at from its end: what an agent said and did; a transcript of any length costs the same.

Source: ``faces.md`` F-WATCH-5.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence

from agent_harness.kernel import files
from agent_harness.kernel.redact import redact
from agent_harness.kernel.terminal import fitted, shown, width, wrapped

__all__ = ["END_BYTES", "ScrolledText", "TranscriptEnd"]

END_BYTES = 65_536
TORN_CHARACTERS = 4096
"""Of a line whose beginning was not read, so many are left out, after what looks like a secret is masked."""
PAGE = 20
MOVES = {"up": 1, "k": 1, "down": -1, "j": -1, "pageup": PAGE, "pagedown": -PAGE}


class TranscriptEnd:
    """The last 64 KiB of one transcript, looked at again and again; the same lines again where nothing has come."""

    def __init__(self, path: str | None, otherwise: str = "") -> None:
        """``otherwise`` is said where there is none."""
        self.path = path
        self._stamp: object = None
        self._lines: list[str] = [otherwise]

    def lines(self) -> list[str]:
        """Its whole lines, secrets masked, the first one saying what is not shown; of a longer line its end.

        ``OSError``, ``StateDamaged``.
        """
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
    """Lines that are looked at from their end, laid out on rows of the window, so that nothing of them is out of sight.

    Those that grow are followed while nobody has gone back in them.
    """

    def __init__(self, title: str, grows: Callable[[], Sequence[str]], *, from_end: bool = True) -> None:
        """``grows`` gives all of the lines as they are now."""
        self.title = title
        self.of: str | None = None  # the item whose text it is, where it is one's
        self._grows = grows
        self._told: Sequence[str] | None = None
        self._columns = 0
        self.rows: Sequence[str] = ()
        self.back = 0 if from_end else -1  # rows below the last one that is shown; -1: as many as there can be

    def look(self) -> None:
        """What has come; not while a person reads what came before."""
        if self.back <= 0 or self._told is None:
            told = self._grows()
            if told != self._told:
                self._told, self._columns = told, 0

    def window(self, room: int, columns: int) -> tuple[int, Sequence[str]]:
        """How many rows stand above those that are shown, of so many columns, and these."""
        if columns != self._columns:
            self.rows = [row for line in self._told or () for row in _rows(shown(line), columns)]
            self._columns = columns
        most = max(0, len(self.rows) - room)
        self.back = most if self.back < 0 else min(self.back, most)
        end = len(self.rows) - self.back
        begin = max(0, end - room)
        return begin, self.rows[begin:end]

    def move(self, key: str) -> bool:
        """Goes there; false where the key is no move."""
        if key not in (*MOVES, "g", "G", "f"):
            return False
        self.back = {"g": len(self.rows), "G": 0, "f": 0}.get(key, max(0, self.back + MOVES.get(key, 0)))
        return True

    def find(self, word: str) -> None:
        """The nearest row with this word above the last one that is shown becomes the last; else the last of all."""
        places = [n for n, row in enumerate(self.rows) if word.lower() in row.lower()]
        last = len(self.rows) - self.back - 1
        before = [n for n in places if n < last] or places
        if word and before:
            self.back = len(self.rows) - before[-1] - 1


def _rows(line: str, columns: int) -> Iterator[str]:
    """A printable line broken at words, and a word that is too long anywhere."""
    for row in wrapped(line, columns):
        left = row
        while width(left) > columns > 1:
            part = fitted(left, columns)
            yield part
            left = left[len(part) :]
        yield left
