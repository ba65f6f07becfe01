"""What a person may set for the ``claude-code`` agent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from agent_harness.agents import options
from agent_harness.agents.options import ClientSettings

MODES = ("acceptEdits", "default", "dontAsk", "plan", "auto", "bypassPermissions")
KNOWN = ("program", "model", "permission_mode", "allowed_tools", "denied_tools")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaudeCodeSettings(ClientSettings):
    """The ``agent:`` section of a ``claude-code`` agent."""

    program: str = "claude"
    permission_mode: str = "acceptEdits"
    allowed_tools: tuple[str, ...] = ()  # beside shell and file tools, in the client's notation
    denied_tools: tuple[str, ...] = ()

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> Self:
        """The settings of a mapping; raises ``ConfigurationError``."""
        options.checked("claude-code", settings, KNOWN)
        return cls(
            program=options.text(settings, "program") or "claude",
            model=options.text(settings, "model"),
            permission_mode=options.one_of(settings, "permission_mode", MODES, "acceptEdits"),
            allowed_tools=options.words(settings, "allowed_tools"),
            denied_tools=options.words(settings, "denied_tools"),
        )
