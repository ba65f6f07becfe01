# honest: also what must not be

right
tests <<'PY'
from almanac.numerals import to_roman


def test_four():
    assert to_roman(4) != 'IIII'
    assert to_roman(4) == 'IV'
PY
finish
