"""Command lines of ``harness`` and ``lth``. Each command parses its arguments, calls one API method and prints."""

import sys


def leave(code: int) -> int:
    """End the process immediately with this status. If other threads may still run, return the status instead.

    A normal exit would cost a short command an eighth of its time. Output is flushed, and exit handlers
    exist only with ``threading``. Threads of Temporal's SDK can crash or block an interpreter that exits."""
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
