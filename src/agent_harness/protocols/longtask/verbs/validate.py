"""The verbs that only look: `validate` and `next`. Source: ``longtask.md`` 6."""

from __future__ import annotations

from agent_harness.kernel.terminal import one_line
from agent_harness.protocols.longtask import claim
from agent_harness.protocols.longtask.store import LongTaskStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from agent_harness.protocols.longtask.layout import LongTaskLayout

__all__ = ["due", "validate"]


def validate(layout: LongTaskLayout, options: Mapping[str, object]) -> tuple[str, int]:
    """One line that names the task and what comes next. ``InvalidTask`` otherwise."""
    store = LongTaskStore(layout)
    task, found = store.load()
    checkpoint = claim.look(layout, found, store.now()).checkpoint
    return f"OK {one_line(task.id)}: {checkpoint.status} -> {one_line(checkpoint.next_step)}", 0


def due(layout: LongTaskLayout, options: Mapping[str, object]) -> tuple[dict[str, Any], int]:
    """What is due now, as it stands in the checkpoint; `done` only where it is proven."""
    store = LongTaskStore(layout)
    seen = claim.look(layout, store.load()[1], store.now())
    checkpoint = seen.checkpoint
    return {
        "decision": seen.due.decision,
        "reason": seen.due.reason,
        "status": checkpoint.status,
        "blockedUntil": checkpoint.blocked_until,
        "waitSeconds": seen.due.wait_seconds,
        "nextStep": checkpoint.next_step,
    }, 0
