"""How one worker went, in the words of the contract. Source: ``longtask.md`` 10.2."""

from __future__ import annotations

from agent_harness.kernel import clock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.protocols.longtask.run.adapters import Plan

__all__ = ["Ran"]


class Ran:
    """How one worker went. ``stopped``: it was ended because the run was to end; ``ended_by``: the monitor that did."""

    __slots__ = (
        *("ended_by", "error", "exit_code", "finished_at", "plan", "started_at"),
        *("stderr", "stdout", "stopped", "usage"),
    )

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.started_at = clock.timestamp(fraction=True)
        self.finished_at = ""
        self.exit_code = 0
        self.error: str | None = None
        self.stdout = ""
        self.stderr = ""
        self.stopped = False
        self.ended_by: str | None = None
        self.usage: dict[str, Any] | None = None  # ``None`` when the worker does not say it
