"""Conversion of Codex's messages into events: items, tokens and refusals, with the names that the app-server uses.

Source for refusals: features.md UAH-374..375, C28."""

import shlex
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from agent_harness.agents.command import refusal_from_text
from agent_harness.agents.events import Event, RateLimited, Text, ToolResult, Usage, event_from, mapping_of, plain
from agent_harness.kernel import clock, retry

_TOTALS = ("inputTokens", "outputTokens", "cachedInputTokens", "cacheWriteInputTokens")


class TurnTally:
    """Token counts of a turn, from the totals and the last calls that the server reports for each thread."""

    def __init__(self) -> None:
        self.thread: str | None = None
        self.model: str | None = None
        self.turn: str | None = None  # set at the start of the turn
        self._totals: dict[str, tuple[int, ...]] = {}
        self._context = 0

    def update(self, params: Mapping[str, Any]) -> Usage | None:
        """Return the tokens since the last report of this thread, or None without new tokens."""
        # the first total of a thread may include earlier turns
        thread, told = str(params.get("threadId")), mapping_of(params.get("tokenUsage"))
        total, last = _counts(mapping_of(told.get("total"))), _counts(mapping_of(told.get("last")))
        before = self._totals.get(thread)
        self._totals[thread] = total
        used = last if before is None else tuple(max(0, one - other) for one, other in zip(total, before, strict=True))
        if thread == self.thread:
            self._context = last[0] + last[1]
        earlier = self.turn is None or (thread == self.thread and params.get("turnId") not in (None, self.turn))
        return self._usage(used) if any(used) and not earlier else None

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
    found = [record.get(name) for name in _TOTALS]
    return tuple(max(0, each) if isinstance(each, int) else 0 for each in found)


KINDS = frozenset({"usageLimitExceeded", "rateLimitExceeded", "serverOverloaded", "policyCapacityUnavailable"})
STATUSES = frozenset({429, 529})
_USED_UP = 100  # percent


def of_error(error: Mapping[str, Any], windows: Mapping[str, Any]) -> RateLimited | None:
    """Return the provider's refusal that an error reports, or None for any other error."""
    message = plain(str(error.get("message") or ""))
    told = error.get("codexErrorInfo")
    kind = told if isinstance(told, str) else None
    if kind not in KINDS and _status(told) not in STATUSES:
        return refusal_from_text(message) if told in (None, "other") else None
    reset = reset_of(windows) if kind != "serverOverloaded" else None
    return RateLimited(message=message[:300], resets_at=reset or _told(message))


def _told(message: str) -> str | None:
    # a time without a zone is in this machine's zone
    wait = retry.find_wait(message, clock.now())
    if wait is None:
        return None
    if wait.moment is not None:
        return clock.timestamp(wait.moment)
    return None if wait.seconds is None else clock.timestamp(clock.now() + timedelta(seconds=wait.seconds))


def reset_of(windows: Mapping[str, Any]) -> str | None:
    """Return the latest reset time of the exhausted limits, or ``None`` if no limit is exhausted."""
    known = [windows.get(name) for name in ("primary", "secondary")]
    used_up = [each for each in known if isinstance(each, dict) and _amount(each.get("usedPercent")) >= _USED_UP]
    moments = [_amount(each.get("resetsAt")) for each in used_up]
    latest = max(moments, default=0.0)
    return clock.timestamp(datetime.fromtimestamp(latest, UTC)) if 0 < latest < 1e11 else None


def _status(kind: object) -> int | None:
    for detail in kind.values() if isinstance(kind, dict) else ():
        status = detail.get("httpStatusCode") if isinstance(detail, dict) else None
        if isinstance(status, int):
            return status
    return None


def _amount(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


Item = Mapping[str, Any]

_SHELL_OPTIONS = ("-c", "-lc", "-ic", "-lic")


def script_of(command: object) -> str:
    """Return the script in a command such as ``/bin/bash -lc 'ls'``. For other commands, return the command."""
    if isinstance(command, list):
        words = [str(word) for word in command]
    else:
        try:
            words = shlex.split(str(command or ""))
        except ValueError:
            return str(command)
    if len(words) == 3 and words[1] in _SHELL_OPTIONS:
        return words[2]
    return shlex.join(words) if isinstance(command, list) else str(command or "")


def started(item: Item) -> list[Event]:
    make = _STARTED.get(str(item.get("type")))
    call = make(item) if make else None
    event = event_from({"type": "tool_call", "id": item.get("id"), **call}) if call else None
    return [event] if event else []


def completed(item: Item) -> list[Event]:
    make = _COMPLETED.get(str(item.get("type")))
    event = make(item) if make else None
    return [event] if event else []


def changed_paths(item: Item) -> list[str]:
    """Return the paths that a file change affects. For a moved file, return both paths."""
    changes = item.get("changes")
    known = [change for change in changes if isinstance(change, dict)] if isinstance(changes, list) else []
    kinds = [change.get("kind") for change in known]
    moved = [kind.get("move_path") or kind.get("movePath") for kind in kinds if isinstance(kind, dict)]
    return [str(path) for path in (*(change.get("path") for change in known), *moved) if path]


def _result(item: Item, output: str, ok: bool) -> Event:
    name = item.get("id")
    return ToolResult(output=plain(output), id=plain(name) if isinstance(name, str) else None, is_error=not ok)


def _message(item: Item) -> Event | None:
    text = item.get("text")
    return Text(plain(text)) if isinstance(text, str) and text.strip() else None


def _command_result(item: Item) -> Event:
    output = item.get("aggregatedOutput")
    declined = "refused by the harness" if item.get("status") == "declined" else ""
    return _result(item, output if isinstance(output, str) else declined, item.get("exitCode") == 0)


def _mcp_result(item: Item) -> Event:
    error, result = item.get("error"), item.get("result")
    message = error.get("message") if isinstance(error, dict) else None
    content = result.get("content") if isinstance(result, dict) else None
    parts = [part.get("text") for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [part for part in parts if isinstance(part, str)]
    return _result(item, str(message) if message else "\n".join(texts), item.get("status") == "completed" and not error)


def _change_call(item: Item) -> dict[str, Any]:
    paths = changed_paths(item)
    return {"name": "apply_patch", "input": {"path": paths[0], "paths": paths} if paths else {}}


_STARTED: Mapping[str, Callable[[Item], dict[str, Any]]] = {
    "commandExecution": lambda item: {"name": "shell", "input": {"command": script_of(item.get("command"))}},
    "fileChange": _change_call,
    "mcpToolCall": lambda item: {
        "name": f"mcp__{item.get('server')}__{item.get('tool')}",
        "input": item.get("arguments"),
    },
    "dynamicToolCall": lambda item: {"name": str(item.get("tool")), "input": item.get("arguments")},
    "collabAgentToolCall": lambda item: {"name": str(item.get("tool")), "input": {"prompt": item.get("prompt")}},
    "webSearch": lambda item: {"name": "web_search", "input": {"query": item.get("query")}},
}
_COMPLETED: Mapping[str, Callable[[Item], Event | None]] = {
    "agentMessage": _message,
    "commandExecution": _command_result,
    "fileChange": lambda item: _result(
        item, f"{item.get('status')}: {', '.join(changed_paths(item))}", item.get("status") == "completed"
    ),
    "mcpToolCall": _mcp_result,
    "dynamicToolCall": lambda item: _result(item, str(item.get("status")), item.get("success") is True),
    "collabAgentToolCall": lambda item: _result(item, str(item.get("status")), item.get("status") == "completed"),
    "webSearch": lambda item: _result(item, "", ok=True),
    "contextCompaction": lambda _: Text("[the conversation was compacted]"),
}
