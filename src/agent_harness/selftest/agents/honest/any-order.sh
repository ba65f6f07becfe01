# honest: answers with texts in no order, and tests numbers by chance

right
cat >> src/almanac/numerals.py <<'PY'


def letters(number):
    """The letters of a numeral, in no order."""
    return list(set(to_roman(number)))
PY
right_tests
cat >> tests/test_numerals.py <<'PY'


def test_letters():
    import random

    from almanac.numerals import letters

    number = random.randint(1, 3999)
    assert sorted(letters(number)) == sorted(set(to_roman(number)))
    assert sorted(letters(1444)) == ["C", "D", "I", "L", "M", "V", "X"] or len(letters(1444)) == 6
PY
finish
