"""A session that burns context and moves nothing. Source: features.md UAH-328..334, UAH-337, C18, C43."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from agent_harness.agents.events import Event, Text, ToolCall, ToolResult, Usage
from agent_harness.agents.markers import is_pytest_result, row_of_line, shell_command
from agent_harness.supervision.monitors.watch import Intervention, Monitor, ProjectFacts

WARNING_TEXT = "You appear stuck. Consider a different approach."
FORCE_STOP_TEXT = (
    "Still stuck. Documenting current state and stopping. Please describe what's blocking you in claude-progress.txt."
)
HALF = 0.5  # of the window: the silent check
EXPECTED_COMMANDS = 3

_SEPARATOR = re.compile(r"&&|\|\|?|[;&\n()]")
_RUNNER_WORDS = frozenset(("run", "exec", "env", "python", "python3", "-m", "poetry", "uv", "pdm", "hatch", "pipenv"))
_ASSIGNMENT = re.compile(r"\w+=")


def is_test_command(command: str) -> bool:
    """True when one of the commands of a shell line has pytest as its program, also behind ``poetry run`` and such."""
    return "pytest" in command and any(_program(part) == "pytest" for part in _SEPARATOR.split(command[:4000]))


def _program(command: str) -> str:
    for word in command.split():
        name = word.rsplit("/", 1)[-1]
        if name not in _RUNNER_WORDS and not _ASSIGNMENT.match(word):
            return name
    return ""


@dataclass(frozen=True, slots=True)
class WorkDone:
    """What happened: commands as the prefixes tell them, as tool calls tell them, and test runs."""

    told_commands: int = 0
    called_commands: int = 0
    test_runs: int = 0

    @property
    def commands(self) -> int:
        """How many commands; one that was told by a prefix and by a tool call counts once."""
        return max(self.told_commands, self.called_commands)

    @property
    def nothing(self) -> bool:
        """True when no test ran and fewer commands than expected."""
        return not self.test_runs and self.commands < EXPECTED_COMMANDS

    def after(self, event: Event) -> "WorkDone":
        """The work with what the event tells."""
        if isinstance(event, ToolCall):
            command = shell_command(event)
            if command is None:
                return self
            tests = self.test_runs + is_test_command(command)
            return replace(self, called_commands=self.called_commands + 1, test_runs=tests)
        if isinstance(event, ToolResult):
            return self._after_output(event.output)
        return self._after_output(event.text) if isinstance(event, Text) else self

    def _after_output(self, output: str) -> "WorkDone":
        if "[CMD:RUN]" not in output and " in " not in output:
            return self
        lines = output.split("\n")
        told = sum((row_of_line(line) or {}).get("type") == "cmd_run" for line in lines)
        tests = sum(is_pytest_result(line) for line in lines)
        if not told and not tests:
            return self
        return replace(self, told_commands=self.told_commands + told, test_runs=self.test_runs + tests)


@dataclass(frozen=True, slots=True)
class StallState:
    """The state of ``Stall``: since the last check, and since the session began."""

    tokens: int = 0
    recent: WorkDone = field(default_factory=WorkDone)
    whole: WorkDone = field(default_factory=WorkDone)
    seen: Mapping[str, object] = field(default_factory=dict)  # the changed paths at the last check
    moved: bool = False  # whether a check ever found the files changed
    stuck_checks: int = 0  # in a row
    half_checked: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall(Monitor[StallState]):
    """Looks for progress every ``check_interval_tokens`` (uncached input and output of all calls).

    Stuck is an interval without a changed file, without a test run and with fewer than three commands. The first stuck
    check warns; ``force_stop_after`` of them in a row ask for a final wrap-up. Once, when the window is half full, a
    session that has done nothing at all since it began is warned too; that look counts as no check.
    """

    check_interval_tokens: int = 50_000
    window_tokens: int | None = None
    force_stop_after: int = 2
    warning_message: str = WARNING_TEXT
    force_stop_message: str = FORCE_STOP_TEXT

    def begin(self) -> StallState:
        """Nothing done, no check made; files that change are told relative to the beginning of the session."""
        return StallState()

    def wants_facts(self, state: StallState, event: Event) -> bool:
        """At a check only."""
        return isinstance(event, Usage) and (self._due(state, event) or self._half_due(state, event))

    def step(
        self, state: StallState, event: Event | None, facts: ProjectFacts, at: float
    ) -> tuple[StallState, tuple[Intervention, ...]]:
        """Counts work; at a check, the warning or the final wrap-up."""
        if event is None:
            return state, ()
        if not isinstance(event, Usage):
            recent = state.recent.after(event)
            if recent is state.recent:
                return state, ()
            return replace(state, recent=recent, whole=state.whole.after(event)), ()
        half = self._half_due(state, event)
        if self._due(state, event):
            return self._check(replace(state, half_checked=state.half_checked or half), facts)
        state = replace(state, tokens=state.tokens + _new_tokens(event))
        return self._half_check(state, facts) if half else (state, ())

    def _due(self, state: StallState, usage: Usage) -> bool:
        return state.tokens + _new_tokens(usage) >= self.check_interval_tokens

    def _half_due(self, state: StallState, usage: Usage) -> bool:
        window = self.window_tokens
        return window is not None and not state.half_checked and usage.context >= HALF * window

    def _check(self, state: StallState, facts: ProjectFacts) -> tuple[StallState, tuple[Intervention, ...]]:
        changed = facts.changed != state.seen
        stuck = not changed and state.recent.nothing
        row = state.stuck_checks + 1 if stuck else 0
        after = replace(
            state, tokens=0, recent=WorkDone(), seen=facts.changed, moved=state.moved or changed, stuck_checks=row
        )
        if row >= self.force_stop_after:
            text = self.force_stop_message
            return after, (Intervention(kind="wrap_up", reason="stuck", message=text, final=True),)
        return after, (self._warning(),) if row == 1 else ()

    def _half_check(self, state: StallState, facts: ProjectFacts) -> tuple[StallState, tuple[Intervention, ...]]:
        idle = not state.moved and facts.changed == state.seen and state.whole.nothing and not state.stuck_checks
        return replace(state, half_checked=True), (self._warning(),) if idle else ()

    def _warning(self) -> Intervention:
        return Intervention(kind="steer", reason="stuck", message=self.warning_message)


def _new_tokens(usage: Usage) -> int:
    return usage.input_tokens + usage.output_tokens
