"""One agent run under watch: a turn is started, listened to, steered or stopped, and reported as an ``Outcome``."""

from agent_harness.supervision.monitors import (
    Budget,
    BudgetLimit,
    ContextWindow,
    Intervention,
    Monitor,
    ProjectFacts,
    RepeatedError,
    Stall,
    WallClock,
    Watch,
)
from agent_harness.supervision.outcome import Evidence, Outcome
from agent_harness.supervision.supervisor import supervise

__all__ = [
    "Budget",
    "ContextWindow",
    "Evidence",
    "ProjectFacts",
    "Intervention",
    "BudgetLimit",
    "Monitor",
    "Outcome",
    "RepeatedError",
    "Stall",
    "WallClock",
    "Watch",
    "supervise",
]
