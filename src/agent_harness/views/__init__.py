"""What a person asks of the records after the work: why an item stands where it stands, its diff, what it has cost.

A view reads a ``ProjectView`` and git, writes nothing, and gives plain values, which ``cli`` shows.
"""

import os


def begin_telling(kind: str, folder: str) -> str | None:
    """Starts what tells people of a run while it lasts, and a collector where the environment names one; never raises.

    Costs a look for one file and into the environment. What is missing for the collector, for people.
    """
    from agent_harness.views import notify

    notify.start(kind, folder)
    if not any(name.startswith("OTEL_EXPORTER_OTLP_") for name in os.environ):
        return None
    from agent_harness.views import otel

    return otel.start(kind, folder)
