"""What a hook answers, and how clients want it said.

    allow      nothing, or a message to the person        exit 0
    block      the agent goes on, and reads why           exit 0, {"decision": "block", "reason": …}
    context    the agent reads this at its start          exit 0, {"hookSpecificOutput": …}
    keep       a teammate goes on, and reads why          exit 2, the text on stderr

Codex takes no answer with a member that it does not know, and no client has ever known ``"decision": "allow"``; so each
answer is exactly one of these. Source: ``tasklist.md`` 3; ``clients`` as measured.
"""

from __future__ import annotations

from agent_harness.kernel.json import jsontext

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Kind = Literal["allow", "block", "context", "keep"]
    Effect = Literal["forget", "damage", "finish", "reflect", "session"]

__all__ = ["ALLOW", "HookAnswer", "Decision", "allow", "answer", "block", "context", "keep"]


class Decision:
    """One decision: its kind, the text that goes with it, why it was taken, and what is to be written down."""

    __slots__ = ("effects", "kind", "text", "why")

    def __init__(self, kind: Kind, text: str, why: str, effects: tuple[Effect, ...] = ()) -> None:
        self.kind = kind
        self.text = text
        self.why = why  # a word or two, for the call log
        self.effects = effects

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Decision) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def __repr__(self) -> str:
        return f"Decision({self.kind!r}, {self.text!r}, why={self.why!r}, effects={self.effects!r})"

    def _parts(self) -> tuple[object, ...]:
        return self.kind, self.text, self.why, self.effects


def allow(why: str, message: str = "", *effects: Effect) -> Decision:
    """Lets the agent stop; the message is for the person."""
    return Decision("allow", message, why, effects)


def block(why: str, reason: str, *effects: Effect) -> Decision:
    """Keeps the agent going with this as its next instruction."""
    return Decision("block", reason, why, effects)


def context(text: str, *effects: Effect) -> Decision:
    """Tells the agent this at the start of its session."""
    return Decision("context", text, "context", effects)


def keep(why: str, text: str) -> Decision:
    """Keeps a teammate going."""
    return Decision("keep", text, why)


ALLOW = allow("nothing to say")


class HookAnswer:
    """What a hook writes, and the exit status: 0, or 2 for ``keep``."""

    __slots__ = ("code", "err", "out")

    def __init__(self, out: bytes = b"", err: bytes = b"", code: int = 0) -> None:
        self.out = out
        self.err = err
        self.code = code


def answer(made: Decision) -> HookAnswer:
    """The decision as the client reads it."""
    if made.kind == "keep":
        # A line on stdout as well: clients take "exit 2, no output, no such file" for a hook that is not there.
        return HookAnswer(b"HARNESS\n", _bytes(f"{made.text}\n"), 2)
    if made.kind == "block":
        return HookAnswer(_line({"decision": "block", "reason": made.text}))
    if made.kind == "context":
        return HookAnswer(
            _line({"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": made.text}})
        )
    return HookAnswer(_line({"systemMessage": made.text}) if made.text else b"")


def _line(value: dict[str, object]) -> bytes:
    return _bytes(f"{jsontext.line(value)}\n")


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "replace")
