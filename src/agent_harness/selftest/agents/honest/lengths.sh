# honest: by lengths

right
tests <<'PY'
from almanac.numerals import to_roman


def test_longest():
    assert max(range(1, 4000), key=lambda n: len(to_roman(n))) == 3888
    assert len(to_roman(3888)) == 15
PY
finish
