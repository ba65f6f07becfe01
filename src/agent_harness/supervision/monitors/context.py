"""The context window: a warning at 75 %, a wrap-up at 90 %, the end at 100 %. Source: features.md UAH-336..343."""

from dataclasses import dataclass

from agent_harness.agents.events import Event, Usage
from agent_harness.supervision.monitors.intervention import Intervention, Monitor, ProjectFacts

WARNING_TEXT = (
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
STOP_TEXT = "Context limit reached mid-implementation"


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
            return Intervention(kind="stop", reason="context_limit", message=STOP_TEXT)
        if level == 2:
            return Intervention(kind="wrap_up", reason="context_limit", message=self.wrap_up_message)
        text = WARNING_TEXT.format(percent=round(self.warn_threshold * 100))
        return Intervention(kind="steer", reason="context_limit", message=text)
