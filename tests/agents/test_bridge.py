"""The bridge: a program in a separate process that gets steering, interrupts and permission to go on."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_harness.agents import bridge
from agent_harness.agents.base import Agent, Brief, Capabilities, McpServer, ToolRules, Turn
from agent_harness.agents.bridge import BridgeTurn
from agent_harness.agents.bridge.worker import brief_from
from agent_harness.agents.events import Event, Finished, RateLimited, Text, ToolCall, Usage
from agent_harness.kernel import owner
from agent_harness.testing.agent_conformance import check_agent, events_of

Make = Callable[..., Brief]

FAR_END = """
import asyncio, os, subprocess, sys
from agent_harness.agents.bridge.worker import Harness, brief_from
from agent_harness.agents.events import *

async def answer(harness, brief, order):
    harness.say(Text("I was asked: " + brief.prompt))
    harness.say(Usage(input_tokens=120, output_tokens=30, cache_write_tokens=7, model="m-1"))
    harness.say(Finished())

async def fail(harness, brief, order):
    harness.say(Finished(ok=False, message="I gave up"))

async def hang(harness, brief, order):
    subprocess.Popen(["sleep", "600"], start_new_session=True)
    harness.say(Text("hanging"))
    await harness.interrupted.wait()
    harness.say(Finished(ok=False, message="interrupted"))

async def noise(harness, brief, order):
    print("a library speaks on standard output")
    os.write(harness._out, bytes(range(256)) + b"\\n" + b"[" * 50000 + b"\\n" + b'{"type": "usage", "inp\\n')
    harness.say(Text("pong"))
    harness.say(Finished())

async def rounds(harness, brief, order):
    '''Spends 100 tokens a request, until its messages run out.'''
    told = await harness.may_go_on()
    while True:
        harness.say(Text("request with " + repr(told)))
        harness.say(Usage(input_tokens=100))
        told = await harness.may_go_on(last=True)
        if not told:
            break
    harness.say(Finished())

async def long(harness, brief, order):
    harness.say(Text("\\u00e4\\u4e2d" * 700_000))
    harness.say(ToolCall(name="write", input={"path": "a", "content": "\\u4e2d" * 700_000}))
    harness.say(Finished())

async def memory(harness, brief, order):
    harness.say(Text(f"{order['settings']} {brief.conversation} {len(order['kept'] or '')}"))
    harness.name_conversation("talk-1", "\\u4e2d" * 250_000)
    harness.say(Finished())

async def refused(harness, brief, order):
    harness.say(RateLimited(message="429 Too Many Requests", retry_after_seconds=7.0))
    harness.say(Finished(ok=False, message="429 Too Many Requests"))

async def vanish(harness, brief, order):
    raise SystemExit("boom: it broke")

async def main():
    harness = Harness()
    order = await harness.order()
    brief = brief_from(order["brief"])
    await globals()[order["settings"]["do"]](harness, brief, order)

asyncio.run(main())
"""


class Bridged(Agent):
    """The far end above, which follows its commands."""

    name = "bridged"
    capabilities = Capabilities(steer=True, interrupt=True, usage=True)

    def __init__(self, what: str, kept: str | None = None) -> None:
        self.what = what
        self.kept = kept

    def start(self, brief: Brief) -> BridgeTurn:
        return bridge.start("far_end", brief, settings={"do": self.what}, kept=self.kept)


@pytest.fixture(autouse=True)
def far_end(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path_factory.mktemp("far")
    (folder / "far_end.py").write_text(FAR_END)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]))


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Text))


def next_text(turn: Turn) -> str:
    while not turn.ended:
        event = turn.next_event(5.0)
        if isinstance(event, Text):
            return event.text
    raise AssertionError("the turn ended")


def test_the_contract_of_an_agent() -> None:
    """A bridged program keeps the contract: answers, failures, hangs, noise; no process is left."""

    def make(behaviour: str) -> Agent | None:
        return None if behaviour in ("deaf", "count", "listen") else Bridged(behaviour)

    assert len(check_agent(make)) == 12


def test_what_is_said_about_an_event_is_in_the_next_request(brief: Make) -> None:
    """C18, UAH-338, UAH-339: messages reach the very next request, as long as there is one; the last says so."""
    turn = Bridged("rounds").start(brief())
    try:
        assert next_text(turn) == "request with []"
        for message in ("seventy-five", "ninety"):
            event = turn.next_event(60.0)
            assert isinstance(event, Usage)
            assert turn.steer(message)
            assert next_text(turn) == f"request with ['{message}']"
        rest = events_of(turn)
        assert rest[-1] == Finished(ok=True, exit_code=0)
        assert not turn.steer("too late")
    finally:
        turn.stop()


def test_several_messages_keep_their_order_and_are_told_once(brief: Make) -> None:
    turn = Bridged("rounds").start(brief())
    try:
        next_text(turn)
        assert all(turn.steer(word) for word in ("one", "two\nlines", "drei ä"))
        assert next_text(turn) == "request with ['one', 'two\\nlines', 'drei ä']"
        assert text_of(events_of(turn)) == ""
    finally:
        turn.stop()


def test_an_interrupt_ends_the_turn_and_everything_it_started(brief: Make) -> None:
    given = brief()
    turn = Bridged("hang").start(given)
    try:
        assert next_text(turn) == "hanging"
        assert turn.interrupt()
        assert events_of(turn)[-1] == Finished(ok=False, message="interrupted", exit_code=0)
        assert owner.processes_tagged("HARNESS_RUN_ID", str(given.run_id)) == []
        assert not turn.interrupt()
        assert not turn.steer("hello?")
    finally:
        turn.stop()


def test_nothing_that_is_long_is_lost_or_cut_in_two(brief: Make) -> None:
    events = events_of(Bridged("long").start(brief()))
    assert text_of(events) == "ä中" * 700_000
    (call,) = [event for event in events if isinstance(event, ToolCall)]
    assert call.input["path"] == "a"
    assert str(call.input["content"]).endswith("characters more)")


def test_what_a_turn_keeps_is_handed_to_the_next(brief: Make) -> None:
    first = Bridged("memory").start(brief())
    assert text_of(events_of(first)) == "{'do': 'memory'} None 0"
    assert first.conversation == "talk-1"
    assert first.kept == "中" * 250_000
    second = Bridged("memory", first.kept).start(brief(conversation="talk-1", round=1))
    assert text_of(events_of(second)) == "{'do': 'memory'} talk-1 250000"


def test_a_refusal_is_told_once_and_as_it_was_said(brief: Make) -> None:
    events = events_of(Bridged("refused").start(brief()))
    refusals = [event for event in events if isinstance(event, RateLimited)]
    assert [refusal.retry_after_seconds for refusal in refusals] == [7.0]
    assert events[-1] == Finished(ok=False, message="429 Too Many Requests", exit_code=0)


def test_a_program_that_goes_away_has_not_ended_well(brief: Make) -> None:
    """An exit or an error is never taken for success."""
    end = events_of(Bridged("vanish").start(brief()))[-1]
    assert isinstance(end, Finished)
    assert (end.ok, end.exit_code) == (False, 1)
    assert "boom: it broke" in end.message


def test_a_brief_arrives_as_it_was_given(brief: Make, tmp_path: Path) -> None:
    rules = ToolRules(
        denied_commands=("sudo", "x y"),
        shell_timeout_seconds=7,
        mcp_servers={"db": McpServer(command=("serve", "--db"), env={"URL": "x"})},
    )
    given = brief(feature_id=3, round=2, model="m", tools=rules, budget_usd=1.5, prompt="Grüße\n\x00\ud800")
    assert brief_from(bridge.brief_record(given)) == given


def test_the_far_end_needs_no_third_party_package() -> None:
    """Before its SDK, a bridged program loads only the standard library and the harness."""
    import subprocess

    text = (
        "import sys, agent_harness.agents.bridge.worker; "
        "print(sorted({n.split('.')[0] for n in sys.modules} & {'pydantic', 'click', 'rich', 'psutil', 'ruamel'}))"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
