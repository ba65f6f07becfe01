"""Engines that run workers on other machines for ``harness run --workers N --engine URL``.

Imported for such a run alone. ``engine_for`` is the entry point; ``address`` reads URLs, ``shipping`` carries jobs
and results through git, ``temporal`` talks to a Temporal server. ``scale.md`` 9.
"""

from collections.abc import Callable

from agent_harness.engines.address import address_of
from agent_harness.kernel.git import Git
from agent_harness.parallel.engine import Engine
from agent_harness.session.parallel_settings import REFS

__all__ = ["engine_for"]


def engine_for(url: str, git: Git, folder: str, say: Callable[[str], None], refs: str = REFS) -> Engine | None:
    """Return the engine of a run; None for the processes of this machine.

    ``folder`` holds the project's parallel runs; ``refs`` is the folder of its jobs at a remote. Raise ``UsageError``
    for an invalid address, ``ToolMissing`` without the extra ``temporal``.
    """
    address = address_of(url)
    if address is None:
        return None
    from agent_harness.engines.temporal import require_extra

    require_extra()
    from agent_harness.engines.temporal.engine import TemporalEngine

    return TemporalEngine(address, git, folder, say, refs=refs)
