"""Command lines: parse, call one method of a front door, render. Nothing here decides."""

import sys


def leave(code: int) -> int:
    """End the process with this status at once; return it if other code may still run here.

    A normal exit costs a short command an eighth of its time. Nothing is lost: output is flushed, files are closed
    after writing, and without ``threading`` there are no other threads and no exit handlers. Threads of Temporal's
    SDK can crash or block an interpreter that exits while they run: a worker interrupted while connecting hung for
    ever. So these processes end at once, too.
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
