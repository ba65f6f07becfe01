"""The start of Claude Code: the content of its command line and environment."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_harness.agents import claude_code
from agent_harness.agents.base import Agent, Brief, McpServer, ToolRules
from agent_harness.agents.claude_code import ClaudeCodeAgent, ClaudeCodeSettings
from agent_harness.agents.registry import resolve
from agent_harness.errors import ConfigurationError, ToolMissing

MakeBrief = Callable[..., Brief]


def words(brief: Brief, **settings: Any) -> list[str]:
    return claude_code.words(ClaudeCodeSettings(**settings), brief, session="s1", resumes=False, mcp_file=None)


def after(line: list[str], option: str) -> str | None:
    return line[line.index(option) + 1] if option in line else None


def test_the_model_is_the_one_that_somebody_chose(brief: MakeBrief) -> None:
    """UAH-242: a default of the settings is ignored; a model per kind of session is used."""
    chosen = brief(model="claude-opus-5-5", model_chosen=True)
    assert after(words(brief(model="claude-sonnet-4")), "--model") is None
    assert after(words(chosen), "--model") == "claude-opus-5-5"
    assert after(words(chosen, model="own"), "--model") == "claude-opus-5-5"
    assert after(words(chosen, model="own", model_wins=True), "--model") == "own"
    assert after(words(brief(), model="own"), "--model") == "own"


def test_a_conversation_is_gone_on_with(brief: MakeBrief) -> None:
    line = claude_code.words(ClaudeCodeSettings(), brief(), session="s1", resumes=True, mcp_file=Path("/x.json"))
    assert (after(line, "--resume"), after(line, "--session-id")) == ("s1", None)
    assert after(line, "--mcp-config") == "/x.json"
    assert after(words(brief()), "--session-id") == "s1"


def test_the_tools_of_the_settings_reach_the_client(brief: MakeBrief) -> None:
    """UAH-206, UAH-210, UAH-212: shell, files and servers are offered as the settings say."""
    servers = {"db": McpServer(command=("npx", "-y", "db"), env={"URL": "x"})}
    line = words(brief(tools=ToolRules(mcp_servers=servers), budget_usd=1.5), allowed_tools=("WebFetch",))
    assert after(line, "--allowedTools") == "Bash,mcp__db,WebFetch"
    assert after(line, "--max-budget-usd") == "1.5000"
    less = words(brief(tools=ToolRules(shell_enabled=False, filesystem_enabled=False)))
    assert after(less, "--allowedTools") is None
    denied = str(after(less, "--disallowedTools")).split(",")
    assert {"Bash", "Write", "Edit", "Read"} <= set(denied)


def test_the_guard_rails_are_asked_before_every_tool(brief: MakeBrief) -> None:
    hooks = json.loads(str(after(words(brief()), "--settings")))["hooks"]["PreToolUse"]
    assert [each["matcher"] for each in hooks] == ["*"]
    assert "toolcheck.py" in hooks[0]["hooks"][0]["command"]


def test_the_environment_calls_nobody_and_keeps_the_sign_in(brief: MakeBrief, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-test")
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_test")
    monkeypatch.setenv("CLAUDE_CODE_MAX_RETRIES", "50")
    env = claude_code.environment(brief(tools=ToolRules(shell_timeout_seconds=42)))
    assert env["ANTHROPIC_API_KEY"] == "sk-test"
    assert "GITHUB_TOKEN" not in env
    assert env["CLAUDE_CODE_MAX_RETRIES"] == "3"
    assert env["BASH_MAX_TIMEOUT_MS"] == "42000"
    assert env["DISABLE_AUTOUPDATER"] == env["DISABLE_TELEMETRY"] == env["HARNESS_DISABLE"] == "1"
    monkeypatch.setenv("CLAUDE_CODE_MAX_RETRIES", "1")
    assert claude_code.environment(brief())["CLAUDE_CODE_MAX_RETRIES"] == "1"


def test_the_account_is_the_key_without_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", "/config/claude")
    login = ClaudeCodeAgent().account
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret-one")
    one = ClaudeCodeAgent().account
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret-two")
    assert len({login, one, ClaudeCodeAgent().account}) == 3
    assert "secret" not in one


def settled(given: dict[str, Any]) -> Agent:
    return resolve(None, configured={"kind": "claude-code", **given}, environ={"PATH": "/nowhere"})


def test_settings_are_read() -> None:
    given = {"model": "m", "permission_mode": "dontAsk", "denied_tools": ["WebSearch"], "program": "/x/claude"}
    agent = settled(given)
    assert isinstance(agent, ClaudeCodeAgent)
    assert agent.settings == ClaudeCodeSettings(
        model="m", permission_mode="dontAsk", denied_tools=("WebSearch",), program="/x/claude"
    )


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"modle": "x"}, "agent.modle"),
        ({"permission_mode": "yolo"}, "agent.permission_mode is 'yolo'"),
        ({"model": 3}, "agent.model must be a string"),
        ({"allowed_tools": "Bash"}, "agent.allowed_tools must be a list"),
    ],
)
def test_a_wrong_setting_is_one_clear_line(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        settled(given)
    assert text in caught.value.message


def test_a_client_that_is_not_there_is_refused_before_anything_starts(brief: MakeBrief) -> None:
    agent = ClaudeCodeAgent(ClaudeCodeSettings(program="/nowhere/claude"))
    assert "not installed" in (agent.problem() or "")
    with pytest.raises(ToolMissing) as caught:
        agent.start(brief())
    assert caught.value.exit_code == 4
    assert "npm install" in (caught.value.hint or "")
