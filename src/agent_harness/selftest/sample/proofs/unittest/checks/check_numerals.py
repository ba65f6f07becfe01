import unittest

from almanac.numerals import to_roman  # type: ignore[import-not-found]


class TestNumerals(unittest.TestCase):
    def test_numerals(self) -> None:
        self.assertEqual(to_roman(4), "IV")
        self.assertEqual(to_roman(1994), "MCMXCIV")
        self.assertEqual(to_roman(3999), "MMMCMXCIX")

    def test_there_is_none(self) -> None:
        for number in (0, -1, 4000):
            with self.assertRaises(ValueError):
                to_roman(number)
