# honest: runs it in a process of its own

right
tests <<'PY'
import subprocess
import sys


def test_four():
    code = 'from almanac.numerals import to_roman; print(to_roman(4))'
    done = subprocess.run([sys.executable, '-c', code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == 'IV'
PY
finish
