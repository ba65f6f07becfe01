"""Rules that watch a session: pure steps from events to interventions; no clock, no disk, no process.

    WallClock       a warning, then the end of the time
    ContextWindow   75 %, 90 % and 100 % of the window
    Budget          a cost limit exceeded
    Stall           tokens burnt without progress (``stalls``)
    RepeatedError   the same error again and again (``stalls``)

``Watch`` carries their states through all turns of one session. A stop is final: after it, nothing more is asked for.
Source: features.md UAH-336..346, UAH-417..419, C27, C58.
"""

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
    """What a monitor asks for.

    ``steer`` puts ``message`` in front of the agent. ``wrap_up`` does so and tells it to end its work; with ``final``
    it gets so much time and no more, and is stopped at once when it cannot be told. ``stop`` ends it now.
    """

    kind: Kind
    reason: Reason
    message: str
    final: bool = False


@dataclass(frozen=True, slots=True)
class ProjectFacts:
    """The project as it is: for each changed path a stamp that moves whenever the content may have moved."""

    changed: Mapping[str, object] = field(default_factory=dict)


NO_FACTS = ProjectFacts()


class Monitor(ABC, Generic[State]):
    """Frozen settings and a pure step. ``at`` is in seconds since the session began."""

    @abstractmethod
    def begin(self) -> State:
        """The state before the first event of a session."""

    @abstractmethod
    def step(
        self, state: State, event: Event | None, facts: ProjectFacts, at: float
    ) -> tuple[State, tuple[Intervention, ...]]:
        """The next state and what is asked for; ``event`` is ``None`` when only time went by."""

    def wants_facts(self, state: State, event: Event) -> bool:
        """True when ``step`` will look at ``facts`` for this event, so that they are gathered only then."""
        return False

    def deadline(self, state: State) -> float | None:
        """The next ``at`` at which ``step`` has something to say without any event."""
        return None


class Watch:
    """Steps several monitors and keeps their states; one of these lives as long as the session, over all its turns."""

    def __init__(self, monitors: Sequence[Monitor[Any]]) -> None:
        self._monitors = tuple(monitors)
        self._states = [monitor.begin() for monitor in self._monitors]
        self.stopped: Intervention | None = None
        self.wrapping_up: Intervention | None = None

    def wants_facts(self, event: Event | None) -> bool:
        """True when some monitor will look at the facts for this event."""
        if event is None or self.stopped:
            return False
        pairs = zip(self._monitors, self._states, strict=True)
        return any(monitor.wants_facts(state, event) for monitor, state in pairs)

    def step(self, event: Event | None, at: float, facts: ProjectFacts = NO_FACTS) -> tuple[Intervention, ...]:
        """What is asked for now: the first stop alone, else the first final wrap-up alone, else everything.

        After a final wrap-up only a stop is asked for; after a stop, nothing.
        """
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
        """The next ``at`` at which a step without an event has something to say."""
        if self.stopped:
            return None
        pairs = zip(self._monitors, self._states, strict=True)
        known = (monitor.deadline(state) for monitor, state in pairs)
        return min((at for at in known if at is not None), default=None)


TIMEOUT_TEXT = "TIMEOUT: Session exceeded time limit. Stopping now."
WARNING_TEXT = "WARNING: {minutes} minutes remaining."


@dataclass(frozen=True, slots=True, kw_only=True)
class WallClock(Monitor[int]):
    """Stops the session after ``timeout_seconds``; warns once after ``warning_seconds``. State: what was said (0-2)."""

    timeout_seconds: float
    warning_seconds: float | None = None

    def begin(self) -> int:
        """Nothing said yet."""
        return 0

    def step(
        self, state: int, event: Event | None, facts: ProjectFacts, at: float
    ) -> tuple[int, tuple[Intervention, ...]]:
        """The warning once, the stop once; a warning that is due together with the stop is left out."""
        if at >= self.timeout_seconds:
            stop = Intervention(kind="stop", reason="timeout", message=TIMEOUT_TEXT)
            return 2, (stop,) if state < 2 else ()
        if state == 0 and self.warning_seconds is not None and at >= self.warning_seconds:
            minutes = max(0, int(self.timeout_seconds / 60) - int(at / 60))
            text = WARNING_TEXT.format(minutes=minutes)
            return 1, (Intervention(kind="steer", reason="timeout", message=text),)
        return state, ()

    def deadline(self, state: int) -> float | None:
        """When the warning is due, then when the time is over."""
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
    """Watches how full the window is after each model call. State: the highest threshold passed (0-3).

    A threshold speaks once in a session, also when a compaction empties the window in between; a jump past several
    thresholds speaks with the highest one only.
    """

    window_tokens: int
    warn_threshold: float = 0.75
    force_threshold: float = 0.90
    wrap_up_message: str = WRAP_UP_TEXT

    def begin(self) -> int:
        """No threshold passed."""
        return 0

    def step(
        self, state: int, event: Event | None, facts: ProjectFacts, at: float
    ) -> tuple[int, tuple[Intervention, ...]]:
        """An intervention when this call carried the window past a threshold for the first time."""
        level = self._level(event.context) if isinstance(event, Usage) else 0
        return (level, (self._intervention(level),)) if level > state else (state, ())

    def _level(self, tokens: int) -> int:
        marks = (self.warn_threshold, self.force_threshold, 1.0)
        return max((n for n, mark in enumerate(marks, 1) if tokens >= mark * self.window_tokens), default=0)

    def _intervention(self, level: int) -> Intervention:
        if level == 3:
            return Intervention(kind="stop", reason="context_limit", message=WINDOW_STOP_TEXT)
        if level == 2:
            return Intervention(kind="wrap_up", reason="context_limit", message=self.wrap_up_message)
        text = WINDOW_TEXT.format(percent=round(self.warn_threshold * 100))
        return Intervention(kind="steer", reason="context_limit", message=text)


BUDGET_TEXT = "{name} cost ${spent:.2f} exceeds budget ${limit:.2f}."
TOGETHER_TEXT = "{name} cost ${spent:.2f}, with what all at work have reserved, exceeds budget ${limit:.2f}."


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimit:
    """One limit in US dollars and what earlier sessions have spent of it."""

    name: str  # "Session", "Feature", "Project": the first word of the message
    limit_usd: float
    spent_usd: float = 0.0
    elsewhere: Callable[[float], float] | None = None  # told what is spent here: what others spend of it meanwhile

    def used(self, spent: float) -> float:
        """What is gone of it once this session has spent so much."""
        here = self.spent_usd + spent
        return here + self.elsewhere(here) if self.elsewhere else here


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget(Monitor[Totals]):
    """Adds up the cost of the session after each model call. State: its totals.

    A call without a known price counts at ``SAMPLE_PRICE``, and the message says so.
    """

    limits: tuple[BudgetLimit, ...]
    model: str | None = None

    def begin(self) -> Totals:
        """Nothing spent."""
        return Totals()

    def step(
        self, state: Totals, event: Event | None, facts: ProjectFacts, at: float
    ) -> tuple[Totals, tuple[Intervention, ...]]:
        """A stop that names the first limit exceeded; a cost equal to its limit is within it."""
        if not isinstance(event, Usage):
            return state, ()
        totals = add(state, event, self.model)
        spent = totals.budget_usd()
        used = [(limit, limit.used(spent)) for limit in self.limits]  # each of them is told
        over = next((found for found in used if found[1] > found[0].limit_usd + 1e-9), None)
        return totals, (self._stop(*over, totals),) if over else ()

    def _stop(self, over: BudgetLimit, used: float, totals: Totals) -> Intervention:
        text = (TOGETHER_TEXT if over.elsewhere else BUDGET_TEXT).format(
            name=over.name, spent=used, limit=over.limit_usd
        )
        if totals.unpriced_calls:
            prices = f"${SAMPLE_PRICE.input_usd:g}/M in and ${SAMPLE_PRICE.output_usd:g}/M out"
            text += f" No price is known for {totals.unpriced_calls} calls; they count at {prices}."
        return Intervention(kind="stop", reason="budget_exceeded", message=text)
