# honest: with a message

right
tests <<'PY'
from almanac.numerals import to_roman


def test_four():
    found = to_roman(4)
    assert found == 'IV', f'found {found}'
PY
finish
