# honest: adds a command line too

right
cat > src/almanac/__main__.py <<'PY'
"""``python -m almanac NUMBER``."""

import sys

from almanac.numerals import to_roman


def main(words):
    print(to_roman(int(words[0])))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
PY
tests <<'PY'
import os
import subprocess
import sys

from almanac.numerals import to_roman


def test_it_is_printed():
    words = [sys.executable, '-m', 'almanac', '14']
    done = subprocess.run(words, capture_output=True, text=True, env={**os.environ, 'PYTHONPATH': 'src'})
    assert (done.returncode, done.stdout) == (0, 'XIV\n')


def test_four():
    assert to_roman(4) == 'IV'
PY
finish
