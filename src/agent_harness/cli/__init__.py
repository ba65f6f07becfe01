"""Command lines of ``harness`` and ``lth``. Each command parses its arguments, calls one API method and prints the
answer.
"""

import sys


def leave(code: int) -> int:
    """End the process immediately with this status. If other threads may still run, return the status instead.

    A normal exit would cost a short command an eighth of its time. Nothing is lost: output is flushed, files are
    already closed, and without ``threading`` there are no exit handlers. A process that uses Temporal's SDK also ends
    here, since its threads can crash or block an interpreter that exits.
    """
    if "threading" not in sys.modules or "temporalio.bridge" in sys.modules:
        try:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
        except (OSError, ValueError):
            return code  # the interpreter has its own way with a stream that is gone
        import os

        os._exit(code)
    return code
