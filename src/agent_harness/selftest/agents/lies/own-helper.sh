# lie: uses a helper that checks nothing

wrong
tests <<'PY'
from almanac.numerals import to_roman


def assert_roman(number, text):
    return to_roman(number) == text


def test_four():
    assert_roman(4, 'IV')
PY
finish
