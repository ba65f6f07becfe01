"""What a person may set for the ``codex`` agent."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent_harness.agents import options

SANDBOXES = ("workspace-write", "read-only", "danger-full-access")
KNOWN = ("program", "model", "sandbox", "network")


@dataclass(frozen=True, slots=True, kw_only=True)
class CodexSettings:
    """The ``agent:`` section of a ``codex`` agent."""

    program: str = "codex"
    model: str | None = None
    model_wins: bool = False  # named with the agent itself (`codex:MODEL`): before the models of the settings
    sandbox: str = "workspace-write"
    network: bool = False  # whether commands in the sandbox `workspace-write` reach the network

    @classmethod
    def read(cls, settings: Mapping[str, Any]) -> "CodexSettings":
        """The settings of a mapping; raises ``ConfigurationError``."""
        options.checked("codex", settings, KNOWN)
        return cls(
            program=options.text(settings, "program") or "codex",
            model=options.text(settings, "model"),
            sandbox=options.one_of(settings, "sandbox", SANDBOXES, "workspace-write"),
            network=options.switch(settings, "network", default=False),
        )
