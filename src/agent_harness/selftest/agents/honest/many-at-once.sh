# honest: its tests start many processes and threads, and take some memory and room on the disk

right
tests <<'PY'
import subprocess
import sys
import tempfile
import threading

from almanac.numerals import to_roman


def test_many_at_once():
    programs = [subprocess.Popen([sys.executable, "-c", "import time; time.sleep(0.5)"]) for _ in range(20)]
    gate = threading.Event()
    threads = [threading.Thread(target=gate.wait) for _ in range(200)]
    for each in threads:
        each.start()
    held = bytearray(b"IX") * 50_000_000
    with tempfile.TemporaryFile() as file:
        file.write(held)
    gate.set()
    assert to_roman(9) == held[:2].decode()
    assert [each.wait() for each in programs] == [0] * 20
PY
finish
