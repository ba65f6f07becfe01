"""Trust for the harness's hooks in the client Codex. Codex itself stores this trust, as one hash for each hook.

Codex silently skips a hook that the user has not trusted. Only Codex can compute the hash, so the harness asks Codex
0.129 or newer to do so. Older versions have no trust check. The harness removes trust entries itself, without Codex."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time

from agent_harness.errors import HarnessError, Refused, ToolMissing
from agent_harness.kernel import files
from agent_harness.kernel.json import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import Any

__all__ = ["HINT", "MARK", "forget", "is_ours", "states", "trust"]

MARK = "# agent-harness"
"""Shell comment at the end of every hook command of the harness."""
HINT = "harness hooks install --client codex --trust  # or type /hooks in Codex"
TIMEOUT_SECONDS = 30.0
MAX_BYTES = 16 << 20


def is_ours(hook: object) -> bool:
    text = hook.get("command") if isinstance(hook, dict) else None
    return isinstance(text, str) and text.rstrip().endswith(MARK)


def states(file: str, cwd: str, environ: Mapping[str, str]) -> list[dict[str, Any]]:
    with _server(cwd, environ) as server:
        return _ours(server, file, cwd)


def trust(file: str, cwd: str, environ: Mapping[str, str]) -> bool:
    """Make Codex trust the harness's hooks in this file, and return True on success."""
    with _server(cwd, environ) as server:
        found = _ours(server, file, cwd)
        wanted = {hook["key"]: {"trusted_hash": hook["currentHash"]} for hook in found if _needs_trust(hook)}
        if wanted:
            edit = {"keyPath": "hooks.state", "value": wanted, "mergeStrategy": "upsert"}
            server.ask("config/batchWrite", {"edits": [edit], "reloadUserConfig": True})
            found = _ours(server, file, cwd)
    return bool(found) and not any(_needs_trust(hook) for hook in found)


def forget(file: str, hooks: Collection[tuple[str, int, int]], environ: Mapping[str, str]) -> list[str]:
    """Remove Codex's trust in these hooks. Raise ``Refused`` if a safe edit is impossible."""
    path = os.path.join(environ.get("CODEX_HOME") or os.path.expanduser("~/.codex"), "config.toml")
    try:
        text = files.read_bytes(path).decode()
        # Codex 0.169 writes the entries as [hooks.state."FILE:stop:0:0"]
        keys = [key for key in _noted(_toml(text)) if _is_of(key, file, hooks)]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except ValueError as error:
        raise _by_hand(path, str(error)) from None
    if keys:
        files.replace(path, _without(text, set(keys), path), follow=True)
    return keys


def _noted(settings: Mapping[str, Any]) -> dict[str, Any]:
    hooks = settings.get("hooks")
    state = hooks.get("state") if isinstance(hooks, dict) else None
    return state if isinstance(state, dict) else {}


def _is_of(key: str, file: str, hooks: Collection[tuple[str, int, int]]) -> bool:
    path, *place = key.rsplit(":", 3)
    return place in [[_label(event), str(group), str(each)] for event, group, each in hooks] and _same_file(path, file)


def _label(event: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in event).lstrip("_")


def _without(text: str, keys: set[str], path: str) -> str:
    """Return the text of Codex's settings without the trust entries in ``keys``."""
    gone: set[tuple[str, ...]] = {("hooks", "state", key) for key in keys}
    if keys == set(_noted(_toml(text))):
        gone.add(("hooks", "state"))
    kept: list[str] = []
    inside = False
    for line in text.split("\n"):
        header = _header(line)
        inside = header in gone if header else inside and bool(line.strip()) and not line.lstrip().startswith("#")
        if not inside:
            kept.append(line)
        elif header and kept and not kept[-1].strip():
            kept.pop()  # the blank line above it
    made = "\n".join(kept)
    if text.endswith("\n") and made and not made.endswith("\n"):
        made += "\n"
    expected = _toml(text)
    for key in keys:
        del _noted(expected)[key]
    if _significant(_toml(made)) != _significant(expected):
        raise _by_hand(path, "the entries of the harness's hooks are not written as tables")
    return made


def _significant(settings: dict[str, Any]) -> dict[str, Any]:
    """Return the settings without empty hook tables."""
    hooks = settings.get("hooks")
    if isinstance(hooks, dict):
        rest = {name: value for name, value in hooks.items() if name != "state" or value}
        return {name: value for name, value in {**settings, "hooks": rest}.items() if name != "hooks" or value}
    return settings


def _header(line: str) -> tuple[str, ...] | None:
    names: list[str] = []
    try:
        found: Any = _toml(line.strip()) if line.lstrip().startswith("[") else None
    except ValueError:
        return None
    while isinstance(found, dict) and len(found) == 1:
        ((name, found),) = found.items()
        names.append(name)
    return tuple(names) or None


def _toml(text: str) -> dict[str, Any]:
    import tomllib

    return tomllib.loads(text)


def _by_hand(path: str, why: str) -> HarnessError:
    return Refused(f"{path} was not edited: {why}", hint=f"remove the agent-harness hooks from [hooks.state] in {path}")


def _needs_trust(hook: Mapping[str, Any]) -> bool:
    return hook.get("trustStatus") not in (None, "trusted", "managed") and isinstance(hook.get("currentHash"), str)


def _ours(server: _Server, file: str, cwd: str) -> list[dict[str, Any]]:
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
    """Short-lived process ``codex app-server`` that exchanges JSON lines within a time limit."""

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
        self._send({"method": method})

    def end(self) -> None:
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
            raise _refused("codex app-server exited unexpectedly") from None

    def _receive(self, method: str) -> dict[str, Any]:
        assert self._process.stdout
        while b"\n" not in self._buffer:
            left = self._deadline - time.monotonic()
            if left <= 0 or not select.select([self._process.stdout], [], [], left)[0]:
                raise _refused(f"codex app-server did not answer {method} within {TIMEOUT_SECONDS:g} seconds")
            chunk = os.read(self._process.stdout.fileno(), 65536)
            if not chunk or len(self._buffer) > MAX_BYTES:
                raise _refused(f"codex app-server exited before it answered {method}")
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        try:
            found = jsontext.loads(line, exact=False)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}


def _refused(why: str) -> HarnessError:
    return Refused(f"Codex did not trust the hooks: {why}", hint="type /hooks in Codex")
