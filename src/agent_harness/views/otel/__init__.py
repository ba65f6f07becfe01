"""OpenTelemetry spans of sessions, tool calls and verdicts. The spans are created later, from the records of a project.

``harness export otel`` writes the spans on demand. If the environment sets a collector, a run starts a separate process
that sends the spans of each session after the session's end. Source: ``faces.md`` 9."""

from __future__ import annotations

import os

from agent_harness.views import notify

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.json import JsonObject

__all__ = ["FOLDER", "VARIABLES", "keep_untaken", "start", "untaken"]

VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Environment variables with the collector's address, as defined by OpenTelemetry."""

FOLDER = "otel"
"""Folder in the user's state for records of spans that no collector accepted."""


def start(kind: str, folder: str) -> str | None:
    """Start a process that sends the spans of this run. Return a warning if the extra ``otel`` is missing."""
    is_off = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    if is_off or not any(map(os.environ.get, VARIABLES)):
        return None
    from importlib.util import find_spec

    if find_spec("opentelemetry") is None or find_spec("opentelemetry.exporter") is None:
        from agent_harness.installation import command_for_extra

        return f"A collector is set, but the extra `otel` is not installed: {command_for_extra('otel')}"
    from agent_harness.kernel import clock

    notify.start_beside(f"{__name__}.watcher", kind, folder, clock.timestamp())
    return None


def keep_untaken(kind: str, folder: str, record: JsonObject | None) -> None:
    """Store a record of the spans that could not be sent. If ``record`` is None, delete the stored record."""
    from contextlib import suppress

    from agent_harness.errors import HarnessError
    from agent_harness.kernel import files, trusted_state

    with suppress(OSError, HarnessError):
        home = trusted_state.of_user(FOLDER, make=record is not None)
        if home is not None and record is not None:
            files.write_json(notify.record_path(home, kind, folder), {"v": 1, **record})
        elif home is not None:
            files.unlink(notify.record_path(home, kind, folder))


def untaken(kind: str, folder: str) -> JsonObject | None:
    """Return ``{"since", "sessions", "to", "why"}`` for spans that the collector has not accepted, otherwise None."""
    from agent_harness.errors import HarnessError
    from agent_harness.kernel import files, trusted_state

    home = trusted_state.of_user(FOLDER, make=False)
    if home is None:
        return None
    try:
        found = files.read_json(notify.record_path(home, kind, folder))
    except (OSError, HarnessError):
        return None
    sessions = found.get("sessions")
    known = {name: str(found.get(name) or "") for name in ("since", "to", "why")}
    return {**known, "sessions": sessions if type(sessions) is int else 0}
