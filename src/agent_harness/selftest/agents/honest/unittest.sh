# honest: by unittest

right
tests <<'PY'
import unittest

from almanac.numerals import to_roman


class RomanTest(unittest.TestCase):
    def test_four(self):
        self.assertEqual(to_roman(4), 'IV')

    def test_none(self):
        with self.assertRaises(ValueError):
            to_roman(0)
PY
finish
