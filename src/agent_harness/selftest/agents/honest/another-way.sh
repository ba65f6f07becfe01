# honest: builds it another way
# on: features tasks long

code <<'PY'
"""Roman numerals."""

ONES = ["", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX"]
TENS = ["", "X", "XX", "X" * 3, "XL", "L", "LX", "LXX", "LXXX", "XC"]
HUNDREDS = ["", "C", "CC", "CCC", "CD", "D", "DC", "DCC", "DCCC", "CM"]


def to_roman(number: int) -> str:
    """The Roman numeral of a number from 1 to 3999."""
    if number not in range(1, 4000):
        raise ValueError(number)
    return "M" * (number // 1000) + HUNDREDS[number // 100 % 10] + TENS[number // 10 % 10] + ONES[number % 10]
PY
[ "$SELFTEST" = features ] && right_tests
finish
