"""The verbs that only look: `validate` and `next`. Source: ``longtask.md`` 6."""

from __future__ import annotations

from agent_harness.protocols.longtask.lifecycle import decide
from agent_harness.protocols.longtask.store import LongTaskStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from agent_harness.protocols.longtask.layout import Layout

__all__ = ["due", "validate"]


def validate(layout: Layout, options: Mapping[str, object]) -> tuple[str, int]:
    """One line that names the task and what comes next. ``InvalidTask`` otherwise."""
    task, checkpoint = LongTaskStore(layout).load()
    step = " ".join(checkpoint.next_step.splitlines())
    return f"OK {task.id}: {checkpoint.status} -> {step}", 0


def due(layout: Layout, options: Mapping[str, object]) -> tuple[dict[str, Any], int]:
    """What is due now, as it stands in the checkpoint."""
    store = LongTaskStore(layout)
    _, checkpoint = store.load()
    found = decide(checkpoint, store.now())
    return {
        "decision": found.decision,
        "reason": found.reason,
        "status": checkpoint.status,
        "blockedUntil": checkpoint.blocked_until,
        "waitSeconds": found.wait_seconds,
        "nextStep": checkpoint.next_step,
    }, 0
