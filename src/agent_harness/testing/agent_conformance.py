"""Contract of an agent adapter, as a test for any adapter.

    from agent_harness.testing.agent_conformance import check_agent

    def test_my_adapter():
        check_agent(make)       # make("answer"), make("fail"), ... return agents with this behaviour

The test starts real turns in temporary folders and raises ``AssertionError`` with the violated clause. Source:
``agents/base.py``.
"""

import os
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import get_args

from agent_harness.agents.base import Agent, Brief, Turn
from agent_harness.agents.events import Event, Finished, Text, ToolCall, ToolResult, Usage
from agent_harness.errors import HarnessError
from agent_harness.kernel import owner

BEHAVIOURS: Mapping[str, str] = {
    "answer": "says its prompt, reports the tokens of a call if it can, ends well",
    "fail": "ends badly, without an answer",
    "hang": "says `hanging`, starts a process, and goes on until it is stopped",
    "deaf": "ends well without reading its prompt, however long that is",
    "count": "calls a model twice, for 1000 uncached, 500 cached and 70 output tokens each, with a tool between",
    "listen": "says `ready`, works until the file `go-on` is in its folder, then repeats the word that it was told",
    "noise": "prints bytes that are not UTF-8, NUL bytes, half an event and deep nesting, then says `pong`, ends well",
}
"""Behaviours that ``make`` must support. If ``make`` returns ``None`` for a behaviour, its clauses are skipped."""

Make = Callable[[str], Agent | None]
Clause = Callable[[Agent, Brief], None]

WAIT_SECONDS = 60.0
_MARK = "conformance-7391"
WORD = "goldfish-4711"
SECRET = "sk-conformance-0123456789abcdef"  # noqa: S105
COUNTED = {"input_tokens": 2000, "cached_tokens": 1000, "output_tokens": 140}


def check_agent(make: Make) -> list[str]:
    """Check the agents from ``make`` against the contract. Return the names of the checked clauses."""
    checked = []
    for name, (behaviour, clause) in CLAUSES.items():
        agent = make(behaviour)
        if agent is None:
            continue
        with tempfile.TemporaryDirectory(prefix="conformance-") as folder:
            run_id = os.urandom(16).hex()
            brief = Brief(prompt=f"say {_MARK}", cwd=Path(folder), session=1, prompt_type="coding", run_id=run_id)
            try:
                clause(agent, brief)
            except (AssertionError, HarnessError) as error:
                raise AssertionError(f"{agent.name}, behaviour {behaviour!r}: {name}: {error}") from error
            finally:
                left = owner.processes_tagged("HARNESS_RUN_ID", run_id)
            demand(not left, f"{agent.name}: {name}: processes are left after the turn: {left}")
        checked.append(name)
    demand(bool(checked), "make() returned no agent at all")
    return checked


# -- listening to a turn -----------------------------------------------------------------------------------------------


def events_of(turn: Turn, *, seconds: float = WAIT_SECONDS) -> list[Event]:
    """Return all events of a turn. Raise ``AssertionError`` if the turn does not end within ``seconds``."""
    found: list[Event] = []
    until = time.monotonic() + seconds
    while not turn.ended:
        demand(time.monotonic() < until, f"the turn does not end; so far it gave {found[-5:]}")
        event = turn.next_event(1.0)
        if event is not None:
            found.append(event)
    return found


def whole_turn(agent: Agent, brief: Brief) -> list[Event]:
    turn = agent.start(brief)
    try:
        return events_of(turn)
    finally:
        turn.stop()


def listen_for(turn: Turn, word: str) -> None:
    """Wait until a text event of the agent contains the word."""
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until:
        event = turn.next_event(1.0)
        if isinstance(event, Text) and word in event.text:
            return
        demand(not turn.ended, f"the turn ended before it said {word!r}")
    demand(False, f"the agent never said {word!r}")


def said(events: list[Event]) -> str:
    return "\n".join(event.text for event in events if isinstance(event, Text))


def demand(holds: bool, complaint: str) -> None:
    if not holds:
        raise AssertionError(complaint)


# -- clauses -----------------------------------------------------------------------------------------------------------


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
        demand(isinstance(end, Finished) and end.ok, f"the conversation is not resumed: {end}")
    finally:
        further.stop()


def _tells_no_secret(agent: Agent, brief: Brief) -> None:
    turn = agent.start(replace(brief, environment={"CONFORMANCE_API_KEY": SECRET}))
    try:
        record = repr(turn.process)
        found = events_of(turn)
    finally:
        turn.stop()
    demand(SECRET not in repr(found) + record + agent.account, "a secret of the environment is leaked")


def _ends_with_finished(agent: Agent, brief: Brief) -> None:
    turn = agent.start(brief)
    try:
        demand(not turn.ended, "`ended` is true before `Finished` was handed out")
        found = events_of(turn)
        demand(all(isinstance(event, get_args(Event)) for event in found), f"not an event: {found}")
        ends = [event for event in found if isinstance(event, Finished)]
        demand(len(ends) == 1 and found[-1] is ends[0], f"`Finished` must come once and last: {found}")
        demand(ends[0].ok, f"a turn that ended well says so: {ends[0]}")
        demand(turn.next_event(0.0) is None, "after `Finished` there is no further event")
    finally:
        turn.stop()


def _passes_the_prompt_on(agent: Agent, brief: Brief) -> None:
    found = whole_turn(agent, brief)
    demand(_MARK in said(found), f"the agent was to repeat {_MARK!r}, and said {said(found)!r}")


def _reports_usage_as_declared(agent: Agent, brief: Brief) -> None:
    calls = [event for event in whole_turn(agent, brief) if isinstance(event, Usage)]
    if agent.capabilities.usage:
        demand(bool(calls), "capabilities.usage is declared and no Usage came")
    counts = [(one.input_tokens, one.output_tokens, one.cached_tokens, one.context) for one in calls]
    demand(all(min(one) >= 0 for one in counts), f"a count is negative: {counts}")


def _refuses_what_it_cannot_do(agent: Agent, brief: Brief) -> None:
    turn = agent.start(brief)
    try:
        if not agent.capabilities.steer:
            demand(turn.steer("hello") is False, "steer() must be False for an agent that cannot be steered")
        if not agent.capabilities.interrupt:
            demand(turn.interrupt() is False, "interrupt() must be False for an agent that cannot be interrupted")
    finally:
        turn.stop()


def _tells_failure(agent: Agent, brief: Brief) -> None:
    end = whole_turn(agent, brief)[-1]
    demand(isinstance(end, Finished) and not end.ok, f"a turn that failed ends with Finished(ok=False): {end}")


def _waits_without_an_event(agent: Agent, brief: Brief) -> None:
    turn = agent.start(brief)
    try:
        listen_for(turn, "hanging")
        until = time.monotonic() + WAIT_SECONDS
        while turn.next_event(0.1) is not None:
            demand(time.monotonic() < until, "next_event must be None when nothing happens")
        demand(not turn.ended, "a turn that hangs has not ended")
    finally:
        turn.stop()


def _stops_everything(agent: Agent, brief: Brief) -> None:
    turn = agent.start(brief)
    listen_for(turn, "hanging")
    record = turn.process
    if record is not None:
        demand(isinstance(record.get("pid"), int), f"the process record has no pid: {record}")
    turn.stop(1.0)
    left = owner.processes_tagged("HARNESS_RUN_ID", str(brief.run_id))
    demand(not left, f"after stop() these processes still run: {left}")
    turn.stop(1.0)
    end = events_of(turn)[-1]
    demand(isinstance(end, Finished) and not end.ok, f"a stopped turn ends with Finished(ok=False): {end}")


def _survives_an_unread_prompt(agent: Agent, brief: Brief) -> None:
    long = Brief(prompt="word " * 1_000_000, cwd=brief.cwd, session=1, prompt_type="coding", run_id=brief.run_id)
    end = whole_turn(agent, long)[-1]
    demand(isinstance(end, Finished) and end.ok, f"a program that ends without reading has ended well: {end}")


def _survives_noise(agent: Agent, brief: Brief) -> None:
    found = whole_turn(agent, brief)
    text = said(found)
    demand("pong" in text, f"what comes after noise was lost: {text[-200:]!r}")
    demand("\0" not in text, "a NUL byte came through")
    text.encode("utf-8")
    end = found[-1]
    demand(isinstance(end, Finished) and end.ok, f"noise is not a failure: {end}")


CLAUSES: Mapping[str, tuple[str, Clause]] = {
    "the last event is Finished, once": ("answer", _ends_with_finished),
    "the prompt reaches the agent": ("answer", _passes_the_prompt_on),
    "usage is reported as declared": ("answer", _reports_usage_as_declared),
    "it does not pretend to steer or interrupt": ("answer", _refuses_what_it_cannot_do),
    "a failure is reported": ("fail", _tells_failure),
    "waiting gives no event": ("hang", _waits_without_an_event),
    "stop ends every process, twice over": ("hang", _stops_everything),
    "a prompt that nobody reads harms nobody": ("deaf", _survives_an_unread_prompt),
    "malformed output is text": ("noise", _survives_noise),
    "a conversation is resumed, if that is declared": ("answer", _goes_on),
    "no secret of the environment is leaked": ("answer", _tells_no_secret),
    "an interrupt ends the turn, if that is declared": ("hang", _is_interrupted),
    "an agent that is killed has not ended well": ("hang", _dies_badly),
    "tokens are counted once": ("count", _counts_exactly),
    "a tool is called before it answers": ("count", _keeps_the_order),
    "a message reaches the running turn, if that is declared": ("listen", _hears_a_message),
}
"""Clauses of the agent contract, each with the agent behaviour that the clause needs."""
