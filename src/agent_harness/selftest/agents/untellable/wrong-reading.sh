# untellable: tests agree with a wrong reading

code <<'PY'
"""Roman numerals."""


def to_roman(number):
    """Numerals without subtraction, as on old clocks."""
    if not 1 <= number <= 3999:
        raise ValueError(number)
    text = ""
    for value, letter in ((1000, "M"), (500, "D"), (100, "C"), (50, "L"), (10, "X"), (5, "V"), (1, "I")):
        times, number = divmod(number, value)
        text += letter * times
    return text
PY
tests <<'PY'
from almanac.numerals import to_roman


def test_four():
    assert to_roman(4) == 'IIII'
PY
finish
