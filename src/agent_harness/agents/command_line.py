"""A client in print mode, or a line of shell: the prompt on stdin, the answer on stdout, its exit status the end.

Both streams are kept apart, whole up to 10 MiB each. Lines of the command seam (``docs/command-agent.md``) on standard
output are events, so that the monitors see what such a program reports; how it ended, its exit status alone says.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from agent_harness.agents import limits
from agent_harness.agents.base import Agent, Brief, Turn
from agent_harness.agents.command import CommandTurn, line_of
from agent_harness.agents.events import Event, Finished, RateLimited, Text
from agent_harness.kernel import process
from agent_harness.kernel.process.environment import callers_environment
from agent_harness.kernel.process.output import HeadTail

__all__ = ["CommandLineAgent", "CommandLineTurn", "Printed", "begin"]

Refusal = Callable[["Printed", int | None], RateLimited | None]
"""The refusal of the provider that a failed client printed; the exit code is ``None`` when nobody saw its end."""


@dataclass(frozen=True, slots=True)
class Printed:
    """What a program has printed so far."""

    stdout: HeadTail = field(default_factory=HeadTail)
    stderr: HeadTail = field(default_factory=HeadTail)


def refusal_in_last_lines(printed: Printed, exit_code: int | None) -> RateLimited | None:
    """The refusal that the end of standard error states, else that of standard output."""
    ends = ("\n".join(each.text()[-8192:].splitlines()[-8:]) for each in (printed.stderr, printed.stdout))
    return next((found for end in ends if (found := limits.from_text(end))), None)


def no_refusal(printed: Printed, exit_code: int | None) -> RateLimited | None:
    """None: there is no provider behind the program."""
    return None


def begin(
    run: str | Sequence[str],
    brief: Brief,
    *,
    environment: Mapping[str, str],
    printed: Printed | None = None,
    refusal: Refusal = refusal_in_last_lines,
) -> "CommandLineTurn":
    """A turn that runs: the words of a program, or a line of shell. Raises ``ToolMissing`` and ``Refused``."""
    kept = printed or Printed()
    running = process.start(
        run if isinstance(run, str) else list(run),
        cwd=brief.cwd,
        env=environment,
        input=brief.prompt.encode("utf-8", "replace"),
        merge_stderr=False,
        on_output=kept.stdout.add,
        on_errors=kept.stderr.add,
        run_id=brief.run_id,
    )
    return CommandLineTurn(running, kept, refusal)


class CommandLineTurn(CommandTurn):
    """One run of the program."""

    def __init__(self, running: process.Running, printed: Printed, refusal: Refusal) -> None:
        super().__init__(running)
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
    """One command line for every turn, in the environment of whoever calls the harness."""

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
        """Whose rate limits the program shares; its own name where it is not known."""
        return self._account or self.name

    def start(self, brief: Brief) -> Turn:
        """Starts the program in the folder of the brief."""
        environment = callers_environment(brief.environment)
        return begin(self._run, brief, environment=environment, printed=self._printed, refusal=self._refusal)
