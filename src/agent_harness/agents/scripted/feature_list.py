"""The scripted agent's own reading and editing of ``features.json``: one word changes, every other byte stays."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

_BLANK = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


def test_file_of(text: str, feature: int) -> str | None:
    """The test file of a feature, or ``None`` when there is no such feature or it names none."""
    for _, _, found in _features(text):
        if found.get("id") == feature:
            return found.get("test_file")
    return None


def with_passes(text: str, features: Iterable[int], passes: bool) -> str:
    """The text with ``passes`` of these features set; raises ``KeyError`` for one that is not there."""
    for feature in features:
        text = _with_one(text, feature, passes)
    return text


def _with_one(text: str, feature: int, passes: bool) -> str:
    word = "true" if passes else "false"
    for start, end, found in _features(text):
        if found.get("id") != feature:
            continue
        for name, first, last in _members(text, start):
            if name == "passes":
                return text[:first] + word + text[last:]
        closing = end - 1
        filled = text[start + 1 : closing].rstrip()
        return f'{text[: start + 1]}{filled}{"," if filled.strip() else ""} "passes": {word}{text[closing:]}'
    raise KeyError(feature)


def _features(text: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Start, end and value of each feature in the text."""
    for name, start, _ in _members(text, _skip(text, 0)):
        if name == "features" and text[start] == "[":
            for first, last, value in _items(text, start):
                if isinstance(value, dict):
                    yield first, last, value


def _members(text: str, at: int) -> Iterator[tuple[str, int, int]]:
    """Name, start and end of each value of the object that begins at ``at``."""
    at = _skip(text, at + 1)
    while text[at] != "}":
        name, at = _DECODER.raw_decode(text, at)
        start = _skip(text, _skip(text, at) + 1)
        _, at = _DECODER.raw_decode(text, start)
        yield name, start, at
        at = _after_comma(text, at)


def _items(text: str, at: int) -> Iterator[tuple[int, int, Any]]:
    at = _skip(text, at + 1)
    while text[at] != "]":
        value, end = _DECODER.raw_decode(text, at)
        yield at, end, value
        at = _after_comma(text, end)


def _after_comma(text: str, at: int) -> int:
    at = _skip(text, at)
    return _skip(text, at + 1) if text[at] == "," else at


def _skip(text: str, at: int) -> int:
    found = _BLANK.match(text, at)
    return found.end() if found else at
