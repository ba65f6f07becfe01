"""The api agent against a provider on loopback: a whole turn, steering, interrupts, memory, and every failure."""

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from agent_harness.agents import options
from agent_harness.agents.api import ApiAgent
from agent_harness.agents.base import Agent, Brief, McpServer, ToolRules, Turn
from agent_harness.agents.bridge import BridgeTurn
from agent_harness.agents.claude_code import ClaudeCodeAgent
from agent_harness.agents.events import Event, Finished, RateLimited, Text, ToolCall, ToolResult, Usage
from agent_harness.errors import ToolMissing
from agent_harness.installation import command_for_extra
from agent_harness.kernel import owner
from agent_harness.testing import write_tool_server
from agent_harness.testing.agent_conformance import WORD, check_agent, events_of
from agent_harness.testing.model_server import ModelServer, serve

from .api_server import KEY, point_to, provider, said_to

Make = Callable[..., Brief]
MODEL = "anthropic/claude-sonnet-4-6"

USED = {"input_tokens": 1000, "cached_tokens": 500, "output_tokens": 70}
CONTRACT: dict[str, dict[str, Any]] = {
    "answer": {"@default": ["You said conformance-7391."]},
    "fail": {"@default": [{"error": {"status": 401, "message": "invalid x-api-key"}}]},
    "hang": {"x": {"start": "conformance", "steps": [{"blocks": ["hanging", {"run": "sleep 600"}]}]}},
    "count": {
        "x": {
            "start": "conformance",
            "steps": [{"blocks": {"run": "echo one"}, "usage": USED}, {"blocks": "Done.", "usage": USED}],
        }
    },
    "listen": {
        "x": {
            "start": "conformance",
            "steps": [
                ["ready", {"run": "until test -e go-on; do sleep 0.1; done"}],
                {"find": {"word": WORD}, "blocks": "I was told ${word}."},
            ],
        }
    },
}


def agent() -> ApiAgent:
    return ApiAgent.from_words(MODEL)


def of(kind: type, events: list[Event]) -> list[Any]:
    return [event for event in events if isinstance(event, kind)]


def end_of(events: list[Event]) -> Finished:
    end = events[-1]
    assert isinstance(end, Finished)
    return end


def wait_for(kind: type, turn: Turn) -> Any:
    while not turn.ended:
        event = turn.next_event(5.0)
        if isinstance(event, kind):
            return event
    raise AssertionError(f"the turn ended without {kind.__name__}")


@pytest.fixture
def servers() -> Iterator[dict[str, ModelServer]]:
    with ExitStack() as stack:
        yield {name: stack.enter_context(serve(scripts)) for name, scripts in CONTRACT.items()}


@pytest.mark.scenario
def test_the_contract_of_an_agent(servers: dict[str, ModelServer], monkeypatch: pytest.MonkeyPatch) -> None:
    """The shipped conformance suite, without its cases of a deaf or noisy program."""

    def make(behaviour: str) -> Agent | None:
        if behaviour not in servers:
            return None
        point_to(servers[behaviour], monkeypatch)
        return agent()

    assert len(check_agent(make)) == 14


def test_a_whole_turn(brief: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """UAH-415, UAH-420: tools work in the project, each call's tokens count once, caches apart; the key stays in."""
    used = {"input_tokens": 100, "cached_tokens": 50, "cache_write_tokens": 20, "output_tokens": 10}
    steps: list[Any] = [
        {"blocks": ["I look.", {"run": "echo hello > made.txt; cat made.txt; env"}], "usage": used},
        {"tool": "write_file", "input": {"path": "src/new.py", "content": "x = 1\r\n"}},
        {"tool": "edit_file", "input": {"path": "src/new.py", "old_text": "x = 1", "new_text": "x = 2"}},
        {"tool": "read_file", "input": {"path": "src/new.py"}},
        [{"tool": "list_files", "input": {}}, {"tool": "no_such_tool", "input": {"a": 1}}],
        {"run": "sudo rm -rf /"},
        "All done.",
    ]
    with provider({"work": steps}, monkeypatch) as server:
        told = {"HARNESS_CLAIM_TOKEN": "t-1", "GIT_CONFIG_COUNT": "0"}  # what the verbs and git are to see
        events = events_of(agent().start(brief(prompt="SCRIPT:work", environment=told)))
        requests = server.requests()
    assert end_of(events) == Finished(ok=True, exit_code=0)
    assert [event.text for event in of(Text, events)] == ["I look.", "All done."]
    first, *_ = of(Usage, events)
    assert first == Usage(
        input_tokens=100, output_tokens=10, cached_tokens=50, cache_write_tokens=20, model="claude-sonnet-4-6"
    )
    assert len(of(Usage, events)) == len(requests) == len(steps)
    shell, written, edited, read, listed, unknown, refused = of(ToolResult, events)
    assert shell.output.startswith("hello\n")
    assert {"HARNESS_CLAIM_TOKEN=t-1", "GIT_CONFIG_COUNT=0", "HARNESS_SESSION=7"} <= set(shell.output.splitlines())
    assert KEY not in shell.output
    assert (tmp_path / "src/new.py").read_bytes() == b"x = 2\r\n"
    assert read.output == "x = 2\n"
    assert listed.output == "made.txt\nsrc/"
    assert [answer.is_error for answer in (shell, written, edited, read, listed, unknown, refused)] == [
        False, False, False, False, False, True, True,
    ]  # fmt: skip
    assert "no_such_tool" in unknown.output
    assert "sudo" in refused.output
    calls, answers = of(ToolCall, events), of(ToolResult, events)
    assert [call.id for call in calls] == [answer.id for answer in answers]
    body = requests[-1]["body"]
    marks = str(body["tools"][-1]), str(body["system"][-1]), str(body["messages"][-1])
    assert all("cache_control" in mark for mark in marks)
    assert KEY not in repr([event for event in events if not isinstance(event, Finished)])


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_is_said_after_a_call_is_in_the_very_next_request(brief: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """UAH-338, UAH-339, S12: the texts at 75 and 90 % reach the next request, once, also after a last answer."""
    steps = [{"run": "true"}, {"run": "true"}, "I think that is all.", "Good bye."]
    with provider({"work": steps}, monkeypatch) as server:
        turn = agent().start(brief(prompt="SCRIPT:work"))
        try:
            for number in range(3):
                assert isinstance(wait_for(Usage, turn), Usage)
                assert turn.steer(f"message number {number}")
            assert end_of(events_of(turn)).ok
            assert not turn.steer("too late")
        finally:
            turn.stop()
        asked = [said_to(request) for request in server.requests()]
    assert len(asked) == 4
    for number in range(3):
        assert [text.count(f"message number {number}") for text in asked] == [0] * (number + 1) + [1] * (3 - number)


@pytest.mark.scenario
def test_an_interrupt_ends_a_command_that_runs(brief: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    given = brief(prompt="SCRIPT:work")
    with provider({"work": [{"run": "sleep 600 & sleep 600"}, "never"]}, monkeypatch) as server:
        turn = agent().start(given)
        try:
            wait_for(ToolCall, turn)
            assert turn.interrupt()
            end = end_of(events_of(turn))
        finally:
            turn.stop()
        assert len(server.requests()) == 1
    assert (end.ok, end.message) == (False, "interrupted")
    assert owner.processes_tagged("HARNESS_RUN_ID", str(given.run_id)) == []


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_fix_round_goes_on_in_the_same_conversation(brief: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts = {"one": [{"run": "echo first"}, "I believe it works."], "two": ["Mended."]}
    with provider(scripts, monkeypatch) as server:
        mine = agent()
        first = mine.start(brief(prompt="SCRIPT:one"))
        events_of(first)
        assert first.conversation
        second = mine.start(brief(prompt="SCRIPT:two", round=1, conversation=first.conversation))
        assert [event.text for event in of(Text, events_of(second))] == ["Mended."]
        assert second.conversation == first.conversation
        remembered = said_to(server.requests()[-1])
        events_of(agent().start(brief(prompt="SCRIPT:two", round=1, conversation=first.conversation)))
        fresh = said_to(server.requests()[-1])
    assert "I believe it works." in remembered
    assert "echo first" in remembered
    assert "I believe it works." not in fresh


GARBLED = {"body": '{"type": "message_start", "mess'}
FAILURES: dict[str, tuple[dict[str, Any], int, str]] = {
    "401": ({"status": 401, "message": "invalid x-api-key"}, 1, "ANTHROPIC_API_KEY"),
    "400 too long": ({"status": 400, "message": "prompt is too long: 210000 tokens > 200000"}, 1, "context window"),
    "404": ({"status": 404, "message": "model: claude-sonnet-4-6"}, 1, "no such model"),
    "400": ({"status": 400, "message": "messages: something is wrong"}, 1, "something is wrong"),
    "no credit": ({"status": 400, "message": "Your credit balance is too low"}, 1, "no credit"),
    "malformed": (GARBLED, 1, "malformed"),
}


@pytest.mark.kept("malformed")
@pytest.mark.scenario
@pytest.mark.parametrize(
    "name", ["401", *(pytest.param(name, marks=pytest.mark.scenario) for name in FAILURES if name != "401")]
)
def test_a_failure_is_one_clear_line(name: str, brief: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """UAH-377, UAH-378, C28: the number of tries, and the message for a person, without the key."""
    error, tries, told = FAILURES[name]
    with provider({"@default": [{"error": error}]}, monkeypatch) as server:
        events = events_of(agent().start(brief()))
        assert len(server.requests()) == tries
    end = end_of(events)
    assert (end.ok, end.exit_code) == (False, 0)
    assert told in end.message
    assert "\n" not in end.message
    assert KEY not in repr(events)
    assert not of(RateLimited, events)


REFUSALS: dict[str, tuple[dict[str, Any], float | None]] = {
    "429 with a header": ({"status": 429, "message": "slow down", "headers": {"retry-after": "7"}}, 7.0),
    "429": ({"status": 429, "message": "slow down"}, None),
    "529": ({"status": 529, "message": "Overloaded"}, None),
    "500": ({"status": 500, "message": "Internal server error"}, None),
    "503": ({"status": 503, "message": "unavailable", "headers": {"retry-after": "3"}}, 3.0),
}


@pytest.mark.kept("503")
@pytest.mark.scenario
@pytest.mark.parametrize(
    "name", ["429 with a header", *(pytest.param(name, marks=pytest.mark.scenario) for name in list(REFUSALS)[1:])]
)
def test_a_refusal_is_the_harness_to_wait_for(name: str, brief: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """UAH-374, UAH-375, C28: one request, the wait as the headers say it, and the conversation so far is not lost."""
    error, seconds = REFUSALS[name]
    steps = [{"run": "echo begun"}, {"error": error, "times": 1, "blocks": ["Well then."]}]
    with provider({"work": steps}, monkeypatch) as server:
        mine = agent()
        first = mine.start(brief(prompt="SCRIPT:work"))
        events = events_of(first)
        assert len(server.requests()) == 2
    (refused,) = of(RateLimited, events)
    assert refused.retry_after_seconds == seconds
    assert str(error["status"]) in refused.message
    assert str(error["message"]) in refused.message
    assert not set("{}'") & set(refused.message)
    assert not end_of(events).ok
    assert first.conversation
    assert isinstance(first, BridgeTurn)
    assert "echo begun" in str(first.kept)


@pytest.mark.scenario
def test_the_moment_of_a_reset_is_told_where_the_wait_is_not(brief: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    reset = {"anthropic-ratelimit-unified-reset": "1893456000"}
    with provider({"@default": [{"error": {"status": 429, "message": "no", "headers": reset}}]}, monkeypatch):
        (refused,) = of(RateLimited, events_of(agent().start(brief())))
    assert refused.resets_at == "2030-01-01T00:00:00Z"


@pytest.mark.scenario
def test_a_malformed_answer_is_asked_for_once_more(brief: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """UAH-378: on a task one malformed answer costs one more request, and a second one ends the turn."""
    steps = [{"error": GARBLED, "times": 1, "blocks": ["Here I am."]}]
    with provider({"work": steps, "@default": [{"error": GARBLED}]}, monkeypatch) as server:
        events = events_of(agent().start(brief(prompt="SCRIPT:work", task_id="t")))
        assert len(server.requests()) == 2
        assert "malformed" in end_of(events_of(agent().start(brief(task_id="t")))).message
        assert len(server.requests()) == 4
    assert end_of(events).ok
    assert [event.text for event in of(Text, events)] == ["Here I am."]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_an_answer_that_breaks_off_is_paid_for(brief: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """UAH-415: the provider has counted its tokens, whatever its result."""
    steps = [{"cut": True, "blocks": ["one two three four"], "usage": {"input_tokens": 700, "output_tokens": 9}}]
    with provider({"work": steps}, monkeypatch) as server:
        events = events_of(agent().start(brief(prompt="SCRIPT:work", task_id="t")))
        assert len(server.requests()) == 2
    assert [used.input_tokens for used in of(Usage, events)] == [700, 700]
    assert not end_of(events).ok


@pytest.mark.scenario
def test_silence_is_asked_once_more_and_then_told(brief: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """UAH-376, C28: 120 s without a byte, here scaled down."""
    monkeypatch.setenv("HARNESS_TIME_SCALE", "0.005")
    with provider({"@default": [{"delay_seconds": 60, "blocks": ["late"]}]}, monkeypatch) as server:
        events = events_of(agent().start(brief(task_id="t")))
        assert len(server.requests()) == 2
    assert "no response" in end_of(events).message


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_provider_that_is_not_there(brief: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    with provider({}, monkeypatch):
        pass
    end = end_of(events_of(agent().start(brief())))
    assert not end.ok
    assert "cannot be reached" in end.message


@pytest.mark.kept("openai/gpt-5.5", "openai-responses/gpt-5.5")
@pytest.mark.scenario
@pytest.mark.parametrize("name", ["openai/gpt-5.5", "openai-responses/gpt-5.5", "openai-chat/some-model"])
def test_other_providers_are_asked_the_same_way(name: str, brief: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [{"blocks": [{"run": "echo hello"}], "usage": {"input_tokens": 9, "cached_tokens": 4}}, "Done."]
    with provider({"work": steps}, monkeypatch) as server:
        events = events_of(ApiAgent.from_words(name).start(brief(prompt="SCRIPT:work")))
        assert len(server.requests()) == 2
    assert end_of(events).ok
    assert of(ToolResult, events)[0].output.startswith("hello")
    used = of(Usage, events)[0]
    assert (used.input_tokens, used.cached_tokens, used.model) == (9, 4, name.partition("/")[2])


@pytest.mark.scenario
def test_answers_that_are_cut_off_are_gone_on_with(brief: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [{"blocks": ["half an ans"], "stop_reason": "max_tokens"}, "wer."]
    with provider({"work": steps}, monkeypatch) as server:
        assert end_of(events_of(agent().start(brief(prompt="SCRIPT:work")))).ok
        assert "cut off" in said_to(server.requests()[-1])


WEATHER = """
def answer(name, given):
    return f"rain in {given['place']} {os.environ.get('UNIT')} {'ANTHROPIC_API_KEY' in os.environ}"
"""


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_the_tools_of_an_mcp_server(brief: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Servers over stdio; one that cannot be started is reported, and the turn goes on without it.

    UAH-212, UAH-446
    """
    program = write_tool_server(tmp_path / "server.py", {"look up": ["place"]}, WEATHER)
    servers = {
        "weather": McpServer(command=(str(program),), env={"UNIT": "celsius"}),
        "gone": McpServer(command=("/nowhere/server",)),
    }
    given = brief(prompt="SCRIPT:work", tools=ToolRules(mcp_servers=servers))
    steps = [{"tool": "weather_look_up", "input": {"place": "Bonn"}}, "It rains."]
    with provider({"work": steps}, monkeypatch) as server:
        events = events_of(agent().start(given))
        offered = [tool["name"] for tool in server.requests()[0]["body"]["tools"]]
    assert end_of(events).ok
    assert offered[0] == "shell"
    assert offered[-1] == "weather_look_up"
    assert [event.output for event in of(ToolResult, events)] == ["rain in Bonn celsius False"]
    assert any("MCP server gone" in event.text for event in of(Text, events))
    assert owner.processes_tagged("HARNESS_RUN_ID", str(given.run_id)) == []


# -- what is chosen ----------------------------------------------------------------------------------------------------

CHOICES: list[tuple[str, dict[str, Any], tuple[str, str | None]]] = [
    ("", {}, ("anthropic", "claude-sonnet-4-6")),
    ("", {"model": "claude-sonnet-4"}, ("anthropic", "claude-sonnet-4-6")),
    ("", {"model": "claude-haiku-3"}, ("anthropic", "claude-haiku-4-5")),
    ("", {"model": "claude-sonnet-4", "model_chosen": True}, ("anthropic", "claude-sonnet-4-6")),
    ("", {"model": "gpt-5.5", "model_chosen": True}, ("openai", "gpt-5.5")),
    ("claude-opus-4-8", {"model": "gpt-5.5", "model_chosen": True}, ("anthropic", "claude-opus-4-8")),
    ("openai", {"model": "claude-sonnet-4"}, ("openai", None)),
    ("openai/gpt-5.5", {}, ("openai", "gpt-5.5")),
    ("openrouter/anthropic/claude-sonnet-4.6", {}, ("openrouter", "anthropic/claude-sonnet-4.6")),
    ("gpt-5.5", {}, ("openai", "gpt-5.5")),
]


@pytest.mark.parametrize(("words", "given", "chosen"), CHOICES, ids=[f"{row[0]} {row[1]}" for row in CHOICES])
def test_which_model_is_asked(
    words: str, given: dict[str, Any], chosen: tuple[str, str | None], brief: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C58: the command line, then the settings' models, then the agent's own, then the model of the defaults."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    assert ApiAgent.from_words(words).choice(brief(**given)) == chosen


def test_models_of_the_settings_win_over_the_model_of_the_agent_section(brief: Make) -> None:
    mine = ApiAgent.from_mapping({"provider": "anthropic", "model": "claude-opus-4-8"}, None)
    assert mine.choice(brief(model="claude-haiku-4-5", model_chosen=True)) == ("anthropic", "claude-haiku-4-5")
    assert mine.choice(brief(model="claude-sonnet-4")) == ("anthropic", "claude-opus-4-8")


def test_a_missing_key_is_told_before_anything_starts(brief: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.endswith("_API_KEY")]:
        monkeypatch.delenv(name)
    problem = agent().problem()
    assert problem
    assert "ANTHROPIC_API_KEY" in problem
    with pytest.raises(ToolMissing, match="OPENAI_API_KEY"):
        ApiAgent.from_words("openai/gpt-5.5").start(brief())


def test_without_the_extra_the_error_says_what_to_install(brief: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setitem(sys.modules, "pydantic_ai", None)
    with pytest.raises(ToolMissing, match=re.escape(command_for_extra("api"))):
        agent().start(brief())


def test_a_provider_without_a_model_is_asked_for_nothing(brief: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with pytest.raises(ToolMissing, match="a model name for openai"):
        ApiAgent.from_words("openai").start(brief(model="claude-sonnet-4"))


def test_an_account_is_a_provider_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert agent().account == options.account("anthropic", key=KEY)
    assert agent().account == ClaudeCodeAgent().account, "one key, one limit"
    assert ApiAgent.from_words("gpt-5.5").account == options.account("openai", key=KEY)
    assert ApiAgent.from_words("openai-chat/gpt-5.5").account == options.account("openai", key=KEY)
    assert KEY not in agent().account
