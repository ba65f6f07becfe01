"""``harness mcp``: an MCP server on stdio whose tools are the harness commands for task lists and feature projects.

Each tool calls one API method and answers with JSON. The answer to a failed call also contains the next command. The
server looks up the project again at each call, so it keeps working when the project changes. Source: ``tasklist.md``
13.3.

The server speaks JSON-RPC, with one message per line. It uses no library, because importing the reference library takes
a second of CPU time. Some clients ask for the tools only once, and start without the tools of a slow server. The
messages follow modelcontextprotocol.io, versions 2024-11-05 to 2025-11-25."""

from __future__ import annotations

import json
import os
import sys
import threading
from contextlib import suppress

from agent_harness import __version__
from agent_harness.errors import HarnessError, Refused, UsageError
from agent_harness.kernel import root
from agent_harness.protocols.tasklist.api import CATEGORIES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, BinaryIO

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.tasklist.api import TaskList

__all__ = ["TOOLS", "VERSIONS", "CallFailed", "ClientTools", "McpTool", "serve"]


MOST_ROWS = 200


class CallFailed(Exception):
    """Raised for a failed tool call. The error's text is one JSON object."""


class McpTool:
    """MCP tool: its description for the model, its required arguments, and the JSON schema of each argument."""

    def __init__(self, description: str, *required: str, **arguments: Mapping[str, Any]) -> None:
        self.description = description
        self.required = required
        self.arguments = arguments

    def as_json(self, name: str) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "properties": self.arguments}
        if self.required:
            schema["required"] = list(self.required)
        return {"name": name, "description": self.description, "inputSchema": schema}

    def checked(self, given: object) -> dict[str, Any]:
        """Return the arguments that are not ``null``. Raise ``UsageError`` if one is invalid."""
        if not isinstance(given, dict):
            raise UsageError("the arguments of a tool must be one JSON object")
        named = {name: value for name, value in given.items() if value is not None}
        for name in named:
            if name not in self.arguments:
                raise UsageError(f"there is no argument {name!r}; known: {', '.join(self.arguments) or 'none'}")
        for name in self.required:
            if name not in named:
                raise UsageError(f"the argument {name!r} is missing")
        return {name: _value(name, value, self.arguments[name]) for name, value in named.items()}


def _value(name: str, value: object, schema: Mapping[str, Any]) -> object:
    if schema["type"] == "integer":
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) <= MOST_DIGITS:
            return int(value)  # models quote numbers
        if isinstance(value, bool) or not isinstance(value, int):
            raise UsageError(f"{name} must be a whole number")
    elif not isinstance(value, str):
        raise UsageError(f"{name} must be text")
    elif value not in schema.get("enum", [value]):
        raise UsageError(f"{name} must be one of {', '.join(schema['enum'])}")
    return value


MOST_DIGITS = 9
_TEXT = {"type": "string"}
_NUMBER = {"type": "integer"}

TOOLS: Mapping[str, McpTool] = {
    "status": McpTool("Show the progress and the next step. Changes nothing."),
    "next": McpTool("Show the task that claim would take. Changes nothing."),
    "claim": McpTool("Claim the next task, or show the task that you have already claimed.", task_id=_TEXT),
    "checkpoint": McpTool(
        "Record that step N of M of your task is done, and renew the lease.",
        *("task_id", "step", "total", "text"),
        task_id=_TEXT,
        step=_NUMBER,
        total=_NUMBER,
        text=_TEXT,
    ),
    "validate": McpTool("Run the check of your task. Does not complete the task.", "task_id", task_id=_TEXT),
    "complete": McpTool(
        "Verify your task, commit the work and complete the task. If the check fails, you still own the task.",
        "task_id",
        task_id=_TEXT,
        message=_TEXT,
    ),
    "fail": McpTool(
        "End this attempt at your task as failed. The work is kept in a rescue.",
        *("task_id", "category", "message"),
        task_id=_TEXT,
        category={"type": "string", "enum": list(CATEGORIES)},
        message=_TEXT,
    ),
    "release": McpTool(
        "Release your task without counting an attempt. The work is kept in a rescue.",
        "task_id",
        "why",
        task_id=_TEXT,
        why=_TEXT,
    ),
    "log_query": McpTool(
        "Show the newest log rows that contain every word.",
        text={**_TEXT, "default": ""},
        limit={**_NUMBER, "default": 20},
    ),
}
"""The MCP tools by name; each is implemented by the ``ClientTools`` method of that name."""


class ClientTools:
    """MCP tools that one client calls."""

    def __init__(self, folder: str | None = None) -> None:
        self._folder = folder
        # of claimed tasks, so that the model need not pass them
        self._tokens: dict[str, str] = {}
        self._one_at_a_time = threading.Lock()

    def call(self, name: str, arguments: object) -> str:
        """Call a tool and return its answer as JSON. Raise ``CallFailed`` for every error."""
        try:
            given = TOOLS[name].checked(arguments)
            return str(getattr(self, name)(**given))
        except HarnessError as error:
            failed = error
        except CallFailed:
            raise
        except Exception as error:  # a fault of the harness ends the call, not the server
            failed = HarnessError(f"Unexpected error: {type(error).__name__}: {error}")
        raise CallFailed(_text({"ok": False, "error": failed.as_json()}))

    # -- looking -------------------------------------------------------------------------------------------------------

    def status(self) -> str:
        return self._answer(lambda: self._list().status() if self._kind() == "tasklist" else self._features())

    def next(self) -> str:
        """Return the task that ``claim`` would take, or the feature of the next session. Change nothing."""
        return self._answer(lambda: self._list().next() if self._kind() == "tasklist" else self._preview())

    def log_query(self, text: str = "", limit: int = 20) -> str:
        """Return the newest log rows that contain every word of ``text``, oldest first."""
        most = max(1, min(limit, MOST_ROWS))
        return self._answer(
            lambda: self._list_log(text, most) if self._kind() == "tasklist" else self._feature_log(text, most)
        )

    # -- working on a task ---------------------------------------------------------------------------------------------

    def claim(self, task_id: str | None = None) -> str:
        """Claim the task with this id, or the next one, and store the claim's token."""

        def act() -> JsonObject:
            answer = self._list().claim(task_id)
            self._tokens[answer["task_id"]] = answer["token"]
            return answer

        return self._answer(act)

    def checkpoint(self, task_id: str, step: int, total: int, text: str) -> str:
        """Record that a step of the task is done, and renew the lease."""
        return self._answer(lambda: self._list(task_id).checkpoint(task_id, step, total, text))

    def validate(self, task_id: str) -> str:
        """Run the task's check. The call fails unless the result is PASS."""
        return self._answer(lambda: self._list(task_id).validate(task_id), is_good=lambda a: a["result"] == "PASS")

    def complete(self, task_id: str, message: str | None = None) -> str:
        return self._answer(lambda: self._list(task_id).complete(task_id, message=message))

    def fail(self, task_id: str, category: str, message: str) -> str:
        """End this attempt as failed. The changes are kept in a rescue ref."""
        return self._answer(lambda: self._list(task_id).fail(task_id, category=category, message=message))

    def release(self, task_id: str, why: str) -> str:
        """Release the claimed task without counting an attempt."""
        return self._answer(lambda: self._list(task_id).release(task_id, why))

    # -- the project ---------------------------------------------------------------------------------------------------

    def _answer(
        self, act: Callable[[], JsonObject], is_good: Callable[[JsonObject], bool] = lambda answer: True
    ) -> str:
        with self._one_at_a_time:
            answer = act()
        if not is_good(answer):
            raise CallFailed(_text({"ok": False, **answer}))
        return _text({"ok": True, **answer})

    def _found(self) -> root.Root:
        found = root.find(self._folder) if self._folder else root.find()
        if found is None or found.kind == "longtask":
            raise Refused("No task list and no feature project in this folder or above", hint="harness init .")
        return found

    def _kind(self) -> str:
        return self._found().kind

    def _list(self, task_id: str | None = None) -> TaskList:
        from agent_harness.protocols.tasklist.api import TaskList

        if self._kind() != "tasklist":
            raise Refused("The harness assigns features, so a client cannot claim a feature", hint="harness run")
        return TaskList.open(self._folder, token=self._tokens.get(task_id) if task_id else None)

    def _features(self) -> JsonObject:
        from agent_harness.protocols.features import api

        return api.status(api.layout_of(self._found().path))

    def _preview(self) -> JsonObject:
        from pathlib import Path

        from agent_harness.protocols.features.api import FeatureProject

        return FeatureProject.open(Path(self._found().path)).preview()

    def _list_log(self, text: str, limit: int) -> JsonObject:
        words = text.lower().split()
        lines = self._list().status(tail=10_000)["log"]
        rows = [line for line in lines if all(word in str(line).lower() for word in words)]
        return {"rows": rows[-limit:], "more": len(rows) > limit}

    def _feature_log(self, text: str, limit: int) -> JsonObject:
        from agent_harness.protocols.features import api

        return api.log_query(api.layout_of(self._found().path), text, limit=limit)


def _text(answer: Mapping[str, Any]) -> str:
    return json.dumps(answer, ensure_ascii=False, default=str)


# ---- the server

VERSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
"""Supported MCP protocol versions. A client that asks for any other version gets the last one."""

INSTRUCTIONS = """\
Tools for a task list in which the harness proves each task. claim a task, work on it, checkpoint each larger step, and
complete it: the harness runs the validation itself, and only its result counts. Every answer names the next command.\
"""

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602  # of JSON-RPC


class RequestRefused(Exception):
    """Raised for a JSON-RPC request that the server answers with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def serve(folder: str | None) -> None:
    """Serve one client on stdin and stdout until the client closes its input."""
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "wb") as output:
        # other output goes to stderr, because it would break the protocol on stdout
        os.dup2(2, 1)
        StdioServer(ClientTools(folder), sys.stdin.buffer, output).run()


class StdioServer:
    """Server for one client. Each tool call runs in a thread, so the server can answer a ``ping`` during a call."""

    def __init__(self, tools: ClientTools, requests: BinaryIO, answers: BinaryIO) -> None:
        self._tools, self._requests, self._answers = tools, requests, answers
        self._writing = threading.Lock()
        self._calls: list[threading.Thread] = []

    def run(self) -> None:
        """Answer requests until the input ends, then wait for running calls."""
        for line in self._requests:
            if line.strip():
                self._read(line)
        for call in self._calls:
            call.join()

    def _read(self, line: bytes) -> None:
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            self._write({"id": None, "error": {"code": PARSE_ERROR, "message": "this line is not JSON"}})
            return
        for each in message if isinstance(message, list) else [message]:  # version 2025-03-26 has batches
            self._take(each)

    def _take(self, message: object) -> None:
        if not isinstance(message, dict) or not isinstance(message.get("method", ""), str):
            self._write({"id": None, "error": {"code": INVALID_REQUEST, "message": "this is not a JSON-RPC message"}})
        elif "method" in message and message.get("id") is not None:
            params = message.get("params")
            self._answer(message["id"], message["method"], params if isinstance(params, dict) else {})

    def _answer(self, number: object, method: str, params: Mapping[str, Any]) -> None:
        try:
            if method == "tools/call":
                self._begin(number, params)
            elif method in _METHODS:
                self._write({"id": number, "result": _METHODS[method](params)})
            else:
                raise RequestRefused(METHOD_NOT_FOUND, f"the method {method} is not known")
        except RequestRefused as error:
            self._write({"id": number, "error": {"code": error.code, "message": str(error)}})

    def _begin(self, number: object, params: Mapping[str, Any]) -> None:
        name, arguments = params.get("name"), params.get("arguments") or {}
        if not isinstance(name, str) or name not in TOOLS:
            raise RequestRefused(INVALID_PARAMS, f"there is no tool {name!r}; known: {', '.join(TOOLS)}")
        self._calls = [each for each in self._calls if each.is_alive()]
        self._calls.append(threading.Thread(target=self._call, args=(number, name, arguments)))
        self._calls[-1].start()

    def _call(self, number: object, name: str, arguments: object) -> None:
        try:
            text, failed = self._tools.call(name, arguments), False
        except CallFailed as error:
            text, failed = str(error), True
        self._write({"id": number, "result": {"content": [{"type": "text", "text": text}], "isError": failed}})

    def _write(self, message: Mapping[str, Any]) -> None:
        line = json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n"
        with self._writing, suppress(OSError):  # the client does not read any more: its input is about to end
            self._answers.write(line)
            self._answers.flush()


def _initialize(params: Mapping[str, Any]) -> dict[str, Any]:
    wanted = params.get("protocolVersion")
    return {
        "protocolVersion": wanted if wanted in VERSIONS else VERSIONS[-1],
        "capabilities": {"tools": {"listChanged": False}},
        "serverInfo": {"name": "harness", "version": __version__},
        "instructions": INSTRUCTIONS,
    }


_METHODS: Mapping[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
    "initialize": _initialize,
    "ping": lambda _: {},
    "tools/list": lambda _: {"tools": [tool.as_json(name) for name, tool in TOOLS.items()]},
}
