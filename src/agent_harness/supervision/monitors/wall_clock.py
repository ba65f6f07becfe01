"""The wall clock: one warning, then the end. Source: features.md UAH-344..346."""

from dataclasses import dataclass

from agent_harness.agents.events import Event
from agent_harness.supervision.monitors.intervention import Intervention, Monitor, ProjectFacts

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
