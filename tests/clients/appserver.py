"""One turn of Codex through its app-server: what a person is shown, also where `codex exec` is silent."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_harness.kernel import process

LIMIT_SECONDS = 240.0
OPENING = {"clientInfo": {"name": "tests", "title": "tests", "version": "1"}, "capabilities": {"experimentalApi": True}}


def turn(command: Sequence[str], prompt: str, project: Path, env: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every notification of one turn, up to its end. ``command`` starts the app-server."""
    with process.start(command, cwd=project, env=env, merge_stderr=False) as app:
        _call(app, 1, "initialize", OPENING)
        _write(app, {"method": "initialized", "params": {}})
        started = _call(app, 2, "thread/start", {"cwd": str(project), "sandbox": "danger-full-access"})
        thread = started["thread"]["id"]
        _write(app, _request(3, "turn/start", {"threadId": thread, "input": [{"type": "text", "text": prompt}]}))
        seen: list[dict[str, Any]] = []
        for message in _messages(app):
            seen.append(message)
            if message.get("method") == "turn/completed":
                break
        return seen


def _request(number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    return {"id": number, "method": method, "params": params}


def _call(app: process.Running, number: int, method: str, params: dict[str, Any]) -> dict[str, Any]:
    _write(app, _request(number, method, params))
    answer = next(message for message in _messages(app) if message.get("id") == number)
    assert "result" in answer, answer
    return dict(answer["result"])


def _write(app: process.Running, message: dict[str, Any]) -> None:
    app.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")


def _messages(app: process.Running) -> Iterator[dict[str, Any]]:
    while (line := app.read_line(LIMIT_SECONDS)) is not None:
        yield json.loads(line)
    raise AssertionError(f"the app-server has ended: {app.stderr_tail.decode(errors='replace')}")
