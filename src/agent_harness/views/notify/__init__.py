"""Notifications outside the terminal: a question, the end of a run, a rate limit, a used-up budget.

If the user has set a target (``harness notify add``), a run starts a separate process that sends the notifications.
This process finds them in the project's records. It checks the records once more after the run has ended, even if the
run was killed. A target cannot send anything back. Source: ``faces.md`` 7; ``docs/notifications.md``."""

from __future__ import annotations

import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.json import JsonObject

__all__ = ["FILE", "VARIABLE", "record_path", "start", "start_beside", "undelivered"]

FILE = "notify.json"
"""File name of the user's notification settings."""

VARIABLE = "HARNESS_NOTIFY"
"""Environment variable with additional notification targets, separated by blanks."""


def start(kind: str, folder: str) -> None:
    """Start the process that sends notifications about this run. Do nothing if no target is set."""
    from agent_harness.kernel import trusted_state

    home = trusted_state.of_user("notify", make=False)
    if not os.environ.get(VARIABLE) and not (home and os.path.exists(os.path.join(home, FILE))):
        return
    start_beside(f"{__name__}.watcher", kind, folder)


def start_beside(module: str, kind: str, folder: str, *more: str) -> None:
    """Start ``module`` in a separate process that watches this process. Ignore errors."""
    import subprocess
    import sys
    from contextlib import suppress

    from agent_harness.kernel import owner

    with suppress(OSError, ValueError):
        me = owner.current()
        words = [sys.executable, "-P", "-m", module, kind, folder, str(me.pid), me.start_time, *more]
        nothing = subprocess.DEVNULL
        subprocess.Popen(words, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True, cwd="/")


def record_path(home: str, kind: str, folder: str) -> str:
    from hashlib import sha256

    digest = sha256(os.fsencode(os.path.realpath(folder))).hexdigest()[:24]
    return os.path.join(home, f"{kind}-{digest}.json")


def undelivered(kind: str, folder: str) -> list[JsonObject]:
    """Return the project's undelivered notifications as ``{"at", "to", "why"}``, oldest first."""
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
