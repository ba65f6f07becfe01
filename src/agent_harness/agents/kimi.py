"""The ``kimi`` agent: one run of Kimi's print mode a turn. It tells nothing of its tokens and cannot be steered."""

import os
import shutil
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from agent_harness.agents import command, options
from agent_harness.agents.base import Agent, Brief, Turn
from agent_harness.agents.command import environment_of
from agent_harness.errors import ToolMissing
from agent_harness.kernel import process

__all__ = ["KimiAgent", "account", "print_words"]

PROGRAM = "kimi"
INSTALL = "Install it (uv tool install kimi-cli), or set its place: agent: {kind: kimi, program: …}"
_SETTINGS = ("program", "model")


def print_words(cwd: str, model: str | None, more: Iterable[str] = (), *, program: str = PROGRAM) -> list[str]:
    """The command line of print mode, which approves every tool; the prompt comes on standard input."""
    words = [program, "--work-dir", cwd, "--print", "--input-format", "text", "--output-format", "text"]
    return [*words, "--final-message-only", *(["--model", model] if model else []), *more]


def account() -> str:
    """Whose limits the client shares: a key's, else those of its one login."""
    key = os.environ.get("KIMI_API_KEY")
    return options.account("kimi", key=key)


class KimiAgent(Agent):
    """Drives the ``kimi`` command line."""

    name = "kimi"

    def __init__(self, model: str | None = None, *, program: str = PROGRAM, model_wins: bool = False) -> None:
        self.model = model
        self.program = program
        self.model_wins = model_wins

    @classmethod
    def from_words(cls, text: str) -> "KimiAgent":
        """The agent of ``kimi`` or ``kimi:MODEL``."""
        return cls(text.strip() or None, model_wins=True)

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any], root: Path | None) -> "KimiAgent":
        """The agent of ``agent: {kind: kimi, model: …, program: …}``."""
        known = options.checked("kimi", settings, _SETTINGS)
        return cls(options.text(known, "model"), program=options.text(known, "program") or PROGRAM)

    @property
    def account(self) -> str:
        """The key or the login that the client would use."""
        return account()

    def problem(self) -> str | None:
        """Why the client cannot be started."""
        if shutil.which(self.program) is None:
            return f"the agent's program {self.program!r} is not installed or not executable"
        return None

    def start(self, brief: Brief) -> Turn:
        """Starts the client in the project and gives it the prompt."""
        if why := self.problem():
            raise ToolMissing(why, hint=INSTALL)
        model = options.model(self.model, brief, wins=self.model_wins)
        servers = command.servers_file(brief)
        more = ["--mcp-config-file", str(servers)] if servers else []
        return command.begin(
            print_words(str(brief.cwd), model, more, program=self.program),
            brief,
            environment=process.scrubbed_environment(environment_of(brief), keep_agent_credentials=True),
            servers=servers,
        )
