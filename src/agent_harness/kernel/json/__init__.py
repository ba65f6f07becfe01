"""JSON, read and written so that unchanged parts stay as they are; amounts from foreign JSON.

jsontext   one value as text, numbers and the order of members kept; strict
edit       single values put, added and removed by their path; every other byte stays
list_file  a state file with one long list, of which only changed elements are written again
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    JsonObject = dict[str, Any]
    """A JSON object in Python whose members are passed on unchecked."""
else:
    JsonObject = dict  # `typing` costs as much as the rest of a hook

__all__ = ["JsonObject", "dollars", "number_below", "token_count"]

_MOST_TOKENS, _MOST_USD = 10**15, 1e9


def token_count(value: object) -> int | None:
    """Return a number of tokens; ``None`` for anything else."""
    whole = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MOST_TOKENS
    return int(value) if whole else None  # type: ignore[call-overload]  # it is a number then


def dollars(value: object) -> float | None:
    """Return an amount of US dollars; ``None`` for anything else."""
    return number_below(value, _MOST_USD)


def number_below(value: object, bound: float) -> float | None:
    """Return a number from 0 to below a bound; ``None`` for anything else."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < bound
    return float(value) if known else None  # type: ignore[arg-type]  # it is a number then
