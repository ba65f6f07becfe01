"""Scheduling commands. `validate` and `next` only read. `tick` reopens a task whose wait is over, and returns the
prompt for the agent.

No agent is started. Source: ``longtask.md`` 6, 8."""

from __future__ import annotations

from agent_harness.kernel.terminal import one_line
from agent_harness.protocols.longtask import claim
from agent_harness.protocols.longtask.lifecycle import SchedulingDecision, reopened
from agent_harness.protocols.longtask.records import Checkpoint, Contract
from agent_harness.protocols.longtask.store import CheckpointChange, LongTaskStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.options import TickOptions


def tick(layout: LongTaskLayout, options: TickOptions) -> tuple[JsonObject, int]:
    """Make one scheduling decision. Return the answer and the exit status."""
    store = LongTaskStore(layout)
    if options.dry_run:
        task, checkpoint = store.load()
        now = store.now()
        seen = claim.look(layout, task, checkpoint, now)
        after = reopened(seen.checkpoint, now) if seen.due.decision == "run" else seen.checkpoint
        return _answer(layout, task, after, seen.due, now, dry_run=True), 0
    return store.change(_tick), 0


def _tick(change: CheckpointChange) -> JsonObject:
    seen = claim.look(change.layout, change.task, change.checkpoint, change.now)
    log_decision(change, seen.due, seen.checkpoint)
    if seen.due.decision == "run":
        reopen(change)
        change.event("worker_prompt_generated", worker=change.task.policy.preferred or "unspecified")
    # the file keeps an unproven claim, because `lth run` verifies it later
    believed = change.checkpoint if seen.due.decision == "run" and not seen.claimed else seen.checkpoint
    return _answer(change.layout, change.task, believed, seen.due, change.now, dry_run=False)


def log_decision(change: CheckpointChange, found: SchedulingDecision, checkpoint: Checkpoint) -> None:
    change.event("tick_started", decision=found.decision, status=checkpoint.status)
    if found.decision == "wait":
        until = checkpoint.blocked_until
        change.event("run_skipped", reason=found.reason, blockedUntil=until, waitSeconds=found.wait_seconds)
    if found.decision == "needs-human":
        change.event("needs_human", reason=found.reason, nextStep=checkpoint.next_step)


def reopen(change: CheckpointChange) -> None:
    if change.checkpoint.status != "blocked":
        return
    change.checkpoint.raw.update(reopened(change.checkpoint, change.now).raw)
    change.touch()
    change.event("checkpoint_written", status="active", reason="blocked window reopened")


def _answer(
    layout: LongTaskLayout,
    task: Contract,
    checkpoint: Checkpoint,
    found: SchedulingDecision,
    now: datetime,
    *,
    dry_run: bool,
) -> JsonObject:
    text = None
    if found.decision == "run":
        from agent_harness.protocols.longtask.run import prompt

        text = prompt.prompt(layout, task, checkpoint)
    return {
        "decision": found.decision,
        "reason": found.reason,
        "dryRun": dry_run,
        "status": checkpoint.status,
        "blockedUntil": checkpoint.blocked_until,
        "waitSeconds": found.wait_seconds,
        "nextStep": checkpoint.next_step,
        "worker": task.policy.preferred,
        "workerPrompt": text,
        **rate_limits(layout, task, checkpoint, now),
    }


def rate_limits(
    layout: LongTaskLayout, task: Contract, checkpoint: Checkpoint, now: datetime, *workers: str
) -> JsonObject:
    from agent_harness.kernel.rate_limits import LimitClock

    if checkpoint.status != "blocked" and not checkpoint.cooldowns and not LimitClock().all():
        return {}
    from agent_harness.protocols.longtask.run import adapters

    found = adapters.limits(layout, task, checkpoint, now, *workers)
    return {"rateLimits": found} if found else {}


def validate(layout: LongTaskLayout) -> tuple[str, int]:
    """Return a line and the exit status for a valid task. Raise ``InvalidTask`` for an invalid task."""
    store = LongTaskStore(layout)
    task, found = store.load()
    checkpoint = claim.look(layout, task, found, store.now()).checkpoint
    return f"OK {one_line(task.id)}: {checkpoint.status} -> {one_line(checkpoint.next_step)}", 0


def due(layout: LongTaskLayout) -> tuple[JsonObject, int]:
    """Return the scheduling decision that ``lth next`` prints, and the exit status."""
    store = LongTaskStore(layout)
    (task, found), now = store.load(), store.now()
    seen = claim.look(layout, task, found, now)
    checkpoint = seen.checkpoint
    return {
        "decision": seen.due.decision,
        "reason": seen.due.reason,
        "status": checkpoint.status,
        "blockedUntil": checkpoint.blocked_until,
        "waitSeconds": seen.due.wait_seconds,
        "nextStep": checkpoint.next_step,
        **rate_limits(layout, task, checkpoint, now),
    }, 0
