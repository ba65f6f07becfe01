"""Payload of a hook call, the folder of its task list, and the hook's answer. An invalid payload raises no error.

    allow      nothing, or a message to the user              exit 0
    block      the agent continues and reads the reason       exit 0, {"decision": "block", "reason": …}
    context    the agent reads the text at its start          exit 0, {"hookSpecificOutput": …}
    keep       a teammate continues and reads the reason      exit 2, the text on stderr

Codex rejects an answer with an unknown member, and no client knows ``"decision": "allow"``. Therefore, each answer is
exactly one of these four answers. Source: ``tasklist.md`` 2, 3, 5; tests with the clients.
"""

from __future__ import annotations

import os

from agent_harness.errors import NotAProject
from agent_harness.kernel import root
from agent_harness.kernel.json import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, Literal

    Kind = Literal["allow", "block", "context", "keep"]
    Effect = Literal["forget", "damage", "finish", "reflect", "session"]

MAX_BYTES = 32 << 20
"""Maximum length of a payload in bytes. A longer payload is not read."""


class Event:
    """Payload and environment of one hook call. Payload members of a wrong type count as missing."""

    __slots__ = ("environ", "payload")

    def __init__(self, payload: dict[str, Any], environ: Mapping[str, str]) -> None:
        self.payload = payload
        self.environ = environ

    def text(self, name: str) -> str:
        found = self.payload.get(name)
        return found.strip() if isinstance(found, str) else ""

    def flag(self, name: str) -> bool | None:
        found = self.payload.get(name)
        return found if isinstance(found, bool) else None

    def entries(self, name: str) -> list[Any]:
        found = self.payload.get(name)
        return found if isinstance(found, list) else []

    @property
    def session_id(self) -> str:
        return self.text("session_id")

    @property
    def worker(self) -> str:
        return self.environ.get("HARNESS_WORKER_ID", "").strip()

    def identities(self, *names: str) -> list[str]:
        return [each for each in (self.worker, *(self.text(name) for name in names)) if each]


def read(descriptor: int) -> dict[str, Any]:
    chunks: list[bytes] = []
    room = MAX_BYTES
    try:
        if os.isatty(descriptor):
            return {}
        while chunk := os.read(descriptor, 1 << 16):
            room -= len(chunk)
            if room < 0:
                return {}
            chunks.append(chunk)
    except OSError:
        return {}
    return parse(b"".join(chunks))


def parse(raw: bytes) -> dict[str, Any]:
    try:
        # a client may cut a text in the middle of a character
        found = jsontext.loads(raw.decode("utf-8", "replace"), exact=False)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def find_root(event: Event) -> str | None:
    start = event.payload.get("cwd")
    here = start if isinstance(start, str) and start else _working_directory()
    try:
        found = root.find(event.environ.get("CLAUDE_PROJECT_DIR") or None, here, kind="tasklist", kept=False)
    except NotAProject:
        return None
    return found.path if found else None


def _working_directory() -> str | None:
    try:
        return os.getcwd()
    except OSError:  # it was removed
        return None


class Decision:
    __slots__ = ("effects", "kind", "text", "why")

    def __init__(self, kind: Kind, text: str, why: str, effects: tuple[Effect, ...] = ()) -> None:
        self.kind = kind
        self.text = text
        self.why = why  # a word or two, for the call log
        self.effects = effects


def allow(why: str, message: str = "", *effects: Effect) -> Decision:
    """Return the decision that lets the agent stop. The client shows the ``message`` to the user."""
    return Decision("allow", message, why, effects)


def block(why: str, reason: str, *effects: Effect) -> Decision:
    """Return the decision that makes the agent continue. The agent reads ``reason`` as its next instruction."""
    return Decision("block", reason, why, effects)


def context(text: str, *effects: Effect) -> Decision:
    """Return the decision that gives the agent this text at the start of its session."""
    return Decision("context", text, "context", effects)


def keep(why: str, text: str) -> Decision:
    """Return the decision that makes a teammate agent continue. The agent reads ``text`` as its next instruction."""
    return Decision("keep", text, why)


class HookAnswer:
    __slots__ = ("code", "err", "out")

    def __init__(self, out: bytes = b"", err: bytes = b"", code: int = 0) -> None:
        self.out = out
        self.err = err
        self.code = code


def answer(made: Decision) -> HookAnswer:
    """Return the hook's output and exit status for a decision, in the client's format."""
    if made.kind == "keep":
        # A line on stdout as well: clients take "exit 2, no output, no such file" for a hook that is not there.
        return HookAnswer(b"HARNESS\n", f"{made.text}\n".encode("utf-8", "replace"), 2)
    if made.kind == "block":
        return HookAnswer(_line({"decision": "block", "reason": made.text}))
    if made.kind == "context":
        return HookAnswer(
            _line({"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": made.text}})
        )
    return HookAnswer(_line({"systemMessage": made.text}) if made.text else b"")


def _line(value: dict[str, object]) -> bytes:
    return f"{jsontext.line(value)}\n".encode("utf-8", "replace")
