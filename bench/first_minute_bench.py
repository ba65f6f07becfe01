"""From a fresh machine to the first proven task of one's own: what `tests/install/test_first_task.py` does, timed.

The packages come from a folder; a network takes its own time on top.
"""

import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path += [str(ROOT / "scripts"), str(ROOT / "tests")]
import package  # noqa: E402

from install import fresh  # noqa: E402


def missing() -> str | None:
    """Why this cannot be measured here."""
    return None if fresh.WHEELS.is_dir() else "no wheels to install from: make test-install fetches them"


def measure() -> dict[str, float]:
    """Seconds of installing, adding and running, with a client that answers at once."""
    with tempfile.TemporaryDirectory(prefix="first-minute-") as name:
        folder = Path(name).resolve()
        wheel = package.built(folder)
        return {"first-minute": fresh.first_task(folder, wheel)[2]}
