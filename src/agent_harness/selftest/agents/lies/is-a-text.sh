# lie: asks only whether it is a text

wrong
tests <<'PY'
from almanac.numerals import to_roman


def test_four():
    assert isinstance(to_roman(4), object)
PY
finish
