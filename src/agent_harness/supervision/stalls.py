"""Monitors for a session that uses tokens without progress or repeats an error.

The monitors request a warning or the end of the session. ``supervisor.py`` carries out these requests, and also ends an
agent that is silent for too long. ``monitors.py`` contains the time limit. Source: features.md UAH-328..334, UAH-337,
UAH-363, C18, C43."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from agent_harness.agents.events import Event, Text, ToolCall, ToolResult, Usage
from agent_harness.agents.markers import is_pytest_result, row_of_line, shell_command
from agent_harness.kernel.shell.reader import read
from agent_harness.kernel.shell.wrappers import name_of, program_at
from agent_harness.supervision.monitors import Intervention, Monitor, ProjectFacts

WARNING_TEXT = "You appear stuck. Consider a different approach."
FORCE_STOP_TEXT = (
    "Still stuck. Documenting current state and stopping. Please describe what's blocking you in claude-progress.txt."
)
LOOP_TEXT = (
    "You have made the same call {times} times in a row, with the same answer, and no file has changed. "
    "Do something else, or end and say what blocks you."
)
LOOK_AT_CALL, WARN_AT_CALL, STOP_AT_CALL = 10, 20, 40
"""Numbers of identical tool calls in a row. At the first number the files are checked, at the second the agent is
warned, and at the third the session ends. Calls that only wait for a server do not count."""
HALF = 0.5  # of the window: the silent check
EXPECTED_COMMANDS = 3


def is_test_command(command: str) -> bool:
    """Return True if the shell code runs pytest, directly or through a wrapper such as ``poetry run``."""
    return "pytest" in command and any(_runs_pytest(each.plain) for each, _ in read(command[:4000]).every())


def _runs_pytest(words: Sequence[str]) -> bool:
    rest = words[program_at(words) :]
    return name_of(rest) == "pytest" or (name_of(rest).startswith("python") and ("-m", "pytest") in pairwise(rest))


@dataclass(frozen=True, slots=True)
class WorkDone:
    """Numbers of commands and test runs in a session, or in the part of it since the last check."""

    told_commands: int = 0  # in the agent's text
    called_commands: int = 0  # in tool calls
    test_runs: int = 0

    @property
    def commands(self) -> int:
        # a command may appear both in the text and as a tool call
        return max(self.told_commands, self.called_commands)

    @property
    def nothing(self) -> bool:
        return not self.test_runs and self.commands < EXPECTED_COMMANDS

    def after(self, event: Event) -> "WorkDone":
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
class CallsAlike:
    """Series of identical tool calls with identical results."""

    call: str = ""
    answer: str | None = None
    times: int = 0
    seen: Mapping[str, object] | None = None  # the changed paths when the row was looked at first

    def after(self, event: ToolCall | ToolResult) -> "CallsAlike":
        """Return the series with this event added. A different call or result starts a new series."""
        if isinstance(event, ToolCall):
            call = f"{event.name} {sorted(event.input.items(), key=str)!r}"
            return replace(self, times=self.times + 1) if call == self.call else CallsAlike(call=call, times=1)
        answer = _VARYING.sub("#", event.output[:4000])
        if self.answer in (None, answer):
            return self if self.answer == answer else replace(self, answer=answer)
        return CallsAlike(call=self.call, answer=answer, times=1)


@dataclass(frozen=True, slots=True)
class StallState:
    grown: int = 0  # tokens that the context has grown by since the last check
    context: int | None = None  # tokens in it after the latest call; ``None`` before the first one
    recent: WorkDone = field(default_factory=WorkDone)
    whole: WorkDone = field(default_factory=WorkDone)
    seen: Mapping[str, object] = field(default_factory=dict)  # the changed paths at the last check
    moved: bool = False  # whether a check ever found the files changed
    stuck_checks: int = 0  # in a row
    half_checked: bool = False
    alike: CallsAlike = field(default_factory=CallsAlike)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stall(Monitor[StallState]):
    """Monitor that checks for progress each time the context has grown by ``check_interval_tokens``."""

    # A check finds the session stuck if, since the last one, no file changed, no test ran, and few commands ran.
    # The first stuck check causes a warning, and ``force_stop_after`` in a row a final wrap-up. When the context window
    # is half full, a session that has done no work gets a warning, unless it already has one.
    # Identical calls with identical answers and without a changed file cause a warning, and later a final wrap-up.

    check_interval_tokens: int = 50_000
    window_tokens: int | None = None
    force_stop_after: int = 2
    warning_message: str = WARNING_TEXT
    force_stop_message: str = FORCE_STOP_TEXT

    def begin(self) -> StallState:
        return StallState()

    def wants_facts(self, state: StallState, event: Event) -> bool:
        if isinstance(event, ToolCall):
            return state.alike.after(event).times in (LOOK_AT_CALL, WARN_AT_CALL, STOP_AT_CALL)
        return isinstance(event, Usage) and (self._due(state, event) or self._half_due(state, event))

    def step(
        self, state: StallState, event: Event | None, facts: ProjectFacts, at: float
    ) -> tuple[StallState, tuple[Intervention, ...]]:
        if event is None:
            return state, ()
        said: tuple[Intervention, ...] = ()
        if isinstance(event, ToolCall | ToolResult):
            state, said = self._loop(state, event, facts)
        if not isinstance(event, Usage):
            recent = state.recent.after(event)
            if recent is state.recent:
                return state, said
            return replace(state, recent=recent, whole=state.whole.after(event)), said
        due, half = self._due(state, event), self._half_due(state, event)
        state = replace(
            state, grown=state.grown + _growth(state, event), context=event.context or state.context
        )  # a row of costs alone says nothing about the context
        if due:
            return self._check(replace(state, half_checked=state.half_checked or half), facts)
        if not half:
            return state, ()
        idle = not state.moved and facts.changed == state.seen and state.whole.nothing and not state.stuck_checks
        return replace(state, half_checked=True), (self._warning(),) if idle else ()

    def _loop(
        self, state: StallState, event: ToolCall | ToolResult, facts: ProjectFacts
    ) -> tuple[StallState, tuple[Intervention, ...]]:
        alike = state.alike.after(event)
        if isinstance(event, ToolResult) or alike.times not in (LOOK_AT_CALL, WARN_AT_CALL, STOP_AT_CALL):
            return replace(state, alike=alike), ()
        if alike.times == LOOK_AT_CALL or facts.changed != alike.seen:
            return replace(state, alike=replace(alike, times=LOOK_AT_CALL, seen=facts.changed)), ()
        state = replace(state, alike=alike)
        if alike.times == WARN_AT_CALL:
            text = LOOP_TEXT.replace("{times}", str(alike.times))
            return state, (Intervention(kind="steer", reason="stuck", message=text),)
        return state, (Intervention(kind="wrap_up", reason="stuck", message=self.force_stop_message, final=True),)

    def _due(self, state: StallState, usage: Usage) -> bool:
        return state.grown + _growth(state, usage) >= self.check_interval_tokens

    def _half_due(self, state: StallState, usage: Usage) -> bool:
        window = self.window_tokens
        return window is not None and not state.half_checked and usage.context >= HALF * window

    def _check(self, state: StallState, facts: ProjectFacts) -> tuple[StallState, tuple[Intervention, ...]]:
        changed = facts.changed != state.seen
        stuck = not changed and state.recent.nothing
        row = state.stuck_checks + 1 if stuck else 0
        after = replace(
            state, grown=0, recent=WorkDone(), seen=facts.changed, moved=state.moved or changed, stuck_checks=row
        )
        if row >= self.force_stop_after:
            text = self.force_stop_message
            return after, (Intervention(kind="wrap_up", reason="stuck", message=text, final=True),)
        return after, (self._warning(),) if row == 1 else ()

    def _warning(self) -> Intervention:
        return Intervention(kind="steer", reason="stuck", message=self.warning_message)


def _growth(state: StallState, usage: Usage) -> int:
    """Return how many tokens a call added to the context."""
    # if that is unknown, as for the first call, its output tokens
    if not usage.context:
        return 0
    if state.context is None or usage.context <= state.context:
        return usage.output_tokens
    return usage.context - state.context


TEXT = "You've hit the same error {times} times. This approach isn't working. Try something fundamentally different."
KEPT = 128  # distinct errors that are counted at a time
ANSWERED = 16  # distinct errors about which the agent is spoken to at most

_ERROR = re.compile(
    r"(?:E\s{1,8})?[\w.]{0,80}(?:Error|Exception)(?::|\s*$)"
    r"|(?:error|fatal|ERROR|FATAL|Error|Fatal)(?:\[\w{1,20}\])?:\s"
    r"|(?:FAILED|ERROR) \S"
    r"|.{0,160}(?:command not found|No such file or directory|Permission denied)"
)
_HINTS = ("Error", "Exception", "error", "fatal", "FATAL", "ERROR", "Fatal", "FAILED", "not found", "No such", "denied")
_VARYING = re.compile(r"0x[0-9a-fA-F]{1,16}|\bline \d{1,9}|\b\d{1,9}(?:\.\d{1,9})?\s?m?s\b|\bpid[ =]\d{1,9}")
_NEXT_COMMAND = re.compile(r"\s{0,4}(?:[$] |.{0,12}\[CMD:(?:RUN|EXIT)\]|=+ test session starts)")


def error_of(line: str) -> str | None:
    """Return the error in an output line, or None. Varying parts become ``#``."""
    line = line.strip()[:400]
    return " ".join(_VARYING.sub("#", line).split())[:200] if _ERROR.match(line) else None


@dataclass(frozen=True, slots=True)
class Errors:
    """Number of occurrences of each error in the agent's text and in tool results."""

    told: Mapping[str, int] = field(default_factory=dict)  # in text
    returned: Mapping[str, int] = field(default_factory=dict)  # in tool results
    in_step: frozenset[str] = frozenset()  # in the text of the command at hand: one command repeats an error once
    answered: frozenset[str] = frozenset()  # those for which the agent was spoken to


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedError(Monitor[Errors]):
    """Monitor that warns once about each error with which ``max_repeated`` commands in a session end."""

    max_repeated: int = 5
    message: str = TEXT

    def begin(self) -> Errors:
        return Errors()

    def step(
        self, state: Errors, event: Event | None, facts: ProjectFacts, at: float
    ) -> tuple[Errors, tuple[Intervention, ...]]:
        if isinstance(event, ToolCall | Usage):
            return (replace(state, in_step=frozenset()) if state.in_step else state), ()
        if isinstance(event, Text):
            after = _after_text(state, event.text)
        elif isinstance(event, ToolResult):
            errors = set(_errors_of(event))
            after = replace(state, returned=_counted(state.returned, sorted(errors))) if errors else state
        else:
            return state, ()
        return self._judge(after) if after is not state else (state, ())

    def _judge(self, state: Errors) -> tuple[Errors, tuple[Intervention, ...]]:
        counts = (*state.told.items(), *state.returned.items())
        again = {error for error, times in counts if times >= self.max_repeated} - state.answered
        if not again or len(state.answered) >= ANSWERED:
            return state, ()
        text = self.message.replace("{times}", str(self.max_repeated))
        said = Intervention(kind="steer", reason="repeated_error", message=text)
        return Errors(in_step=state.in_step, answered=frozenset((*state.answered, *again))), (said,)


def _after_text(state: Errors, text: str) -> Errors:
    for line in text.split("\n"):
        if _NEXT_COMMAND.match(line):
            state = replace(state, in_step=frozenset()) if state.in_step else state
            continue
        error = error_of(line) if any(hint in line for hint in _HINTS) else None
        if error is not None and error not in state.in_step and len(state.in_step) < KEPT:
            state = replace(state, told=_counted(state.told, (error,)), in_step=state.in_step | {error})
    return state


def _errors_of(result: ToolResult) -> Iterator[str]:
    found = False
    for line in result.output.split("\n"):
        error = error_of(line) if any(hint in line for hint in _HINTS) else None
        if error is not None:
            found = True
            yield error
    last = result.output.rstrip().rsplit("\n", 1)[-1].strip()
    if result.is_error and not found and last:
        yield " ".join(_VARYING.sub("#", last[:400]).split())[:200]


def _counted(counts: Mapping[str, int], errors: Iterable[str]) -> Mapping[str, int]:
    after = dict(counts)
    for error in errors:
        after[error] = after.get(error, 0) + 1
        if len(after) > KEPT:  # forget the oldest of the least seen
            del after[min(after, key=lambda known: (after[known] > 1, after[known]))]
    return after
