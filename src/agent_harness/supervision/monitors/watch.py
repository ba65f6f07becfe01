"""What a monitor is: events in, interventions out; no clock, no disk, no process. And ``Watch``."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

from agent_harness.agents.events import Event

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
