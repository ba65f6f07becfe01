"""Tokens of Claude Code, each counted once, those of sub-agents included.

A call of the main agent is complete in the stream: ``message_start`` says what went in, ``message_delta`` what came
out. The lines of a sub-agent repeat what went in only, once for each block; what came out is in the totals of the
``result``. Of these totals nothing is added but what was not counted before.
"""

from collections.abc import Mapping
from typing import Any

from agent_harness.agents.events import Usage

_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_TOTALS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")
_Counts = tuple[int, int, int, int]
_NONE: _Counts = (0, 0, 0, 0)


class ProcessTally:
    """The tokens of one process of the client. ``resumed``: older calls may be in the totals of its results."""

    def __init__(self, *, resumed: bool = False) -> None:
        self._resumed = resumed
        self._begun: Mapping[str, Any] | None = None  # the message that the stream is in
        self._seen: set[str] = set()
        self._counted: dict[str, _Counts] = {}  # by model, handed out so far
        self._told: dict[str, _Counts] = {}  # by model, in the totals so far
        self._context = 0  # of the main agent, after its latest call
        self._streams = False

    def starts(self, message: Mapping[str, Any]) -> None:
        """A call of the main agent begins to be answered."""
        self._streams = True
        self._begun = message
        self._seen.add(str(message.get("id")))

    def ends(self, usage: Mapping[str, Any]) -> Usage | None:
        """The call that began last has ended; these counts win over those of its beginning."""
        begun, self._begun = self._begun, None
        if begun is None:
            return None
        counts = _counts({**_mapping(begun.get("usage")), **{k: v for k, v in usage.items() if v is not None}}, _COUNTS)
        self._context = sum(counts)
        return self._count(_model(begun), counts)

    def repeats(self, message: Mapping[str, Any], *, sub_agent: bool) -> Usage | None:
        """A whole line of a message: counted the first time, unless the stream tells the call in detail."""
        name = str(message.get("id"))
        if name in self._seen or (self._streams and not sub_agent):
            return None
        self._seen.add(name)
        counts = _counts(_mapping(message.get("usage")), _COUNTS)
        if not sub_agent:
            self._context = sum(counts)
        return self._count(_model(message), counts) if any(counts) else None

    def settle(self, result: Mapping[str, Any]) -> list[Usage]:
        """What the totals of a result have beyond all that was counted before."""
        for name, record in self._totals(result).items():
            known = _mapping(record)
            model = str(known.get("canonicalModel") or name)
            self._told[model] = _plus(self._told.get(model, _NONE), _counts(known, _TOTALS))
        if set(self._counted) <= set(self._told):
            return [usage for model in self._told if (usage := self._rest(model, self._told, self._counted))]
        told, counted = {"": _sum(self._told)}, {"": _sum(self._counted)}  # the client names a model in two ways
        usage = self._rest("", told, counted)
        return [usage] if usage else []

    def _totals(self, result: Mapping[str, Any]) -> Mapping[str, Any]:
        """The totals of a result since the last one; of an older client, those of its first and only one."""
        totals = result.get("model_usage_since_last_result")
        if isinstance(totals, dict):
            return totals
        return {} if self._resumed or self._told else _mapping(result.get("modelUsage"))

    def _rest(self, model: str, told: Mapping[str, _Counts], counted: Mapping[str, _Counts]) -> Usage | None:
        left = _minus(told.get(model, _NONE), counted.get(model, _NONE))
        return self._count(model, left) if any(left) else None

    def _count(self, model: str, counts: _Counts) -> Usage:
        self._counted[model] = _plus(self._counted.get(model, _NONE), counts)
        return self._usage(model or None, counts)

    def _usage(self, model: str | None, counts: _Counts) -> Usage:
        return Usage(
            input_tokens=counts[0],
            output_tokens=counts[1],
            cached_tokens=counts[2],
            cache_write_tokens=counts[3],
            context_tokens=self._context,
            model=model,
        )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _model(message: Mapping[str, Any]) -> str:
    return str(message.get("model") or "")


def _counts(record: Mapping[str, Any], names: tuple[str, ...]) -> _Counts:
    found = [record.get(name) for name in names]
    whole = [max(0, each) if isinstance(each, int) else 0 for each in found]
    return whole[0], whole[1], whole[2], whole[3]


def _plus(first: _Counts, second: _Counts) -> _Counts:
    return first[0] + second[0], first[1] + second[1], first[2] + second[2], first[3] + second[3]


def _minus(first: _Counts, second: _Counts) -> _Counts:
    left = [max(0, one - other) for one, other in zip(first, second, strict=True)]
    return left[0], left[1], left[2], left[3]


def _sum(by_model: Mapping[str, _Counts]) -> _Counts:
    total = _NONE
    for counts in by_model.values():
        total = _plus(total, counts)
    return total
