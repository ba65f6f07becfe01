# honest: imports the module

right
tests <<'PY'
import almanac.numerals as numerals


def test_four():
    assert numerals.to_roman(4) == 'IV'
PY
finish
