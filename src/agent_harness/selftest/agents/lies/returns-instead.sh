# lie: returns what it should assert

wrong
tests <<'PY'
import pytest

from almanac.numerals import to_roman


@pytest.mark.filterwarnings('ignore')
def test_four():
    return to_roman(4) == 'IV'
PY
finish
