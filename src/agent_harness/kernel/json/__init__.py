"""JSON read and written so that unchanged parts keep their text, and readers of values from external JSON.

jsontext    one value as text, strict; numbers and member order are kept
edit        single values set, added and removed by path; every other byte stays
list_file   a state file with one long list, of which only changed elements are rewritten"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, TypeVar

    T = TypeVar("T")
    JsonObject = dict[str, Any]
    """Python type of a JSON object whose members are not checked."""
else:
    JsonObject = dict  # `typing` costs as much as the rest of a hook

_MOST_TOKENS, _MOST_USD = 10**15, 1e9


def token_count(value: object) -> int | None:
    """Return ``value`` as a number of tokens, or ``None`` for an invalid value."""
    whole = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MOST_TOKENS
    return int(value) if whole else None  # type: ignore[call-overload]  # it is a number then


def dollars(value: object) -> float | None:
    """Return ``value`` as an amount in US dollars, or ``None`` for an invalid value."""
    return number_below(value, _MOST_USD)


def number_below(value: object, bound: float) -> float | None:
    """Return ``value`` as a float if 0 <= value < ``bound``, else ``None``."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < bound
    return float(value) if known else None  # type: ignore[arg-type]  # it is a number then


def member(name: str, read: Callable[[object], T], holder: str = "raw") -> T:
    """Return a property of a class of records: what ``read`` makes of the member ``name``, or of None without it.

    The attribute ``holder`` of the record is the JSON object."""
    return property(lambda self: read(getattr(self, holder).get(name)))  # type: ignore[return-value]  # T, when it is read


def text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def json_object(value: object) -> JsonObject | None:
    return value if isinstance(value, dict) else None


def members_of(value: object) -> JsonObject:
    """Return ``value`` if it is a JSON object, else an empty object."""
    return value if isinstance(value, dict) else {}


def objects_in(value: object) -> list[JsonObject]:
    """Return the objects in a JSON array; its other entries are left out."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def texts(value: object) -> list[str]:
    """Return the strings in a JSON array; its other entries are left out."""
    return [each for each in value if isinstance(each, str)] if isinstance(value, list) else []
