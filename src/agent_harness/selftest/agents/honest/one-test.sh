# honest: one test with one value

right
tests <<'PY'
from almanac.numerals import to_roman


def test_numerals():
    assert to_roman(1994) == 'MCMXCIV'
PY
finish
