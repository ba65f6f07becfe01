"""Handler of one HTTP request to the model server.
It records the request without its keys, and answers according to the script."""

import gzip
import hashlib
import json
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from types import ModuleType
from typing import Any

from agent_harness.errors import UsageError
from agent_harness.kernel import journal
from agent_harness.kernel.redact import MASK, is_secret_name
from agent_harness.testing.model_server import anthropic_messages, openai_chat, openai_responses
from agent_harness.testing.model_server.script import (
    Cue,
    Event,
    Json,
    Message,
    ModelAnswer,
    NotFound,
    Scripts,
    Step,
    choose,
    estimated_tokens,
    fill,
    new_id,
    read_scripts,
)

__all__ = ["Handler", "RequestLog", "Shared", "kind_of", "masked"]


class RequestLog:
    """Log of requests that threads share, in a file or in memory."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path
        self._kept: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._count = 0

    def add(self, **facts: Any) -> None:
        """Record a request. Add its number and time to ``facts``."""
        with self._lock:
            self._count += 1
            record = {"n": self._count, "t": round(time.time(), 3), **facts}
            if self._path is None:
                self._kept.append(record)
            else:
                journal.append(self._path, record)

    def records(self) -> list[dict[str, Any]]:
        """Return the requests, oldest first. Include requests that earlier servers wrote into the same file."""
        with self._lock:
            return list(self._kept) if self._path is None else list(journal.read(self._path))


def masked(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers with ``***`` in place of each key, token and cookie."""
    return {name: MASK if is_secret_name(name) else value for name, value in headers.items()}


KINDS: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def status_of(error: Mapping[str, Any]) -> int:
    return int(error.get("status", 500))


def kind_of(error: Mapping[str, Any]) -> str:
    return str(error.get("type") or KINDS.get(status_of(error), "api_error"))


def reset_facts(error: Mapping[str, Any]) -> Json:
    """Return the end time of a scripted rate limit, or {} if the script sets none."""
    if "reset_seconds" not in error:
        return {}
    seconds = float(error["reset_seconds"])
    return {"resets_at": int(time.time() + seconds), "resets_in_seconds": int(seconds)}


def reset_headers(facts: Mapping[str, Any]) -> dict[str, str]:
    """Return the HTTP headers that tell a rate limit's end. Return {} if ``facts`` is empty."""
    if not facts:
        return {}
    at, seconds = int(facts["resets_at"]), int(facts["resets_in_seconds"])
    return {
        "retry-after": str(seconds),
        "anthropic-ratelimit-requests-reset": datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "anthropic-ratelimit-unified-reset": str(at),
        "anthropic-ratelimit-unified-status": "rejected",
        "x-ratelimit-reset-requests": f"{seconds}s",
    }


PROTOCOLS: Mapping[str, ModuleType] = {
    "/messages": anthropic_messages,
    "/responses": openai_responses,
    "/chat/completions": openai_chat,
}
MODELS = ("claude-opus-4-8", "claude-sonnet-4-6", "claude-haiku-4-5", "gpt-5.5", "scripted")
LIMIT_BYTES = 64 * 1024 * 1024


@dataclass
class Shared:
    scripts: Mapping[str, Any] | str | Path
    log: RequestLog
    closing: threading.Event = field(default_factory=threading.Event)
    refusals: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def read(self) -> Scripts:
        # each time, because a script file can change while the server runs
        return read_scripts(self.scripts)

    def refused_before(self, key: str) -> int:
        """Count a refusal of this request. Return the number of earlier refusals of the same request."""
        with self.lock:
            self.refusals[key] += 1
            return self.refusals[key] - 1


class Handler(BaseHTTPRequestHandler):
    """Handler of HTTP requests. It records and refuses requests that use this server as a proxy."""

    protocol_version = "HTTP/1.1"
    server_version = "agent-harness-model-server"
    sys_version = ""
    shared: Shared

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Log nothing, because the request log records every request."""

    def parse_request(self) -> bool:
        """Parse the request, and remove this server's own address from the path. Clients that use a proxy send this
        address."""
        good = super().parse_request()
        own = f"http://127.0.0.1:{self.server.server_address[1]}/"  # type: ignore[index]
        if good and self.path.startswith(own):
            self.path = self.path[len(own) - 1 :]
        return good

    # ---- methods

    def do_CONNECT(self) -> None:
        """Record and refuse a proxy connection to another machine."""
        self._refuse_as_proxy()

    def do_HEAD(self) -> None:
        """Answer HEAD requests. Clients use these requests to check that the server runs."""
        if not self._refused():
            self._send(200, b"")

    def do_GET(self) -> None:
        if self._refused():
            return
        self._record()
        if self._place() in ("/v1/models", "/models"):
            self._send_json(200, _models())
        else:
            self._send_error_body(404, f"there is nothing at {self._place()}")

    def do_POST(self) -> None:
        if self._refused():
            return
        try:
            self._call(self._body())
        except (BrokenPipeError, ConnectionResetError):
            self.shared.log.add(path=self.path, disconnected=True)
            self.close_connection = True

    # ---- a model call

    def _call(self, body: Json | None) -> None:
        place = self._place()
        protocol = next((protocol for end, protocol in PROTOCOLS.items() if place.endswith(end)), None)
        if body is None:
            self._record()
            self._send_error_body(400, "the body is not a JSON object")
        elif place.endswith("/messages/count_tokens"):
            self._record(body=body)
            self._send_json(200, {"input_tokens": estimated_tokens(body)})
        elif protocol is None:
            self._record(body=body)
            self._send_error_body(404, f"there is nothing at {place}")
        else:
            self._play(protocol, body)

    def _play(self, protocol: ModuleType, body: Json) -> None:
        turns: list[Message] = protocol.turns(body)
        try:
            cue = choose(self.shared.read(), turns)
            step = fill(cue.step, turns, body)
        except (NotFound, UsageError) as error:
            self._record(body=body, problem=str(error))
            self._send_error_body(400, f"scripted: {error}", protocol)
            return
        self._record(body=body, script=cue.script, step=cue.index)
        self.shared.closing.wait(step.delay_seconds)
        if step.error is not None and self._still_refused(cue, body):
            self._send_trouble(protocol, step.error, stream=bool(body.get("stream")))
        else:
            answer = protocol.answer(body, step)
            if bool(body.get("stream")):
                self._send_stream(answer, step)
            elif step.cut:
                self.close_connection = True
            else:
                self._send_json(200, answer.whole, {"request-id": new_id("req_")})

    def _still_refused(self, cue: Cue, body: Json) -> bool:
        if cue.step.times is None:
            return True
        said = {name: body.get(name) for name in ("messages", "input")}
        key = json.dumps([self._place(), cue.script, cue.index, said], sort_keys=True, default=str)
        return self.shared.refused_before(hashlib.sha256(key.encode()).hexdigest()) < cue.step.times

    # ---- sending

    def _send_stream(self, answer: ModelAnswer, step: Step) -> None:
        self.send_response(200)
        for name, value in (("content-type", "text/event-stream"), ("request-id", new_id("req_"))):
            self.send_header(name, value)
        self.send_header("connection", "close")
        self.end_headers()
        self.close_connection = True
        events = answer.events[: len(answer.events) // 2] if step.cut else answer.events
        for event in events:
            self.wfile.write(_line(event))
            self.wfile.flush()
            self.shared.closing.wait(step.pace_seconds)

    def _send_trouble(self, protocol: ModuleType, error: Mapping[str, Any], *, stream: bool) -> None:
        if "body" in error:
            # the body of the script, unchanged; in a stream, it is the only event
            text = str(error["body"])
            kind, content = ("text/event-stream", f"data: {text}\n\n") if stream else ("application/json", text)
            self._send(int(error.get("status", 200)), content.encode(), {"content-type": kind})
            return
        facts = reset_facts(error)
        given = {str(name): str(value) for name, value in (error.get("headers") or {}).items()}
        message = str(error.get("message", "scripted error"))
        body = protocol.error(status_of(error), kind_of(error), message, facts)
        self._send_json(status_of(error), body, {**reset_headers(facts), **given})

    def _send_error_body(self, status: int, message: str, protocol: ModuleType = anthropic_messages) -> None:
        self._send_json(status, protocol.error(status, kind_of({"status": status}), message, {}))

    def _send_json(self, status: int, value: object, headers: Mapping[str, str] | None = None) -> None:
        self._send(status, json.dumps(value).encode(), {"content-type": "application/json", **(headers or {})})

    def _send(self, status: int, content: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in {**(headers or {}), "content-length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    # ---- reading

    def _place(self) -> str:
        return self.path.partition("?")[0]

    def _record(self, **facts: Any) -> None:
        headers = masked(dict(self.headers.items()))
        self.shared.log.add(method=self.command, path=self._place(), headers=headers, **facts)

    def _refused(self) -> bool:
        if self.path.startswith("/"):
            return False
        self._refuse_as_proxy()
        return True

    def _refuse_as_proxy(self) -> None:
        self.shared.log.add(method=self.command, refused=self._place())
        self.close_connection = True
        self._send(502, b"this server is no way out\n", {"connection": "close"})

    def _body(self) -> Json | None:
        chunked = self.headers.get("transfer-encoding", "").lower() == "chunked"
        try:
            raw = _chunks(self.rfile.readline, self.rfile.read) if chunked else self.rfile.read(self._length())
            if self.headers.get("content-encoding") == "gzip":
                raw = gzip.decompress(raw)
            value = json.loads(raw, parse_constant=_no_number)
        except (ValueError, OSError, EOFError, RecursionError):
            self.close_connection = True
            return None
        return value if isinstance(value, dict) else None

    def _length(self) -> int:
        length = int(self.headers.get("content-length") or 0)
        if not 0 <= length <= LIMIT_BYTES:
            raise ValueError(f"the request has {length} bytes, which is too many")
        return length


def _chunks(line: Callable[[], bytes], read: Callable[[int], bytes]) -> bytes:
    whole = b""
    while size := int(line().partition(b";")[0], 16):
        whole += read(size)
        line()
        if len(whole) > LIMIT_BYTES:
            raise ValueError("too long")
    line()
    return whole


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _line(event: Event) -> bytes:
    name, content = event
    text = content if isinstance(content, str) else json.dumps(content)
    return (f"event: {name}\n" if name else "").encode() + f"data: {text}\n\n".encode()


def _models() -> Json:
    made = {
        "type": "model",
        "object": "model",
        "created_at": "2026-01-01T00:00:00Z",
        "created": 1,
        "owned_by": "scripts",
    }
    listed = [{**made, "id": name, "display_name": name} for name in MODELS]
    return {"object": "list", "data": listed, "has_more": False, "first_id": MODELS[0], "last_id": MODELS[-1]}
