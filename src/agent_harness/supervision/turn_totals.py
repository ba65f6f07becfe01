"""What was heard of a turn: its events added up, and how it ended by their account.

Pure: nothing here asks, tells or stops an agent. Source: features.md UAH-328..356, C18, C20.
"""

from dataclasses import replace
from datetime import timedelta

from agent_harness.agents import usage
from agent_harness.agents.events import Event, Finished, RateLimited, Text, ToolCall, ToolResult, Usage
from agent_harness.kernel import clock
from agent_harness.supervision.evidence import Evidence
from agent_harness.supervision.transcript import KeyMask, TextTail

TAIL_CHARACTERS = 8192


class Heard:
    """A turn's events so far, added up; ``model`` prices usage that names none, ``test_file`` is to be seen tested."""

    def __init__(self, model: str | None, test_file: str | None) -> None:
        self._model = model
        self._tail = TextTail(TAIL_CHARACTERS)
        self._tail_mask = KeyMask()
        self._said_since = self._worked_since = False  # since the refusal
        self.evidence = Evidence(test_file) if test_file else None
        self.totals = usage.Totals()
        self.open_calls = 0
        self.refused: RateLimited | None = None  # the last refusal of the provider
        self.finished: Finished | None = None

    def take(self, event: Event) -> None:
        """Adds one event."""
        if self.evidence is not None:
            self.evidence = self.evidence.after(event)
        if isinstance(event, Text):
            self._said_since = True
            self._tail.add(self._tail_mask.mask(event.text))
        elif isinstance(event, Usage):
            self.totals = usage.add(self.totals, event, self._model)
        elif isinstance(event, ToolCall):
            self._worked_since = True
            self.open_calls += 1
        elif isinstance(event, ToolResult):
            self._worked_since = True
            self.open_calls = max(0, self.open_calls - 1)
        elif isinstance(event, RateLimited):
            self.refused = _with_reset(event)
            self._said_since = self._worked_since = False
        else:
            self.finished = event

    def tail(self) -> str:
        """The last text of the agent, redacted."""
        return self._tail.text()

    def own_ending(self) -> tuple[str, str]:
        """Reason and message of a turn that nobody has ended; a refusal counts unless the agent went on after it."""
        finished = self.finished
        if finished is None:
            return "error", "the agent went away without ending its turn"
        went_on = self._worked_since or (finished.ok and self._said_since)
        if self.refused is not None and not went_on:
            return "rate_limited", self.refused.message or finished.message or "the provider refuses for now"
        if finished.ok:
            return "finished", finished.message
        last_line = self.tail().strip().rsplit("\n", 1)[-1][:500]
        return "finished", finished.message or last_line or "the agent gave no reason"


def _with_reset(refused: RateLimited) -> RateLimited:
    """The refusal with the moment of its reset, where the agent told how long to wait instead."""
    if clock.parse(refused.resets_at) or refused.retry_after_seconds is None:
        return refused
    seconds = min(refused.retry_after_seconds, 366 * 86_400.0)
    return replace(refused, resets_at=clock.timestamp(clock.now() + timedelta(seconds=seconds)))
