import unittest
from pathlib import Path

import pytest

from almanac.months import days, names

TABLE = Path(__file__).parents[1] / "data/months.txt"


class TestDays(unittest.TestCase):
    def test_february(self):
        self.assertEqual([days(year, 2) for year in (2023, 2024)], [28, 29])

    def test_the_year_is_whole(self):
        self.assertEqual(sum(days(2023, month) for month in range(1, 13)), 365)


def test_no_such_month():
    with pytest.raises(ValueError, match="no month 13"):
        days(2023, 13)


def test_names():
    assert names() == TABLE.read_text(encoding="utf-8").split()
    assert len(names()) == 12
