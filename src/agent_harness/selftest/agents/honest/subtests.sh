# honest: by subTest

right
tests <<'PY'
import unittest

from almanac.numerals import to_roman


class RomanTest(unittest.TestCase):
    def test_all(self):
        for number, text in ((1, 'I'), (9, 'IX')):
            with self.subTest(number):
                self.assertEqual(to_roman(number), text)
PY
finish
