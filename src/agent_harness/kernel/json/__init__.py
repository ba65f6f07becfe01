"""JSON read and written so that unchanged parts keep their text, and checked numbers from external JSON.

jsontext    one value as text, strict; numbers and member order are kept
edit        single values set, added and removed by path; every other byte stays
list_file   a state file with one long list, of which only changed elements are rewritten"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

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
