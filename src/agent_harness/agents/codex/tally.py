"""Tokens of Codex: the server tells absolute totals of each thread, sub-agents' threads too; events are of one call."""

from collections.abc import Mapping
from typing import Any

from agent_harness.agents.events import Usage

_NAMES = ("inputTokens", "outputTokens", "cachedInputTokens", "cacheWriteInputTokens")


class TurnTally:
    """The tokens of one turn."""

    def __init__(self, thread: str | None = None, model: str | None = None) -> None:
        self.thread, self.model = thread, model
        self._totals: dict[str, tuple[int, ...]] = {}
        self._context = 0

    def update(self, params: Mapping[str, Any]) -> Usage | None:
        """The difference to what was told before of the same thread; ``None`` when nothing was added.

        Of a thread that is new here the last call counts: its total may hold earlier turns.
        """
        thread, told = str(params.get("threadId")), _mapping(params.get("tokenUsage"))
        total, last = _counts(_mapping(told.get("total"))), _counts(_mapping(told.get("last")))
        before = self._totals.get(thread)
        self._totals[thread] = total
        used = last if before is None else tuple(max(0, one - other) for one, other in zip(total, before, strict=True))
        if thread == self.thread:
            self._context = last[0] + last[1]
        return self._usage(used) if any(used) else None

    def _usage(self, used: tuple[int, ...]) -> Usage:
        given, made, cached, written = used
        return Usage(
            input_tokens=max(0, given - cached - written),
            output_tokens=made,
            cached_tokens=cached,
            cache_write_tokens=written,
            context_tokens=self._context,
            model=self.model,
        )


def _counts(record: Mapping[str, Any]) -> tuple[int, ...]:
    found = [record.get(name) for name in _NAMES]
    return tuple(max(0, each) if isinstance(each, int) else 0 for each in found)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}
