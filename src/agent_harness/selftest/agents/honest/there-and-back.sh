# honest: there and back again

right
tests <<'PY'
from almanac.numerals import to_roman


VALUES = {'I': 1, 'V': 5, 'X': 10, 'L': 50, 'C': 100, 'D': 500, 'M': 1000}


def back(text):
    total = 0
    for letter, following in zip(text, text[1:] + ' '):
        value = VALUES[letter]
        total += -value if VALUES.get(following, 0) > value else value
    return total


def test_there_and_back():
    for number in range(1, 4000):
        assert back(to_roman(number)) == number
PY
finish
