"""What an agent adapter is: it starts one turn of an agent and hands out its events.

An adapter is a small file over shared parts (``docs/architecture.md``). It declares what it can do; the supervisor
degrades, it does not pretend.
"""

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
    """One MCP server that is to be offered to the agent, ready to be started over stdio."""

    command: tuple[str, ...]  # may hold secrets, as may the variables: neither belongs on a command line of a client
    env: Mapping[str, str] = field(default_factory=dict)

    def as_json(self) -> dict[str, object]:
        """Program, arguments and variables, in the words that the configurations of clients share."""
        env = dict(self.env)
        return {"command": self.command[0], "args": list(self.command[1:]), **({"env": env} if env else {})}


def servers_json(servers: Mapping[str, McpServer]) -> str:
    """The servers as the file that clients share, ``{"mcpServers": {NAME: {"command", "args", "env"}}}``."""
    return json.dumps({"mcpServers": {name: server.as_json() for name, server in servers.items()}})


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolRules:
    """What the settings' ``tools:`` allow an agent: a guard rail, no sandbox (features.md UAH-206..216, C32)."""

    filesystem_enabled: bool = True
    allowed_paths: tuple[str, ...] = (".",)  # relative to the project
    denied_paths: tuple[str, ...] = (".harness/", ".git/", "../")
    shell_enabled: bool = True
    shell_timeout_seconds: int = 300
    denied_commands: tuple[str, ...] = ("rm -rf /", "sudo", "> /dev/")
    mcp_servers: Mapping[str, McpServer] = field(default_factory=dict)  # those that are switched on


@dataclass(frozen=True, slots=True, kw_only=True)
class Capabilities:
    """What a running agent of this kind lets us do."""

    steer: bool = False  # a message reaches the running turn
    interrupt: bool = False  # the turn can be ended without ending the conversation
    resume: bool = False  # a later turn can go on in the same conversation
    usage: bool = False  # token counts are reported


@dataclass(frozen=True, slots=True, kw_only=True)
class Brief:
    """Everything one turn of an agent is given."""

    prompt: str
    cwd: Path
    session: int
    prompt_type: str  # initializer, coding, continuation, cleanup
    feature_id: int | None = None
    task_id: str | None = None
    round: int = 0  # 0 is the first turn of the session, 1.. are fix rounds
    model: str | None = None
    model_chosen: bool = False  # a person named it; a default may be left aside by a client with a model of its own
    tools: ToolRules = field(default_factory=ToolRules)
    budget_usd: float | None = None  # left for this turn, where a budget is set
    conversation: str | None = None  # what an earlier turn of this session reported, for agents that resume
    environment: Mapping[str, str] = field(default_factory=dict)  # added on top of the scrubbed environment
    run_id: str | None = None  # tags the agent's processes (HARNESS_RUN_ID), so that orphans can be found
    sandbox: SandboxSettings = AUTO
    places: tuple[Path, ...] = ()  # further folders that it works in, beside ``cwd`` and its repository


def sandbox_of(brief: Brief) -> Sandbox:
    """What the agent's processes reach and may take; ``Refused`` where a sandbox must be, and cannot."""
    repository = locate(brief.cwd)
    own = [brief.cwd, *(repository.folders if repository else ()), *brief.places]
    project = folders_of_project()
    lent = [each / "lfs" for each in project[2:]]  # large files are kept there for all places
    return of_agent([*own, *lent], settings=brief.sandbox, reads=project)


class Turn(ABC):
    """One running turn of an agent."""

    conversation: str | None = None

    @abstractmethod
    def next_event(self, timeout_seconds: float) -> Event | None:
        """The next event, or ``None`` when none came in time or the turn is over; the last event is ``Finished``."""

    @property
    @abstractmethod
    def ended(self) -> bool:
        """True once ``Finished`` was handed out."""

    @abstractmethod
    def stop(self, grace_seconds: float = 5.0) -> None:
        """Ends the agent and every process it started; returns when they are gone. Safe to repeat."""

    def steer(self, text: str) -> bool:
        """Puts a message in front of the running agent; False when this agent cannot be steered."""
        return False

    def interrupt(self) -> bool:
        """Asks the agent to end its turn; False when this agent cannot be interrupted."""
        return False

    @property
    def over_limit(self) -> str:
        """What it took of the machine that it may not, as the end of a sentence; it was ended for it."""
        return ""

    @property
    def process(self) -> Mapping[str, object] | None:
        """Who runs it (pid, start time, boot id, run id), for the next harness after a crash; ``None`` in-process."""
        return None


class Agent(ABC):
    """One kind of coding agent that we can drive."""

    name: str
    capabilities: Capabilities = Capabilities()

    @abstractmethod
    def start(self, brief: Brief) -> Turn:
        """Starts one turn; raises ``ToolMissing`` when the program is not there."""

    @property
    def account(self) -> str:
        """Whose rate limits this agent shares: agents with the same word wait for the same reset. No secret in it."""
        return self.name

    def problem(self) -> str | None:
        """Why this agent cannot be started now, in one line, or ``None``. Starts nothing."""
        return None

    def refusal(self, place: Path) -> HarnessError | None:
        """Why it would only do harm to the files of a folder, or ``None``. Starts and changes nothing."""
        return None
