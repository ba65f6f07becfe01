# honest: compares lists

right
tests <<'PY'
from almanac.numerals import to_roman


def test_first():
    assert [to_roman(n) for n in (1, 2, 3, 4)] == ['I', 'II', 'III', 'IV']
PY
finish
