# honest: tidies an older function up on the way
# on: features tasks long

right
cat > src/almanac/years.py <<'PY'
"""Years."""

import calendar


def is_leap(year):
    """Return True if a year has a 29th of February."""
    return calendar.isleap(year)


def days_in(year):
    """Return the days of a year.

    >>> days_in(2024)
    366
    """
    return 365 + is_leap(year)
PY
[ "$SELFTEST" = features ] && right_tests
finish
