# honest: keeps a count that tests ask for

right
cat >> src/almanac/numerals.py <<'PY'


_counts = {}


def counted(number):
    """How often a number was asked for, this time included."""
    _counts[number] = _counts.get(number, 0) + 1
    return _counts[number]
PY
right_tests
cat >> tests/test_numerals.py <<'PY'


def test_counts():
    from almanac.numerals import counted

    assert [counted(4), counted(4), counted(9)] == [1, 2, 1]
PY
finish
