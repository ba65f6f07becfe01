"""One JSON line for every call of an active hook, in the file that ``HARNESS_HOOK_LOG`` names.

Source: ``tasklist.md`` 3.2.
"""

from __future__ import annotations

import os

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock, files
from agent_harness.kernel.json import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.hooks.decision import Decision
    from agent_harness.hooks.event import Event

__all__ = ["VARIABLE", "add_line", "write"]

VARIABLE = "HARNESS_HOOK_LOG"
MEMBERS = (
    "hook_event_name",
    "session_id",
    "cwd",
    "source",
    "reason",
    "teammate_name",
    "team_name",
    "agent_id",
    "agent_type",
    "stop_hook_active",
)


def write(event: Event, script: str, root: str, made: Decision) -> None:
    """Adds the line; a log that cannot be written changes nothing."""
    path = event.environ.get(VARIABLE)
    if not path:
        return
    told = {name: event.payload[name] for name in MEMBERS if isinstance(event.payload.get(name), (str, bool))}
    record = {"ts": clock.timestamp(fraction=True), "hook_script": script, **told, "harness_root": root}
    line = jsontext.line({**record, "decision": made.kind, "why": made.why}).encode("utf-8", "replace") + b"\n"
    add_line(path, line)


def add_line(path: str, line: bytes) -> None:
    """Adds a line to a file that a client or a person named; where that cannot be done, nothing is."""
    try:
        descriptor = files.open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, line)
        finally:
            os.close(descriptor)
    except (HarnessError, OSError, ValueError):
        return
