# honest: is called from threads
# on: features

right
tests <<'PY'
from concurrent.futures import ThreadPoolExecutor

from almanac.numerals import to_roman


def test_many():
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(to_roman, [1, 4, 9, 14])) == ["I", "IV", "IX", "XIV"]
PY
finish
