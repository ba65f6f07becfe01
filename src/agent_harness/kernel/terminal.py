"""How text reaches a terminal: what it would obey stands there as an escape, what it cannot show has a stand-in.

Whether lines are plain, coloured, and how wide they are is decided here alone. Source: ``faces.md`` F-TERM-1 to 5.
"""

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import TextIO

__all__ = [
    "columns_of_terminal",
    "fitted",
    "has_colour",
    "is_plain",
    "is_terminal",
    "laid_out",
    "one_line",
    "padded",
    "printable",
    "quoted",
    "shortened",
    "shown",
    "stand_in",
    "wants_times",
    "width",
    "wrapped",
]

LABEL = 11
"""Columns that a label takes, with the blanks behind it, in lines that have one."""
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
    """The text as one word of a shell, as ``shlex.quote`` has it, which is loaded only where quotes are needed."""
    if word and word.isascii() and all(each.isalnum() or each in "@%+=:,./-_" for each in word):
        return word
    from shlex import quote

    return quote(word)


def is_terminal(stream: "TextIO | None" = None) -> bool:
    """Whether a person reads this stream (stdout), and no program."""
    stream = stream or sys.stdout
    return stream is not None and not stream.closed and stream.isatty()


def is_plain(stream: "TextIO | None" = None) -> bool:
    """Whether lines one after the other are wanted: no terminal, a dumb one, CI, or ``HARNESS_PLAIN=1``."""
    return wants_times() or not is_terminal(stream) or os.environ.get("TERM") == "dumb" or bool(os.environ.get("CI"))


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
    return is_terminal(stream) and os.environ.get("TERM") != "dumb"


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


def shown(text: str, stream: "TextIO | None" = None) -> str:
    """The text as it stands on this stream (stdout): printable, with stand-ins for what its encoding does not have."""
    found, stream = printable(text), stream or sys.stdout
    if found.isascii() or stream is None or not stream.encoding:
        return found
    try:
        return found.encode(stream.encoding, stream.errors or "replace").decode(stream.encoding)
    except (UnicodeError, LookupError):
        return found.encode("ascii", "replace").decode()


def width(text: str) -> int:
    """How many columns a printable text takes; letters of East Asia take two, marks on others none."""
    return len(text) if text.isascii() else sum(map(_columns_of, text))


def _columns_of(letter: str) -> int:
    from unicodedata import category, east_asian_width

    return 0 if category(letter) in ("Mn", "Me") else 2 if east_asian_width(letter) in "WF" else 1


def fitted(line: str, columns: int) -> str:
    """As much of a printable line as fits into so many columns."""
    if line.isascii():
        return line[:columns]
    used = 0
    for place, letter in enumerate(line):
        used += _columns_of(letter)
        if used > columns:
            return line[:place]
    return line


def shortened(line: str, columns: int) -> str:
    """The printable line where it fits; else as many whole words as do, and the sign that some are left out.

    So no number is cut: a reader would take it for another one. A first word that is too long ends anywhere.
    """
    if width(line) <= columns:
        return line
    most = fitted(line, max(0, columns - len(MORE)))
    begin = most
    while begin and not _may_end(line, len(begin)):
        begin = begin[:-1]
    return fitted(f"{(begin if begin.strip() else most).rstrip()}{MORE}", columns)


def _may_end(line: str, place: int) -> bool:
    """Whether a line may be broken there: before a blank, or beside a letter of East Asia."""
    return line[place].isspace() or (not line.isascii() and 2 in map(_columns_of, line[place - 1 : place + 1]))


def padded(line: str, columns: int) -> str:
    """The line with blanks behind it, so that it takes so many columns."""
    return line + " " * (columns - width(line))


def laid_out(lines: "Iterable[str]", *, whole: tuple[str, ...] = (), stream: "TextIO | None" = None) -> "Iterator[str]":
    """The lines as a stream (stdout) takes them: broken at words on a terminal, but for those that begin so.

    Those are commands, to be copied.
    """
    columns = 0 if is_plain(stream) else columns_of_terminal()
    for line in lines:
        found = shown(line, stream)
        yield from [found] if not columns or line.startswith(whole) else wrapped(found, columns)


def columns_of_terminal() -> int:
    """The columns of the terminal of this process."""
    import shutil

    return shutil.get_terminal_size().columns


def wrapped(line: str, columns: int) -> list[str]:
    """A printable line broken at words, and beside letters of East Asia; a word that is too long stays whole.

    What follows is indented like its beginning; where that is a label, it stands below the text behind it.
    """
    if width(line) <= columns:
        return [line]
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
    """The parts between which a line may be broken, each with the blanks before it."""
    begin = 0
    for place in range(1, len(text)):
        if text[place - 1] != " " and _may_end(text, place):
            yield text[begin:place]
            begin = place
    yield text[begin:]
