"""Program ``python -m agent_harness.hooks EVENT``. It does the same as the hook script for this event."""

import sys

from agent_harness.hooks import dispatch

if __name__ == "__main__":
    found = dispatch.named(sys.argv[1]) if len(sys.argv) == 2 else None
    if found:
        dispatch.call_and_exit(found)
