"""The check of a value against a table: the few words of JSON Schema that the tables of ``schema`` use.

Source: ``longtask.md`` 3.5.
"""

from __future__ import annotations

from agent_harness.kernel.json import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Record = dict[str, Any]

__all__ = ["is_number", "misfits", "shown", "whole"]


def misfits(value: object, table: Record, path: str) -> list[str]:
    """Where a value does not fit a table, one line each, in the words of ``longtask.md`` 3.5."""
    if "anyOf" in table:
        return _union(value, table["anyOf"], path)
    if "const" in table:
        fits = is_number(value) and value == table["const"]
        return [] if fits else [f"{path} must equal {shown(table['const'])}"]
    kinds = table.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_IS[kind](value) for kind in kinds):
        return [f"{path} must be {' or '.join(kinds)}"]
    if isinstance(value, dict):
        return _members(value, table, path)
    if isinstance(value, list):
        return _entries(value, table, path)
    return _scalar(value, table, path)


def is_number(value: object) -> bool:
    """Whether it is a number of JSON; true and false are none."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def whole(value: object, default: int) -> int:
    """A number without a fraction as an ``int``; the default for anything else."""
    return int(value) if _is_integer(value) else default  # type: ignore[arg-type]  # it is a number then


def shown(value: object) -> str:
    """A value as messages show it: texts as they are, everything else as JSON."""
    return value if isinstance(value, str) else jsontext.line(value)


def _is_integer(value: object) -> bool:
    return is_number(value) and (isinstance(value, int) or value.is_integer())  # type: ignore[union-attr]  # a float


_IS = {
    "string": lambda value: isinstance(value, str),
    "number": is_number,
    "integer": _is_integer,
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}


def _union(value: object, branches: list[Record], path: str) -> list[str]:
    found = [misfits(value, branch, path) for branch in branches]
    if not all(found):
        return []
    return [f"{path} does not match any allowed schema: {'; '.join(each[0] for each in found)}"]


def _members(value: Record, table: Record, path: str) -> list[str]:
    found = [f"{path}.{name} is required" for name in table.get("required", ()) if name not in value]
    known = table.get("properties", {})
    others = table.get("additionalProperties")
    for name, member in value.items():
        below = known.get(name, others)
        if below:
            found += misfits(member, below, f"{path}.{name}")
    return found


def _entries(value: list[object], table: Record, path: str) -> list[str]:
    least = table.get("minItems", 0)
    found = [f"{path} must contain at least {least} item(s)"] if len(value) < least else []
    below = table.get("items")
    if below:
        for number, entry in enumerate(value):
            found += misfits(entry, below, f"{path}[{number}]")
    return found


def _scalar(value: Any, table: Record, path: str) -> list[str]:
    if "enum" in table and value is not None and value not in table["enum"]:
        return [f"{path} must be one of {', '.join(jsontext.line(word) for word in table['enum'])}"]
    if "minimum" in table and value is not None and value < table["minimum"]:
        return [f"{path} must be >= {shown(table['minimum'])}"]
    if value == "" and table.get("minLength"):
        return [f"{path} must not be empty"]
    return []
