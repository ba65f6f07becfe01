"""Amounts as others write them into JSON: a number of the right size, or nothing. Pure."""

from __future__ import annotations

__all__ = ["dollars", "number", "tokens"]

_MOST_TOKENS, _MOST_USD = 10**15, 1e9


def tokens(value: object) -> int | None:
    """A number of tokens; ``None`` for anything else."""
    whole = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MOST_TOKENS
    return int(value) if whole else None  # type: ignore[call-overload]  # it is a number then


def dollars(value: object) -> float | None:
    """An amount of US dollars; ``None`` for anything else."""
    return number(value, _MOST_USD)


def number(value: object, below: float) -> float | None:
    """A number from 0 and below a bound; ``None`` for anything else."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < below
    return float(value) if known else None  # type: ignore[arg-type]  # it is a number then
