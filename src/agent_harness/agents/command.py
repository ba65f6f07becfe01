"""The command agent: any program can be an agent. The prompt comes on stdin, events go out on stdout.

The seam is described in ``docs/command-agent.md``.
"""

import os
import shutil
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_harness.agents import limits
from agent_harness.agents.base import Agent, Brief, Capabilities, Turn
from agent_harness.agents.events import Event, Finished, Text, event_from_line, plain
from agent_harness.agents.registry import words_of
from agent_harness.errors import ConfigurationError, ToolMissing
from agent_harness.kernel import digest, process

LINGER_SECONDS = 10.0  # how long a program may live on after its ``finished`` event
BLOCK_CHARACTERS = 32_768  # lines that are there already are handed out together, up to about this much
ERROR_LINES = 8  # of the end of a failed program's output, searched for a rate limit


def line_of(data: bytes) -> str:
    """A line of output as plain text; bytes that are not UTF-8 are replaced."""
    return plain(data.decode("utf-8", "replace").strip("\r\n"))


def environment_of(brief: Brief) -> dict[str, str]:
    """The variables that the seam promises, and those of the brief."""
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


class CommandAgent(Agent):
    """Runs ``words`` once for each turn; a fix round is the program started again with the new prompt."""

    name = "command"
    capabilities = Capabilities(usage=True)

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)

    @classmethod
    def from_words(cls, text: str) -> "CommandAgent":
        """The agent of ``command:WORDS``."""
        return cls(words_of(text))

    @classmethod
    def from_mapping(cls, settings: Mapping[str, Any], root: Path | None) -> "CommandAgent":
        """The agent of ``agent: {kind: command, command: [...]}``; the command may be one string, split into words."""
        unknown = sorted(set(settings) - {"command"})
        if unknown:
            raise ConfigurationError(f"agent.{unknown[0]}: a command agent has no such setting; it has `command`")
        command = settings.get("command")
        if isinstance(command, str):
            return cls(words_of(command))
        if not isinstance(command, list) or not command or not all(isinstance(word, str) and word for word in command):
            raise ConfigurationError(
                "agent.command must be a list of words", hint='agent: {kind: command, command: ["python3", "agent.py"]}'
            )
        return cls(command)

    @property
    def account(self) -> str:
        """The program's name and a digest of its words: two programs share no limit as far as we know."""
        words = "\0".join(self.words).encode("utf-8", "replace")
        return f"{self.name}:{os.path.basename(self.words[0])}-{digest.sha256(words)[:8]}"  # noqa: PTH119

    def problem(self) -> str | None:
        """Why the program cannot be started; a relative path is looked at only when the project is known."""
        program = self.words[0]
        if "/" in program and not program.startswith("/"):
            return None
        return None if shutil.which(program) else f"the agent's program {program!r} is not installed"

    def start(self, brief: Brief) -> Turn:
        """Starts the program in the project with the prompt on its stdin."""
        program = self.words[0]
        found = shutil.which(os.path.join(brief.cwd, program) if "/" in program else program)  # noqa: PTH118
        if found is None:
            raise ToolMissing(
                f"the agent's program {program!r} is not installed or not executable",
                hint="Check the command of --agent, HARNESS_AGENT or `agent:` in .harness.yaml",
            )
        running = process.start(
            [found, *self.words[1:]],
            cwd=brief.cwd,
            env=process.scrubbed_environment(environment_of(brief), keep_agent_credentials=True),
            input=brief.prompt.encode("utf-8", "replace"),
            merge_stderr=False,
            run_id=brief.run_id,
        )
        return CommandTurn(running)


class CommandTurn(Turn):
    """One run of the program."""

    def __init__(self, running: process.Running) -> None:
        self._running = running
        self._ready: deque[Event] = deque()
        self._claimed: Finished | None = None  # what the program said about its end; its exit decides
        self._lingers_until = float("inf")
        self._last_lines: deque[str] = deque(maxlen=ERROR_LINES)
        self._ended = False

    @property
    def ended(self) -> bool:
        """True once ``Finished`` was handed out."""
        return self._ended

    def next_event(self, timeout_seconds: float) -> Event | None:
        """The next event; lines of text that are there already come as one block."""
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
        return self._hand_out()

    def stop(self, grace_seconds: float = 5.0) -> None:
        """Ends the program and everything that it started."""
        self._running.stop(grace_seconds)

    @property
    def process(self) -> Mapping[str, object]:
        """The record of the process that holds the agent, for ``process.end_orphans``."""
        return self._running.record

    def _event(self, line: bytes) -> Event:
        """What one line of standard output says."""
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
        """Remembers what the program says about its end; it has a while to end."""
        self._claimed = end
        self._lingers_until = time.monotonic() + LINGER_SECONDS

    def _end(self) -> None:
        code = self._running.exit_code
        claimed = self._claimed or Finished()
        ok = code == 0 and claimed.ok
        self._take_errors()
        refused = None if ok else limits.from_text("\n".join(self._last_lines))
        if refused is not None:
            self._ready.append(refused)
        message = claimed.message or ("" if ok else self._reason(code))
        self._ready.append(Finished(ok=ok, message=message, exit_code=code))

    def _take_errors(self) -> None:
        """Standard error is no part of the stream; its end is handed out as text before the turn ends."""
        lines = [line_of(line) for line in self._running.stderr_tail.rstrip(b"\n").split(b"\n")]
        if any(lines):
            self._ready.append(Text("\n".join(["[standard error]", *lines])))
            self._last_lines.extend(line[-500:] for line in lines[-ERROR_LINES:])

    def _reason(self, code: int | None) -> str:
        last = next((line.strip() for line in reversed(self._last_lines) if line.strip()), "")
        how = "was ended" if code is None else f"died by signal {-code}" if code < 0 else f"exited with status {code}"
        return f"the agent's program {how}" + (f": {last[:300]}" if last else "")

    def _hand_out(self) -> Event | None:
        event = self._ready.popleft() if self._ready else None
        self._ended = self._ended or isinstance(event, Finished)
        return event
