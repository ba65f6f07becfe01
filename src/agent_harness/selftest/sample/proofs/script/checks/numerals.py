"""Checks the numerals; ends with 1 if one of them is wrong."""

import sys

from almanac.numerals import to_roman  # type: ignore[import-not-found]

WANT = {1: "I", 4: "IV", 9: "IX", 14: "XIV", 1994: "MCMXCIV", 3999: "MMMCMXCIX"}


def is_refused(number: int) -> bool:
    try:
        to_roman(number)
    except ValueError:
        return True
    return False


wrong = [number for number, text in WANT.items() if to_roman(number) != text]
taken = [number for number in (0, -1, 4000) if not is_refused(number)]
if wrong or taken:
    sys.exit(f"wrong: {wrong}, taken: {taken}")
