# honest: in a class with a fixture

right
tests <<'PY'
import pytest

from almanac.numerals import to_roman


class TestRoman:
    @pytest.fixture
    def four(self):
        return to_roman(4)

    def test_four(self, four):
        assert four == 'IV'
PY
finish
