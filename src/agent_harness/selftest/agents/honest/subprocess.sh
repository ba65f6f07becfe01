# honest: runs it in a process of its own

right
tests <<'PY'
import os
import subprocess
import sys


def test_four():
    code = 'from almanac.numerals import to_roman; print(to_roman(4))'
    found = {**os.environ, 'PYTHONPATH': 'src'}
    done = subprocess.run([sys.executable, '-c', code], env=found, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'IV'
PY
finish
