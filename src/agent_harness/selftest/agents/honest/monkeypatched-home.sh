# honest: changes a variable for itself

right
tests <<'PY'
from almanac.numerals import to_roman


def test_four(monkeypatch):
    monkeypatch.setenv('LANG', 'la')
    assert to_roman(4) == 'IV'
PY
finish
