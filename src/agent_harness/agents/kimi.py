"""Agent kind ``kimi``: one run of Kimi's print mode per turn. Kimi reports no tokens and cannot be steered."""

import os
from collections.abc import Iterable
from dataclasses import dataclass

from agent_harness.agents import command, options
from agent_harness.agents.base import Brief, Capabilities, Turn
from agent_harness.agents.command import environment_of
from agent_harness.agents.options import ClientAgent, ClientSettings
from agent_harness.kernel import process

__all__ = ["KimiAgent", "account", "print_words"]

PROGRAM = "kimi"


def print_words(cwd: str, model: str | None, more: Iterable[str] = (), *, program: str = PROGRAM) -> list[str]:
    """Return the command line for Kimi's print mode. Kimi approves all tool calls in this mode."""
    words = [program, "--work-dir", cwd, "--print", "--input-format", "text", "--output-format", "text"]
    return [*words, "--final-message-only", *(["--model", model] if model else []), *more]


def account() -> str:
    key = os.environ.get("KIMI_API_KEY")
    return options.account("kimi", key=key)


@dataclass(frozen=True, slots=True, kw_only=True)
class KimiSettings(ClientSettings):
    kind = "kimi"
    program: str = PROGRAM


class KimiAgent(ClientAgent[KimiSettings]):
    name = "kimi"
    capabilities = Capabilities()
    settings_class = KimiSettings
    install = "Install it (uv tool install kimi-cli), or set its path: agent: {kind: kimi, program: …}"

    @property
    def account(self) -> str:
        return account()

    def start(self, brief: Brief) -> Turn:
        self.demand()
        model = options.model(self.settings.model, brief, wins=self.settings.model_wins)
        servers = command.servers_file(brief)
        more = ["--mcp-config-file", str(servers)] if servers else []
        return command.begin(
            print_words(str(brief.cwd), model, more, program=self.settings.program),
            brief,
            environment=process.scrubbed_environment(environment_of(brief), keep_agent_credentials=True),
            servers=servers,
        )
