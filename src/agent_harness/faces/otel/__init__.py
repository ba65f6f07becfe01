"""Sessions, their calls of tools and their verdicts as spans of OpenTelemetry, made from the records after the fact.

``harness export otel`` writes them when it is asked; where the environment names a collector, a run sends those of each
session when it has ended, by a process of its own that outlives the run by one look. Source: ``faces.md`` 9.
"""

from __future__ import annotations

import os

__all__ = ["VARIABLES", "start"]

VARIABLES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""Where a collector is, as every program with OpenTelemetry reads it."""


def start(kind: str, folder: str) -> str | None:
    """Starts what sends the sessions of a project while this process lives; nothing where no collector is named.

    Costs a look into the environment; never raises. What is missing for it, for people.
    """
    if not any(map(os.environ.get, VARIABLES)):
        return None
    import subprocess
    import sys
    from contextlib import suppress
    from importlib.util import find_spec

    if find_spec("opentelemetry") is None or find_spec("opentelemetry.exporter") is None:
        from agent_harness.installation import command_for_extra

        return f"A collector is named, and the extra `otel` is not installed: {command_for_extra('otel')}"
    from agent_harness.kernel import clock, owner

    with suppress(OSError, ValueError):
        me = owner.current()
        words = [sys.executable, "-P", "-m", f"{__name__}.watcher", kind, folder, str(me.pid), me.start_time]
        words.append(clock.timestamp())
        nothing = subprocess.DEVNULL
        subprocess.Popen(words, stdin=nothing, stdout=nothing, stderr=nothing, start_new_session=True, cwd="/")
    return None
