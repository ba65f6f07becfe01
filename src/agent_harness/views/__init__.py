"""Views of the records for a person: the reasons for an item's state, its diff and its cost.

A view reads a ``ProjectView`` and git, writes nothing, and returns plain values, which ``cli`` shows.
"""

import os


def begin_telling(kind: str, folder: str) -> str | None:
    """Start the notification watcher of a run, and the OpenTelemetry sender if the environment names a collector.

    Return a message for people if the collector's extra is missing, else ``None``. Never raise.
    The cost is a look for one file and at the environment.
    """
    from agent_harness.views import notify

    notify.start(kind, folder)
    if not any(name.startswith("OTEL_EXPORTER_OTLP_") for name in os.environ):
        return None
    from agent_harness.views import otel

    return otel.start(kind, folder)
