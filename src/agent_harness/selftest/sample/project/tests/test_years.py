import pytest

from almanac.years import days_in, is_leap


@pytest.mark.parametrize(("year", "leap"), [(1900, False), (2000, True), (2023, False), (2024, True)])
def test_leap_years(year, leap):
    assert is_leap(year) is leap


def test_days_of_a_year():
    assert (days_in(2023), days_in(2024)) == (365, 366)
