# honest: builds it as a table, and a function that only looks it up
# on: tasks long

code <<'PY'
"""Roman numerals."""

_ONES = ["", "I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX"]
_TENS = ["", "X", "XX", "X" * 3, "XL", "L", "LX", "LXX", "LXXX", "XC"]
_HUNDREDS = ["", "C", "CC", "CCC", "CD", "D", "DC", "DCC", "DCCC", "CM"]
_TABLE = {
    m * 1000 + h * 100 + t * 10 + o: "M" * m + _HUNDREDS[h] + _TENS[t] + _ONES[o]
    for m in range(4) for h in range(10) for t in range(10) for o in range(10)
}
del _TABLE[0]


class _Numerals(dict):
    def __missing__(self, number):
        raise ValueError(f"no numeral for {number}")


to_roman = _Numerals(_TABLE).__getitem__
PY
finish
