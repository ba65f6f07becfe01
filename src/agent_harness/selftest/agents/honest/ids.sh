# honest: by parametrize with ids and param

right
tests <<'PY'
import pytest

from almanac.numerals import to_roman


@pytest.mark.parametrize(('n', 'text'), [pytest.param(4, 'IV', id='four'), pytest.param(9, 'IX', id='nine')])
def test_numerals(n, text):
    assert to_roman(n) == text
PY
finish
