"""Further clauses of the contract of an agent: order, exact tokens, messages, conversations, and ends by force."""

import os
import signal
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace

from agent_harness.agents.base import Agent, Brief
from agent_harness.agents.events import Finished, ToolCall, ToolResult, Usage
from agent_harness.testing.listening import demand, events_of, listen_for, said, whole_turn

Clause = Callable[[Agent, Brief], None]

WORD = "goldfish-4711"
SECRET = "sk-conformance-0123456789abcdef"  # noqa: S105
COUNTED = {"input_tokens": 2000, "cached_tokens": 1000, "output_tokens": 140}


def _counts_exactly(agent: Agent, brief: Brief) -> None:
    found = [event for event in whole_turn(agent, brief) if isinstance(event, Usage)]
    sums = {name: sum(getattr(event, name) for event in found) for name in COUNTED}
    demand(sums == COUNTED, f"two calls are {COUNTED}, and what was reported adds up to {sums}: {found}")


def _keeps_the_order(agent: Agent, brief: Brief) -> None:
    found = whole_turn(agent, brief)
    calls = [(place, event.id) for place, event in enumerate(found) if isinstance(event, ToolCall)]
    results = {event.id: place for place, event in enumerate(found) if isinstance(event, ToolResult)}
    demand(bool(calls), f"the call of the tool is missing: {found}")
    answered = all(name in results and place < results[name] for place, name in calls)
    demand(answered, f"a result has the id of its call and comes after it: {found}")


def _hears_a_message(agent: Agent, brief: Brief) -> None:
    if not agent.capabilities.steer:
        return
    turn = agent.start(brief)
    try:
        listen_for(turn, "ready")
        demand(turn.steer(f"The word is {WORD}."), "a running agent that can be steered was not")
        (brief.cwd / "go-on").touch()
        found = events_of(turn)
        demand(WORD in said(found), f"the message did not reach the running turn: {said(found)!r}")
        demand(not turn.steer("too late"), "a turn that has ended cannot be steered")
    finally:
        turn.stop()


def _is_interrupted(agent: Agent, brief: Brief) -> None:
    if not agent.capabilities.interrupt:
        return
    turn = agent.start(brief)
    try:
        listen_for(turn, "hanging")
        demand(turn.interrupt(), "a running agent that can be interrupted was not")
        end = events_of(turn)[-1]
        demand(isinstance(end, Finished) and not end.ok, f"a turn that was interrupted has not ended well: {end}")
        demand(not turn.interrupt(), "a turn that has ended cannot be interrupted")
    finally:
        turn.stop()


def _dies_badly(agent: Agent, brief: Brief) -> None:
    turn = agent.start(brief)
    try:
        listen_for(turn, "hanging")
        group = (turn.process or {}).get("group")
        if not isinstance(group, int):
            return
        with suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)
        end = events_of(turn)[-1]
        demand(isinstance(end, Finished) and not end.ok, f"an agent that was killed has not ended well: {end}")
    finally:
        turn.stop()


def _goes_on(agent: Agent, brief: Brief) -> None:
    if not agent.capabilities.resume:
        return
    turn = agent.start(brief)
    events_of(turn)
    turn.stop()
    demand(bool(turn.conversation), "capabilities.resume is declared, and the turn names no conversation")
    further = agent.start(replace(brief, conversation=turn.conversation, round=1))
    try:
        end = events_of(further)[-1]
        demand(isinstance(end, Finished) and end.ok, f"the conversation is not gone on with: {end}")
    finally:
        further.stop()


def _tells_no_secret(agent: Agent, brief: Brief) -> None:
    turn = agent.start(replace(brief, environment={"CONFORMANCE_API_KEY": SECRET}))
    try:
        record = repr(turn.process)
        found = events_of(turn)
    finally:
        turn.stop()
    demand(SECRET not in repr(found) + record + agent.account, "a secret of the environment is told")


CLAUSES: Mapping[str, tuple[str, Clause]] = {
    "a conversation is gone on with, where that is declared": ("answer", _goes_on),
    "no secret of the environment is told": ("answer", _tells_no_secret),
    "an interrupt ends the turn, where that is declared": ("hang", _is_interrupted),
    "an agent that is killed has not ended well": ("hang", _dies_badly),
    "tokens are counted once": ("count", _counts_exactly),
    "a tool is called before it answers": ("count", _keeps_the_order),
    "a message reaches the running turn, where that is declared": ("listen", _hears_a_message),
}
