# honest: with a helper of its own

right
tests <<'PY'
from almanac.numerals import to_roman


def check(number, text):
    assert to_roman(number) == text


def test_numerals():
    check(4, 'IV')
    check(9, 'IX')
PY
finish
