"""What the agent did, item by item, turned into events. Pure. The names are those of the app-server."""

import shlex
from collections.abc import Callable, Mapping
from typing import Any

from agent_harness.agents.events import Event, Text, ToolResult, event_from, plain

Item = Mapping[str, Any]

_SHELL_OPTIONS = ("-c", "-lc", "-ic", "-lic")


def script_of(command: object) -> str:
    """The line of shell in a command such as ``/bin/bash -lc 'ls'``; every other command as it is."""
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
    """The events of an item that begins."""
    make = _STARTED.get(str(item.get("type")))
    call = make(item) if make else None
    event = event_from({"type": "tool_call", "id": item.get("id"), **call}) if call else None
    return [event] if event else []


def completed(item: Item) -> list[Event]:
    """The events of an item that has ended."""
    make = _COMPLETED.get(str(item.get("type")))
    event = make(item) if make else None
    return [event] if event else []


def changed_paths(item: Item) -> list[str]:
    """The files that a ``fileChange`` touches, and where it moves them."""
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


def _change_result(item: Item) -> Event:
    done = item.get("status") == "completed"
    return _result(item, f"{item.get('status')}: {', '.join(changed_paths(item))}", done)


def _mcp_result(item: Item) -> Event:
    error, result = item.get("error"), item.get("result")
    message = error.get("message") if isinstance(error, dict) else None
    content = result.get("content") if isinstance(result, dict) else None
    parts = [part.get("text") for part in content if isinstance(part, dict)] if isinstance(content, list) else []
    texts = [part for part in parts if isinstance(part, str)]
    return _result(item, str(message) if message else "\n".join(texts), item.get("status") == "completed" and not error)


def _mcp_call(item: Item) -> dict[str, Any]:
    return {"name": f"mcp__{item.get('server')}__{item.get('tool')}", "input": item.get("arguments")}


def _change_call(item: Item) -> dict[str, Any]:
    paths = changed_paths(item)
    return {"name": "apply_patch", "input": {"path": paths[0], "paths": paths} if paths else {}}


_STARTED: Mapping[str, Callable[[Item], dict[str, Any]]] = {
    "commandExecution": lambda item: {"name": "shell", "input": {"command": script_of(item.get("command"))}},
    "fileChange": _change_call,
    "mcpToolCall": _mcp_call,
    "dynamicToolCall": lambda item: {"name": str(item.get("tool")), "input": item.get("arguments")},
    "collabAgentToolCall": lambda item: {"name": str(item.get("tool")), "input": {"prompt": item.get("prompt")}},
    "webSearch": lambda item: {"name": "web_search", "input": {"query": item.get("query")}},
}
_COMPLETED: Mapping[str, Callable[[Item], Event | None]] = {
    "agentMessage": _message,
    "commandExecution": _command_result,
    "fileChange": _change_result,
    "mcpToolCall": _mcp_result,
    "dynamicToolCall": lambda item: _result(item, str(item.get("status")), item.get("success") is True),
    "collabAgentToolCall": lambda item: _result(item, str(item.get("status")), item.get("status") == "completed"),
    "webSearch": lambda item: _result(item, "", ok=True),
    "contextCompaction": lambda _: Text("[the conversation was compacted]"),
}
