"""The command lines: parse, call one method of a front door, render. Nothing here decides."""

import sys


def leave(code: int) -> int:
    """Ends the process with this status at once; gives it back where something else may still run here.

    To take an interpreter down piece by piece costs a short command an eighth of its time. Nothing is lost by not doing
    it: what was said is flushed, files are closed where they are written, and without ``threading`` no other thread
    runs and nobody asked to be called at the end. Threads of Temporal's SDK can crash or hold an interpreter that is
    taken down while they run (so a worker that was interrupted while it connected stayed for ever), so that none is
    where they were begun.
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
