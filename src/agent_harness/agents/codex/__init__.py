"""The ``codex`` agent: one ``codex app-server`` a turn, spoken to in JSON-RPC; ``codex exec`` where there is none.

settings    what a person chose
command     the command lines, the environment, the sandbox in the words of the server
stream      what it says, turned into events: items, tokens, refusals of the provider
approvals   what it asks for, answered by the guard rails
appserver   a turn of the app-server
execution   a turn of ``codex exec --json``, which cannot be steered
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_harness.agents.base import Agent, Brief, Capabilities, Turn
from agent_harness.agents.codex import appserver, command, execution
from agent_harness.agents.codex.settings import CodexSettings

__all__ = ["CodexAgent", "CodexSettings"]


class CodexAgent(Agent):
    """Drives Codex."""

    name = "codex"
    capabilities = Capabilities(steer=True, interrupt=True, resume=True, usage=True)

    def __init__(self, settings: CodexSettings | None = None) -> None:
        self.settings = settings or CodexSettings()

    @classmethod
    def from_words(cls, text: str) -> "CodexAgent":
        """The agent of ``codex`` or ``codex:MODEL``."""
        return cls(CodexSettings(model=text.strip() or None, model_wins=True))

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any], root: Path | None) -> "CodexAgent":
        """The agent of ``agent: {kind: codex, ...}``; ``CodexSettings`` has the names."""
        return cls(CodexSettings.read(settings))

    @property
    def account(self) -> str:
        """The key or the login that the client would use."""
        return command.account()

    def problem(self) -> str | None:
        """Why the client cannot be started."""
        return command.problem(self.settings)

    def start(self, brief: Brief) -> Turn:
        """Starts a turn in the project; goes on in ``brief.conversation`` if it can.

        Raises ``ToolMissing`` also when the sandbox of the settings cannot be made on this machine.
        """
        command.demand(self.settings)
        try:
            return appserver.begin(self.settings, brief)
        except appserver.NoServer:
            return execution.begin(self.settings, brief)
