"""Tells a person outside of the terminal what needs them: a question, a run that has ended, a limit, a budget.

What is told is told from the records of a project, by a process of its own that a run starts where somebody has said
whom to tell (``harness notify add``); it outlives the run by one look, also where that was killed. Nothing is ever read
back from a channel. Source: ``faces.md`` 7; ``docs/notifications.md``.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.json import JsonObject

__all__ = ["FILE", "VARIABLE", "record_path", "start", "undelivered"]

FILE = "notify.json"
"""The user's settings, in the folder of what is told."""

VARIABLE = "HARNESS_NOTIFY"
"""Targets besides those that were added, separated by blanks."""


def start(kind: str, folder: str) -> None:
    """Starts what watches a project for its person while this process lives; nothing where nobody is to be told.

    Costs a look for one file; never raises.
    """
    from agent_harness.kernel import trusted_state

    home = trusted_state.of_user("notify", make=False)
    if not os.environ.get(VARIABLE) and not (home and os.path.exists(os.path.join(home, FILE))):
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


def record_path(home: str, kind: str, folder: str) -> str:
    """Where it is kept what was told of this project."""
    from hashlib import sha256

    digest = sha256(os.fsencode(os.path.realpath(folder))).hexdigest()[:24]
    return os.path.join(home, f"{kind}-{digest}.json")


def undelivered(kind: str, folder: str) -> list[JsonObject]:
    """What a target was to be told of this project and never got, the oldest first: ``{"at", "to", "why"}``.

    What failed before a target took a message again, was tested or removed is past. Costs a look for one folder where
    nobody was ever told anything; never raises.
    """
    from agent_harness.kernel import trusted_state

    home = trusted_state.of_user("notify", make=False)
    if home is None or not os.path.isdir(home):
        return []
    settled = _read(os.path.join(home, FILE)).get("settled")
    past = settled if isinstance(settled, dict) else {}
    rows = _read(record_path(home, kind, folder)).get("undelivered")
    known = [each for each in rows if isinstance(each, dict)] if isinstance(rows, list) else []
    told = [{name: str(each.get(name)) for name in ("at", "to", "why")} for each in known]
    return [each for each in told if each["at"] > str(past.get(each["to"], ""))]


def _read(path: str) -> JsonObject:
    import json

    try:
        with open(path, encoding="utf-8") as file:
            found = json.load(file)
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
