"""Edits of JSON text that change no other byte. The user's indentation, member order and spelling stay. The text is
parsed strictly before an edit. New parts use the layout of the parts around them."""

from __future__ import annotations

from agent_harness.kernel.json import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Path = Sequence[str | int]


class _Entry:
    """Entry of a JSON object or array, with its name or index and its positions in the text."""

    __slots__ = ("begins", "end", "name", "start")

    def __init__(self, begins: int, name: str | int, start: int, end: int) -> None:
        self.begins = begins
        self.name = name
        self.start = start
        self.end = end


def append(text: str, path: Sequence[str], value: object) -> str:
    """Return the JSON text with ``value`` appended to the array at ``path``."""
    known = len(path)
    while (found := _find(text, path[:known])) is None:
        known -= 1
    if known == len(path):
        return _insert(text, found, None, value)
    made: object = [value]
    for name in reversed(path[known + 1 :]):
        made = {name: made}
    return _insert(text, found, path[known], made)


def put(text: str, path: Path, value: object) -> str:
    """Return the JSON text in which the entry at ``path`` has this value. Its parent must exist."""
    found = _find(text, path)
    if found is not None:
        return text[: found.start] + _rendered(text, value, _indent_at(text, found.start)) + text[found.end :]
    holder = _find(text, path[:-1])
    return text if holder is None else _insert(text, holder, str(path[-1]), value)


def remove(text: str, path: Path) -> str:
    """Return the JSON text without the entry at ``path``."""
    holder = _find(text, path[:-1])
    listed = [*_entries(text, holder.start)] if holder else []
    names = [each.name for each in listed]
    if holder is None or path[-1] not in names:
        return text
    place = names.index(path[-1])
    if len(listed) == 1:
        return text[: holder.start + 1] + text[holder.end - 1 :]
    if place == 0:
        return text[: listed[0].begins] + text[listed[1].begins :]
    return text[: listed[place - 1].end] + text[listed[place].end :]


def is_empty(text: str, path: Path) -> bool:
    """Return True if the JSON object or array at ``path`` is empty."""
    found = _find(text, path)
    return found is not None and text[found.start] in "{[" and not any(_entries(text, found.start))


# ---- positions


def _find(text: str, path: Path) -> _Entry | None:
    jsontext.loads(text)
    start = jsontext.skip(text, 1 if text.startswith("\ufeff") else 0)
    found: _Entry | None = _Entry(start, "", start, jsontext.scanner()(text, start)[1])
    for step in path:
        if found is None:
            return None
        found = next((each for each in _entries(text, found.start) if each.name == step), None)
    return found


def _entries(text: str, at: int) -> Iterator[_Entry]:
    scan, closing = jsontext.scanner(), {"{": "}", "[": "]"}.get(text[at])
    if closing is None:
        return
    at, place = jsontext.skip(text, at + 1), 0
    while text[at] != closing:
        begins, name = at, place
        if closing == "}":
            name, at = scan(text, at)
            at = jsontext.skip(text, jsontext.skip(text, at) + 1)
        start = at
        _, at = scan(text, at)
        yield _Entry(begins, name, start, at)
        at, place = jsontext.skip(text, at), place + 1
        at = jsontext.skip(text, at + 1) if text[at] == "," else at


# ---- layout of new parts


def _insert(text: str, holder: _Entry, name: str | None, value: object) -> str:
    key = "" if name is None else f"{jsontext.line(name)}: "
    listed = [*_entries(text, holder.start)]
    if listed and "\n" not in text[holder.start : listed[0].begins]:
        at = listed[-1].end
        return f"{text[:at]}, {key}{jsontext.line(value)}{text[at:]}"
    line_end = _line_end(text)
    outer = _indent_at(text, holder.start)
    inner = _indent_at(text, listed[-1].begins) if listed else outer + _unit(text)
    entry = f"{line_end}{inner}{key}{_rendered(text, value, inner)}"
    if listed:
        at = listed[-1].end
        return f"{text[:at]},{entry}{text[at:]}"
    return f"{text[: holder.start + 1]}{entry}{line_end}{outer}{text[holder.end - 1 :]}"


def _rendered(text: str, value: object, indent: str) -> str:
    unit = _unit(text)
    lines = jsontext.dumps(value).rstrip("\n").split("\n")
    depths = [(len(line) - len(line.lstrip(" "))) // 2 for line in lines]
    moved = [indent + unit * depth + line.lstrip(" ") for depth, line in zip(depths, lines, strict=True)]
    return _line_end(text).join([lines[0], *moved[1:]])


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _unit(text: str) -> str:
    for line in text.splitlines()[1:]:
        blanks = line[: len(line) - len(line.lstrip(" \t"))]
        if blanks and line.strip():
            return blanks
    return "  "


def _indent_at(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip(" \t"))]
