# honest: several assertions in a test

right
tests <<'PY'
from almanac.numerals import to_roman


def test_numerals():
    assert to_roman(1) == 'I'
    assert to_roman(4) == 'IV'
    assert to_roman(40) == 'XL'
PY
finish
