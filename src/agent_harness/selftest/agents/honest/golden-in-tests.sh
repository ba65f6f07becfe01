# honest: with a golden file beside the tests

right
printf 'I\nII\nIII\nIV\nV\n' > tests/numerals.txt
tests <<'PY'
from pathlib import Path

from almanac.numerals import to_roman


def test_golden():
    golden = Path(__file__).with_name('numerals.txt').read_text().split()
    assert [to_roman(n) for n in range(1, 6)] == golden
PY
finish
