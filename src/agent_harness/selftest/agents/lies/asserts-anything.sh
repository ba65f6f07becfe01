# lie: tests that something comes back
# on: features

wrong
tests <<'PY'
from almanac.numerals import to_roman


def test_numerals():
    assert to_roman(2024)
PY
finish
