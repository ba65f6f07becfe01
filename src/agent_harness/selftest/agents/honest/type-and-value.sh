# honest: type and value

right
tests <<'PY'
from almanac.numerals import to_roman


def test_type():
    assert isinstance(to_roman(4), str)
    assert to_roman(4) == 'IV'
PY
finish
