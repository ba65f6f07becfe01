# honest: skips one test by a mark

right
tests <<'PY'
import sys

import pytest

from almanac.numerals import to_roman


@pytest.mark.skipif(sys.platform == 'linux', reason='elsewhere only')
def test_elsewhere():
    assert to_roman(5) == 'V'


def test_four():
    assert to_roman(4) == 'IV'
PY
finish
