# honest: writes into a folder of its own

right
tests <<'PY'
from almanac.numerals import to_roman


def test_file(tmp_path):
    place = tmp_path / 'year'
    place.write_text(to_roman(2024))
    assert place.read_text() == 'MMXXIV'
PY
finish
