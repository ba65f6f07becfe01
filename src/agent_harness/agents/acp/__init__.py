"""Agent kind acp: any program that supports the Agent Client Protocol. The user gives the program's command.

Requires the extra ``acp``. In the protocol, usage reports are optional. Tokens are therefore counted only if the agent
reports them. The protocol does not define steering, so a running turn receives no messages. User page:
``docs/acp-agent.md``."""

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from agent_harness.agents import bridge, options
from agent_harness.agents.base import Agent, Brief, Capabilities, Turn
from agent_harness.agents.command import found_program, program_problem
from agent_harness.agents.registry import words_of
from agent_harness.errors import ConfigurationError, ToolMissing

PROGRAM = "agent_harness.agents.acp.program"
HINT = 'For example: --agent "acp:gemini --acp", or agent: {kind: acp, command: ["opencode", "acp"]}'

KNOWN: Mapping[str, tuple[str, ...]] = {
    "gemini": ("gemini", "--acp"),
    "opencode": ("opencode", "acp"),
    "kimi": ("kimi", "acp"),
    "goose": ("goose", "acp"),
    "claude-agent-acp": ("claude-agent-acp",),
    "codex-acp": ("codex-acp",),
}
"""Programs that are known to support the protocol, with their command lines. For these programs, ``acp:NAME`` is
enough.
"""


class AcpAgent(Agent):
    """Agent that runs a program through the Agent Client Protocol (ACP)."""

    name = "acp"
    capabilities = Capabilities(interrupt=True, resume=True)

    def __init__(self, words: Sequence[str]) -> None:
        self.words = KNOWN.get(words[0], tuple(words)) if len(words) == 1 else tuple(words)

    @classmethod
    def from_words(cls, text: str) -> "AcpAgent":
        """Return the agent that runs ``text``, a command or the name of a known program."""
        return cls(words_of(text))

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any], root: Path | None) -> "AcpAgent":
        """Return the agent for ``agent: {kind: acp, command: ...}``."""
        command = options.checked("acp", settings, ("command",)).get("command")
        if isinstance(command, str):
            return cls(words_of(command))
        words = options.words(settings, "command")
        if not words:
            raise ConfigurationError("agent.command must be a string or a list of words", hint=HINT)
        return cls(words)

    @property
    def account(self) -> str:
        # all sessions of a program share one login
        return f"acp:{Path(self.words[0]).name}"

    def problem(self) -> str | None:
        if find_spec("acp") is None:
            from agent_harness.installation import command_for_extra

            return f"the acp agent needs an extra: {command_for_extra('acp')}"
        return program_problem(self.words[0])

    def start(self, brief: Brief) -> Turn:
        if problem := self.problem():
            raise ToolMissing(problem, hint=HINT)
        found = found_program(self.words[0], brief, HINT)
        return bridge.start(PROGRAM, brief, settings={"command": [found, *self.words[1:]]}, steerable=False)
