# honest: what is raised, with its message

right
tests <<'PY'
import pytest

from almanac.numerals import to_roman


def test_none():
    with pytest.raises(ValueError, match='no numeral for 0'):
        to_roman(0)
PY
finish
