# honest: adds a marker to the settings

right
printf 'markers = ["roman: about numerals"]\n' >> pyproject.toml
tests <<'PY'
import pytest

from almanac.numerals import to_roman


@pytest.mark.roman
def test_four():
    assert to_roman(4) == 'IV'
PY
finish
