"""Scripted agent: plays a script file in a separate process, through the command interface.

``ScriptedAgent`` starts the program ``python -m agent_harness.agents.scripted FILE``. Tests and the demo use this
agent. With a script, users can also see how the harness reacts to an agent. Format: ``docs/scripted-agent.md``."""

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agent_harness.agents import options
from agent_harness.agents.base import Brief, Turn
from agent_harness.agents.command import CommandAgent
from agent_harness.errors import ConfigurationError, HarnessError
from agent_harness.kernel import digest

__all__ = ["ScriptedAgent"]


class ScriptedAgent(CommandAgent):
    """Agent that plays one entry of a script file in each turn."""

    name = "scripted"

    def __init__(self, script: Path) -> None:
        self.script = script.absolute()
        # -P: a file of the project must not replace a module of the harness
        super().__init__([sys.executable, "-P", "-m", "agent_harness.agents.scripted", str(self.script)])

    @classmethod
    def from_words(cls, text: str) -> "ScriptedAgent":
        return cls(Path(text).expanduser())

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any], root: Path | None) -> "ScriptedAgent":
        """Return the agent for ``agent: {kind: scripted, script: FILE}``."""
        script = options.checked("scripted", settings, ("script",)).get("script")
        if not isinstance(script, str) or not script:
            raise ConfigurationError(
                "agent.script must name the script file", hint="agent: {kind: scripted, script: FILE}"
            )
        return cls((root or Path()) / Path(script).expanduser())

    @property
    def account(self) -> str:
        place = os.fsencode(self.script)
        return f"{self.name}:{self.script.name}-{digest.sha256(place)[:8]}"

    def problem(self) -> str | None:
        try:
            self._load()
        except HarnessError as error:
            return error.message
        return None

    def start(self, brief: Brief) -> Turn:
        self._load()
        return super().start(brief)

    def _load(self) -> None:
        from agent_harness.agents.scripted.script import load

        load(self.script)
