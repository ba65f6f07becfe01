"""Agent kind ``claude-code``: one process of ``claude -p`` per turn, with JSON lines in both directions.

The client ends a model turn with a ``result``. A turn of the harness may contain several results, because a late
message or the end of a background sub-agent starts another model turn. When no more messages can follow, the harness
closes standard input and reads the remaining lines. The last result decides.

This module also contains the agent's settings, the command line and environment of a turn, and the client's print mode.
``stream`` converts the client's lines into events: actions, tokens (each counted once) and the provider's refusals."""

import json
import os
import time
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent_harness.agents import options
from agent_harness.agents.base import Brief, Turn, sandbox_of
from agent_harness.agents.claude_code import stream
from agent_harness.agents.command import (
    CommandTurn,
    environment_of,
    line_of,
    refusal_from_text,
    removed_on_error,
    servers_file,
)
from agent_harness.agents.events import Finished, Text, object_of_line
from agent_harness.agents.guardrails import toolcheck
from agent_harness.agents.options import ClientAgent, ClientSettings
from agent_harness.agents.usage import PrintedUsage, object_on, printed_objects, printed_usage
from agent_harness.kernel import process
from agent_harness.kernel.json import JsonObject, token_count

__all__ = ["ClaudeCodeAgent", "ClaudeCodeSettings"]

MODES = ("acceptEdits", "default", "dontAsk", "plan", "auto", "bypassPermissions")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeCodeSettings(ClientSettings):
    kind = "claude-code"
    program: str = "claude"
    permission_mode: str = "acceptEdits"
    allowed_tools: tuple[str, ...] = ()  # beside shell and file tools, in the client's notation
    denied_tools: tuple[str, ...] = ()

    @classmethod
    def own(cls, settings: Mapping[str, Any]) -> Mapping[str, Any]:
        return {
            "permission_mode": options.one_of(settings, "permission_mode", MODES, "acceptEdits"),
            "allowed_tools": options.words(settings, "allowed_tools"),
            "denied_tools": options.words(settings, "denied_tools"),
        }


STREAM = ("--input-format", "stream-json", "--output-format", "stream-json", "--verbose")
ECHO = ("--replay-user-messages", "--include-partial-messages")  # messages that were read; exact usage of a call
AWAY = ("EnterWorktree", "CronCreate", "ScheduleWakeup")
"""Tools that move work out of the project, or that delay work until the client no longer runs."""
QUIET = {
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "HARNESS_DISABLE": "1",  # the hooks of a task list keep a session going; here the harness itself does
}
RETRIES = "CLAUDE_CODE_MAX_RETRIES"
MOST_RETRIES = 3


def words(
    settings: ClaudeCodeSettings, brief: Brief, *, session: str, resumes: bool, mcp_file: Path | None
) -> list[str]:
    """Return the command line that starts the client for a turn of the conversation ``session``."""
    model = options.model(settings.model, brief, wins=settings.model_wins)
    # The guard rails, checked before every tool; they apply in addition to the settings of person and project.
    hook = {"type": "command", "command": toolcheck.hook_command(brief.cwd, brief.tools), "timeout": 60}
    tools = brief.tools
    shell = ["Bash"] if tools.shell_enabled and settings.permission_mode == "acceptEdits" else []
    allowed = [*shell, *(f"mcp__{name}" for name in tools.mcp_servers), *settings.allowed_tools]
    files = () if tools.filesystem_enabled else toolcheck.FILE_TOOLS
    denied = [*AWAY, *files, *(() if tools.shell_enabled else ("Bash",)), *settings.denied_tools]
    chosen: list[tuple[str, str | None]] = [
        ("--permission-mode", settings.permission_mode),
        ("--model", model),
        ("--resume" if resumes else "--session-id", session),
        ("--allowedTools", ",".join(allowed) or None),
        ("--disallowedTools", ",".join(denied)),
        ("--settings", json.dumps({"hooks": {"PreToolUse": [{"matcher": "*", "hooks": [hook]}]}})),
        ("--mcp-config", str(mcp_file) if mcp_file else None),
        ("--max-budget-usd", None if brief.budget_usd is None else f"{max(brief.budget_usd, 0.0001):.4f}"),
    ]
    given = [word for name, value in chosen if value is not None for word in (name, value)]
    return [settings.program, "-p", *STREAM, *ECHO, *given, "--strict-mcp-config"]


def environment(brief: Brief) -> dict[str, str]:
    shell_ms = str(brief.tools.shell_timeout_seconds * 1000)
    told = os.environ.get(RETRIES, "")
    retries = told if told.isdecimal() and int(told) <= MOST_RETRIES else str(MOST_RETRIES)
    limits = {"BASH_DEFAULT_TIMEOUT_MS": shell_ms, "BASH_MAX_TIMEOUT_MS": shell_ms, RETRIES: retries}
    return process.scrubbed_environment({**QUIET, **limits, **environment_of(brief)}, keep_agent_credentials=True)


def account() -> str:
    environ = os.environ
    key = next((environ[name] for name in KEYS if environ.get(name)), None)
    home = environ.get("CLAUDE_CONFIG_DIR") or str(Path("~/.claude").expanduser())
    return options.account("anthropic", key=key, place=home)


KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN")


def wraps(more: Iterable[str]) -> bool:
    """Return True if ``more`` contains no option for the output format, so that ``print_words`` adds one."""
    return not any(each.partition("=")[0] == "--output-format" for each in more)


def print_words(model: str | None, permission_mode: str | None, more: Sequence[str] = ()) -> list[str]:
    """Return the command line for the client's print mode. The client reads the prompt from standard input."""
    words = ["claude", "--print", *(["--output-format", "json"] if wraps(more) else [])]
    words += ["--model", model] if model else []
    words += ["--permission-mode", permission_mode] if permission_mode else []
    return [*words, *more]


def unwrapped(stdout: str) -> str:
    """Return the output. The client's final JSON object is replaced by the answer in this object."""
    before, _, last = stdout.rstrip().rpartition("\n")
    found = object_on(last)
    if found is None or found.get("type") != "result" or not isinstance(found.get("result"), str):
        return stdout
    return f"{before}\n{found['result']}" if before else found["result"]


def denied_tools(stdout: str) -> list[str]:
    """Return the name of each tool that the client refused, without duplicates."""
    found = next((each for each in printed_objects(stdout, '"result"') if each.get("type") == "result"), {})
    denials = found.get("permission_denials")
    named = [each.get("tool_name") for each in denials if isinstance(each, dict)] if isinstance(denials, list) else []
    return list(dict.fromkeys(name for name in named if isinstance(name, str) and name))


def usage_of(stdout: str, stderr: str) -> PrintedUsage | None:
    """Return the usage in the client's last ``result`` object, or None if the client printed no such object."""
    for event in printed_objects(stdout, '"result"'):
        if event.get("type") == "result":
            return _of_models(event) or _of_result(event)
    return None


def _of_models(event: JsonObject) -> PrintedUsage | None:
    models = event.get("modelUsage")
    used = [each for each in models.values() if isinstance(each, dict)] if isinstance(models, dict) else []
    if not used:
        return None

    def summed(*names: str) -> int:
        return sum(token_count(each.get(name)) or 0 for each in used for name in names)

    asked = summed("inputTokens", "cacheCreationInputTokens")
    return printed_usage(asked, summed("outputTokens"), summed("cacheReadInputTokens"), event.get("total_cost_usd"))


def _of_result(event: JsonObject) -> PrintedUsage | None:
    used = event.get("usage")
    if not isinstance(used, dict) or token_count(used.get("input_tokens")) is None:
        return None
    asked = used["input_tokens"] + (token_count(used.get("cache_creation_input_tokens")) or 0)
    cached = token_count(used.get("cache_read_input_tokens")) or 0
    return printed_usage(asked, used.get("output_tokens"), cached, event.get("total_cost_usd"))


class ClaudeCodeAgent(ClientAgent[ClaudeCodeSettings]):
    name = "claude-code"
    settings_class = ClaudeCodeSettings
    install = (
        "Install it (npm install -g @anthropic-ai/claude-code), or set its path: agent: {kind: claude-code, program: …}"
    )

    @property
    def account(self) -> str:
        return account()

    def problem(self) -> str | None:
        bypasses = self.settings.permission_mode == "bypassPermissions"
        if (why := super().problem()) or not bypasses or os.geteuid() != 0 or os.environ.get("IS_SANDBOX"):
            return why
        return "Claude Code refuses permission_mode bypassPermissions as root; use acceptEdits, or set IS_SANDBOX=1"

    def start(self, brief: Brief) -> Turn:
        self.demand()
        return ClaudeTurn(self.settings, brief)


LINGER_SECONDS = 10.0  # between the last result and the end of a process that something in the background holds
UNHEARD_SECONDS = 60.0  # the same, while a message is on its way
LONGEST_TEXT = 2000  # of a line that is not JSON


class ClaudeTurn(CommandTurn):
    """Turn of the client. It starts a new conversation if the earlier one no longer exists."""

    def __init__(self, settings: ClaudeCodeSettings, brief: Brief) -> None:
        self._settings, self._brief = settings, brief
        self._servers = servers_file(brief)
        self._resumes = bool(brief.conversation)
        with removed_on_error(self._servers):
            super().__init__(self._start(), self._servers)

    def _start(self) -> process.Running:
        brief = self._brief
        self.conversation = brief.conversation if self._resumes and brief.conversation else str(uuid.uuid4())
        self._stream = stream.Stream(resumed=self._resumes)
        self._sent = 0
        self._open = True  # standard input
        self._over = False  # stopped by the harness after the last result
        running = process.start(
            words(self._settings, brief, session=self.conversation, resumes=self._resumes, mcp_file=self._servers),
            cwd=brief.cwd,
            env=environment(brief),
            merge_stderr=False,
            run_id=brief.run_id,
            own_temporary=True,
            sandbox=sandbox_of(brief),
        )
        self._say(running, brief.prompt)
        return running

    # ---- messages

    def steer(self, text: str) -> bool:
        return self._open and not self._ended and self._say(self._running, text)

    def interrupt(self) -> bool:
        asked = {"type": "control_request", "request_id": "interrupt", "request": {"subtype": "interrupt"}}
        return self._open and not self._ended and _write(self._running, asked)

    def _say(self, running: process.Running, text: str) -> bool:
        message = {"role": "user", "content": text.encode("utf-8", "replace").decode("utf-8")}
        written = _write(running, {"type": "user", "message": message})
        self._sent += written
        return written

    # ---- lines

    def _take(self, line: bytes) -> None:
        if line.startswith(stream.DELTA):
            return
        record = object_of_line(line)
        if record is None:
            self._ready.append(Text(line_of(line)[:LONGEST_TEXT]))
            return
        self._ready.extend(self._stream.events(record))
        self.conversation = self._stream.session or self.conversation
        self._look_for_the_end()

    def _look_for_the_end(self) -> None:
        """Close the agent's standard input when the agent can receive no more messages."""
        read = self._stream
        if not read.at_rest or read.waits_for_agents:
            self._lingers_until, self._over = float("inf"), False
            return
        waits = self._sent > read.heard
        if not waits and self._open:
            self._open = False
            self._running.close_input()
        self._over = True
        if self._lingers_until == float("inf"):
            self._lingers_until = time.monotonic() + (UNHEARD_SECONDS if waits else LINGER_SECONDS)

    # ---- the end

    def _end(self) -> None:
        result = self._stream.result
        errors = self._running.stderr_tail.decode("utf-8", "replace")
        if self._resumes and not self._stopped and stream.lost_conversation(result, errors):
            self._ready.append(Text("[the conversation was lost; starting a new conversation]"))
            self._running.close()
            self._resumes = False
            self._lingers_until = float("inf")
            self._running = self._start()
            return
        code = self._running.exit_code
        well = result is not None and result.get("is_error") is False
        ok = well and (code == 0 or (self._over and self._lingers_until <= time.monotonic()))
        if not well:
            self._take_errors()
        why = "" if ok else stream.reason(result) if result and not well else self._reason(code)
        if not ok and not self._stream.refused and (refused := refusal_from_text("\n".join(self._last_lines))):
            self._ready.append(refused)
        self._ready.append(Finished(ok=ok, message=why, exit_code=code))

    def stop(self, grace_seconds: float = 5.0) -> None:
        self._stopped = True
        self._open = False
        super().stop(grace_seconds)

    _stopped = False


def _write(running: process.Running, message: Mapping[str, object]) -> bool:
    return running.write(json.dumps(message).encode() + b"\n")
