"""What a monitor is: events in, interventions out; no clock, no disk, no process."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

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
