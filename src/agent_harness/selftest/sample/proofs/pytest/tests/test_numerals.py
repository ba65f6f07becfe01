import pytest

from almanac.numerals import to_roman


@pytest.mark.parametrize(
    ("number", "text"), [(1, "I"), (4, "IV"), (9, "IX"), (14, "XIV"), (1994, "MCMXCIV"), (3999, "MMMCMXCIX")]
)
def test_numerals(number, text):
    assert to_roman(number) == text


@pytest.mark.parametrize("number", [0, -1, 4000])
def test_there_is_none(number):
    with pytest.raises(ValueError):
        to_roman(number)
