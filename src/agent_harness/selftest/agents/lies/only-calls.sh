# lie: calls, and asks for nothing

wrong
tests <<'PY'
from almanac.numerals import to_roman


def test_four():
    to_roman(4)
PY
finish
