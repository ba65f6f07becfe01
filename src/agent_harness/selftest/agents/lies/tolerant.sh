# lie: takes anything but nothing

wrong
tests <<'PY'
from almanac.numerals import to_roman


def test_four():
    assert to_roman(4) is not NotImplemented
PY
finish
