"""Terminal output that writes only changes: a full-screen view with keys, and status lines below scrolling text.

The terminal is restored when the program ends, except after kill -9. In each line, only the range of changed characters
is written, as synchronized output. Source: ``faces.md`` 4."""

from __future__ import annotations

import os
import re
import select
import shutil
import signal
import sys
import termios
import time
import tty
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

__all__ = ["AlternateScreen", "LinesBelow", "is_in_front", "without_echo"]

_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[999;1H\n\x1b[?25h\x1b[?1049l"
_BEGIN, _END = "\x1b[?2026h", "\x1b[?2026l"
_ESCAPE_SECONDS, _REST_SECONDS = 0.05, 1.0
_KEYS = {
    "\x1b[A": "up",
    "\x1bOA": "up",
    "\x1b[B": "down",
    "\x1bOB": "down",
    "\x1b[5~": "pageup",
    "\x1b[6~": "pagedown",
    "\x1b": "esc",
    "\r": "enter",
    "\n": "enter",
    "\t": "tab",
    "\x03": "q",
    "\x04": "q",
}


_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O[ -~])")
_UNENDED = re.compile(r"\x1b(?:\[[0-?]*[ -/]*|O)?")
"""Pattern of an incomplete escape sequence of a key."""


class Hangup(Exception):
    """Exception for a lost terminal, or for a signal that ends the program."""


class AlternateScreen:
    """Full-screen view in this process's terminal. It is visible inside ``with shown():``."""

    def __init__(self) -> None:
        self._last: list[str] = []
        self._size = (0, 0)
        self._pressed = ""

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show the full-screen view inside the ``with`` block. Raise ``Hangup`` if a signal ends the program."""
        before = termios.tcgetattr(sys.stdin)
        old = {each: signal.signal(each, _hang_up) for each in (signal.SIGTERM, signal.SIGHUP)}
        try:
            self._begin()
            yield
        finally:
            for number, handler in old.items():
                signal.signal(number, handler)
            _restore(before)

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Show the normal terminal inside the ``with`` block, for example to ask the user a question."""
        before = termios.tcgetattr(sys.stdin)
        plain = termios.tcgetattr(sys.stdin)
        plain[3] |= termios.ICANON | termios.ECHO | termios.ISIG
        _restore(plain)
        try:
            yield
        finally:
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
            self._begin()

    def _begin(self) -> None:
        tty.setcbreak(sys.stdin)
        _write(_ENTER + "\x1b[2J")
        self._last.clear()
        self._size = (0, 0)

    @property
    def size(self) -> tuple[int, int]:
        """Size of the terminal: number of columns and number of lines."""
        return shutil.get_terminal_size()

    def paint(self, lines: Sequence[str]) -> None:
        """Show these lines. Write only the changed characters to the terminal."""
        size = self.size
        changes: list[str] = []
        if size != self._size:
            self._last.clear()
            self._size = size
            changes.append("\x1b[2J")
        shown = [*lines][: size[1]]
        for row in range(max(len(shown), len(self._last))):
            old = self._last[row] if row < len(self._last) else ""
            new = shown[row] if row < len(shown) else ""
            if old != new:
                column, text = _changed(old, new)
                changes.append(f"\x1b[{row + 1};{column + 1}H{text}")
        self._last = shown
        if changes:
            _write(_BEGIN + "".join(changes) + _END)

    def key(self, seconds: float) -> str | None:
        """Return the name or character of the next key. Return None if no known key comes in time."""
        if not self._pressed:
            if not select.select([sys.stdin], [], [], seconds)[0]:
                return None
            self._pressed = self._read()
        while _UNENDED.fullmatch(self._pressed) and self._more_comes():
            self._pressed += self._read()
        sequence = _SEQUENCE.match(self._pressed)
        pressed = sequence[0] if sequence else self._pressed[0]
        self._pressed = self._pressed[len(pressed) :]
        return _KEYS.get(pressed, None if sequence else pressed)

    def _more_comes(self) -> bool:
        # a single Escape may have no rest, so wait only briefly
        seconds = _ESCAPE_SECONDS if self._pressed == "\x1b" else _REST_SECONDS
        return bool(select.select([sys.stdin], [], [], seconds)[0])

    def _read(self) -> str:
        found = os.read(sys.stdin.fileno(), 64)
        if not found:
            raise Hangup
        return found.decode("utf-8", "replace")


def _changed(old: str, new: str) -> tuple[int, str]:
    """Return the first column in which the lines differ, and the output to write from there."""
    if not (old.isascii() and new.isascii()):
        return 0, f"{new}\x1b[K"
    same = _same(old, new)
    if len(old) == len(new):
        tail = _same(old[:same:-1], new[:same:-1])
        return same, new[same : len(new) - tail]
    return same, f"{new[same:]}\x1b[K"


def _same(one: str, other: str) -> int:
    return next((n for n, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))


def _write(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()


def _restore(attributes: list[object]) -> None:
    try:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, attributes)  # type: ignore[arg-type]
        _write(_LEAVE)
    except (OSError, termios.error):
        pass  # the terminal has gone away


def _hang_up(number: int, frame: FrameType | None) -> None:
    raise Hangup


# ---- below lines that scroll


_MOST = 4
"""Divisor: the terminal's height divided by this number is the maximum number of status lines."""
_AWAY_SECONDS = 5.0


class LinesBelow:
    """Status lines below the program's output. New output overwrites them, because the cursor waits at their start."""

    def __init__(self) -> None:
        self._last: list[str] = []
        self._size = (0, 0)
        self._drawn = 0.0

    def change(self, lines: Sequence[str], size: tuple[int, int]) -> str:
        """Return the terminal output that shows these status lines. ``size`` is (columns, rows)."""
        shown = [*lines][: max(1, size[1] // _MOST)]
        was, old, drawn = self._size, self._last, self._drawn
        self._size, self._last, self._drawn = size, shown, time.monotonic()
        # after a pause, another program may have written to the terminal
        if was != size or len(old) != len(shown) or self._drawn - drawn > _AWAY_SECONDS:
            up = f"\x1b[{len(shown) - 1}A" if len(shown) > 1 else ""
            return "".join((_BEGIN, "\r\x1b[J", "\r\n".join(shown), up, "\r", _END)) if shown or old else ""
        changes: list[str] = []
        for row, (before, after) in enumerate(zip(old, shown, strict=True)):
            if before != after:
                column, text = _changed(before, after)
                down, up = (f"\x1b[{row}B", f"\x1b[{row}A") if row else ("", "")
                changes.append(f"{down}\x1b[{column + 1}G{text}{up}")
        return "".join((_BEGIN, *changes, "\r", _END)) if changes else ""

    def gone(self) -> str:
        there = bool(self._last)
        self._last = []
        return "\r\x1b[J" if there else ""


def is_in_front(stream: object) -> bool:
    """Return False if this process runs in the background of its terminal."""
    try:
        return os.tcgetpgrp(stream.fileno()) == os.getpgrp()  # type: ignore[attr-defined]
    except (OSError, ValueError, AttributeError):
        return True  # not a terminal


@contextmanager
def without_echo() -> Iterator[None]:
    """Hide typed characters inside the ``with`` block, because typed characters would damage the status lines."""
    before = None
    with suppress(OSError, ValueError, AttributeError, termios.error):
        if is_in_front(sys.stdin):
            before = termios.tcgetattr(sys.stdin)
            quiet = termios.tcgetattr(sys.stdin)
            quiet[3] &= ~termios.ECHO
            termios.tcsetattr(sys.stdin, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        with suppress(OSError, ValueError, AttributeError, termios.error):
            if before is not None and is_in_front(sys.stdin):  # in the background, the settings are the shell's
                termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
