"""Rules that watch a session: pure steps from events to interventions.

    WallClock       a warning, then the end of the time
    ContextWindow   75 %, 90 % and 100 % of the window
    Stall           tokens burnt without progress
    RepeatedError   the same error again and again
    Budget          a cost limit exceeded

``Watch`` carries their states through all turns of one session. A stop is final: after it, nothing more is asked for.
"""

from agent_harness.supervision.monitors.limits import Budget, BudgetLimit, ContextWindow, WallClock
from agent_harness.supervision.monitors.repeated_error import RepeatedError
from agent_harness.supervision.monitors.stall import Stall
from agent_harness.supervision.monitors.watch import NO_FACTS, Intervention, Monitor, ProjectFacts, Watch

__all__ = [
    "NO_FACTS",
    "Budget",
    "ContextWindow",
    "ProjectFacts",
    "Intervention",
    "BudgetLimit",
    "Monitor",
    "RepeatedError",
    "Stall",
    "WallClock",
    "Watch",
]
