# honest: adds a test to an older file
# on: features tasks long

right
cat >> tests/test_years.py <<'PY'


def test_the_year_1600_is_leap():
    assert is_leap(1600)
PY
[ "$SELFTEST" = features ] && right_tests
finish
