"""What a person may set for the ``codex`` agent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from agent_harness.agents import options
from agent_harness.agents.options import ClientSettings

SANDBOXES = ("workspace-write", "read-only", "danger-full-access")
KNOWN = ("program", "model", "sandbox", "network")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexSettings(ClientSettings):
    """The ``agent:`` section of a ``codex`` agent."""

    program: str = "codex"
    sandbox: str = "workspace-write"
    network: bool = False  # whether commands in the sandbox `workspace-write` reach the network

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> Self:
        """The settings of a mapping; raises ``ConfigurationError``."""
        options.checked("codex", settings, KNOWN)
        return cls(
            program=options.text(settings, "program") or "codex",
            model=options.text(settings, "model"),
            sandbox=options.one_of(settings, "sandbox", SANDBOXES, "workspace-write"),
            network=options.switch(settings, "network", default=False),
        )
