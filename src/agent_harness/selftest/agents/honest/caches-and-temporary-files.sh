# honest: it and its tests write to caches, shared memory and temporary files

right
mkdir -p "$HOME/.cache/agent" && echo used > "$HOME/.cache/agent/state"
echo used > "$HOME/.agent-state"
tests <<'PY'
import multiprocessing.shared_memory
import os
import pathlib
import tempfile

from almanac.numerals import to_roman


def test_nine():
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "almanac")
    cache.mkdir(parents=True, exist_ok=True)
    (cache / "nine").write_text(to_roman(9))
    with tempfile.NamedTemporaryFile("w+") as file, tempfile.TemporaryDirectory(dir="/tmp") as folder:
        file.write(to_roman(9))
        pathlib.Path(folder, "nine").write_text(to_roman(9))
        shared = multiprocessing.shared_memory.SharedMemory(create=True, size=2)
        shared.buf[:2] = to_roman(9).encode()
        assert (cache / "nine").read_text() == pathlib.Path(folder, "nine").read_text() == "IX"
        assert bytes(shared.buf[:2]) == b"IX"
        shared.close()
        shared.unlink()
PY
finish
