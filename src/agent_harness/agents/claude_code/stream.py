"""The lines of Claude Code, turned into events. Pure: a record in, events out; holds what decides the end."""

from collections.abc import Callable, Mapping
from typing import Any

from agent_harness.agents.claude_code import refusals
from agent_harness.agents.claude_code.tally import ProcessTally
from agent_harness.agents.events import Event, Text, ToolResult, event_from, plain

Record = Mapping[str, Any]

DELTA = b'{"type":"stream_event","event":{"type":"content_block_'
"""How the lines begin that repeat a block piece by piece; the whole block follows."""

_WORKS_ON = ("agent", "workflow", "teammate")  # background tasks whose end begins the next turn of the model


class Stream:
    """One process's stream. ``result`` is the last one so far; ``heard`` counts the messages that were taken up."""

    def __init__(self, *, resumed: bool = False) -> None:
        self.session: str | None = None
        self.result: Record | None = None
        self.at_rest = False  # the latest turn of the model has ended, and nothing new began
        self.heard = 0
        self.refused = False  # a refusal was handed out since the last answer
        self.background: tuple[str, ...] = ()
        self._reset: str | None = None
        self._tally = ProcessTally(resumed=resumed)

    @property
    def waits_for_agents(self) -> bool:
        """True while sub-agents work in the background: their end begins another turn."""
        return any(word in kind for kind in self.background for word in _WORKS_ON)

    def events(self, record: Record) -> list[Event]:
        """What a line comes to; nothing for a line of no known type."""
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
            return [Text(plain(f"[the provider did not answer ({told}); try {record.get('attempt')} again]"))]
        return []

    def _stream_event(self, record: Record) -> list[Event]:
        event = _mapping(record.get("event"))
        self.at_rest = False
        if record.get("parent_tool_use_id"):
            return []
        if event.get("type") == "message_start":
            self._tally.starts(_mapping(event.get("message")))
        elif event.get("type") == "message_delta":
            usage = self._tally.ends(_mapping(event.get("usage")))
            return [usage] if usage else []
        return []

    def _assistant(self, record: Record) -> list[Event]:
        message = _mapping(record.get("message"))
        found = _blocks(message, _SPOKEN)
        self.at_rest = False
        if record.get("is_api_error_message") or message.get("model") == "<synthetic>":
            return [*found, *self._refusal(record, _said(found))]
        self.refused = False
        usage = self._tally.repeats(message, sub_agent=bool(record.get("parent_tool_use_id")))
        return [*found, *([usage] if usage else [])]

    def _user(self, record: Record) -> list[Event]:
        if record.get("isReplay"):
            self.heard += 1
            return []
        return _blocks(_mapping(record.get("message")), {"tool_result": _tool_result})

    def _rate_limit(self, record: Record) -> list[Event]:
        self._reset = refusals.reset_of(record) or self._reset
        return []

    def _result(self, record: Record) -> list[Event]:
        self.result, self.at_rest = record, True
        events: list[Event] = [*self._tally.settle(record)]
        if record.get("is_error") is True and not self.refused:
            events += self._refusal(record, reason(record))
        return events

    def _refusal(self, record: Record, text: str) -> list[Event]:
        found = refusals.of_error(record, text, self._reset)
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
    """Why a turn ended badly, in one line."""
    errors = result.get("errors")
    told = [each for each in errors if isinstance(each, str)] if isinstance(errors, list) else []
    text = result.get("result")
    said = text if isinstance(text, str) and text.strip() else "; ".join(told)
    kind = result.get("terminal_reason") or result.get("subtype") or "error"
    return plain(f"{kind}: {' '.join(said.split())}" if said else str(kind))[:600]


def lost_conversation(result: Record | None, errors: str) -> bool:
    """True when the client ended at once since it does not know the conversation that it was to go on with."""
    told = f"{reason(result) if result else ''} {errors}"
    return not (result and result.get("num_turns")) and "No conversation found" in told


def _mapping(value: object) -> Record:
    return value if isinstance(value, dict) else {}


def _blocks(message: Record, makers: Mapping[str, Callable[[Record], Event | None]]) -> list[Event]:
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    known = [(makers.get(str(block.get("type"))), block) for block in blocks if isinstance(block, dict)]
    made = [make(block) for make, block in known if make]
    return [event for event in made if event is not None]


def _text(block: Record) -> Event | None:
    text = block.get("text")
    return Text(plain(text)) if isinstance(text, str) and text.strip() else None


def _tool_call(block: Record) -> Event | None:
    return event_from({"type": "tool_call", **{name: block.get(name) for name in ("name", "input", "id")}})


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


def _said(events: list[Event]) -> str:
    return "\n".join(event.text for event in events if isinstance(event, Text))


_SPOKEN: Mapping[str, Callable[[Record], Event | None]] = {"text": _text, "tool_use": _tool_call}

__all__ = ["DELTA", "Stream", "lost_conversation", "reason"]
