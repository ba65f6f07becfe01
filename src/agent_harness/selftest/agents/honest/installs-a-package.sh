# honest: installs a package that its tests use
# in: environment

right
installed numeral-cases numeral_cases <<'PY'
CASES = {1: "I", 4: "IV", 1994: "MCMXCIV", 3999: "MMMCMXCIX"}
PY
tests <<'PY'
import numeral_cases
import pytest

from almanac.numerals import to_roman


@pytest.mark.parametrize("number", numeral_cases.CASES)
def test_numerals(number):
    assert to_roman(number) == numeral_cases.CASES[number]


def test_fourteen():
    assert to_roman(14) == "XIV"


def test_there_is_none():
    with pytest.raises(ValueError):
        to_roman(0)
PY
finish
