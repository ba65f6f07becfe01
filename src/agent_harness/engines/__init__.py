"""Engines that run jobs on other machines, for ``harness run --workers N --engine URL``.

The harness imports this package only for such a run. ``engine_for`` is the entry point. ``address`` parses URLs,
``git_transport`` exchanges jobs and results through git, and ``temporal`` connects to a Temporal server. Source:
``scale.md`` 9."""

from collections.abc import Callable

from agent_harness.engines.address import address_of
from agent_harness.kernel.git import Git
from agent_harness.parallel.engine import Engine
from agent_harness.session.parallel_settings import REFS

__all__ = ["engine_for"]


def engine_for(url: str, git: Git, folder: str, say: Callable[[str], None], refs: str = REFS) -> Engine | None:
    """Return the engine for a URL, or None for ``local:``. Raise ``UsageError`` for an invalid URL."""
    address = address_of(url)
    if address is None:
        return None
    from agent_harness.engines.temporal import require_extra

    require_extra()
    from agent_harness.engines.temporal.engine import TemporalEngine

    return TemporalEngine(address, git, folder, say, refs=refs)
