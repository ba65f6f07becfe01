"""Text that grows, looked at from its end: what an agent said and did; a transcript of any length costs the same.

Source: ``faces.md`` F-WATCH-5.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence

from agent_harness.kernel import files
from agent_harness.kernel.redact import redact

__all__ = ["END_BYTES", "ScrolledText", "TranscriptEnd"]

END_BYTES = 65_536
PAGE = 20
MOVES = {"up": 1, "k": 1, "down": -1, "j": -1, "pageup": PAGE, "pagedown": -PAGE}


class TranscriptEnd:
    """The last 64 KiB of one transcript, looked at again and again; the same lines again where nothing has come."""

    def __init__(self, path: str | None) -> None:
        self.path = path
        self._stamp: object = None
        self._lines: list[str] = ["No transcript is kept of it."]

    def lines(self) -> list[str]:
        """Its whole lines, secrets masked, the first one saying what is not shown. ``OSError``, ``StateDamaged``."""
        if self.path is None or (stamp := files.stamp_of(self.path)) is None or stamp == self._stamp:
            return self._lines
        with os.fdopen(files.open_regular(self.path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - END_BYTES))
            text = file.read(END_BYTES).decode("utf-8", "replace")
        before = size - END_BYTES
        shown = text.partition("\n")[2] if before > 0 else text
        self._stamp = stamp
        self._lines = redact(shown).rstrip("\n").split("\n")
        if before > 0:
            self._lines.insert(0, f"... more than {before} bytes before these: {self.path}")
        return self._lines


class ScrolledText:
    """Lines that are looked at from their end; those that grow are followed while nobody has gone back in them."""

    def __init__(self, title: str, grows: Callable[[], Sequence[str]], *, from_end: bool = True) -> None:
        """``grows`` gives all of the lines as they are now."""
        self.title = title
        self.of: str | None = None  # the item whose text it is, where it is one's
        self._grows = grows
        self.lines: Sequence[str] = ()
        self.back = 0 if from_end else -1  # lines below the last one that is shown; -1: as many as there can be

    def look(self) -> None:
        """What has come; not while a person reads what came before."""
        if self.back <= 0 or not self.lines:
            self.lines = self._grows()

    def window(self, room: int) -> tuple[int, Sequence[str]]:
        """How many lines stand above what is shown on so many rows, and that."""
        most = max(0, len(self.lines) - room)
        self.back = most if self.back < 0 else min(self.back, most)
        end = len(self.lines) - self.back
        begin = max(0, end - room)
        return begin, self.lines[begin:end]

    def move(self, key: str) -> bool:
        """Goes there; false where the key is no move."""
        if key not in (*MOVES, "g", "G", "f"):
            return False
        self.back = {"g": len(self.lines), "G": 0, "f": 0}.get(key, max(0, self.back + MOVES.get(key, 0)))
        return True

    def find(self, word: str) -> None:
        """The nearest line with this word above the last one that is shown becomes the last; else the last of all."""
        places = [n for n, line in enumerate(self.lines) if word.lower() in line.lower()]
        last = len(self.lines) - self.back - 1
        before = [n for n in places if n < last] or places
        if word and before:
            self.back = len(self.lines) - before[-1] - 1
