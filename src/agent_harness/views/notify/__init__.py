"""Notifications outside the terminal: a question, a run that has ended, a limit, a budget.

They are made from a project's records by a separate process, which a run starts if a target is set
(``harness notify add``). The process looks once more after the run has ended, even if the run was killed. Nothing is
ever read from a target. Source: ``faces.md`` 7; ``docs/notifications.md``.
"""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.json import JsonObject

__all__ = ["FILE", "VARIABLE", "record_path", "start", "undelivered"]

FILE = "notify.json"
"""The user's settings, in the folder of notifications."""

VARIABLE = "HARNESS_NOTIFY"
"""Targets besides those that were added, separated by blanks."""


def start(kind: str, folder: str) -> None:
    """Start the process that watches a project and sends notifications while this process lives; none without a target.

    The cost is a look for one file. Never raise.
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
    """Return the path of the record of a project's notifications."""
    from hashlib import sha256

    digest = sha256(os.fsencode(os.path.realpath(folder))).hexdigest()[:24]
    return os.path.join(home, f"{kind}-{digest}.json")


def undelivered(kind: str, folder: str) -> list[JsonObject]:
    """Return the messages of this project that a target never got, oldest first: ``{"at", "to", "why"}``.

    Failures before a target took a message again, was tested or was removed do not count. Without any notification,
    the cost is a look for one folder. Never raise.
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
