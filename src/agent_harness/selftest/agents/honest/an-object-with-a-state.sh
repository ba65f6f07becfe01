# honest: objects that are built step by step, with a stream, a clock and a cache

right
cat >> src/almanac/numerals.py <<'PY'


class Writer:
    """Writes numerals one after the other."""

    def __init__(self, out=None):
        import sys
        import time

        self.out, self.err, self.since, self.done = out, sys.stderr, time.time(), []
        self._cache = {}

    def put(self, number):
        """Writes one numeral."""
        self.done.append(self._cache.setdefault(number, to_roman(number)))
        print(self.done[-1], file=self.out)
        return self

    def text(self):
        """All of them."""
        return " ".join(self.done)
PY
tests <<'PY'
import io

import pytest

from almanac.numerals import Writer, to_roman


@pytest.fixture
def writer():
    return Writer()


def test_numerals():
    assert [to_roman(n) for n in (1, 4, 14, 1994)] == ["I", "IV", "XIV", "MCMXCIV"]


def test_one_after_the_other(writer, capsys):
    assert writer.put(4).put(9).text() == "IV IX"
    assert capsys.readouterr().out == "IV\nIX\n"


def test_to_a_file():
    out = io.StringIO()
    Writer(out).put(3999)
    assert out.getvalue() == "MMMCMXCIX\n"


def test_there_is_none(writer):
    with pytest.raises(ValueError):
        writer.put(0)
PY
finish
