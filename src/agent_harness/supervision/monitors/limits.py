"""The limits of a session: its time, the context window and its budget.

Source: features.md UAH-336..346, UAH-417..419, C27, C58.
"""

from dataclasses import dataclass

from agent_harness.agents.events import Event, Usage
from agent_harness.agents.usage import SAMPLE_PRICE, Price, Totals, add
from agent_harness.supervision.monitors.watch import Intervention, Monitor, ProjectFacts

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


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetLimit:
    """One limit in US dollars and what earlier sessions have spent of it."""

    name: str  # "Session", "Feature", "Project": the first word of the message
    limit_usd: float
    spent_usd: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Budget(Monitor[Totals]):
    """Adds up the cost of the session after each model call. State: its totals.

    A call without a known price counts at ``assumed``, and the message says so.
    """

    limits: tuple[BudgetLimit, ...]
    model: str | None = None
    assumed: Price = SAMPLE_PRICE

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
        spent = totals.budget_usd(self.assumed)
        over = next((x for x in self.limits if x.spent_usd + spent > x.limit_usd + 1e-9), None)
        return totals, (self._stop(over, spent, totals),) if over else ()

    def _stop(self, over: BudgetLimit, spent: float, totals: Totals) -> Intervention:
        text = BUDGET_TEXT.format(name=over.name, spent=over.spent_usd + spent, limit=over.limit_usd)
        if totals.unpriced_calls:
            prices = f"${self.assumed.input_usd:g}/M in and ${self.assumed.output_usd:g}/M out"
            text += f" No price is known for {totals.unpriced_calls} calls; they count at {prices}."
        return Intervention(kind="stop", reason="budget_exceeded", message=text)
