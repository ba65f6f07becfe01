"""`lth run`: one decision, one worker, one bounded slice, and a checkpoint from which anybody can go on.

    lease -> decide -> plan -> worker -> output file -> checkpoint -> log -> lease given back

Whatever is wrong before the worker starts leaves no trace. Source: ``longtask.md`` 10.
"""

from __future__ import annotations

from agent_harness.errors import HarnessError
from agent_harness.kernel.json import jsontext
from agent_harness.protocols.longtask import claim, log, values
from agent_harness.protocols.longtask.lifecycle import SchedulingDecision, expired_cooldowns, seconds_until
from agent_harness.protocols.longtask.records import Checkpoint, moment
from agent_harness.protocols.longtask.run import adapters, limits, prompt
from agent_harness.protocols.longtask.run.prepared import Prepared
from agent_harness.protocols.longtask.store import CheckpointChange, LongTaskStore
from agent_harness.protocols.longtask.verbs import tick

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.run.lease_file import Held

    Record = dict[str, Any]
    Options = Mapping[str, object]
    Answer = tuple[Record, int]

__all__ = ["prepare", "run"]


def run(layout: LongTaskLayout, options: Options) -> Answer:
    """Runs one slice; the answer of ``lth run`` and its exit status, which is the failing worker's."""
    store = LongTaskStore(layout)
    task, checkpoint = store.load()
    _warn_of_stranger(task.section("workerPolicy").get("allowed"), values.text(options, "worker"))
    if values.flag(options, "dry-run"):
        return prepare(CheckpointChange(layout, task, checkpoint, store.now()), options, dry_run=True).answer, 0
    from agent_harness.kernel.process import new_run_id
    from agent_harness.protocols.longtask import recovery
    from agent_harness.protocols.longtask.run.lease_file import DEFAULT_TTL_SECONDS, RunLease
    from agent_harness.supervision.interruption import watched

    policy = task.section("workerPolicy").get("lockTtlSeconds")
    ttl = values.positive(options, "lock-ttl-seconds") or (int(policy) if policy else DEFAULT_TTL_SECONDS)
    ttl = min(ttl, values.LONGEST_SECONDS)
    layout.inside("evidence/worker-output.txt", "evidence")
    layout.inside("sessions/any", "sessions")
    lock = RunLease(layout, owner=values.text(options, "lock-owner"), ttl_seconds=ttl, run_id=new_run_id())
    with watched() as interruption, interruption.held(), lock:
        held = lock.acquire()
        if held:
            return _held(held, claim.look(layout, checkpoint, store.now()).checkpoint), 0
        lock.keep()
        recovery.clear_away(layout, lock.retired)
        report = claim.settle(store, lock, interruption)

        def prepared_by(change: CheckpointChange) -> Prepared:
            if not lock.check():
                raise HarnessError("the lease was lost before the worker started", hint="run the same command again")
            return prepare(change, options, dry_run=False)

        prepared = store.change(prepared_by)
        if report is not None:
            prepared.answer["verification"] = report
        if prepared.plan is None:
            return prepared.answer, 0
        from agent_harness.protocols.longtask.run import fallback
        from agent_harness.protocols.longtask.run.slice import Slice
        from agent_harness.protocols.longtask.work import SliceWork

        under_way = Slice(store, prepared, options, lock=lock, interruption=interruption)
        return SliceWork(under_way, prepared.plan, take_over=fallback.run).walked()


def _warn_of_stranger(allowed: object, worker: str | None) -> None:
    names = allowed if isinstance(allowed, list) else []
    listed = [adapters.normalised(each) for each in names if isinstance(each, str)]
    if worker and listed and adapters.normalised(worker) not in listed:
        log.warn(f"{worker} is not in workerPolicy.allowed ({', '.join(listed)}); it runs since --worker names it")


def _held(held: Held, checkpoint: Checkpoint) -> Record:
    return {
        "decision": "wait",
        "reason": "task lock is active",
        "dryRun": False,
        "status": checkpoint.status,
        "waitSeconds": held.wait_seconds,
        "worker": None,
        "lock": held.info,
    }


# ---- before the worker starts


def prepare(change: CheckpointChange, options: Options, *, dry_run: bool) -> Prepared:
    """Decides, chooses the worker and plans it, in one change that a configuration error drops as a whole."""
    seen = claim.look(change.layout, change.checkpoint, change.now)
    found, change.checkpoint = seen.due, seen.checkpoint
    tick.log_decision(change, found, change.checkpoint)
    if found.decision != "run":
        return Prepared({**_head(found, change, dry_run), "worker": None}, change.task)
    tick.reopen(change)
    _end_cooldowns(change)
    requested, worker, fallback, cooldown = _choose(change, options)
    if worker is None:
        return Prepared(_wait_for_cooldown(change, requested, fallback, cooldown or {}, dry_run), change.task)
    prepared = Prepared(_head(found, change, dry_run), change.task)
    prepared.requested, prepared.fallback = requested, fallback
    prepared.plan = adapters.plan(worker, change.task.raw, change.layout, options)
    prepared.prompt = prompt.prompt(change.layout, change.task, change.checkpoint, reads_only=prepared.plan.reads_only)
    chosen: Record = {"requestedWorker": requested}
    if cooldown:
        prepared.waited_for = cooldown.get("blockedUntil")
        chosen["degradedFrom"] = requested
    until = {"blockedUntil": prepared.waited_for} if cooldown else {}
    change.event("worker_prompt_generated", worker=worker, **chosen, **until)
    change.event("worker_started", worker=worker, note=prepared.plan.command)
    prepared.answer |= {"worker": worker, **chosen, **({"workerCooldown": cooldown} if cooldown else {})}
    prepared.answer |= {"command": prepared.plan.command, "cwd": prepared.plan.cwd}
    if dry_run:
        prepared.answer["workerPrompt"] = prepared.prompt
    prepared.before = jsontext.loads(jsontext.line(change.checkpoint.raw))
    return prepared


def _head(found: SchedulingDecision, change: CheckpointChange, dry_run: bool) -> Record:
    return {
        "decision": found.decision,
        "reason": found.reason,
        "dryRun": dry_run,
        "status": change.checkpoint.status,
        "waitSeconds": found.wait_seconds,
    }


def _end_cooldowns(change: CheckpointChange) -> None:
    """Forgets the cooldowns that are over."""
    raw = change.checkpoint.raw
    over = expired_cooldowns(change.checkpoint, change.now)
    left = {name: each for name, each in change.checkpoint.cooldowns.items() if name not in over}
    if over:
        raw["workerCooldowns"] = left
        change.touch()
    if not left:
        raw.pop("workerCooldowns", None)
    for worker in over:
        change.event(
            "checkpoint_written", status=change.checkpoint.status, reason="worker cooldown expired", worker=worker
        )


def _choose(change: CheckpointChange, options: Options) -> tuple[str, str | None, str | None, Record | None]:
    """Who was asked for; who runs, if anybody can; who takes over for that one; the cooldown of who was asked for."""
    checkpoint, policy = change.checkpoint, change.task.section("workerPolicy")
    requested = adapters.normalised(values.text(options, "worker") or change.task.preferred_worker or "local-command")
    named = values.text(options, "fallback-worker") or policy.get("fallbackOnRateLimit")
    fallback = adapters.normalised(named) if isinstance(named, str) and named.strip() else None
    fallback = None if fallback == requested else fallback
    cooldown = limits.cooldown(checkpoint, requested, change.now)
    if cooldown is None:
        return requested, requested, fallback, None
    if fallback is None or limits.cooldown(checkpoint, fallback, change.now):
        return requested, None, fallback, cooldown
    return requested, fallback, None, cooldown


def _wait_for_cooldown(
    change: CheckpointChange, requested: str, fallback: str | None, cooldown: Record, dry_run: bool
) -> Record:
    """The answer, and the event, when everybody who could run is rate-limited: wait for the first to be ready."""
    ends = [cooldown.get("blockedUntil")]
    if fallback:
        ends.append((limits.cooldown(change.checkpoint, fallback, change.now) or cooldown).get("blockedUntil"))
    until, text = min((at, text) for text in ends if (at := moment(text)) is not None)
    wait = max(1, seconds_until(until, change.now))
    reason = f"{requested} is rate-limited until {cooldown.get('blockedUntil')}"
    change.event("run_skipped", worker=requested, reason=reason, blockedUntil=text, waitSeconds=wait)
    return {
        "decision": "wait",
        "reason": reason,
        "dryRun": dry_run,
        "status": change.checkpoint.status,
        "waitSeconds": wait,
        "worker": None,
        "requestedWorker": requested,
        "workerCooldown": cooldown,
    }
