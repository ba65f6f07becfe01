# honest: builds a class behind the function
# on: features tasks long

code <<'PY'
"""Roman numerals."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Numeral:
    number: int

    def __post_init__(self):
        if not 1 <= self.number <= 3999:
            raise ValueError(self.number)

    def __str__(self):
        text, left = "", self.number
        for value, letters in zip((1000, 900, 500, 400, 100, 90, 50, 40, 10, 9, 5, 4, 1), "M CM D CD C XC L XL X IX V IV I".split()):
            times, left = divmod(left, value)
            text += letters * times
        return text


def to_roman(number):
    return str(Numeral(number))
PY
[ "$SELFTEST" = features ] && right_tests
finish
