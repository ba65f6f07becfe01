"""What a slice cost, as its clients say it; and the sum over the log.

A usage is ``{inputTokens, outputTokens, cachedTokens, totalTokens, costUsd}``: input that was read from a cache is in
``cachedTokens`` alone, and the total is input and output without it; what a worker does not say is ``None``. Kimi and a
line of shell say nothing.
"""

from __future__ import annotations

from agent_harness.kernel import amounts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from agent_harness.agents.usage import Totals

    Record = dict[str, Any]

__all__ = ["of_agent", "of_worker", "total"]

_COUNTED = ("inputTokens", "outputTokens", "cachedTokens", "totalTokens")


def of_worker(worker: str, stdout: str, stderr: str) -> Record | None:
    """What the output of a worker says that it used; ``None`` when it does not say it."""
    from agent_harness.agents.claude_code import printing as claude
    from agent_harness.agents.codex import printing as codex

    reader = {"codex-cli": codex.usage_of, "claude-code": claude.usage_of}.get(worker)
    used = reader(stdout, stderr) if reader else None
    if used is None:
        return None
    counts = (used.input_tokens, used.output_tokens, used.cached_tokens, used.total_tokens)
    return {**dict(zip(_COUNTED, counts, strict=True)), "costUsd": used.cost_usd}


def of_agent(used: Totals) -> Record | None:
    """What an agent reported while it ran; ``None`` when it reported nothing."""
    if not used.reported:
        return None
    counts = (used.input_tokens, used.output_tokens, used.cached_tokens, used.input_tokens + used.output_tokens)
    return {**dict(zip(_COUNTED, counts, strict=True)), "costUsd": used.cost_usd}


def total(events: Iterable[Record]) -> Record:
    """The sum over every worker that ended: of how many it is known, of how many not, tokens, cost.

    The cost is ``None`` as soon as one of the known runs does not say it.
    """
    ended = [event for event in events if event["type"] in ("worker_completed", "worker_failed")]
    known = [used for event in ended if isinstance(used := event.get("usage"), dict)]
    costs = [amounts.dollars(each.get("costUsd")) for each in known]
    sums = {name: sum(amounts.tokens(each.get(name)) or 0 for each in known) for name in _COUNTED}
    cost = None if not costs or None in costs else round(sum(filter(None, costs)), 6)
    return {"knownRuns": len(known), "unknownRuns": len(ended) - len(known), **sums, "costUsd": cost}
