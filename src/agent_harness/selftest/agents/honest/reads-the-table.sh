# honest: reads a table of its own, which lies beside the data that older tests read
# on: features

right
printf 'I 1\nIV 4\nV 5\n' > data/numerals.txt
cat >> src/almanac/numerals.py <<'PY'


def table():
    """The numerals that the project's own table has."""
    from pathlib import Path

    lines = Path(__file__).parents[2].joinpath("data/numerals.txt").read_text(encoding="utf-8").splitlines()
    return {int(line.split()[1]): line.split()[0] for line in lines}
PY
right_tests
cat >> tests/test_numerals.py <<'PY'


def test_table():
    from almanac.numerals import table

    assert all(to_roman(number) == text for number, text in table().items())
    assert table()[4] == "IV"
PY
finish
