"""Edits of a JSON text that leave every other byte as it is: indentation, order and spelling stay the person's.

The text is strict JSON; what it holds is checked before it is edited.
"""

from __future__ import annotations

from agent_harness.kernel.json import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Node", "append", "remove", "replace", "tree"]

_BLANKS = " \t\r\n"


class Node:
    """One value and where it stands. ``entries`` of an object or array, each with where it begins and its name."""

    __slots__ = ("end", "entries", "opens", "start")

    def __init__(self, start: int, opens: str) -> None:
        self.start = start
        self.end = start
        self.opens = opens  # {, [ or empty
        self.entries: list[tuple[int, str, Node]] = []  # where the entry begins, its name or "", its value

    def member(self, name: str) -> Node | None:
        """The value of a member of an object."""
        return next((node for _, own, node in self.entries if own == name), None) if self.opens == "{" else None

    def at(self, path: Sequence[str | int]) -> Node | None:
        """The value at the end of a path of names and places."""
        node: Node | None = self
        for step in path:
            if node is None:
                return None
            node = node.member(step) if isinstance(step, str) else node.entries[step][2]
        return node


def tree(text: str) -> Node:
    """The values of a JSON text with their places. ``ValueError`` when it is no strict JSON."""
    jsontext.loads(text)
    node, _ = _value(text, _skip(text, 1 if text.startswith("\ufeff") else 0))
    return node


def append(text: str, path: Sequence[str], value: object) -> str:
    """The text with one more entry at the end of the array at this path of members; missing members are made."""
    root, known = tree(text), len(path)
    while (node := root.at(path[:known])) is None:
        known -= 1
    if known == len(path):
        return _insert(text, node, "", value)
    made: object = [value]
    for name in reversed(path[known + 1 :]):
        made = {name: made}
    return _insert(text, node, path[known], made)


def replace(text: str, path: Sequence[str | int], value: object) -> str:
    """The text with another value at this path."""
    node = tree(text).at(path)
    if node is None:
        return text
    indent = _indent_at(text, node.start)
    return text[: node.start] + _rendered(text, value, indent) + text[node.end :]


def remove(text: str, path: Sequence[str | int]) -> str:
    """The text without the entry at this path, and without its comma."""
    parent = tree(text).at(path[:-1])
    if parent is None:
        return text
    names = [name if parent.opens == "{" else place for place, (_, name, _) in enumerate(parent.entries)]
    if path[-1] not in names:
        return text
    place = names.index(path[-1])
    begins, _, node = parent.entries[place]
    if len(parent.entries) == 1:
        return text[: parent.start + 1] + text[parent.end - 1 :]
    if place == 0:
        return text[:begins] + text[parent.entries[1][0] :]
    return text[: parent.entries[place - 1][2].end] + text[node.end :]


def _insert(text: str, node: Node, name: str, value: object) -> str:
    """The text with one more entry at the end of this object or array."""
    key = f"{jsontext.line(name)}: " if node.opens == "{" else ""
    if node.entries and "\n" not in text[node.start : node.entries[0][0]]:
        at = node.entries[-1][2].end
        return f"{text[:at]}, {key}{jsontext.line(value)}{text[at:]}"
    line_end = _line_end(text)
    outer = _indent_at(text, node.start)
    inner = _indent_at(text, node.entries[-1][0]) if node.entries else outer + _unit(text)
    entry = f"{line_end}{inner}{key}{_rendered(text, value, inner)}"
    if node.entries:
        at = node.entries[-1][2].end
        return f"{text[:at]},{entry}{text[at:]}"
    return f"{text[: node.start + 1]}{entry}{line_end}{outer}{text[node.end - 1 :]}"


def _rendered(text: str, value: object, indent: str) -> str:
    """The value as it would stand in this text, where its line begins with ``indent``."""
    unit = _unit(text)
    lines = jsontext.dumps(value).rstrip("\n").split("\n")
    depths = [(len(line) - len(line.lstrip(" "))) // 2 for line in lines]
    moved = [indent + unit * depth + line.lstrip(" ") for depth, line in zip(depths, lines, strict=True)]
    return _line_end(text).join([lines[0], *moved[1:]])


def _line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _unit(text: str) -> str:
    """One level of indentation in this text: what its first indented line begins with, else two blanks."""
    for line in text.splitlines()[1:]:
        blanks = line[: len(line) - len(line.lstrip(" \t"))]
        if blanks and line.strip():
            return blanks
    return "  "


def _indent_at(text: str, place: int) -> str:
    line = text[text.rfind("\n", 0, place) + 1 : place]
    return line[: len(line) - len(line.lstrip(" \t"))]


# ---- reading with places; the text is known to be right


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _BLANKS:
        at += 1
    return at


def _value(text: str, at: int) -> tuple[Node, int]:
    opens = text[at] if text[at] in "{[" else ""
    node = Node(at, opens)
    if opens:
        at = _entries(text, at, node)
    elif text[at] == '"':
        at = _string_end(text, at)
    else:
        while at < len(text) and text[at] not in ",]}" and text[at] not in _BLANKS:
            at += 1
    node.end = at
    return node, at


def _entries(text: str, at: int, node: Node) -> int:
    closes = "}" if node.opens == "{" else "]"
    at = _skip(text, at + 1)
    while text[at] != closes:
        begins, name = at, ""
        if node.opens == "{":
            ends = _string_end(text, at)
            name = str(jsontext.loads(text[at:ends]))
            at = _skip(text, _skip(text, ends) + 1)
        child, at = _value(text, at)
        node.entries.append((begins, name, child))
        at = _skip(text, at)
        at = _skip(text, at + 1) if text[at] == "," else at
    return at + 1


def _string_end(text: str, at: int) -> int:
    at += 1
    while text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return at + 1
