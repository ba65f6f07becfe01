"""Monitors of a session: pure step functions from events to interventions, without clock, disk or processes.

    WallClock       a warning, then a stop at the time limit
    ContextWindow   messages when 75 %, 90 % and 100 % of the context window are used
    Budget          a stop if a cost limit is exceeded
    Stall           a warning, then the end, if tokens are used without progress (``stalls``)
    RepeatedError   a warning if the same error occurs again and again (``stalls``)

A ``Watch`` keeps the states of the monitors through all turns of one session. After a ``Watch`` has requested a stop,
it requests nothing more. Source: features.md UAH-336..346, UAH-417..419, C27, C58."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from agent_harness.agents.events import Event, Usage
from agent_harness.agents.usage import SAMPLE_PRICE, Totals, add

State = TypeVar("State")
Kind = Literal["steer", "wrap_up", "stop"]
Reason = Literal["context_limit", "timeout", "stuck", "repeated_error", "budget_exceeded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Intervention:
    """A monitor's request to steer or stop the agent."""

    # ``steer`` only sends the message, ``wrap_up`` asks the agent to end its work, ``stop`` ends the agent now.

    kind: Kind
    reason: Reason
    message: str
    final: bool = False  # a wrap-up in a fixed time; an agent that cannot get messages is stopped at once


@dataclass(frozen=True, slots=True)
class ProjectFacts:
    """The project's changed files, each with a value that changes with the file's content."""

    changed: Mapping[str, object] = field(default_factory=dict)


NO_FACTS = ProjectFacts()


class Monitor(ABC, Generic[State]):
    """Monitor of a session, with frozen settings and a pure ``step`` function."""

    # ``at`` is in seconds since the session began.

    @abstractmethod
    def begin(self) -> State:
        """Return the monitor's state before the first event of a session."""

    @abstractmethod
    def step(
        self, state: State, event: Event | None, facts: ProjectFacts, at: float
    ) -> tuple[State, tuple[Intervention, ...]]:
        """Return the next state and the requested interventions. ``event`` is None if only time has passed."""

    def wants_facts(self, state: State, event: Event) -> bool:
        """Return True if ``step`` needs the changed files for this event."""
        return False

    def deadline(self, state: State) -> float | None:
        """Return the session time in seconds at which to call ``step`` without an event, or None."""
        return None


class Watch:
    """Monitors of one session, with their states."""

    def __init__(self, monitors: Sequence[Monitor[Any]]) -> None:
        self._monitors = tuple(monitors)
        self._states = [monitor.begin() for monitor in self._monitors]
        self.stopped: Intervention | None = None
        self.wrapping_up: Intervention | None = None

    def wants_facts(self, event: Event | None) -> bool:
        if event is None or self.stopped:
            return False
        pairs = zip(self._monitors, self._states, strict=True)
        return any(monitor.wants_facts(state, event) for monitor, state in pairs)

    def step(self, event: Event | None, at: float, facts: ProjectFacts = NO_FACTS) -> tuple[Intervention, ...]:
        """Pass ``event`` to all monitors, and return the resulting interventions."""
        # after a stop, nothing more is due; after a final wrap-up, only a stop
        if self.stopped:
            return ()
        asked: list[Intervention] = []
        for index, monitor in enumerate(self._monitors):
            self._states[index], wanted = monitor.step(self._states[index], event, facts, at)
            asked.extend(wanted)
        self.stopped = next((one for one in asked if one.kind == "stop"), None)
        if self.stopped:
            return (self.stopped,)
        if self.wrapping_up:
            return ()
        self.wrapping_up = next((one for one in asked if one.final), None)
        return (self.wrapping_up,) if self.wrapping_up else tuple(asked)

    def deadline(self) -> float | None:
        if self.stopped:
            return None
        pairs = zip(self._monitors, self._states, strict=True)
        known = (monitor.deadline(state) for monitor, state in pairs)
        return min((at for at in known if at is not None), default=None)


TIMEOUT_TEXT = "TIMEOUT: Session exceeded time limit. Stopping now."
WARNING_TEXT = "WARNING: {minutes} minutes remaining."


@dataclass(frozen=True, slots=True, kw_only=True)
class WallClock(Monitor[int]):
    """Monitor that warns the agent after ``warning_seconds`` and stops the session after ``timeout_seconds``."""

    # The state is the number of messages sent (0 to 2).

    timeout_seconds: float
    warning_seconds: float | None = None

    def begin(self) -> int:
        return 0

    def step(
        self, state: int, event: Event | None, facts: ProjectFacts, at: float
    ) -> tuple[int, tuple[Intervention, ...]]:
        if at >= self.timeout_seconds:
            stop = Intervention(kind="stop", reason="timeout", message=TIMEOUT_TEXT)
            return 2, (stop,) if state < 2 else ()
        if state == 0 and self.warning_seconds is not None and at >= self.warning_seconds:
            minutes = max(0, int(self.timeout_seconds / 60) - int(at / 60))
            text = WARNING_TEXT.format(minutes=minutes)
            return 1, (Intervention(kind="steer", reason="timeout", message=text),)
        return state, ()

    def deadline(self, state: int) -> float | None:
        if state == 0 and self.warning_seconds is not None:
            return min(self.warning_seconds, self.timeout_seconds)
        return self.timeout_seconds if state < 2 else None


WINDOW_TEXT = (
    "Note: You've used {percent}% of available context. Start planning to wrap up. If you cannot complete this feature"
    " soon, document your progress clearly so the next session can continue."
)
WRAP_UP_TEXT = """\
IMPORTANT: Context is nearly full. You must now:
1. Stop implementation work immediately
2. Document exactly where you stopped in claude-progress.txt
3. Note what's done, what's partially done, what's left
4. Commit current state (even if incomplete)
5. The next session will continue from here

Do NOT try to rush to completion. Clean handoff is better than broken code."""
WINDOW_STOP_TEXT = "Context limit reached mid-implementation"


@dataclass(frozen=True, slots=True, kw_only=True)
class ContextWindow(Monitor[int]):
    """Monitor of the context window, which sends at most one message for each threshold."""

    # The state is the highest threshold passed (0 to 3), even after a compaction.

    window_tokens: int
    warn_threshold: float = 0.75
    force_threshold: float = 0.90
    wrap_up_message: str = WRAP_UP_TEXT

    def begin(self) -> int:
        return 0

    def step(
        self, state: int, event: Event | None, facts: ProjectFacts, at: float
    ) -> tuple[int, tuple[Intervention, ...]]:
        if not isinstance(event, Usage):
            return state, ()
        marks = (self.warn_threshold, self.force_threshold, 1.0)
        level = max((n for n, mark in enumerate(marks, 1) if event.context >= mark * self.window_tokens), default=0)
        return (level, (self._intervention(level),)) if level > state else (state, ())

    def _intervention(self, level: int) -> Intervention:
        if level == 3:
            return Intervention(kind="stop", reason="context_limit", message=WINDOW_STOP_TEXT)
        if level == 2:
            return Intervention(kind="wrap_up", reason="context_limit", message=self.wrap_up_message)
        text = WINDOW_TEXT.format(percent=round(self.warn_threshold * 100))
        return Intervention(kind="steer", reason="context_limit", message=text)


BUDGET_TEXT = "{name} cost ${spent:.2f} exceeds budget ${limit:.2f}."
TOGETHER_TEXT = "{name} cost ${spent:.2f}, including amounts reserved by running agents, exceeds budget ${limit:.2f}."


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimit:
    """Cost limit in US dollars, with the cost of earlier sessions."""

    name: str  # "Session", "Feature", "Project": the first word of the message
    limit_usd: float
    spent_usd: float = 0.0
    elsewhere: Callable[[float], float] | None = None  # gets the spending here; returns the spending of others

    def used(self, spent: float) -> float:
        """Return the cost in US dollars, including earlier sessions and other workers."""
        here = self.spent_usd + spent
        return here + self.elsewhere(here) if self.elsewhere else here


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget(Monitor[Totals]):
    """Monitor that keeps the session within its cost limits."""

    # A call without a known price counts at ``SAMPLE_PRICE``, which the stop message then mentions.

    limits: tuple[BudgetLimit, ...]
    model: str | None = None

    def begin(self) -> Totals:
        return Totals()

    def step(
        self, state: Totals, event: Event | None, facts: ProjectFacts, at: float
    ) -> tuple[Totals, tuple[Intervention, ...]]:
        if not isinstance(event, Usage):
            return state, ()
        totals = add(state, event, self.model)
        spent = totals.budget_usd()
        used = [(limit, limit.used(spent)) for limit in self.limits]  # each of them gets the amount
        over = next((found for found in used if found[1] > found[0].limit_usd + 1e-9), None)
        return totals, (self._stop(*over, totals),) if over else ()

    def _stop(self, over: BudgetLimit, used: float, totals: Totals) -> Intervention:
        text = (TOGETHER_TEXT if over.elsewhere else BUDGET_TEXT).format(
            name=over.name, spent=used, limit=over.limit_usd
        )
        if totals.unpriced_calls:
            prices = f"${SAMPLE_PRICE.input_usd:g}/M in and ${SAMPLE_PRICE.output_usd:g}/M out"
            text += f" No price is known for {totals.unpriced_calls} calls; they are counted at {prices}."
        return Intervention(kind="stop", reason="budget_exceeded", message=text)
