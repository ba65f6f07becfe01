"""Conversion of Claude Code's output lines into events, and the facts that decide when a turn ends. No side effects.

A refusal by the provider is read from structured fields. If there are no such fields, it is read from text.
(features.md UAH-374..375, C28)"""

import re
from collections import Counter
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from agent_harness.agents.command import refusal_from_text
from agent_harness.agents.events import (
    CLIENT_TRIES_AGAIN,
    Event,
    RateLimited,
    Text,
    ToolResult,
    Usage,
    event_from,
    mapping_of,
    plain,
)
from agent_harness.kernel import clock
from agent_harness.kernel.json import dollars

Record = Mapping[str, Any]

REFUSED = frozenset({429, 529})
_EPOCH = re.compile(r"limit reached\|(\d{9,11})\b", re.IGNORECASE)


def reset_of(event: Mapping[str, Any]) -> str | None:
    """Return the reset time of an exhausted rate limit, or None if no limit is exhausted."""
    told = event.get("rate_limit_info")
    if not isinstance(told, dict) or told.get("status") != "rejected":
        return None
    return moment(told.get("resetsAt"))


def of_error(record: Mapping[str, Any], text: str, reset: str | None) -> RateLimited | None:
    """Return the provider's refusal that an error reports, or None for any other error."""
    told = _EPOCH.search(text)
    status = record.get("api_error_status")
    if told is None and status not in REFUSED and record.get("error") != "rate_limit":
        return refusal_from_text(text) if record.get("is_error") is True else None
    reset = moment(int(told[1])) if told else reset
    found = refusal_from_text(text)
    return RateLimited(
        message=plain(text)[:300],
        retry_after_seconds=None if reset or not found else found.retry_after_seconds,
        resets_at=reset or (found.resets_at if found else None),
    )


def moment(seconds: object) -> str | None:
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds < 1e11:
        return None
    return clock.timestamp(datetime.fromtimestamp(seconds, UTC))


_COUNTS = ("input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
_TOTALS = ("inputTokens", "outputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")


class ProcessTally:
    """Token counts of one client process. Each token is counted only once."""

    # Main agent: ``message_start`` has the input, ``message_delta`` the output.
    # Sub-agent: its lines have only the input; its output comes from the totals in ``result``.

    def __init__(self, *, resumed: bool = False) -> None:
        self._resumed = resumed
        self._begun: Mapping[str, Any] | None = None  # the message that the stream is in
        self._seen: set[str] = set()
        self._counted: dict[str, Counter[str]] = {}  # by model, reported so far
        self._told: dict[str, Counter[str]] = {}  # by model, in the totals so far
        self._context = 0  # of the main agent, after its latest call
        self._streams = False
        self._told_usd = 0.0  # by all results so far

    def starts(self, message: Mapping[str, Any]) -> None:
        self._streams = True
        self._begun = message
        self._seen.add(str(message.get("id")))

    def ends(self, usage: Mapping[str, Any]) -> Usage | None:
        begun, self._begun = self._begun, None
        if begun is None:
            return None
        counts = _counts(
            {**mapping_of(begun.get("usage")), **{k: v for k, v in usage.items() if v is not None}}, _COUNTS
        )
        self._context = counts.total()
        return self._count(_model(begun), counts)

    def repeats(self, message: Mapping[str, Any], *, sub_agent: bool) -> Usage | None:
        name = str(message.get("id"))
        if name in self._seen or (self._streams and not sub_agent):
            return None
        self._seen.add(name)
        counts = _counts(mapping_of(message.get("usage")), _COUNTS)
        if not sub_agent:
            self._context = counts.total()
        return self._count(_model(message), counts) if counts.total() else None

    def settle(self, result: Mapping[str, Any]) -> list[Usage]:
        """Return the usage in ``result`` that is not counted yet, by model."""
        for name, record in self._totals(result).items():
            known = mapping_of(record)
            model = str(known.get("canonicalModel") or name)
            self._told[model] = self._told.get(model, Counter()) + _counts(known, _TOTALS)
        if set(self._counted) <= set(self._told):
            left = {model: told - self._counted.get(model, Counter()) for model, told in self._told.items()}
        else:  # the client names a model in two ways
            left = {"": sum(self._told.values(), Counter()) - sum(self._counted.values(), Counter())}
        return [self._count(model, counts) for model, counts in left.items() if counts]

    def cost(self, result: Mapping[str, Any]) -> Usage | None:
        """Return the cost since the last result, or None if this cost is unknown."""
        # the total of a resumed conversation may include older calls
        since = result.get("model_usage_since_last_result")
        each = [dollars(mapping_of(row).get("costUSD")) for row in since.values()] if isinstance(since, dict) else []
        known = [usd for usd in each if usd is not None]
        whole = dollars(result.get("total_cost_usd"))
        if each and len(known) == len(each):
            told = sum(known)
        elif whole is not None and not self._resumed and whole >= self._told_usd:
            told = whole - self._told_usd
        else:
            return None
        self._told_usd = whole if whole is not None else self._told_usd + told
        if not told and not any(self._counted.values()):
            return None  # no call was made, or none was reported
        return Usage(told_usd=told, context_tokens=self._context)

    def _totals(self, result: Mapping[str, Any]) -> Mapping[str, Any]:
        # an older client's totals are of the whole process: right only in the first result of a new conversation
        totals = result.get("model_usage_since_last_result")
        if isinstance(totals, dict):
            return totals
        return {} if self._resumed or self._told else mapping_of(result.get("modelUsage"))

    def _count(self, model: str, counts: Counter[str]) -> Usage:
        self._counted[model] = self._counted.get(model, Counter()) + counts
        return Usage(
            input_tokens=counts[_COUNTS[0]],
            output_tokens=counts[_COUNTS[1]],
            cached_tokens=counts[_COUNTS[2]],
            cache_write_tokens=counts[_COUNTS[3]],
            context_tokens=self._context,
            model=model or None,
        )


def _model(message: Mapping[str, Any]) -> str:
    return str(message.get("model") or "")


def _counts(record: Mapping[str, Any], names: tuple[str, ...]) -> Counter[str]:
    found = [(name, record.get(theirs)) for name, theirs in zip(_COUNTS, names, strict=True)]
    return Counter({name: count for name, count in found if isinstance(count, int) and count > 0})


DELTA = b'{"type":"stream_event","event":{"type":"content_block_'
"""Beginning of lines that send parts of a block. These lines are skipped, because the whole block follows."""

_WORKS_ON = ("agent", "workflow", "teammate")  # background tasks whose end begins the next turn of the model


class Stream:
    """Reader of one client process's output."""

    def __init__(self, *, resumed: bool = False) -> None:
        self.session: str | None = None
        self.result: Record | None = None
        self.at_rest = False  # the latest turn of the model has ended, and nothing new began
        self.heard = 0  # messages of the harness that the client has read
        self.refused = False  # a refusal was reported since the last answer
        self.background: tuple[str, ...] = ()
        self._reset: str | None = None
        self._tally = ProcessTally(resumed=resumed)

    @property
    def waits_for_agents(self) -> bool:
        """True while sub-agents work in the background."""
        # when they end, another turn of the model starts
        return any(word in kind for kind in self.background for word in _WORKS_ON)

    def events(self, record: Record) -> list[Event]:
        kind = record.get("type")
        read = _READERS.get(kind) if isinstance(kind, str) else None
        return read(self, record) if read else []

    # ---- one type of line each

    def _system(self, record: Record) -> list[Event]:
        kind = record.get("subtype")
        if kind == "init":
            session = record.get("session_id")
            self.session = session if isinstance(session, str) else self.session
            self.at_rest = False
        elif kind == "background_tasks_changed":
            tasks = record.get("tasks")
            known = tasks if isinstance(tasks, list) else []
            self.background = tuple(str(task.get("task_type")) for task in known if isinstance(task, dict))
        elif kind == "api_retry":
            told = f"{record.get('error_status') or ''} {record.get('error') or ''}".strip()
            return [Text(plain(f"{CLIENT_TRIES_AGAIN} ({told}); try {record.get('attempt')} again]"))]
        return []

    def _stream_event(self, record: Record) -> list[Event]:
        event = mapping_of(record.get("event"))
        self.at_rest = False
        if record.get("parent_tool_use_id"):
            return []
        if event.get("type") == "message_start":
            self._tally.starts(mapping_of(event.get("message")))
        elif event.get("type") == "message_delta":
            usage = self._tally.ends(mapping_of(event.get("usage")))
            return [usage] if usage else []
        return []

    def _assistant(self, record: Record) -> list[Event]:
        message = mapping_of(record.get("message"))
        found = _blocks(message, _SPOKEN)
        self.at_rest = False
        if record.get("is_api_error_message") or message.get("model") == "<synthetic>":
            return [*found, *self._refusal(record, "\n".join(event.text for event in found if isinstance(event, Text)))]
        self.refused = False
        usage = self._tally.repeats(message, sub_agent=bool(record.get("parent_tool_use_id")))
        return [*found, *([usage] if usage else [])]

    def _user(self, record: Record) -> list[Event]:
        if record.get("isReplay"):
            self.heard += 1
            return []
        return _blocks(mapping_of(record.get("message")), {"tool_result": _tool_result})

    def _rate_limit(self, record: Record) -> list[Event]:
        self._reset = reset_of(record) or self._reset
        return []

    def _result(self, record: Record) -> list[Event]:
        self.result, self.at_rest = record, True
        events: list[Event] = [*self._tally.settle(record)]
        if cost := self._tally.cost(record):
            events.append(cost)
        if record.get("is_error") is True and not self.refused:
            events += self._refusal(record, reason(record))
        return events

    def _refusal(self, record: Record, text: str) -> list[Event]:
        found = of_error(record, text, self._reset)
        self.refused = self.refused or found is not None
        return [found] if found else []


_READERS: Mapping[str, Callable[[Stream, Record], list[Event]]] = {
    "system": Stream._system,
    "stream_event": Stream._stream_event,
    "assistant": Stream._assistant,
    "user": Stream._user,
    "rate_limit_event": Stream._rate_limit,
    "result": Stream._result,
}


def reason(result: Record) -> str:
    errors = result.get("errors")
    told = [each for each in errors if isinstance(each, str)] if isinstance(errors, list) else []
    text = result.get("result")
    said = text if isinstance(text, str) and text.strip() else "; ".join(told)
    kind = result.get("terminal_reason") or result.get("subtype") or "error"
    return plain(f"{kind}: {' '.join(said.split())}" if said else str(kind))[:600]


def lost_conversation(result: Record | None, errors: str) -> bool:
    """Return True if the client exited at once because the conversation does not exist any more."""
    told = f"{reason(result) if result else ''} {errors}"
    return not (result and result.get("num_turns")) and "No conversation found" in told


def _blocks(message: Record, makers: Mapping[str, Callable[[Record], Event | None]]) -> list[Event]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    known = [(makers.get(str(block.get("type"))), block) for block in blocks if isinstance(block, dict)]
    made = [make(block) for make, block in known if make]
    return [event for event in made if event is not None]


def _text(block: Record) -> Event | None:
    text = block.get("text")
    return Text(plain(text)) if isinstance(text, str) and text.strip() else None


def _tool_result(block: Record) -> Event:
    content = block.get("content")
    parts = content if isinstance(content, list) else [{"text": content}]
    texts = [part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str)]
    name = block.get("tool_use_id")
    return ToolResult(
        output=plain("\n".join(texts)),
        id=plain(name) if isinstance(name, str) else None,
        is_error=block.get("is_error") is True,
    )


_SPOKEN: Mapping[str, Callable[[Record], Event | None]] = {
    "text": _text,
    "tool_use": lambda block: event_from(
        {"type": "tool_call", **{key: block.get(key) for key in ("name", "input", "id")}}
    ),
}
