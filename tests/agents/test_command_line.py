"""A program in print mode: separate streams, the words of the command interface, and an end by its exit status."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_harness.agents.base import Agent, Brief, McpServer, ToolRules
from agent_harness.agents.command import CommandLineAgent, Printed, no_refusal
from agent_harness.agents.events import Event, Finished, RateLimited, Text, Usage
from agent_harness.agents.kimi import KimiAgent
from agent_harness.errors import ConfigurationError, ToolMissing

Make = Callable[..., Brief]
Run = Callable[[Agent, Brief], list[Event]]


def test_both_streams_are_kept_as_they_came(brief: Make, turn_of: Run) -> None:
    printed = Printed()
    line = "printf 'one\\n\\377 no end'; echo wrong >&2; cat >&2"
    events = turn_of(CommandLineAgent("shell", line, printed=printed), brief(prompt="asked"))
    assert printed.stdout.text() == "one\n\N{REPLACEMENT CHARACTER} no end"
    assert printed.stderr.text() == "wrong\nasked"
    assert events[-1] == Finished(ok=True, exit_code=0)
    assert Text("[standard error]\nwrong\nasked") in events


def test_the_seam_is_read_but_for_ends_and_refusals(brief: Make, turn_of: Run) -> None:
    told = ('{"type":"usage","input_tokens":7}', '{"type":"finished","ok":false}', '{"type":"rate_limited"}')
    events = turn_of(CommandLineAgent("shell", "; ".join(f"echo '{each}'" for each in told)), brief())
    assert [each for each in events if isinstance(each, Usage)] == [Usage(input_tokens=7)]
    assert not [each for each in events if isinstance(each, RateLimited)]
    assert events[-1] == Finished(ok=True, exit_code=0)


@pytest.mark.parametrize(("code", "ok"), [(0, True), (3, False)])
def test_a_refusal_counts_only_at_a_bad_end(brief: Make, turn_of: Run, code: int, ok: bool) -> None:
    agent = CommandLineAgent("shell", f"echo 'HTTP 429, retry after 90 s' >&2; exit {code}")
    events = turn_of(agent, brief())
    refused = [each for each in events if isinstance(each, RateLimited)]
    assert [each.retry_after_seconds for each in refused] == ([] if ok else [90.0])
    last = events[-1]
    assert isinstance(last, Finished) and (last.ok, last.exit_code) == (ok, code)


def test_a_line_of_shell_has_no_provider(brief: Make, turn_of: Run) -> None:
    agent = CommandLineAgent("shell", "echo 'HTTP 429' >&2; exit 3", refusal=no_refusal)
    assert not [each for each in turn_of(agent, brief()) if isinstance(each, RateLimited)]


def test_a_program_that_is_missing(brief: Make) -> None:
    with pytest.raises(ToolMissing):
        CommandLineAgent("client", ["no-such-program"]).start(brief())


# ---- kimi


@pytest.fixture
def kimi(tmp_path: Path) -> Path:
    """Make a replacement of the client that prints its arguments."""
    path = tmp_path / "bin-kimi"
    path.write_text('#!/bin/sh\nprintf "%s\\n" "$@"; cat\n')
    path.chmod(0o755)
    return path


def test_kimi_works_in_the_project_and_gets_its_prompt(brief: Make, turn_of: Run, kimi: Path) -> None:
    made = brief(prompt="asked")
    agent = KimiAgent.from_mapping({"program": str(kimi), "model": "k2"}, None)
    said = "\n".join(each.text for each in turn_of(agent, made) if isinstance(each, Text))
    words = ["--work-dir", str(made.cwd), "--print", "--input-format", "text", "--output-format", "text"]
    assert said == "\n".join([*words, "--final-message-only", "--model", "k2", "asked"])


def test_kimi_is_given_the_servers_of_the_settings(brief: Make, turn_of: Run, kimi: Path) -> None:
    kimi.write_text('#!/bin/sh\nfor word; do last=$word; done; echo "$*"; cat "$last"\n')
    made = brief(tools=ToolRules(mcp_servers={"db": McpServer(command=("npx", "db"), env={"URL": "x"})}))
    events = turn_of(KimiAgent.from_mapping({"program": str(kimi)}, None), made)
    line, told = "\n".join(each.text for each in events if isinstance(each, Text)).split("\n")
    assert line.split()[-2] == "--mcp-config-file"
    assert json.loads(told) == {"mcpServers": {"db": {"command": "npx", "args": ["db"], "env": {"URL": "x"}}}}
    assert not Path(line.split()[-1]).exists()


def test_kimi_says_what_is_wrong(brief: Make) -> None:
    agent = KimiAgent.from_mapping({"program": "no-such-kimi"}, None)
    assert agent.problem() == "the agent's program 'no-such-kimi' is not installed or not executable"
    with pytest.raises(ToolMissing, match="no-such-kimi"):
        agent.start(brief())
    with pytest.raises(ConfigurationError, match=r"agent\.sandbox"):
        KimiAgent.from_mapping({"sandbox": "none"}, None)


def test_the_account_of_kimi_is_its_key_or_its_login(monkeypatch: pytest.MonkeyPatch) -> None:
    assert KimiAgent().account == "kimi"
    monkeypatch.setenv("KIMI_API_KEY", "sk-0123456789")
    assert KimiAgent().account.startswith("kimi:key-") and "0123456789" not in KimiAgent().account
