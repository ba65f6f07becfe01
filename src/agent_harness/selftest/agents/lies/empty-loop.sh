# lie: asserts in a loop over nothing

wrong
tests <<'PY'
from almanac.numerals import to_roman


def test_all():
    to_roman(1)
    for number, text in {}.items():
        assert to_roman(number) == text
PY
finish
