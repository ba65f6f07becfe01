"""The acp agent against a program that speaks the protocol through the maintained SDK."""

import sys
from pathlib import Path
from typing import Any

import pytest

from agent_harness.agents.acp import AcpAgent
from agent_harness.agents.base import Brief, McpServer, ToolRules
from agent_harness.agents.events import Event, Finished, RateLimited, Text, ToolResult, Usage
from agent_harness.agents.registry import from_mapping, from_spec
from agent_harness.errors import ConfigurationError, ToolMissing, UsageError
from agent_harness.testing.agent_conformance import check_agent, events_of

PROGRAM = Path(__file__).parent / "acp_agent.py"


def agent(behaviour: str) -> AcpAgent:
    return AcpAgent([sys.executable, str(PROGRAM), behaviour])


def brief(folder: Path, prompt: str = "go", **more: Any) -> Brief:
    return Brief(prompt=prompt, cwd=folder, session=1, prompt_type="coding", **more)


def turn(behaviour: str, folder: Path, prompt: str = "go", **more: Any) -> tuple[list[Event], str | None]:
    running = agent(behaviour).start(brief(folder, prompt, **more))
    try:
        return events_of(running), running.conversation
    finally:
        running.stop()


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_it_keeps_the_contract_of_an_agent() -> None:
    behaviours = ("answer", "fail", "hang")
    checked = check_agent(lambda behaviour: agent(behaviour) if behaviour in behaviours else None)
    assert "stop ends every process, twice over" in checked


def test_text_comes_in_whole_lines(tmp_path: Path) -> None:
    events, conversation = turn("answer", tmp_path, "one two three")
    assert events == [Text("one two three"), Text("and a second line"), Finished(ok=True, exit_code=0)]
    assert conversation == "session-one"


def test_the_servers_of_the_settings_are_handed_to_the_session(tmp_path: Path) -> None:
    """UAH-446: with their arguments and variables."""
    rules = ToolRules(mcp_servers={"db": McpServer(command=("npx", "-y", "db"), env={"URL": "x"})})
    events, _ = turn("servers", tmp_path, tools=rules)
    assert events[0] == Text("db: ['-y', 'db'] [('URL', 'x')]")


def test_usage_is_counted_once_and_the_cost_is_never_a_running_total(tmp_path: Path) -> None:
    used = [event for event in turn("count", tmp_path)[0] if isinstance(event, Usage)]
    assert sum(one.cost_usd or 0 for one in used) == 0.75
    assert (sum(one.input_tokens for one in used), sum(one.output_tokens for one in used)) == (20, 30)
    assert sum(one.cached_tokens for one in used) == 10
    assert [one.context for one in used] == [1000, 3000, 3000]


def test_permissions_are_given_by_the_guard_rails(tmp_path: Path) -> None:
    project = tmp_path / "project"
    (project / ".git").mkdir(parents=True)
    prompt = (
        f"edit {project}/a.txt\nedit {tmp_path}/outside.txt\nedit {project}/.git/config\nrun touch b.txt\nrun sudo ls"
    )
    events, _ = turn("write", project, prompt)
    ended = [event.is_error for event in events if isinstance(event, ToolResult)]
    assert ended == [False, True, True, False, True]
    assert sorted(one.name for one in project.iterdir()) == [".git", "a.txt", "b.txt"]
    assert not (tmp_path / "outside.txt").exists()
    assert sum("refused" in event.text for event in events if isinstance(event, Text)) == 3


def test_an_interrupt_ends_the_turn_and_nothing_is_told_to_a_running_one(tmp_path: Path) -> None:
    running = agent("wait").start(brief(tmp_path))
    try:
        while running.next_event(60) != Text("waiting"):
            assert not running.ended
        assert running.steer("hello") is False
        assert running.interrupt()
        end = events_of(running)[-1]
    finally:
        running.stop()
    assert isinstance(end, Finished)
    assert (end.ok, end.message) == (False, "interrupted")


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_later_turn_goes_on_in_the_same_session(tmp_path: Path) -> None:
    events, conversation = turn("remember", tmp_path)
    assert Text("round 0") in events
    events, _ = turn("remember", tmp_path, conversation=conversation)
    assert Text("round 1") in events
    assert Text("told again") not in events


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_rate_limit_is_told_as_one(tmp_path: Path) -> None:
    events, _ = turn("limited", tmp_path)
    refused = next(event for event in events if isinstance(event, RateLimited))
    assert refused.retry_after_seconds == 40
    assert isinstance(events[-1], Finished)
    assert not events[-1].ok


@pytest.mark.parametrize(
    ("behaviour", "says"), [("stranger", "not logged in"), ("die", "status 7"), ("fail", "it broke")]
)
def test_a_bad_end_says_why(behaviour: str, says: str, tmp_path: Path) -> None:
    end = turn(behaviour, tmp_path)[0][-1]
    assert isinstance(end, Finished)
    assert not end.ok
    assert says in end.message


def test_a_known_agent_needs_no_words() -> None:
    found = from_spec("acp:gemini")
    assert isinstance(found, AcpAgent)
    assert found.words == ("gemini", "--acp")
    assert found.account == "acp:gemini"
    own = from_mapping({"kind": "acp", "command": "gemini --acp --model x"})
    assert isinstance(own, AcpAgent)
    assert own.words == ("gemini", "--acp", "--model", "x")


def test_what_is_missing_is_one_clear_line(tmp_path: Path) -> None:
    missing = from_spec("acp:no-such-agent --acp")
    assert "no-such-agent" in (missing.problem() or "")
    with pytest.raises(ToolMissing, match="no-such-agent"):
        missing.start(brief(tmp_path))
    with pytest.raises(UsageError, match="acp:WORDS"):
        from_spec("acp")
    with pytest.raises(ConfigurationError, match=r"agent\.speed"):
        from_mapping({"kind": "acp", "command": ["x"], "speed": 1})
    with pytest.raises(ConfigurationError, match=r"agent\.command"):
        from_mapping({"kind": "acp"})
