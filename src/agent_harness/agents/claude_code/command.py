"""The command line and the environment of one turn of Claude Code, and whether it can be started at all."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_harness.agents import options as agents_options
from agent_harness.agents.base import Brief, McpServer
from agent_harness.agents.claude_code.settings import ClaudeCodeSettings
from agent_harness.agents.command import environment_of
from agent_harness.agents.guardrails import toolcheck
from agent_harness.errors import ToolMissing
from agent_harness.kernel import process

STREAM = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
ECHO = ("--replay-user-messages", "--include-partial-messages")  # what was heard; what a call used, exactly
AWAY = ("EnterWorktree", "CronCreate", "ScheduleWakeup")
"""Tools that take the work out of the project, or to a time when nobody runs the client."""
QUIET = {
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "HARNESS_DISABLE": "1",  # the hooks of a task list keep a session going; here the harness itself does
}
RETRIES = "CLAUDE_CODE_MAX_RETRIES"
MOST_RETRIES = 3
HINT = "Install it (npm install -g @anthropic-ai/claude-code), or set its place: agent: {kind: claude-code, program: …}"


def words(
    settings: ClaudeCodeSettings, brief: Brief, *, session: str, resumes: bool, mcp_file: Path | None
) -> list[str]:
    """The command line; ``session`` is the conversation's id, which is gone on with if it ``resumes``."""
    model = agents_options.model(settings.model, brief, wins=settings.model_wins)
    options: list[tuple[str, str | None]] = [
        ("--permission-mode", settings.permission_mode),
        ("--model", model),
        ("--resume" if resumes else "--session-id", session),
        ("--allowedTools", ",".join(_allowed(settings, brief)) or None),
        ("--disallowedTools", ",".join(_denied(settings, brief))),
        ("--settings", json.dumps(_own_settings(brief))),
        ("--mcp-config", str(mcp_file) if mcp_file else None),
        ("--max-budget-usd", None if brief.budget_usd is None else f"{max(brief.budget_usd, 0.0001):.4f}"),
    ]
    given = [word for name, value in options if value is not None for word in (name, value)]
    return [settings.program, "-p", *STREAM, *ECHO, *given, "--strict-mcp-config"]


def _allowed(settings: ClaudeCodeSettings, brief: Brief) -> list[str]:
    shell = ["Bash"] if brief.tools.shell_enabled and settings.permission_mode == "acceptEdits" else []
    return [*shell, *(f"mcp__{name}" for name in brief.tools.mcp_servers), *settings.allowed_tools]


def _denied(settings: ClaudeCodeSettings, brief: Brief) -> list[str]:
    files = () if brief.tools.filesystem_enabled else toolcheck.FILE_TOOLS
    shell = () if brief.tools.shell_enabled else ("Bash",)
    return [*AWAY, *files, *shell, *settings.denied_tools]


def _own_settings(brief: Brief) -> dict[str, Any]:
    """The guard rails, asked before every tool; they come on top of the settings of person and project."""
    hook = {"type": "command", "command": toolcheck.hook_command(brief.cwd, brief.tools), "timeout": 60}
    return {"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]}}


def mcp_config(servers: Mapping[str, McpServer]) -> str:
    """The servers in the words of the client."""
    return json.dumps({"mcpServers": {name: _server(server) for name, server in servers.items()}})


def _server(server: McpServer) -> dict[str, Any]:
    env = server.config.get("env")
    told = {str(name): str(value) for name, value in env.items()} if isinstance(env, dict) else {}
    return {"command": server.command[0], "args": list(server.command[1:]), **({"env": told} if told else {})}


def environment(brief: Brief) -> dict[str, str]:
    """What the client is given: its sign-in, our variables, bounded retries, and nothing that calls home."""
    shell_ms = str(brief.tools.shell_timeout_seconds * 1000)
    limits = {"BASH_DEFAULT_TIMEOUT_MS": shell_ms, "BASH_MAX_TIMEOUT_MS": shell_ms, RETRIES: _retries()}
    return process.scrubbed_environment({**QUIET, **limits, **environment_of(brief)}, keep_agent_credentials=True)


def _retries() -> str:
    told = os.environ.get(RETRIES, "")
    return told if told.isdecimal() and int(told) <= MOST_RETRIES else str(MOST_RETRIES)


def problem(settings: ClaudeCodeSettings) -> str | None:
    """Why the client cannot be started, in one line, or ``None``."""
    if shutil.which(settings.program) is None:
        return f"the agent's program {settings.program!r} is not installed or not executable"
    if settings.permission_mode == "bypassPermissions" and os.geteuid() == 0 and not os.environ.get("IS_SANDBOX"):
        return "Claude Code refuses permission_mode bypassPermissions as root; use acceptEdits, or set IS_SANDBOX=1"
    return None


def demand(settings: ClaudeCodeSettings) -> None:
    """Raises ``ToolMissing`` when the client cannot be started."""
    why = problem(settings)
    if why:
        raise ToolMissing(why, hint=HINT if "not installed" in why else None)


def account() -> str:
    """Whose limits the client shares: a key's, or those of the login in its configuration folder."""
    environ = os.environ
    key = next((environ[name] for name in _KEYS if environ.get(name)), None)
    home = environ.get("CLAUDE_CONFIG_DIR") or str(Path("~/.claude").expanduser())
    return agents_options.account("anthropic", key=key, place=home)


_KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")
