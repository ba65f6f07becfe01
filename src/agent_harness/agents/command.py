"""Agents that run any program: the prompt goes to stdin, events come from stdout (``docs/command-agent.md``).

``CommandAgent`` reads events from the program's output. ``CommandLineAgent`` runs a client in print mode or a shell
command, and the exit status is the only result. If a client fails, the last part of its output is searched for a
refusal by the provider. Source for refusals: features.md UAH-374..375, C28."""

import os
import re
import shutil
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent_harness.agents import options
from agent_harness.agents.base import Agent, Brief, Capabilities, Turn, sandbox_of, servers_json
from agent_harness.agents.events import Event, Finished, RateLimited, Text, event_from_line, plain
from agent_harness.agents.registry import words_of
from agent_harness.errors import ConfigurationError, ToolMissing
from agent_harness.kernel import clock, digest, process, retry
from agent_harness.kernel.failures import OVERLOADED, REFUSED, names_limit, wants_money
from agent_harness.kernel.process.launch_spec import callers_environment
from agent_harness.kernel.process.output import HeadTail

SERVERS = "HARNESS_MCP_CONFIG"  # the variable that names the servers_file
LINGER_SECONDS = 10.0  # time for a program to end after its ``finished`` event
BLOCK_CHARACTERS = 32_768  # waiting lines are returned together, up to about this size
ERROR_LINES = 8  # of the end of a failed program's output, searched for a rate limit


def line_of(data: bytes) -> str:
    return plain(data.decode("utf-8", "replace").strip("\r\n"))


def servers_file(brief: Brief) -> Path | None:
    """Write the MCP servers to a private file outside the project. Return its path, or None without servers."""
    # the caller removes the file
    if not brief.tools.mcp_servers:
        return None
    handle, name = tempfile.mkstemp(prefix=_prefix(brief.run_id), suffix=".json")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(servers_json(brief.tools.mcp_servers))
    return Path(name)


def forget_servers_files(run_id: object) -> None:
    """Remove the MCP server files of a run whose harness process was killed."""
    if isinstance(run_id, str) and run_id.isalnum():
        for path in Path(tempfile.gettempdir()).glob(f"{_prefix(run_id)}*.json"):
            with suppress(OSError):  # another user's, in the shared folder
                path.unlink()


def _prefix(run_id: str | None) -> str:
    return f"harness-mcp-{run_id or 'turn'}-"


def environment_of(brief: Brief) -> dict[str, str]:
    """Return the documented ``HARNESS_*`` variables of a turn and the variables in ``brief``."""
    told = {
        "HARNESS_PROJECT_DIR": str(brief.cwd),
        "HARNESS_SESSION": str(brief.session),
        "HARNESS_PROMPT_TYPE": brief.prompt_type,
        "HARNESS_ROUND": str(brief.round),
    }
    optional = {
        "HARNESS_FEATURE_ID": brief.feature_id,
        "HARNESS_TASK_ID": brief.task_id,
        "HARNESS_MODEL": brief.model,
    }
    told |= {name: str(value) for name, value in optional.items() if value is not None}
    return {**told, **brief.environment}


@contextmanager
def removed_on_error(servers: Path | None) -> Iterator[None]:
    try:
        yield
    except BaseException:
        if servers is not None:
            servers.unlink(missing_ok=True)
        raise


def program_problem(program: str) -> str | None:
    """Return a message if the program is not installed, otherwise None."""
    # a relative path is not checked
    if ("/" in program and not program.startswith("/")) or shutil.which(program):
        return None
    return f"the agent's program {program!r} is not installed"


def found_program(program: str, brief: Brief, hint: str) -> str:
    found = shutil.which(os.path.join(brief.cwd, program) if "/" in program else program)  # noqa: PTH118
    if found is None:
        raise ToolMissing(f"the agent's program {program!r} is not installed or not executable", hint=hint)
    return found


class CommandAgent(Agent):
    """Agent that starts the command ``words`` once for each turn."""

    name = "command"
    capabilities = Capabilities(usage=True)

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)

    @classmethod
    def from_words(cls, text: str) -> "CommandAgent":
        return cls(words_of(text))

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any], root: Path | None) -> "CommandAgent":
        """Return the agent for ``agent: {kind: command, command: ...}``."""
        command = options.checked("command", settings, ("command",)).get("command")
        if isinstance(command, str):
            return cls(words_of(command))
        if not isinstance(command, list) or not command or not all(isinstance(word, str) and word for word in command):
            raise ConfigurationError(
                "agent.command must be a string or a list of words",
                hint='agent: {kind: command, command: ["python3", "agent.py"]}',
            )
        return cls(command)

    @property
    def account(self) -> str:
        # each command has its own account
        words = "\0".join(self.words).encode("utf-8", "replace")
        return f"{self.name}:{os.path.basename(self.words[0])}-{digest.sha256(words)[:8]}"  # noqa: PTH119

    def problem(self) -> str | None:
        return program_problem(self.words[0])

    def start(self, brief: Brief) -> Turn:
        found = found_program(
            self.words[0], brief, "Check the command of --agent, HARNESS_AGENT or `agent:` in .harness.yaml"
        )
        servers = servers_file(brief)
        told = {**environment_of(brief), **({SERVERS: str(servers)} if servers else {})}
        with removed_on_error(servers):
            running = process.start(
                [found, *self.words[1:]],
                cwd=brief.cwd,
                env=process.scrubbed_environment(told, keep_agent_credentials=True),
                input=brief.prompt.encode("utf-8", "replace"),
                merge_stderr=False,
                run_id=brief.run_id,
                own_temporary=True,
                sandbox=sandbox_of(brief),
            )
            return CommandTurn(running, servers)


class CommandTurn(Turn):
    def __init__(self, running: process.Running, servers: Path | None = None) -> None:
        # the file ``servers`` is removed at the end of the turn
        self._running = running
        self._servers = servers
        self._ready: deque[Event] = deque()
        self._claimed: Finished | None = None  # the program's own report of its end; its exit decides
        self._lingers_until = float("inf")
        self._last_lines: deque[str] = deque(maxlen=ERROR_LINES)
        self._ended = False

    @property
    def ended(self) -> bool:
        return self._ended

    def next_event(self, timeout_seconds: float) -> Event | None:
        until = time.monotonic() + timeout_seconds
        while not self._ready and not self._ended:
            left = min(until, self._lingers_until) - time.monotonic()
            line = self._running.read_line(max(0.0, left))
            if line is not None:
                self._take(line)
            elif self._running.at_end:
                self._end()
            elif time.monotonic() >= self._lingers_until:
                self._running.stop(0.5)
            elif time.monotonic() >= until:
                return None
        event = self._ready.popleft() if self._ready else None
        if isinstance(event, Finished):
            self._ended = True
            self._forget_servers()
        return event

    def stop(self, grace_seconds: float = 5.0) -> None:
        self._running.stop(grace_seconds)
        self._forget_servers()

    def _forget_servers(self) -> None:
        if self._servers is not None:
            self._servers.unlink(missing_ok=True)

    @property
    def over_limit(self) -> str:
        return self._running.over_limit

    @property
    def process(self) -> Mapping[str, object]:
        return self._running.record

    def _event(self, line: bytes) -> Event:
        return event_from_line(line_of(line))

    def _take(self, line: bytes) -> None:
        event = self._event(line)
        block: list[str] = []
        size = 0
        while isinstance(event, Text):
            block.append(event.text)
            size += len(event.text) + 1
            more = self._running.read_line(0.0) if size < BLOCK_CHARACTERS else None
            if more is None:
                break
            event = self._event(more)
        if block:
            self._last_lines.extend(text[-500:] for text in block[-ERROR_LINES:])
            self._ready.append(Text("\n".join(block)))
        if isinstance(event, Finished):
            self._claim(event)
        elif not isinstance(event, Text):
            self._ready.append(event)

    def _claim(self, end: Finished) -> None:
        """Store the event ``end``, and limit the time until the program must exit."""
        self._claimed = end
        self._lingers_until = time.monotonic() + LINGER_SECONDS

    def _end(self) -> None:
        code = self._running.exit_code
        claimed = self._claimed or Finished()
        ok = code == 0 and claimed.ok
        self._take_errors()
        refused = None if ok else refusal_from_text("\n".join(self._last_lines))
        if refused is not None:
            self._ready.append(refused)
        message = claimed.message or ("" if ok else self._reason(code))
        self._ready.append(Finished(ok=ok, message=message, exit_code=code))

    def _take_errors(self) -> None:
        """Report the last lines of standard error as a text event."""
        # its lines are never read as events
        lines = [line_of(line) for line in self._running.stderr_tail.rstrip(b"\n").split(b"\n")]
        if any(lines):
            self._ready.append(Text("\n".join(["[standard error]", *lines])))
            self._last_lines.extend(line[-500:] for line in lines[-ERROR_LINES:])

    def _reason(self, code: int | None) -> str:
        last = next((line.strip() for line in reversed(self._last_lines) if line.strip()), "")
        how = (
            "was ended"
            if code is None
            else f"was killed by signal {-code}"
            if code < 0
            else f"exited with status {code}"
        )
        return f"the agent's program {how}" + (f": {last[:300]}" if last else "")


PATTERNS: tuple[str, ...] = (*REFUSED, *OVERLOADED, r"\brate[ _-]?limited\b")
"""Phrases with which clients report a refusal: one case-insensitive pattern per line."""

_REFUSED = re.compile("|".join(f"(?:{pattern})" for pattern in PATTERNS), re.IGNORECASE)
_LONGEST = 2000  # characters of a line that are searched


def refusal_from_text(text: str) -> RateLimited | None:
    """Return the provider's refusal that the text reports last, or None if it reports none."""
    now = clock.now()
    below = ""
    for line in reversed([each[:_LONGEST] for each in text.split("\n")]):
        if wants_money(line, now):
            return None  # the receiver of the turn's end asks a person
        if _REFUSED.search(line) or names_limit(line, now):
            return _refusal(line.strip())
        if names_limit(both := f"{line.strip()} {below}"[:_LONGEST], now):  # the reset is on a separate line
            return _refusal(both)
        below = line.strip() or below
    return None


def _refusal(line: str) -> RateLimited:
    wait = retry.find_wait(line, clock.now())
    known = wait is not None and not wait.vague
    return RateLimited(
        message=line[:300],
        retry_after_seconds=wait.seconds if wait and known else None,
        resets_at=clock.timestamp(wait.moment) if wait and known and wait.moment else None,
    )


Refusal = Callable[["Printed", int | None], RateLimited | None]
"""Function that finds a provider's refusal in a failed client's output. The exit code is ``None`` if it was not
observed.
"""


@dataclass(frozen=True, slots=True)
class Printed:
    stdout: HeadTail = field(default_factory=HeadTail)
    stderr: HeadTail = field(default_factory=HeadTail)


def refusal_in_last_lines(printed: Printed, exit_code: int | None) -> RateLimited | None:
    """Return the provider's refusal in the last lines of a program's output, or None."""
    ends = ("\n".join(each.text()[-8192:].splitlines()[-8:]) for each in (printed.stderr, printed.stdout))
    return next((found for end in ends if (found := refusal_from_text(end))), None)


def no_refusal(printed: Printed, exit_code: int | None) -> RateLimited | None:
    """Return None, because the program uses no provider."""
    return None


def begin(
    run: str | Sequence[str],
    brief: Brief,
    *,
    environment: Mapping[str, str],
    printed: Printed | None = None,
    refusal: Refusal = refusal_in_last_lines,
    servers: Path | None = None,
) -> "CommandLineTurn":
    """Start a turn that runs a program or shell text, and return the turn."""
    kept = printed or Printed()
    with removed_on_error(servers):
        running = process.start(
            run if isinstance(run, str) else list(run),
            cwd=brief.cwd,
            env=environment,
            input=brief.prompt.encode("utf-8", "replace"),
            merge_stderr=False,
            on_output=kept.stdout.add,
            on_errors=kept.stderr.add,
            run_id=brief.run_id,
            own_temporary=True,
            sandbox=sandbox_of(brief),
        )
        return CommandLineTurn(running, kept, refusal, servers)


class CommandLineTurn(CommandTurn):
    def __init__(
        self, running: process.Running, printed: Printed, refusal: Refusal, servers: Path | None = None
    ) -> None:
        super().__init__(running, servers)
        self._printed = printed
        self._refusal = refusal

    def _event(self, line: bytes) -> Event:
        event = super()._event(line)
        return Text(line_of(line)) if isinstance(event, Finished | RateLimited) else event

    def _end(self) -> None:
        code = self._running.exit_code
        self._take_errors()
        refused = None if code == 0 else self._refusal(self._printed, code)
        if refused is not None:
            self._ready.append(refused)
        self._ready.append(Finished(ok=code == 0, message="" if code == 0 else self._reason(code), exit_code=code))


class CommandLineAgent(Agent):
    """Agent that runs the same command line in each turn. The program gets the caller's environment variables."""

    def __init__(
        self,
        name: str,
        run: str | Sequence[str],
        *,
        account: str | None = None,
        printed: Printed | None = None,
        refusal: Refusal = refusal_in_last_lines,
    ) -> None:
        self.name = name
        self._run = run
        self._account = account
        self._printed = printed
        self._refusal = refusal

    @property
    def account(self) -> str:
        return self._account or self.name

    def start(self, brief: Brief) -> Turn:
        environment = callers_environment(brief.environment)
        return begin(self._run, brief, environment=environment, printed=self._printed, refusal=self._refusal)
