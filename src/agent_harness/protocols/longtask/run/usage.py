"""What a slice cost: read out of a worker's own output, never guessed; and the sum over the log.

    codex-cli     the last `turn.completed` of `codex exec --json`, else the total at the end of its standard error
    claude-code   the last `result` of `claude --print --output-format json` or `stream-json`
    kimi-cli      prints none: unknown
    agents of ours   what the supervisor was told

A usage is ``{inputTokens, outputTokens, cachedTokens, totalTokens, costUsd}``: input that was read from a cache is in
``cachedTokens`` alone, and the total is input and output without it; what a worker does not say is ``None``.
"""

from __future__ import annotations

import re

from agent_harness.kernel.json import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    Record = dict[str, Any]

__all__ = ["made", "of_worker", "total", "unwrapped"]

_COUNTED = ("inputTokens", "outputTokens", "cachedTokens", "totalTokens")
_MOST_TOKENS, _MOST_USD = 10**15, 1e9
_CODEX_TOTAL = re.compile(r"(?:^|\n)tokens used:?\s+(\d{1,3}(?:[,.'\s\u00a0\u202f]\d{3})*|\d+)\s*$")
_END = 4096  # characters of standard error in which Codex's total stands


def made(input_tokens: object, output_tokens: object, cached_tokens: object, cost_usd: object) -> Record | None:
    """A usage; ``None`` when there is no count of tokens in it."""
    counts = [_count(each) for each in (input_tokens, output_tokens, cached_tokens)]
    if counts[0] is None or counts[1] is None:
        return None
    return dict(zip(_COUNTED, [*counts, counts[0] + counts[1]], strict=True)) | {"costUsd": _cost(cost_usd)}


def of_worker(worker: str, stdout: str, stderr: str) -> Record | None:
    """What the output of a worker says that it used; ``None`` when it does not say it."""
    reader = _READERS.get(worker)
    return reader(stdout, stderr) if reader else None


def unwrapped(stdout: str) -> str:
    """What Claude Code said, out of the one JSON object in which it says it; anything else stays as it is."""
    before, _, last = stdout.rstrip().rpartition("\n")
    found = _object(last)
    if found is None or found.get("type") != "result" or not isinstance(found.get("result"), str):
        return stdout
    return f"{before}\n{found['result']}" if before else found["result"]


def total(events: Iterable[Record]) -> Record:
    """The sum over every worker that ended: of how many it is known, of how many not, tokens, cost.

    The cost is ``None`` as soon as one of the known runs does not say it.
    """
    ended = [event for event in events if event["type"] in ("worker_completed", "worker_failed")]
    known = [used for event in ended if isinstance(used := event.get("usage"), dict)]
    costs = [_cost(each.get("costUsd")) for each in known]
    sums = {name: sum(_count(each.get(name)) or 0 for each in known) for name in _COUNTED}
    cost = None if not costs or None in costs else round(sum(filter(None, costs)), 6)
    return {"knownRuns": len(known), "unknownRuns": len(ended) - len(known), **sums, "costUsd": cost}


def _codex(stdout: str, stderr: str) -> Record | None:
    for event in _objects(stdout, '"turn.completed"'):
        used = event.get("usage")
        if event.get("type") == "turn.completed" and isinstance(used, dict):
            cached = _count(used.get("cached_input_tokens")) or 0
            asked = _count(used.get("input_tokens"))
            return made(None if asked is None else max(0, asked - cached), used.get("output_tokens"), cached, None)
    found = _CODEX_TOTAL.search(stderr[-_END:])
    if found is None:
        return None
    tokens = _count(int(re.sub(r"\D", "", found[1])))
    return {**dict.fromkeys(_COUNTED), "totalTokens": tokens, "costUsd": None} if tokens is not None else None


def _claude(stdout: str, stderr: str) -> Record | None:
    for event in _objects(stdout, '"result"'):
        if event.get("type") == "result":
            return _of_models(event) or _of_result(event)
    return None


def _of_models(event: Record) -> Record | None:
    """The sum over the models of a run, sub-agents among them."""
    models = event.get("modelUsage")
    used = [each for each in models.values() if isinstance(each, dict)] if isinstance(models, dict) else []
    if not used:
        return None

    def summed(*names: str) -> int:
        return sum(_count(each.get(name)) or 0 for each in used for name in names)

    asked = summed("inputTokens", "cacheCreationInputTokens")
    return made(asked, summed("outputTokens"), summed("cacheReadInputTokens"), event.get("total_cost_usd"))


def _of_result(event: Record) -> Record | None:
    used = event.get("usage")
    if not isinstance(used, dict) or _count(used.get("input_tokens")) is None:
        return None
    asked = used["input_tokens"] + (_count(used.get("cache_creation_input_tokens")) or 0)
    cached = _count(used.get("cache_read_input_tokens")) or 0
    return made(asked, used.get("output_tokens"), cached, event.get("total_cost_usd"))


_READERS: dict[str, Callable[[str, str], Record | None]] = {"codex-cli": _codex, "claude-code": _claude}


def _objects(text: str, mark: str) -> Iterator[Record]:
    """The JSON objects on lines of their own that contain a mark, the last one first."""
    end = len(text)
    while (at := text.rfind(mark, 0, end)) >= 0:
        begin, stop = text.rfind("\n", 0, at) + 1, text.find("\n", at)
        found = _object(text[begin : stop if stop >= 0 else len(text)])
        if found is not None:
            yield found
        end = begin


def _object(line: str) -> Record | None:
    """The object on a line; of a list of them, as `--verbose` makes it, the last one."""
    if not line.lstrip().startswith(("{", "[")):
        return None
    try:
        found = jsontext.loads(line, exact=False)
    except (ValueError, RecursionError):
        return None
    last = found[-1] if isinstance(found, list) and found else found
    return last if isinstance(last, dict) else None


def _count(value: object) -> int | None:
    whole = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MOST_TOKENS
    return int(value) if whole else None  # type: ignore[call-overload]  # it is a number then


def _cost(value: object) -> float | None:
    known = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _MOST_USD
    return float(value) if known else None  # type: ignore[arg-type]  # it is a number then
