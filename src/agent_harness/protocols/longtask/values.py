"""What the options of a command mean: lists, numbers, words of a set, times. Each error names the option.

Source: ``longtask.md`` 2.
"""

from __future__ import annotations

from agent_harness.errors import UsageError
from agent_harness.protocols.longtask.records import moment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from datetime import datetime

    Options = Mapping[str, object]

__all__ = ["LONGEST_SECONDS", "at_time", "flag", "number", "one_of", "positive", "seconds", "text", "texts"]

LONGEST_SECONDS = 31 * 86_400
"""No wait is longer: ``longtask.md`` 11."""

_DIGITS = frozenset("0123456789")


def text(options: Options, name: str) -> str | None:
    """The text of an option; ``None`` when it was not given."""
    found = options.get(name)
    return found if isinstance(found, str) else None


def flag(options: Options, name: str) -> bool:
    """Whether a flag is on."""
    return options.get(name) is True


def texts(options: Options, name: str) -> list[str] | None:
    """A list written with commas: each part trimmed, empty ones dropped. ``None`` when it was not given."""
    found = text(options, name)
    return None if found is None else [part.strip() for part in found.split(",") if part.strip()]


def one_of(options: Options, name: str, words: Collection[str]) -> str | None:
    """One word of a set; ``None`` when it was not given."""
    found = text(options, name)
    if found is None or found in words:
        return found
    raise UsageError(f"--{name} must be one of {', '.join(words)}: {found}")


def positive(options: Options, name: str) -> int | None:
    """A whole number from 1; ``None`` when it was not given."""
    found = text(options, name)
    if found is None:
        return None
    if not (0 < len(found) <= 12 and set(found) <= _DIGITS and int(found) >= 1):
        raise UsageError(f"--{name} must be a positive integer: {found}")
    return int(found)


def number(options: Options, name: str) -> int | float | None:
    """A finite number, whole where it is written so; ``None`` when it was not given."""
    found = text(options, name)
    if found is None:
        return None
    try:
        value = float(found) if set(found) <= _DIGITS | set("+-.eE") else float("nan")
    except ValueError:
        value = float("nan")
    if not float("-inf") < value < float("inf"):
        raise UsageError(f"--{name} must be a finite number: {found}")
    return int(value) if value.is_integer() and abs(value) < 1 << 53 else value


def seconds(options: Options, name: str) -> int | float | None:
    """A wait in seconds, not negative and at most 31 days; ``None`` when it was not given."""
    found = text(options, name)
    if found is not None and found.isascii() and found.isdigit() and len(found) > 12:
        return LONGEST_SECONDS
    value = number(options, name)
    if value is not None and value < 0:
        raise UsageError(f"--{name} must be a number of seconds from 0: {found}")
    return None if value is None else min(value, LONGEST_SECONDS)


def at_time(options: Options, name: str) -> datetime | None:
    """A moment; ``None`` when it was not given."""
    found = text(options, name)
    if found is None:
        return None
    at = moment(found)
    if at is None:
        raise UsageError(f"--{name} must be a time such as 2026-05-17T12:35:54Z: {found}")
    return at
