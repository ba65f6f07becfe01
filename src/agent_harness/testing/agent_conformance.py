"""The contract of an agent adapter, as a test that anybody's adapter can run.

    from agent_harness.testing.agent_conformance import check_agent

    def test_my_adapter():
        check_agent(make)       # make("answer"), make("fail"), ... return agents that behave so

It starts real turns in temporary folders and raises ``AssertionError`` with the clause that does not hold. Source:
``agents/base.py``.
"""

import os
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import get_args

from agent_harness.agents.base import Agent, Brief
from agent_harness.agents.events import Event, Finished, Usage
from agent_harness.errors import HarnessError
from agent_harness.kernel import owner
from agent_harness.testing import agent_clauses
from agent_harness.testing.agent_clauses import Clause
from agent_harness.testing.listening import WAIT_SECONDS, demand, events_of, listen_for, said, whole_turn

__all__ = ["BEHAVIOURS", "CLAUSES", "check_agent", "events_of"]

BEHAVIOURS: Mapping[str, str] = {
    "answer": "says its prompt, reports the tokens of a call if it can, ends well",
    "fail": "ends badly, without an answer",
    "hang": "says `hanging`, starts a process, and goes on until it is stopped",
    "deaf": "ends well without reading its prompt, however long that is",
    "count": "calls a model twice, for 1000 uncached, 500 cached and 70 output tokens each, with a tool between",
    "listen": "says `ready`, works until the file `go-on` is in its folder, then repeats the word that it was told",
    "noise": "prints bytes that are no UTF-8, NUL bytes, half an event and deep nesting, then says `pong`, ends well",
}
"""What ``make`` is asked for. ``None`` for one that the agent cannot be made to do; its clauses are left out."""

Make = Callable[[str], Agent | None]

_MARK = "conformance-7391"


def check_agent(make: Make) -> list[str]:
    """Checks every clause that ``make`` has a behaviour for; returns their names. Raises ``AssertionError``."""
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


# -- clauses -----------------------------------------------------------------------------------------------------------


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
    demand(isinstance(end, Finished) and end.ok, f"noise is no failure: {end}")


CLAUSES: Mapping[str, tuple[str, Clause]] = {
    "the last event is Finished, once": ("answer", _ends_with_finished),
    "the prompt reaches the agent": ("answer", _passes_the_prompt_on),
    "usage is reported as declared": ("answer", _reports_usage_as_declared),
    "it does not pretend to steer or interrupt": ("answer", _refuses_what_it_cannot_do),
    "a failure is told": ("fail", _tells_failure),
    "waiting gives no event": ("hang", _waits_without_an_event),
    "stop ends every process, twice over": ("hang", _stops_everything),
    "a prompt that nobody reads harms nobody": ("deaf", _survives_an_unread_prompt),
    "malformed output is text": ("noise", _survives_noise),
    **agent_clauses.CLAUSES,
}
"""Every clause, with the behaviour that shows it."""
