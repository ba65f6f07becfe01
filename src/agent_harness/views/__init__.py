"""Views of a project's records: reasons for an item's state, diff, cost, report, live view and browser pages.

A view reads a ``ProjectView`` and git, changes no project, and returns plain values, which ``cli`` prints."""

import os


def begin_telling(kind: str, folder: str) -> str | None:
    """Start the processes that watch a run and report on it. Return a warning if a telemetry package is missing."""
    from agent_harness.views import notify

    notify.start(kind, folder)
    if not any(name.startswith("OTEL_EXPORTER_OTLP_") for name in os.environ):
        return None
    from agent_harness.views import otel

    return otel.start(kind, folder)
