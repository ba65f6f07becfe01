# honest: expects one failure by a mark

right
tests <<'PY'
import pytest

from almanac.numerals import to_roman


@pytest.mark.xfail(reason='larger numbers come later', strict=True)
def test_large():
    assert to_roman(4000)


def test_four():
    assert to_roman(4) == 'IV'
PY
finish
