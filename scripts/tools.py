"""Puts the packages of ``requirements/NAME.txt`` into ``.tools/NAME``, or does nothing when they are there.

For targets that need packages which nobody else needs, such as `make site`. They stay out of ``.venv``, so
that its set-up stays short; a program gets them by ``PYTHONPATH``. With ``--wheels`` they stay the wheels that they
came as, for an installer to take them from.
"""

import hashlib
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main(name: str, *, wheels: bool) -> int:
    """0 when everything is in place; the status of pip when something cannot be fetched."""
    pins, place = ROOT / "requirements" / f"{name}.txt", ROOT / ".tools" / name
    key = f"{sys.version_info[:2]} {hashlib.sha256(pins.read_bytes()).hexdigest()}"
    stamp = ROOT / ".tools" / f"{name}.set-up"
    if stamp.is_file() and stamp.read_text() == key:
        return 0
    print(f"Fetching what requirements/{name}.txt names (only now, and when it changes) ...", flush=True)
    place.parent.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent, prefix=".fetch-") as folder:
        words = ["download", "--dest"] if wheels else ["install", "--no-compile", "--target"]
        words += [f"{folder}/{name}", "-qq", "--disable-pip-version-check", "--no-deps", "--require-hashes"]
        words += ["--only-binary=:all:", "-r", str(pins)]
        status = subprocess.run([sys.executable, "-m", "pip", *words], check=False).returncode
        if status:
            return status
        stamp.unlink(missing_ok=True)
        if place.exists():
            place.rename(f"{folder}/before")
        Path(folder, name).rename(place)
    stamp.write_text(key)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[-1], wheels="--wheels" in sys.argv))
