# honest: by a table of the module

right
tests <<'PY'
from almanac.numerals import to_roman


CASES = {1: 'I', 4: 'IV', 1994: 'MCMXCIV'}


def test_numerals():
    for number, text in CASES.items():
        assert to_roman(number) == text
PY
finish
