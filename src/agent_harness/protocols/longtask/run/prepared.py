"""What a run knows before its worker starts."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.protocols.longtask.records import Contract
    from agent_harness.protocols.longtask.run.adapters import Plan

    Record = dict[str, Any]

__all__ = ["Prepared"]


class Prepared:
    """What a run found out before its worker starts; without a ``plan`` the ``answer`` is all."""

    __slots__ = ("answer", "before", "fallback", "plan", "prompt", "requested", "task", "waited_for")

    def __init__(self, answer: Record, task: Contract) -> None:
        self.answer = answer
        self.task = task
        self.plan: Plan | None = None
        self.prompt = ""
        self.before: Record = {}  # the checkpoint at the moment the worker starts
        self.requested = ""
        self.fallback: str | None = None  # who takes over when the worker is rate-limited
        self.waited_for: str | None = None  # until when the requested worker is rate-limited, where another one runs
