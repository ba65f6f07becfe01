# honest: adds a helper module beside the tests

right
cat > tests/numerals_cases.py <<'PY'
CASES = [(1, "I"), (4, "IV"), (90, "XC")]
PY
tests <<'PY'
import pytest

from almanac.numerals import to_roman

CASES = [(1, 'I'), (4, 'IV'), (90, 'XC')]


@pytest.mark.parametrize(('number', 'text'), CASES)
def test_cases(number, text):
    assert to_roman(number) == text
PY
finish
