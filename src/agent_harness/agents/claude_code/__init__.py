"""The ``claude-code`` agent: one process of ``claude -p`` a turn, spoken to and listened to in JSON lines.

settings   what a person chose
command    the command line and the environment of one turn
stream     the client's lines, turned into events: what was done, tokens counted once, refusals of the provider
turn       the process, its messages and its end
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_harness.agents.base import Agent, Brief, Capabilities, Turn
from agent_harness.agents.claude_code import command
from agent_harness.agents.claude_code.settings import ClaudeCodeSettings
from agent_harness.agents.claude_code.turn import ClaudeTurn

__all__ = ["ClaudeCodeAgent", "ClaudeCodeSettings"]


class ClaudeCodeAgent(Agent):
    """Drives the ``claude`` command line."""

    name = "claude-code"
    capabilities = Capabilities(steer=True, interrupt=True, resume=True, usage=True)

    def __init__(self, settings: ClaudeCodeSettings | None = None) -> None:
        self.settings = settings or ClaudeCodeSettings()

    @classmethod
    def from_words(cls, text: str) -> "ClaudeCodeAgent":
        """The agent of ``claude-code`` or ``claude-code:MODEL``."""
        return cls(ClaudeCodeSettings(model=text.strip() or None, model_wins=True))

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any], root: Path | None) -> "ClaudeCodeAgent":
        """The agent of ``agent: {kind: claude-code, ...}``; ``ClaudeCodeSettings`` has the names."""
        return cls(ClaudeCodeSettings.read(settings))

    @property
    def account(self) -> str:
        """The key or the login that the client would use."""
        return command.account()

    def problem(self) -> str | None:
        """Why the client cannot be started."""
        return command.problem(self.settings)

    def start(self, brief: Brief) -> Turn:
        """Starts the client in the project and gives it the prompt; goes on in ``brief.conversation`` if it can."""
        command.demand(self.settings)
        return ClaudeTurn(self.settings, brief)
