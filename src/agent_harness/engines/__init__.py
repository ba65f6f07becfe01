"""Engines that run workers on other machines for ``harness run --workers N --engine URL``.

Imported for such a run alone. ``engine_for`` is the door; ``address`` reads URLs, ``shipping`` brings jobs and
results through git, ``temporal`` talks to a Temporal server. ``scale.md`` 9.
"""

from collections.abc import Callable

from agent_harness.engines.address import address_of
from agent_harness.kernel.git import Git
from agent_harness.parallel.engine import Engine
from agent_harness.session.parallel_settings import REFS

__all__ = ["engine_for"]


def engine_for(url: str, git: Git, folder: str, say: Callable[[str], None], refs: str = REFS) -> Engine | None:
    """What carries the jobs of a run out; ``None`` for the processes of this machine.

    ``folder`` is that of parallel runs of the project; ``refs`` where its jobs lie at a remote. ``UsageError`` for an
    address that is none, ``ToolMissing`` without the extra ``temporal``.
    """
    address = address_of(url)
    if address is None:
        return None
    from agent_harness.engines.temporal import require_extra

    require_extra()
    from agent_harness.engines.temporal.engine import TemporalEngine

    return TemporalEngine(address, git, folder, say, refs=refs)
