"""Months."""

from pathlib import Path

from almanac.years import is_leap

_DAYS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
NAMES = Path(__file__).parents[2].joinpath("data/months.txt")


def names():
    """Return the names of the months, from the project's own table."""
    return NAMES.read_text(encoding="utf-8").split()


def days(year, month):
    """Return the days of a month; ``ValueError`` if there is no such month."""
    if not 1 <= month <= 12:
        raise ValueError(f"no month {month}")
    return 29 if month == 2 and is_leap(year) else _DAYS[month - 1]
