"""Scripts: what the model says, step by step, and which step a conversation has come to. Pure; holds no memory.

A message names a script by a marker, ``SCRIPT:name``, or by matching the script's ``start`` pattern. The step to play
is the number of answers since the last message that did so. Therefore retries, resumed sessions, sessions side by side
and sub-agents with a marker of their own need nothing to be remembered. Source: ``docs/model-server.md``.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from agent_harness.testing.model_server.conversation import Json, Message

__all__ = ["Cue", "PromptScript", "Scripts", "Step", "choose"]

MARKER = re.compile(r"SCRIPT:([A-Za-z0-9_-]+)")
COMPACTION = re.compile(r"create a detailed summary of the conversation|CONTEXT CHECKPOINT COMPACTION", re.IGNORECASE)
DEFAULT, END, COMPACT = "@default", "@end", "@compact"


@dataclass(frozen=True, kw_only=True)
class Step:
    """One answer of the model."""

    blocks: Sequence[Json] = ()
    usage: Mapping[str, int] = field(default_factory=dict)
    delay_seconds: float = 0.0  # before the answer begins
    pace_seconds: float = 0.0  # between the events of a stream
    stop_reason: str | None = None
    error: Mapping[str, Any] | None = None
    times: int | None = None  # the error is answered so often in one conversation, then the blocks; None: always
    find: Mapping[str, str] = field(default_factory=dict)
    cut: bool = False  # the connection breaks in the middle


@dataclass(frozen=True)
class PromptScript:
    """The answers to one prompt."""

    steps: Sequence[Step]
    start: re.Pattern[str] | None = None


Scripts = Mapping[str, PromptScript]


@dataclass(frozen=True)
class Cue:
    """What to play now."""

    script: str | None
    index: int
    step: Step


def choose(scripts: Scripts, turns: Sequence[Message]) -> Cue:
    """The step that a conversation has come to; ``@default``, ``@end`` and ``@compact`` where no step is meant."""
    name, index = _place(scripts, turns)
    last = next((turn.text for turn in reversed(turns) if not turn.by_model and turn.text), "")
    if COMPACTION.search(last):
        marker = f"SCRIPT:{name}" if name else ""
        return Cue(COMPACT, 0, _only(scripts, COMPACT, f"A summary of the work so far. {marker}"))
    if name is None:
        return Cue(None, 0, _only(scripts, DEFAULT, "ok"))
    if name not in scripts:
        return Cue(name, index, Step(blocks=({"text": f"(there is no script named {name})"},)))
    steps = scripts[name].steps
    return Cue(name, index, steps[index] if index < len(steps) else _only(scripts, END, "(end of the script)"))


def _place(scripts: Scripts, turns: Sequence[Message]) -> tuple[str | None, int]:
    for place in range(len(turns) - 1, -1, -1):
        name = None if turns[place].by_model else _named(scripts, turns[place].text)
        if name is not None:
            return name, _answers(turns[place + 1 :])
    return None, 0


def _named(scripts: Scripts, text: str) -> str | None:
    found = MARKER.findall(text)
    if found:
        return str(found[-1])
    return next((name for name, script in scripts.items() if script.start and script.start.search(text)), None)


def _answers(turns: Sequence[Message]) -> int:
    speakers = [False, *(turn.by_model for turn in turns)]
    return sum(now and not before for before, now in pairwise(speakers))


def _only(scripts: Scripts, name: str, otherwise: str) -> Step:
    given = scripts.get(name)
    return given.steps[0] if given and given.steps else Step(blocks=({"text": otherwise},))
