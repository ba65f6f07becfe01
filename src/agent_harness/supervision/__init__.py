"""One agent run under watch: a turn is started, listened to, steered or stopped, and told as an ``Outcome``."""

from agent_harness.supervision.evidence import Evidence
from agent_harness.supervision.monitors import (
    Budget,
    Context,
    Facts,
    Intervention,
    Limit,
    Monitor,
    RepeatedError,
    Stall,
    WallClock,
    Watch,
)
from agent_harness.supervision.outcome import Outcome
from agent_harness.supervision.supervisor import supervise

__all__ = [
    "Budget",
    "Context",
    "Evidence",
    "Facts",
    "Intervention",
    "Limit",
    "Monitor",
    "Outcome",
    "RepeatedError",
    "Stall",
    "WallClock",
    "Watch",
    "supervise",
]
