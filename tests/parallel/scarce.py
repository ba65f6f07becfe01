"""The harness on a machine whose free memory is set by a file: ``python scarce.py FILE WORDS...``."""

import sys
from pathlib import Path

from agent_harness.cli.main import process
from agent_harness.parallel import slots


def _megabytes(file: Path) -> int:
    """Return the megabytes in the file. It is empty for a moment while the test writes it."""
    while not (text := file.read_text()):
        pass
    return int(text)


if __name__ == "__main__":
    file = Path(sys.argv[1])
    slots.free_memory = lambda: _megabytes(file) << 20
    sys.argv = ["harness", *sys.argv[2:]]
    sys.exit(process())
