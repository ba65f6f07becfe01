"""Interface of agent adapters. An adapter starts one turn of an agent and returns its events.

An adapter is a small module that uses shared parts (``docs/architecture.md``). It declares the agent's capabilities.
The supervisor also works with agents that lack capabilities."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent_harness.agents.events import Event
from agent_harness.errors import HarnessError
from agent_harness.kernel.git.locate import folders_of_project, locate
from agent_harness.kernel.process.launch_spec import Sandbox
from agent_harness.kernel.process.sandbox import AUTO, SandboxSettings, of_agent


@dataclass(frozen=True, slots=True, kw_only=True)
class McpServer:
    """MCP server that the agent can use over standard input and output."""

    command: tuple[str, ...]  # may hold secrets, as may the variables: neither belongs on a command line of a client
    env: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        env = dict(self.env)
        return {"command": self.command[0], "args": list(self.command[1:]), **({"env": env} if env else {})}


def servers_json(servers: Mapping[str, McpServer]) -> str:
    """Return the MCP servers as JSON, in the file format that agent clients read."""
    return json.dumps({"mcpServers": {name: server.as_json() for name, server in servers.items()}})


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRules:
    """Guard rails for the tools of an agent, from the setting ``tools:``. They do not replace a sandbox."""

    # UAH-206..216, C32

    filesystem_enabled: bool = True
    allowed_paths: tuple[str, ...] = (".",)  # relative to the project
    denied_paths: tuple[str, ...] = (".harness/", ".git/", "../")
    shell_enabled: bool = True
    shell_timeout_seconds: int = 300
    denied_commands: tuple[str, ...] = ("rm -rf /", "sudo", "> /dev/")
    mcp_servers: Mapping[str, McpServer] = field(default_factory=dict)  # those that are switched on


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    steer: bool = False  # a message reaches the running turn
    interrupt: bool = False  # the turn can be ended without ending the conversation
    resume: bool = False  # a later turn can go on in the same conversation
    usage: bool = False  # token counts are reported


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    prompt: str
    cwd: Path
    session: int
    prompt_type: str  # initializer, coding, continuation, cleanup
    feature_id: int | None = None
    task_id: str | None = None
    round: int = 0  # 0 is the first turn of the session, 1.. are fix rounds
    model: str | None = None
    model_chosen: bool = False  # a person named it; a client with its own model may ignore a default
    tools: ToolRules = field(default_factory=ToolRules)
    budget_usd: float | None = None  # left for this turn, if a budget is set
    conversation: str | None = None  # by an earlier turn of this session, for agents that resume
    environment: Mapping[str, str] = field(default_factory=dict)  # added on top of the scrubbed environment
    run_id: str | None = None  # tags the agent's processes (HARNESS_RUN_ID), so that orphans can be found
    sandbox: SandboxSettings = AUTO
    places: tuple[Path, ...] = ()  # further folders that it works in, beside ``cwd`` and its repository


def sandbox_of(brief: Brief) -> Sandbox:
    """Return the sandbox for a turn. Raise ``Refused`` if a required sandbox is unavailable."""
    repository = locate(brief.cwd)
    own = [brief.cwd, *(repository.folders if repository else ()), *brief.places]
    project = folders_of_project()
    lent = [each / "lfs" for each in project[2:]]  # large files of all workspaces
    return of_agent([*own, *lent], settings=brief.sandbox, reads=project)


class Turn(ABC):
    conversation: str | None = None

    @abstractmethod
    def next_event(self, timeout_seconds: float) -> Event | None:
        """Return the next event, or None if no event arrives in time or the turn has ended."""

    @property
    @abstractmethod
    def ended(self) -> bool:
        """True if ``next_event`` has returned the ``Finished`` event of this turn."""

    @abstractmethod
    def stop(self, grace_seconds: float = 5.0) -> None:
        """End all processes of the agent and wait until they exit. A second call does no harm."""

    def steer(self, text: str) -> bool:
        """Send a message to the running agent. Return False if the agent cannot receive messages."""
        return False

    def interrupt(self) -> bool:
        """Ask the agent to end its turn. Return False if the agent cannot be interrupted."""
        return False

    @property
    def over_limit(self) -> str:
        """Text that names the resource limit that ended the agent, or "" if none did."""
        return ""

    @property
    def process(self) -> Mapping[str, object] | None:
        """Record with which the harness finds the agent's process after a crash, or None without a separate process."""
        return None


class Agent(ABC):
    name: str
    capabilities: Capabilities = Capabilities()

    @abstractmethod
    def start(self, brief: Brief) -> Turn:
        """Start one turn of the agent and return the turn. Raise ``ToolMissing`` if the agent's program is missing."""

    @property
    def account(self) -> str:
        """Name of the account, without secrets. All agents of an account share its rate limits."""
        return self.name

    def problem(self) -> str | None:
        """Return the reason why this agent cannot start now, or None if it can start."""
        return None

    def refusal(self, place: Path) -> HarnessError | None:
        """Return an error if this agent's turn could do nothing but damage files in ``place``."""
        return None
