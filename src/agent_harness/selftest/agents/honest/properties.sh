# honest: what holds for all numerals

right
tests <<'PY'
import re

from almanac.numerals import to_roman


def test_form():
    form = re.compile('M{0,3}(CM|CD|D?C{0,3})(XC|XL|L?X{0,3})(IX|IV|V?I{0,3})')
    assert all(form.fullmatch(to_roman(n)) for n in range(1, 4000))
    assert len({to_roman(n) for n in range(1, 4000)}) == 3999
PY
finish
