"""The same error again and again. Source: features.md UAH-333, UAH-363, C18."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from agent_harness.agents.events import Event, Text, ToolCall, ToolResult, Usage
from agent_harness.supervision.monitors.watch import Intervention, Monitor, ProjectFacts

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
    """The error that a line of output states, without what varies between repeats; ``None`` when it states none."""
    line = line.strip()[:400]
    return " ".join(_VARYING.sub("#", line).split())[:200] if _ERROR.match(line) else None


@dataclass(frozen=True, slots=True)
class Errors:
    """The state of ``RepeatedError``: how often each error was seen, in text and in tool results."""

    told: Mapping[str, int] = field(default_factory=dict)  # in text
    returned: Mapping[str, int] = field(default_factory=dict)  # in tool results
    in_step: frozenset[str] = frozenset()  # in the text of the command at hand: one command repeats an error once
    answered: frozenset[str] = frozenset()  # those for which the agent was spoken to


@dataclass(frozen=True, slots=True, kw_only=True)
class RepeatedError(Monitor[Errors]):
    """Speaks once for an error that ``max_repeated`` commands of the session have ended in; stops nothing."""

    max_repeated: int = 5
    message: str = TEXT

    def begin(self) -> Errors:
        """No error seen."""
        return Errors()

    def step(
        self, state: Errors, event: Event | None, facts: ProjectFacts, at: float
    ) -> tuple[Errors, tuple[Intervention, ...]]:
        """Counts the errors of the event; an error told in text and returned by a tool counts once."""
        if isinstance(event, ToolCall | Usage):
            return (replace(state, in_step=frozenset()) if state.in_step else state), ()
        if isinstance(event, Text):
            after = _after_text(state, event.text)
        elif isinstance(event, ToolResult):
            after = _after_result(state, event)
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


def _after_result(state: Errors, result: ToolResult) -> Errors:
    errors = set(_errors_of(result))
    return replace(state, returned=_counted(state.returned, sorted(errors))) if errors else state


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
