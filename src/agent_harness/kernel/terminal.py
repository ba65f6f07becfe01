"""How text reaches a terminal: what it would obey stands there as an escape, what it cannot show has a stand-in.

Whether lines are plain, coloured, and how wide they are is decided here alone. Source: ``faces.md`` F-TERM-1 to 5.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TextIO

__all__ = ["fitted", "has_colour", "is_plain", "one_line", "printable", "stand_in", "wants_times", "wrapped"]

_STAND_INS = {
    "\u2026": "...",
    "\u2192": "->",
    "\u2013": "-",
    "\u2014": "-",
    "\u2713": "+",
    "\u26a0": "!",
    "\u00d7": "x",
}


def is_plain(stream: "TextIO | None" = None) -> bool:
    """Whether lines one after the other are wanted: no terminal, a dumb one, CI, or ``HARNESS_PLAIN=1``."""
    stream = stream or sys.stdout
    on_terminal = stream is not None and not stream.closed and stream.isatty()
    return wants_times() or not on_terminal or os.environ.get("TERM") == "dumb" or bool(os.environ.get("CI"))


def wants_times() -> bool:
    """Whether plain lines were asked for, `--plain` or ``HARNESS_PLAIN=1``: each begins with its time."""
    return os.environ.get("HARNESS_PLAIN", "") not in ("", "0")


def has_colour(stream: "TextIO | None" = None) -> bool:
    """Whether to colour: `--color` (``HARNESS_COLOR``), ``NO_COLOR``, ``FORCE_COLOR``, else a terminal has colours."""
    stream = stream or sys.stdout
    asked = os.environ.get("HARNESS_COLOR")
    if asked in ("always", "never"):
        return asked == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "") not in ("", "0"):
        return True
    return stream is not None and not stream.closed and stream.isatty() and os.environ.get("TERM") != "dumb"


def printable(text: str) -> str:
    """The text with every letter that is not printable, a line's end too, written as Python escapes it."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def one_line(text: str) -> str:
    """The same, with one blank for any run of blanks and line ends."""
    return printable(" ".join(text.split()))


def stand_in(error: UnicodeError) -> tuple[str | bytes, int]:
    """What a stream writes for letters that its encoding does not have; in JSON it stays the letter that it was.

    For ``codecs.register_error``.
    """
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(_STAND_INS.get(letter) or _escaped(letter) for letter in letters), error.end


def _escaped(letter: str) -> str:
    code = ord(letter)
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD800 + (code - 0x10000 >> 10):04x}\\u{0xDC00 + (code - 0x10000 & 0x3FF):04x}"


def fitted(line: str, columns: int) -> str:
    """As much of a printable line as fits into so many columns; letters of East Asia take two."""
    if line.isascii():
        return line[:columns]
    from unicodedata import combining, east_asian_width

    used = 0
    for place, letter in enumerate(line):
        used += 0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1
        if used > columns:
            return line[:place]
    return line


def wrapped(line: str, columns: int) -> list[str]:
    """A line broken at words, what follows indented like its beginning; a word that is too long stays whole."""
    if len(line) <= columns:
        return [line]
    import textwrap

    indent = line[: len(line) - len(line.lstrip())]
    broken = textwrap.wrap(
        line.strip(),
        max(20, columns - len(indent)),
        break_long_words=False,
        break_on_hyphens=False,
    )
    return [indent + part for part in broken] or [line]
