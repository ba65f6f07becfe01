"""The monitors of one session together, and the rule above them: a stop is final."""

from collections.abc import Sequence
from typing import Any

from agent_harness.agents.events import Event
from agent_harness.supervision.monitors.intervention import NO_FACTS, Intervention, Monitor, ProjectFacts


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
