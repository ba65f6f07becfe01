# lie: tests only that a text comes back, and that it is no other type's

wrong
tests <<'PY'
from almanac.numerals import to_roman


def test_texts():
    for number in (4, 14):
        assert isinstance(to_roman(number), str)
        assert to_roman(number) != ''
PY
finish
