"""Edits that give a literal another value and leave the text around it unchanged.
An edit changes letters and digits inside the literal, so the program still parses and compiles. The end of the literal
stays unchanged. A pattern that matches only the beginning of a text then detects the change too. A short value becomes
longer, because most outputs contain any given letter or digit by chance."""

import re
from collections.abc import Collection, Iterable, Sequence
from itertools import count
from typing import NamedTuple

_ESCAPE = r"\\(?:x[\da-fA-F]{1,2}|u\{[^}]*\}|u[\da-fA-F]{4}|U[\da-fA-F]{8}|[0-7]{1,3}|.)"
_PLAIN = re.compile(_ESCAPE + r"|%[-+ #\d.]*[a-zA-Z]|[$#]\{[^}]*\}|\$\w+|(?P<plain>[^\W_])", re.DOTALL)
_IN_PATTERN = re.compile(
    r"\\.|\[\^?\]?(?:\[:\w+:\]|[^\]])*\]|\\?\{\d*,?\d*\\?\}|\(\?[^)]{0,20}\)?|\$\w+|(?P<plain>[^\W_](?!\\?[*?{]))",
    re.DOTALL,
)
_KEY = re.compile(r"[\"']?(?<![\w.-])[A-Za-z][\w.-]*[\"']?(?:\s|\\s|[*+])*[:=](?:\s|\\s|[*+])*[\"']?(?=[^\W_])")
"""Pattern for a key in front of a value, such as ``"sum": `` and ``sum=``."""
_LETTERS = str.maketrans(
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789",
    "qwxyzabdcfghijlkmnporstuveQWXYZABDCFGHIJLKMNPORSTUVE1204537896",
)
_UNLIKELY = {True: "84062951", False: "qxzjkvwy"}  # what a short value grows by; true: behind a digit
_SHORT_DIGITS, _SHORT = 8, 4  # plain ones; below that a value stands anywhere by chance
_SHORT_GROWTH = 2  # behind a key a value stands nowhere by chance, and work may answer with all that are near
_LEADING = re.compile(r"0[xX][0-9a-fA-F]|0[bBoO]?[01]|\d\d?")


class Edit(NamedTuple):
    start: int
    end: int
    text: str


Edited = tuple[str, Collection[Edit]]  # a text, and what is changed in it


def other_text(inside: str, at: int, *, grows: bool = True) -> list[Edit]:
    """Return the edit that changes a string, or [] if the string only contains text like ``$NAME``."""
    places = _of_values(inside, [found.start() for found in _PLAIN.finditer(inside) if found["plain"]])
    if places:
        place = places[len(places) // 2 if len(places) > 2 else 0]
        plain = "".join(inside[each] for each in places)
        return [Edit(at + place, at + place + 1, _other(inside[place]) + (_growth(plain) if grows else ""))]
    return [] if "$" in inside or "{" in inside or "\\" in inside else [Edit(at, at, "0")]


def other_pattern(inside: str, at: int) -> list[Edit]:
    """Return edits after which each branch of a regular expression matches a different text."""
    places = _of_values(inside, [found.start() for found in _IN_PATTERN.finditer(inside) if found["plain"]])
    known, behind_keys = {*places}, {key.end() for key in _KEY.finditer(inside)}
    found: list[Edit] = []
    for place in places:
        run = inside[place : next(each for each in count(place) if each not in known)]
        growth = _growth(run)[: _SHORT_GROWTH if place in behind_keys else None] if place - 1 not in known else ""
        found.append(Edit(at + place, at + place + 1, _other(inside[place]) + growth))
    return found


def _of_values(inside: str, places: Sequence[int]) -> list[int]:
    of_keys = {at for key in _KEY.finditer(inside) for at in range(*key.span())}
    # a check would not find a changed key
    return [place for place in places if place not in of_keys]


def searched_number(written: str, at: int) -> list[Edit]:
    """Return the edit that makes an integer too long to occur elsewhere by chance."""
    return [Edit(at, at + len(written), written + _UNLIKELY[True])] if written.isdigit() else other_number(written, at)


def other_number(written: str, at: int) -> list[Edit]:
    """Return the edit that clearly changes a number, or [] if the text is not a number."""
    found = _LEADING.match(written)
    if not found:
        return []
    leading = found[0]
    if leading[:1] == "0" and len(leading) > 1 and leading[1] in "xXbBoO":
        last = leading[-1]
        return [Edit(at + found.end() - 1, at + found.end(), "0" if last == "1" else "1")]
    if len(leading) == 2 and leading[0] == "1":  # 1000 as 1500: half of it more
        second = int(leading[1])
        return [Edit(at + 1, at + 2, str(second + 5 if second < 5 else second - 5))]
    first = int(leading[0])
    return [Edit(at, at + 1, str(first - 1 if first > 1 else 1 - first if first == 0 else 2))]


def edited(text: str, edits: Iterable[Edit]) -> str:
    parts, at = list[str](), 0
    for start, end, instead in sorted(set(edits)):
        if start >= at:
            parts += [text[at:start], instead]
            at = end
    return "".join((*parts, text[at:]))


def moved(edits: Iterable[Edit], offsets: Sequence[int]) -> list[Edit]:
    return [
        Edit(offsets[e.start], offsets[e.end - 1] + 1 if e.end > e.start else offsets[e.start], e.text)
        for e in edits
        if e.start < len(offsets)
    ]


def _growth(plain: str) -> str:
    is_number = plain.isdigit()
    return _UNLIKELY[is_number] if len(plain) < (_SHORT_DIGITS if is_number else _SHORT) else ""


def _other(letter: str) -> str:
    other = letter.translate(_LETTERS)
    return other if other != letter else ("q" if letter != "q" else "w")
