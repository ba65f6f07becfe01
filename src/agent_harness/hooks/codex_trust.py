"""Trusting our hooks in Codex, by Codex itself: it lists each hook with its hash, and writes the trusted ones down.

Codex passes over a hook that is not trusted without a word. The hash is Codex's own and is never worked out here.
Needs Codex 0.129 or newer; an older one has no such gate.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time

from agent_harness.errors import HarnessError, Refused, ToolMissing
from agent_harness.kernel.json import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

__all__ = ["HINT", "states", "trust"]

HINT = "harness hooks install --client codex --trust, or type /hooks in Codex"
TIMEOUT_SECONDS = 30.0
MAX_BYTES = 16 << 20


def states(file: str, cwd: str, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    """The hooks of ours that Codex finds in this file, as it lists them."""
    with _server(cwd, environ) as server:
        return _ours(server, file, cwd)


def trust(file: str, cwd: str, environ: Mapping[str, str]) -> bool:
    """Makes Codex trust our hooks in this file, and no other; whether it says that it does.

    False when Codex does not read the file, as with a project that is not trusted itself.
    """
    with _server(cwd, environ) as server:
        found = _ours(server, file, cwd)
        wanted = {hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in found if _needs_trust(hook)}
        if wanted:
            edit = {"keyPath": "hooks.state", "value": wanted, "mergeStrategy": "upsert"}
            server.ask("config/batchWrite", {"edits": [edit], "reloadUserConfig": True})
            found = _ours(server, file, cwd)
    return bool(found) and not any(_needs_trust(hook) for hook in found)


def _needs_trust(hook: Mapping[str, Any]) -> bool:
    return hook.get("trustStatus") not in (None, "trusted", "managed") and isinstance(hook.get("currentHash"), str)


def _ours(server: _Server, file: str, cwd: str) -> list[dict[str, Any]]:
    from agent_harness.hooks.install import is_ours

    answer = server.ask("hooks/list", {"cwds": [cwd]})
    listed = answer.get("data") if isinstance(answer, dict) else None
    hooks = [
        hook
        for entry in (listed if isinstance(listed, list) else [])
        for hook in (entry.get("hooks") or [] if isinstance(entry, dict) else [])
        if isinstance(hook, dict) and isinstance(hook.get("key"), str) and is_ours(hook)
    ]
    return [hook for hook in hooks if _same_file(hook.get("sourcePath"), file)]


def _same_file(one: object, other: str) -> bool:
    return isinstance(one, str) and os.path.realpath(one) == os.path.realpath(other)


@contextlib.contextmanager
def _server(cwd: str, environ: Mapping[str, str]) -> Iterator[_Server]:
    server = _Server(cwd, environ)
    try:
        server.ask("initialize", {"clientInfo": {"name": "agent-harness", "title": "agent-harness", "version": "1"}})
        server.tell("initialized")
        yield server
    finally:
        server.end()


class _Server:
    """``codex app-server`` for a moment: one JSON message a line in both directions, all within one limit of time."""

    def __init__(self, cwd: str, environ: Mapping[str, str]) -> None:
        self._deadline = time.monotonic() + TIMEOUT_SECONDS
        self._number = 0
        self._buffer = b""
        try:
            self._process = subprocess.Popen(
                ["codex", "app-server"],
                cwd=cwd,
                env=dict(environ),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError as error:
            raise ToolMissing(f"codex cannot be started: {error.strerror}", hint="type /hooks in Codex") from None

    def ask(self, method: str, params: Mapping[str, Any]) -> Any:
        """The result of one request. ``Refused`` when Codex refuses it or does not answer in time."""
        self._number += 1
        self._send({"id": self._number, "method": method, "params": params})
        while True:
            message = self._receive(method)
            if message.get("id") != self._number or "method" in message:
                continue
            if "error" in message:
                raise _refused(f"{method}: {jsontext.line(message['error'])[:300]}")
            return message.get("result")

    def tell(self, method: str) -> None:
        """Sends a message that has no answer."""
        self._send({"method": method})

    def end(self) -> None:
        """Ends the server and everything that it started."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                with contextlib.suppress(OSError):
                    stream.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=2)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _send(self, message: Mapping[str, Any]) -> None:
        assert self._process.stdin
        try:
            self._process.stdin.write(f"{jsontext.line(dict(message))}\n".encode())
            self._process.stdin.flush()
        except OSError:
            raise _refused("codex app-server ended by itself") from None

    def _receive(self, method: str) -> dict[str, Any]:
        assert self._process.stdout
        while b"\n" not in self._buffer:
            left = self._deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise _refused(f"codex app-server did not answer {method} within {TIMEOUT_SECONDS:g} seconds")
            chunk = os.read(self._process.stdout.fileno(), 65536)
            if not chunk or len(self._buffer) > MAX_BYTES:
                raise _refused(f"codex app-server ended before it answered {method}")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            found = jsontext.loads(line, exact=False)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


def _refused(why: str) -> HarnessError:
    return Refused(f"Codex did not trust the hooks: {why}", hint="type /hooks in Codex")
