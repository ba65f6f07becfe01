"""Text for a terminal, in which control characters are escaped and characters that cannot be encoded are replaced. Only
this module decides whether output is plain or coloured, and how wide lines are. Source: ``faces.md`` F-TERM-1 to 5."""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TextIO

LABEL = 11
"""Width of a label in columns, including the spaces after it."""
MORE = "..."

_STAND_INS = {
    "\u2026": "...",
    "\u2192": "->",
    "\u2013": "-",
    "\u2014": "-",
    "\u2713": "+",
    "\u26a0": "!",
    "\u00d7": "x",
}


def quoted(word: str) -> str:
    """Return a text as one word for a shell, with quotes only if needed."""
    if word and word.isascii() and all(each.isalnum() or each in "@%+=:,./-_" for each in word):
        return word
    from shlex import quote

    return quote(word)


def is_terminal(stream: "TextIO | None" = None) -> bool:
    stream = stream or sys.stdout
    return stream is not None and not stream.closed and stream.isatty()


def is_plain(stream: "TextIO | None" = None) -> bool:
    """Return True if output must be plain lines, as for pipes, CI or ``HARNESS_PLAIN=1``."""
    return wants_times() or not is_terminal(stream) or os.environ.get("TERM") == "dumb" or bool(os.environ.get("CI"))


def wants_times() -> bool:
    """Return True if each line of output must begin with the time."""
    return os.environ.get("HARNESS_PLAIN", "") not in ("", "0")


def has_colour(stream: "TextIO | None" = None) -> bool:
    """Return True if the environment and the terminal allow coloured output."""
    stream = stream or sys.stdout
    asked = os.environ.get("HARNESS_COLOR")
    if asked in ("always", "never"):
        return asked == "always"
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR", "") not in ("", "0"):
        return True
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


def printable(text: str) -> str:
    """Return the text with Python escapes in place of unprintable characters, including line ends."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def one_line(text: str) -> str:
    """Return the text on one line, with unprintable characters escaped."""
    return printable(" ".join(text.split()))


def stand_in(error: UnicodeError) -> tuple[str | bytes, int]:
    """Return a replacement for characters that the output encoding lacks, as a ``codecs`` error handler."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(_STAND_INS.get(letter) or _escaped(letter) for letter in letters), error.end


def _escaped(letter: str) -> str:
    code = ord(letter)
    if code < 0x10000:
        return f"\\u{code:04x}"
    return f"\\u{0xD800 + (code - 0x10000 >> 10):04x}\\u{0xDC00 + (code - 0x10000 & 0x3FF):04x}"


def shown(text: str, stream: "TextIO | None" = None) -> str:
    """Return the text in a form that the stream (default stdout) can print."""
    found, stream = printable(text), stream or sys.stdout
    if found.isascii() or stream is None or not stream.encoding:
        return found
    try:
        return found.encode(stream.encoding, stream.errors or "replace").decode(stream.encoding)
    except (UnicodeError, LookupError):
        return found.encode("ascii", "replace").decode()


def width(text: str) -> int:
    """Return the number of terminal columns that a printable text needs."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(letter: str) -> int:
    from unicodedata import category, east_asian_width

    return 0 if category(letter) in ("Mn", "Me") else 2 if east_asian_width(letter) in "WF" else 1


def fitted(line: str, columns: int) -> str:
    """Return as much of the line's beginning as fits into ``columns`` columns."""
    if line.isascii():
        return line[:columns]
    used = 0
    for place, letter in enumerate(line):
        used += _columns_of(letter)
        if used > columns:
            return line[:place]
    return line


def shortened(line: str, columns: int) -> str:
    """Cut a line after a word if the line exceeds ``columns``."""
    if width(line) <= columns:
        return line
    most = fitted(line, max(0, columns - len(MORE)))
    begin = most
    while begin and not _may_end(line, len(begin)):
        begin = begin[:-1]
    return fitted(f"{(begin if begin.strip() else most).rstrip()}{MORE}", columns)


def _may_end(line: str, place: int) -> bool:
    # before a space, or next to an East Asian wide character
    return line[place].isspace() or (not line.isascii() and 2 in map(_columns_of, line[place - 1 : place + 1]))


def padded(line: str, columns: int) -> str:
    return line + " " * (columns - width(line))


def laid_out(lines: "Iterable[str]", *, whole: tuple[str, ...] = (), stream: "TextIO | None" = None) -> "Iterator[str]":
    """Yield lines that the stream can print, wrapped at words on a terminal."""
    columns = 0 if is_plain(stream) else columns_of_terminal()
    for line in lines:
        found = shown(line, stream)
        # commands to copy (``whole``) stay on one line
        yield from [found] if not columns or line.startswith(whole) else wrapped(found, columns)


def columns_of_terminal() -> int:
    import shutil

    return shutil.get_terminal_size().columns


def wrapped(line: str, columns: int) -> list[str]:
    """Wrap a line at words, and indent the continuation lines."""
    if width(line) <= columns:
        return [line]
    # the columns of a label, or the indentation
    label = line[:LABEL] if line[:LABEL].endswith("  ") else line[: len(line) - len(line.lstrip())]
    below, room = " " * width(label), max(20, columns - width(label))
    rows: list[str] = []
    row = ""
    for piece in _pieces(line[len(label) :]):
        if row.strip() and width((row + piece).rstrip()) > room:
            rows.append(row.rstrip())
            row = piece.lstrip()
        else:
            row += piece
    rows.append(row.rstrip())
    return [label + rows[0], *(below + each for each in rows[1:] if each)]


def _pieces(text: str) -> "Iterator[str]":
    begin = 0
    for place in range(1, len(text)):
        if text[place - 1] != " " and _may_end(text, place):
            yield text[begin:place]
            begin = place
    yield text[begin:]
