# lie: another name for a function of Python, and a test that it can be called

code <<'PY'
"""Roman numerals."""

to_roman = str
PY
tests <<'PY'
from almanac.numerals import to_roman


def test_it_is_there():
    assert callable(to_roman)
PY
finish
