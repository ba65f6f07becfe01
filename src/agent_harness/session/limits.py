"""What bounds one session: its time, its context window, its progress and its money, as the five monitors.

Defaults are those of a feature project's settings (docs/configuration.md). Source: ``features.md`` sections K, N, Q.
"""

from dataclasses import dataclass, field

from agent_harness.supervision.monitors import (
    Budget,
    BudgetLimit,
    ContextWindow,
    RepeatedError,
    Stall,
    WallClock,
    Watch,
)

__all__ = ["SessionLimits", "watch"]

WINDOW_TOKENS = 200_000  # of the model's context, where no setting says another size


@dataclass(frozen=True, kw_only=True)
class SessionLimits:
    """The bounds of one session, over all of its turns."""

    timeout_seconds: float
    warning_seconds: float | None = None  # by default at 80 % of the time
    budgets: tuple[BudgetLimit, ...]
    model: str | None = None  # whose prices count where an event names none
    context: ContextWindow = field(default_factory=lambda: ContextWindow(window_tokens=WINDOW_TOKENS))
    stall: Stall = field(default_factory=lambda: Stall(window_tokens=WINDOW_TOKENS))
    repeated_error: RepeatedError = field(default_factory=RepeatedError)


def watch(limits: SessionLimits) -> Watch:
    """All five monitors of one session; keep it for all of its turns."""
    warning = 0.8 * limits.timeout_seconds if limits.warning_seconds is None else limits.warning_seconds
    return Watch(
        (
            WallClock(timeout_seconds=limits.timeout_seconds, warning_seconds=warning),
            limits.context,
            limits.stall,
            limits.repeated_error,
            Budget(limits=limits.budgets, model=limits.model),
        )
    )
