"""`status` and the first line of `resume`: how a task stands, in words for a person. Source: ``longtask.md`` 19."""

from __future__ import annotations

import os
import sys

from agent_harness.kernel.terminal import one_line
from agent_harness.protocols.longtask import claim, evidence, recovery
from agent_harness.protocols.longtask.records import Checkpoint
from agent_harness.protocols.longtask.run import usage
from agent_harness.protocols.longtask.store import LongTaskStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from agent_harness.protocols.longtask.claim import Seen
    from agent_harness.protocols.longtask.layout import LongTaskLayout

    Record = dict[str, Any]

__all__ = ["explain", "lease_of", "status"]


def status(layout: LongTaskLayout, options: Mapping[str, object]) -> tuple[str, int]:
    """A few lines: checkpoint, decision, blocker, evidence, last event, lease."""
    store = LongTaskStore(layout)
    task, held = store.load()
    items, _ = evidence.everything(layout, held.raw)
    events, _ = store.events()
    found = claim.look(layout, held, store.now())
    checkpoint = found.checkpoint
    rows = [
        ("task", f"{task.id}: {task.title}"),
        ("status", _state(checkpoint)),
        ("due", _due(found)),
        ("next run", _rollback_point(store, found, events)),
        ("next step", checkpoint.next_step),
        *_blockers(checkpoint),
        ("evidence", f"{len(items)} item{'' if len(items) == 1 else 's'}"),
        ("usage", _usage(usage.total(events))),
        ("last event", _event(events[-1]) if events else "none"),
        ("lease", _lease(store)),
    ]
    return "\n".join(f"{name + ':':<12}{one_line(text)}" for name, text in rows), 0


def explain(layout: LongTaskLayout) -> None:
    """One line on stderr: what the run before left behind, what is due and why."""
    store = LongTaskStore(layout)
    found = claim.look(layout, store.load()[1], store.now())
    way = _rollback_point(store, found, store.events()[0])
    sys.stderr.write(f"resume: {way} ({_due(found)}); next step: {one_line(found.checkpoint.next_step)}\n")


def _rollback_point(store: LongTaskStore, found: Seen, events: list[Record]) -> str:
    row = recovery.row_for(
        lease=lease_of(store),
        due="claimed" if found.claimed else found.due.decision,
        unfinished=recovery.is_unfinished(events),
    )
    return f"{row.step}: {row.reason}"


def _state(checkpoint: Checkpoint) -> str:
    phase = checkpoint.text("currentPhase")
    return f"{checkpoint.status} ({phase})" if phase else checkpoint.status


def _due(found: Seen) -> str:
    due = found.due
    wait = f", {due.wait_seconds} s left" if due.wait_seconds else ""
    return f"{due.decision}: {due.reason}{wait}"


def _blockers(checkpoint: Checkpoint) -> Iterator[tuple[str, str]]:
    if checkpoint.blocked_until:
        yield "blocked", f"until {checkpoint.blocked_until}"
    blocker = checkpoint.blocker
    if blocker:
        said = [str(blocker[name]) for name in ("type", "source", "message") if blocker.get(name)]
        yield "blocker", ", ".join(said)
    for worker, cooldown in checkpoint.cooldowns.items():
        yield "cooldown", f"{worker} until {cooldown.get('blockedUntil')}"


def _usage(spent: Record) -> str:
    """Tokens and cost of the runs that say it, and how many do not."""
    if not spent["knownRuns"]:
        return f"unknown; {spent['unknownRuns']} runs do not say it" if spent["unknownRuns"] else "none"
    cost = "cost unknown" if spent["costUsd"] is None else f"{spent['costUsd']:.2f} USD"
    others = f"; {spent['unknownRuns']} more runs do not say it" if spent["unknownRuns"] else ""
    return f"{spent['totalTokens']} tokens, {cost}, in {spent['knownRuns']} runs{others}"


def _event(event: Record) -> str:
    said = [str(event[name]) for name in ("type", "worker", "status", "reason") if event.get(name)]
    return f"{event['at']} {' '.join(said)}"


def _look(store: LongTaskStore) -> Any:
    if not os.path.lexists(store.layout.lock):
        return None
    from agent_harness.protocols.longtask.run import lease_file

    return lease_file.look(store.layout, store.now())


def lease_of(store: LongTaskStore) -> str:
    """What the lease of a task says: none, held, over or unreadable."""
    found = _look(store)
    return "none" if found is None else _kind(found)


def _kind(lease: Any) -> str:
    if not lease.held:
        return "over"
    return "held" if "expiresAt" in lease.info else "unreadable"


def _lease(store: LongTaskStore) -> str:
    found = _look(store)
    if found is None:
        return "none"
    said = ", ".join(f"{name} {found.info[name]}" for name in ("owner", "expiresAt", "message") if name in found.info)
    return f"{_kind(found)}: {said}"
