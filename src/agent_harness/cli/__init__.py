"""Command lines of ``harness`` and ``lth``. Each parses its arguments, calls one API method and prints."""

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.root import Root


def project_here() -> "Root":
    """Return the nearest project of any kind. If there is none, raise ``NotAProject`` with commands that create a
    project."""
    from agent_harness.cli.status import HOW_TO_BEGIN, NOTHING_HERE
    from agent_harness.errors import NotAProject
    from agent_harness.kernel import root

    found = root.find()
    if found is None:
        raise NotAProject(NOTHING_HERE, hint=HOW_TO_BEGIN)
    return found


def leave(code: int) -> int:
    """Flush the output and end the process at once. Return ``code`` if the process cannot end at once."""
    # A normal exit costs a short command an eighth of its time. Temporal's threads can crash or block it.
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
