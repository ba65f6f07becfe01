"""The verbs that look back: `summary` and `tail`. Source: ``longtask.md`` 6."""

from __future__ import annotations

from agent_harness.protocols.longtask import claim, evidence, schema
from agent_harness.protocols.longtask.records import Checkpoint
from agent_harness.protocols.longtask.run import usage
from agent_harness.protocols.longtask.store import LongTaskStore
from agent_harness.protocols.longtask.values import positive, text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from agent_harness.protocols.longtask.layout import LongTaskLayout

    Record = dict[str, Any]

__all__ = ["summary", "tail"]


def tail(layout: LongTaskLayout, options: Mapping[str, object]) -> tuple[Record, int]:
    """The last events, the newest last; a type is looked for before the cut."""
    limit, kind = positive(options, "limit") or 20, text(options, "type")
    store = LongTaskStore(layout)
    store.load()
    events, skipped = store.events()
    found = [event for event in events if kind is None or event["type"] == kind][-limit:]
    answer: Record = {
        "taskId": store.task_id(),
        "limit": limit,
        "type": kind,
        "count": len(found),
        "events": found,
    }
    return _with_skipped(answer, skipped), 0


def summary(layout: LongTaskLayout, options: Mapping[str, object]) -> tuple[Record, int]:
    """The checkpoint and the log in figures, and the last events."""
    limit = positive(options, "limit") or 5
    store = LongTaskStore(layout)
    task, checkpoint = store.load()
    events, torn_events = store.events()
    items, torn_items = evidence.everything(layout, checkpoint.raw)
    answer: Record = {
        "taskId": task.id,
        **_state(claim.look(layout, checkpoint, store.now()).checkpoint),
        "evidenceCount": len(items),
        "checkpointEvidenceCount": len(checkpoint.evidence),
        "archivedEvidenceCount": schema.whole(checkpoint.section("evidenceArchive").get("archivedCount"), 0),
        "totalEvents": len(events),
        "eventCounts": _counts(events, "type"),
        "workerCounts": _counts(events, "worker"),
        "rateLimits": [_rate_limit(event) for event in events if event["type"] == "rate_limited"],
        "lastEvent": events[-1] if events else None,
        "latestEvents": events[-limit:],
        "usage": usage.total(events),
    }
    return _with_skipped(answer, torn_events + torn_items), 0


def _state(checkpoint: Checkpoint) -> Record:
    return {
        "status": checkpoint.status,
        "currentPhase": checkpoint.raw.get("currentPhase"),
        "nextStep": checkpoint.next_step,
        "blockedUntil": checkpoint.blocked_until,
        "blocker": checkpoint.blocker,
    }


def _counts(events: list[Record], name: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for event in events:
        value = event.get(name)
        if isinstance(value, str) and value:
            counts[value] = counts.get(value, 0) + 1
    return counts


def _rate_limit(event: Record) -> Record:
    blocker = event.get("blocker")
    found = {name: event.get(name) for name in ("at", "status", "reason", "worker", "blockedUntil")}
    return {**found, "source": blocker.get("source") if isinstance(blocker, dict) else None}


def _with_skipped(answer: Record, skipped: int) -> Record:
    return {**answer, "skippedLines": skipped} if skipped else answer
