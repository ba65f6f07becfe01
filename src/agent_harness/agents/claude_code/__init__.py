"""The ``claude-code`` agent: one process of ``claude -p`` a turn, spoken to and listened to in JSON lines.

settings   what a person chose
command    the command line and the environment of one turn
stream     the client's lines, turned into events: what was done, tokens counted once, refusals of the provider
turn       the process, its messages and its end
"""

from agent_harness.agents.base import Brief, Turn
from agent_harness.agents.claude_code import command
from agent_harness.agents.claude_code.settings import ClaudeCodeSettings
from agent_harness.agents.claude_code.turn import ClaudeTurn
from agent_harness.agents.options import ClientAgent

__all__ = ["ClaudeCodeAgent", "ClaudeCodeSettings"]


class ClaudeCodeAgent(ClientAgent[ClaudeCodeSettings]):
    """Drives the ``claude`` command line."""

    name = "claude-code"
    settings_class = ClaudeCodeSettings

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
