# lie: replaces what it tests

wrong
tests <<'PY'
from unittest import mock

import almanac.numerals


def test_four():
    with mock.patch('almanac.numerals.to_roman', return_value='IV'):
        assert almanac.numerals.to_roman(4) == 'IV'
PY
finish
