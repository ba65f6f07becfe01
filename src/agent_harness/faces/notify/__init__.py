"""Tells a person outside of the terminal what needs them: a question, a run that has ended, a limit, a budget.

What is told is told from the records of a project, by a process of its own that a run starts where somebody has said
whom to tell (``harness notify add``); it outlives the run by one look, also where that was killed. Nothing is ever read
back from a channel. Source: ``faces.md`` 7; ``docs/notifications.md``.
"""

from __future__ import annotations

import os

__all__ = ["VARIABLE", "start"]

VARIABLE = "HARNESS_NOTIFY"
"""Targets besides those that were added, separated by blanks."""


def start(kind: str, folder: str) -> None:
    """Starts what watches a project for its person while this process lives; nothing where nobody is to be told.

    Costs a look for one file; never raises.
    """
    from agent_harness.kernel import trusted_state

    home = trusted_state.of_user("notify", make=False)
    if not os.environ.get(VARIABLE) and not (home and os.path.exists(os.path.join(home, "notify.json"))):
        return
    import subprocess
    import sys
    from contextlib import suppress

    from agent_harness.kernel import owner

    with suppress(OSError, ValueError):
        me = owner.current()
        words = [sys.executable, "-P", "-m", f"{__name__}.watcher", kind, folder, str(me.pid), me.start_time]
        nothing = subprocess.DEVNULL
        subprocess.Popen(words, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True, cwd="/")
