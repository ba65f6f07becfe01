"""Says by its exit code whether the numerals in a source folder are right: each of the 3,999, and those that are none."""

import sys

sys.path.insert(0, sys.argv[1])

PARTS = (
    1000,
    "M",
    900,
    "CM",
    500,
    "D",
    400,
    "CD",
    100,
    "C",
    90,
    "XC",
    50,
    "L",
    40,
    "XL",
    10,
    "X",
    9,
    "IX",
    5,
    "V",
    4,
    "IV",
    1,
    "I",
)


def expected(number: int) -> str:
    text = ""
    for value, letters in zip(PARTS[::2], PARTS[1::2], strict=True):
        times, number = divmod(number, int(value))
        text += str(letters) * times
    return text


def refuses(number: int) -> bool:
    try:
        to_roman(number)
    except ValueError:
        return True
    return False


from almanac.numerals import to_roman  # type: ignore[import-not-found]  # noqa: E402

right = all(type(to_roman(n)) is str and str.__eq__(to_roman(n), expected(n)) for n in range(1, 4000))
sys.exit(not (right and all(refuses(n) for n in (0, -1, -5, 4000, 10_000))))
