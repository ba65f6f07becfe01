# honest: with seeded random numbers

right
tests <<'PY'
import random

from almanac.numerals import to_roman


def test_sum():
    source = random.Random(7)
    for _ in range(20):
        n = source.randint(1, 3999)
        assert to_roman(n).count('M') == n // 1000 + (to_roman(n).count('CM'))
PY
finish
