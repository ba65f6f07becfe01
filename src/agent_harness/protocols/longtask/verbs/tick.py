"""`tick`: one scheduling decision, which reopens a window that is over and hands out the prompt; it starts nothing.

Source: ``longtask.md`` 8.
"""

from __future__ import annotations

from agent_harness.protocols.longtask import claim
from agent_harness.protocols.longtask.lifecycle import SchedulingDecision, reopened
from agent_harness.protocols.longtask.records import Checkpoint, Contract
from agent_harness.protocols.longtask.store import CheckpointChange, LongTaskStore
from agent_harness.protocols.longtask.values import flag

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from agent_harness.protocols.longtask.layout import LongTaskLayout

    Record = dict[str, Any]

__all__ = ["log_decision", "reopen", "tick"]


def tick(layout: LongTaskLayout, options: Mapping[str, object]) -> tuple[Record, int]:
    """What is due; with ``dry-run`` as it would be, and nothing is written."""
    store = LongTaskStore(layout)
    if flag(options, "dry-run"):
        task, checkpoint = store.load()
        now = store.now()
        seen = claim.look(layout, checkpoint, now)
        after = reopened(seen.checkpoint, now) if seen.due.decision == "run" else seen.checkpoint
        return _answer(layout, task, after, seen.due, dry_run=True), 0
    return store.change(_tick), 0


def _tick(change: CheckpointChange) -> Record:
    """A claim of `done` that is not proven is left for `run` to settle; the answer does not repeat it."""
    seen = claim.look(change.layout, change.checkpoint, change.now)
    log_decision(change, seen.due, seen.checkpoint)
    if seen.due.decision == "run":
        reopen(change)
        change.event("worker_prompt_generated", worker=change.task.preferred_worker or "unspecified")
    told = seen.checkpoint if seen.claimed else change.checkpoint
    return _answer(change.layout, change.task, told, seen.due, dry_run=False)


def log_decision(change: CheckpointChange, found: SchedulingDecision, checkpoint: Checkpoint) -> None:
    """The events of a decision about a checkpoint: that it was made, and why nothing runs."""
    change.event("tick_started", decision=found.decision, status=checkpoint.status)
    if found.decision == "wait":
        until = checkpoint.blocked_until
        change.event("run_skipped", reason=found.reason, blockedUntil=until, waitSeconds=found.wait_seconds)
    if found.decision == "needs-human":
        change.event("needs_human", reason=found.reason, nextStep=checkpoint.next_step)


def reopen(change: CheckpointChange) -> None:
    """Makes a task active again whose blocked window is over; a task that is not blocked stays as it is."""
    if change.checkpoint.status != "blocked":
        return
    change.checkpoint.raw.update(reopened(change.checkpoint, change.now).raw)
    change.touch()
    change.event("checkpoint_written", status="active", reason="blocked window reopened")


def _answer(
    layout: LongTaskLayout, task: Contract, checkpoint: Checkpoint, found: SchedulingDecision, *, dry_run: bool
) -> Record:
    return {
        "decision": found.decision,
        "reason": found.reason,
        "dryRun": dry_run,
        "status": checkpoint.status,
        "blockedUntil": checkpoint.blocked_until,
        "waitSeconds": found.wait_seconds,
        "nextStep": checkpoint.next_step,
        "worker": task.preferred_worker,
        "workerPrompt": _prompt(layout, task, checkpoint) if found.decision == "run" else None,
    }


def _prompt(layout: LongTaskLayout, task: Contract, checkpoint: Checkpoint) -> str:
    from agent_harness.protocols.longtask.run import prompt

    return prompt.prompt(layout, task, checkpoint)
