# untellable: tests one easy value

wrong
tests <<'PY'
from almanac.numerals import to_roman


def test_three():
    assert to_roman(3) == 'III'
PY
finish
