"""``harness`` on a machine whose free memory is what a file says: ``python scarce.py FILE WORDS...``."""

import sys
from pathlib import Path

from agent_harness.cli.main import process
from agent_harness.parallel import slots

if __name__ == "__main__":
    file = Path(sys.argv[1])
    slots.free_memory = lambda: int(file.read_text()) << 20
    sys.argv = ["harness", *sys.argv[2:]]
    sys.exit(process())
