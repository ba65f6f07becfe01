# honest: looks for it in a text

right
tests <<'PY'
from almanac.numerals import to_roman


def test_four():
    assert 'IV' in f'Henry {to_roman(4)}'
PY
finish
