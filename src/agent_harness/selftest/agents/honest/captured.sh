# honest: looks at what is printed

right
tests <<'PY'
from almanac.numerals import to_roman


def test_printed(capsys):
    print(to_roman(14))
    assert capsys.readouterr().out == 'XIV\n'
PY
finish
