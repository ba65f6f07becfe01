"""The ``codex`` agent: one ``codex app-server`` a turn, spoken to in JSON-RPC; ``codex exec`` where there is none.

settings    what a person chose
command     the command lines, the environment, the sandbox in the words of the server
stream      what it says, turned into events: items, tokens, refusals of the provider
approvals   what it asks for, answered by the guard rails
appserver   a turn of the app-server
execution   a turn of ``codex exec --json``, which cannot be steered
"""

from agent_harness.agents.base import Brief, Turn
from agent_harness.agents.codex import appserver, command, execution
from agent_harness.agents.codex.settings import CodexSettings
from agent_harness.agents.options import ClientAgent

__all__ = ["CodexAgent", "CodexSettings"]


class CodexAgent(ClientAgent[CodexSettings]):
    """Drives Codex."""

    name = "codex"
    settings_class = CodexSettings

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
