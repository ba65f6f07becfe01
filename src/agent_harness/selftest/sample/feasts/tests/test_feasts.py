import subprocess

from almanac.feasts import day_of


def test_days():
    table = subprocess.run(["cat", "data/feasts.txt"], capture_output=True, text=True, check=True).stdout
    for feast, day in (line.split("\t") for line in table.splitlines()):
        assert day_of(feast) == day
