"""Events that all agent clients have in common.

Monitors, logs and protocols see only these events and never a client. Source: ``docs/architecture.md``."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from agent_harness.kernel.json import dollars, number_below, token_count

_TERMINAL = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]{0,4096}(?:\x07|\x1b\\)|[@-Z\\-_])")
_CONTROLS = dict.fromkeys((*range(9), 11, 12, *range(14, 32), 127))


@dataclass(frozen=True, slots=True)
class Text:
    """Line or block of text that the agent wrote, without the line ending."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCall:
    name: str
    input: Mapping[str, object] = field(default_factory=dict)
    id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResult:
    """Result of a tool call. ``output`` may be shortened."""

    output: str = ""
    id: str | None = None
    is_error: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """Token counts of one model call. They are not running totals."""

    input_tokens: int = 0  # uncached
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None
    told_usd: float | None = None  # if set: not of one call, but the cost of all calls since the last such event
    context_tokens: int | None = None  # None: the sum of the four counts
    model: str | None = None  # that answered, if reported

    @property
    def context(self) -> int:
        """Number of tokens in the context window after this call."""
        if self.context_tokens is not None:
            return self.context_tokens
        return self.input_tokens + self.cached_tokens + self.cache_write_tokens + self.output_tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimited:
    """Temporary refusal by the provider, with the waiting time or the reset time if the provider reported it."""

    message: str = ""
    retry_after_seconds: float | None = None
    resets_at: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """End of the agent's turn. ``ok`` does not tell if the work is correct."""

    ok: bool = True
    message: str = ""
    exit_code: int | None = None


CLIENT_TRIES_AGAIN = "[the provider did not answer"
"""Beginning of a text event that reports a retry by the client itself. Until the retry ends, the client may be
silent.
"""

Event = Text | ToolCall | ToolResult | Usage | RateLimited | Finished


def event_from(record: Mapping[str, object]) -> Event | None:
    """Return the event in a record, or None if its ``type`` is unknown."""
    # invalid values raise no error: a token count becomes 0, and a text becomes ""
    kind = record.get("type")
    make = _MAKERS.get(kind) if isinstance(kind, str) else None
    return make(record) if make else None


def record_of(event: Event) -> dict[str, Any]:
    """Return an event as a record. ``event_from`` returns an equal event for it."""
    return {"type": _KINDS[type(event)], **{name: value for name, value in asdict(event).items() if value is not None}}


def event_from_line(line: str) -> Event:
    """Return the event in a line. A line without a known JSON event becomes a text event."""
    record = object_of_line(line) if line.lstrip(" \t").startswith("{") else None
    return (event_from(record) if record is not None else None) or Text(line)


def object_of_line(line: str | bytes) -> dict[str, Any] | None:
    """Return the JSON object in a line, or ``None`` for any other content."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def mapping_of(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _count(value: object) -> int:
    return token_count(value) or 0


def plain(text: str) -> str:
    """Return the text without terminal codes, control characters and lone surrogates."""
    if "\x1b" in text:
        text = _TERMINAL.sub("", text)
    if text.isprintable():
        return text
    text = text.translate(_CONTROLS).replace("\r\n", "\n").replace("\r", "\n")
    return text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")


def _text(value: object) -> str:
    return plain(value) if isinstance(value, str) else ""


def _optional_text(value: object) -> str | None:
    return _text(value) or None


def _plain(value: object, depth: int = 12) -> object:
    if isinstance(value, str):
        return plain(value)
    if isinstance(value, dict):
        return {_text(k): _plain(v, depth - 1) for k, v in value.items()} if depth else "..."
    if isinstance(value, list):
        return [_plain(v, depth - 1) for v in value] if depth else "..."
    return value


def _tool_call(record: Mapping[str, object]) -> ToolCall:
    given = record.get("input")
    return ToolCall(
        name=_text(record.get("name")),
        input={_text(k): _plain(v) for k, v in given.items()} if isinstance(given, dict) else {},
        id=_optional_text(record.get("id")),
    )


def _usage(record: Mapping[str, object]) -> Usage:
    context = record.get("context_tokens")
    return Usage(
        input_tokens=_count(record.get("input_tokens")),
        output_tokens=_count(record.get("output_tokens")),
        cached_tokens=_count(record.get("cached_tokens")),
        cache_write_tokens=_count(record.get("cache_write_tokens")),
        cost_usd=dollars(record.get("cost_usd")),
        told_usd=dollars(record.get("told_usd")),
        context_tokens=None if context is None else _count(context),
        model=_optional_text(record.get("model")),
    )


_KINDS: Mapping[type, str] = {
    Text: "text",
    ToolCall: "tool_call",
    ToolResult: "tool_result",
    Usage: "usage",
    RateLimited: "rate_limited",
    Finished: "finished",
}
_MAKERS = {
    "text": lambda r: Text(_text(r.get("text"))),
    "tool_call": _tool_call,
    "tool_result": lambda r: ToolResult(
        output=_text(r.get("output")), id=_optional_text(r.get("id")), is_error=r.get("is_error") is True
    ),
    "usage": _usage,
    "rate_limited": lambda r: RateLimited(
        message=_text(r.get("message")),
        retry_after_seconds=number_below(r.get("retry_after_seconds"), 1e9),
        resets_at=_optional_text(r.get("resets_at")),
    ),
    "finished": lambda r: Finished(ok=r.get("ok") is not False, message=_text(r.get("message"))),
}
