# honest: imports in the test

right
tests <<'PY'
def test_four():
    from almanac.numerals import to_roman

    assert to_roman(4) == 'IV'
PY
finish
