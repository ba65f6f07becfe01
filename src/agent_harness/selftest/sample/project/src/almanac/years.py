"""Years."""


def is_leap(year):
    """Return True if a year has a 29th of February."""
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def days_in(year):
    """Return the days of a year.

    >>> days_in(2024)
    366
    """
    return 366 if is_leap(year) else 365
