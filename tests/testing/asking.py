"""Requests to a model server, as a client would send them."""

import http.client
import json
from dataclasses import dataclass
from typing import Any

from agent_harness.testing.model_server import ModelServer

SHELL_TOOLS = {
    "messages": [{"name": "Bash"}, {"name": "Read"}],
    "responses": [{"type": "function", "name": "exec_command"}],
    "chat/completions": [{"type": "function", "function": {"name": "bash"}}],
}
PROTOCOLS = tuple(SHELL_TOOLS)


@dataclass(frozen=True)
class Reply:
    """What came back."""

    status: int
    headers: dict[str, str]
    content: bytes

    @property
    def value(self) -> Any:
        """The body as JSON."""
        return json.loads(self.content)

    @property
    def events(self) -> list[tuple[str | None, Any]]:
        """The server-sent events: name and content."""
        found = []
        for part in self.content.decode().split("\n\n"):
            lines = dict(line.split(": ", 1) for line in part.splitlines())
            if "data" in lines:
                said = lines["data"]
                found.append((lines.get("event"), said if said == "[DONE]" else json.loads(said)))
        return found


def send(server: ModelServer | int, method: str, path: str, body: bytes | None = None, **headers: str) -> Reply:
    """One request on a connection of its own."""
    connection = http.client.HTTPConnection("127.0.0.1", server if isinstance(server, int) else server.port, timeout=30)
    try:
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, {"content-type": "application/json", **given})
        answer = connection.getresponse()
        lowered = {name.lower(): value for name, value in answer.getheaders()}
        return Reply(answer.status, lowered, answer.read())
    finally:
        connection.close()


def ask(server: ModelServer | int, protocol: str, *said: str, stream: bool = False, **more: Any) -> Reply:
    """A model call. ``said`` alternates: the user, the model, the user, ..."""
    body = {"model": "m", "stream": stream, "tools": SHELL_TOOLS[protocol], **conversation(protocol, *said), **more}
    return send(server, "POST", f"/v1/{protocol}", json.dumps(body).encode(), authorization="Bearer sk-secret-9")


def conversation(protocol: str, *said: str) -> dict[str, Any]:
    """The messages of a request."""
    turns = [{"role": "assistant" if at % 2 else "user", "content": text} for at, text in enumerate(said)]
    return {"input" if protocol == "responses" else "messages": turns}


def words_of(protocol: str, value: Any) -> str:
    """The text of a whole answer."""
    if protocol == "messages":
        return "".join(block.get("text", "") for block in value["content"])
    if protocol == "responses":
        return "".join(part["text"] for item in value["output"] for part in item.get("content", []))
    return value["choices"][0]["message"]["content"] or ""


def call_of(protocol: str, value: Any) -> tuple[str, Any]:
    """Name and input of the only tool call of a whole answer."""
    if protocol == "messages":
        (call,) = [block for block in value["content"] if block["type"] == "tool_use"]
        return call["name"], call["input"]
    if protocol == "responses":
        (call,) = [item for item in value["output"] if item["type"] == "function_call"]
        return call["name"], json.loads(call["arguments"])
    (call,) = value["choices"][0]["message"]["tool_calls"]
    return call["function"]["name"], json.loads(call["function"]["arguments"])
