# honest: keeps answers in the home folder, and works without them
# on: tasks long
# proof: script

right
cat >> src/almanac/numerals.py <<'PY'


def known(number):
    """The numeral, from the cache where it is there."""
    from pathlib import Path

    place = Path("~/.cache/almanac").expanduser() / str(number)
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(to_roman(number))
    return place.read_text()
PY
PYTHONPATH=src python3 -c 'from almanac.numerals import known; known(4)'
finish
