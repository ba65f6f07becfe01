"""`lth run`: one decision, one agent, one slice (a run with limited time and cost), and an updated checkpoint file.

lease -> decide -> plan -> slot -> agent -> output file -> checkpoint file -> log -> lease released

An error before the agent starts leaves no trace. Source: ``longtask.md`` 10."""

from __future__ import annotations

import os
import time

from agent_harness.errors import NoRoom
from agent_harness.kernel.json import jsontext
from agent_harness.protocols.longtask import claim, log
from agent_harness.protocols.longtask.lifecycle import SchedulingDecision, expired_cooldowns, seconds_until
from agent_harness.protocols.longtask.options import LONGEST_SECONDS
from agent_harness.protocols.longtask.records import Checkpoint, Cooldown
from agent_harness.protocols.longtask.run import adapters, prompt
from agent_harness.protocols.longtask.run.adapters import Prepared
from agent_harness.protocols.longtask.store import CheckpointChange, LongTaskStore
from agent_harness.protocols.longtask.verbs import scheduling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.options import RunOptions
    from agent_harness.protocols.longtask.run.agent_slot import SliceSlot
    from agent_harness.protocols.longtask.run.lease_file import RunLease
    from agent_harness.supervision.interruption import Stop

    Answer = tuple[JsonObject, int]


SLOT_SECONDS = 60
"""Number of seconds to wait before retrying a slice for which no agent slot was free."""
STOPPING = "lth: stopping within seconds: the worker's output is kept, and the checkpoint stays valid."


def run(layout: LongTaskLayout, options: RunOptions) -> Answer:
    """Run one slice if the scheduling decision allows it. Return the answer and the exit status."""
    store = LongTaskStore(layout)
    task, checkpoint = store.load()
    if options.dry_run:
        planned = prepare(CheckpointChange(layout, task, checkpoint, store.now()), options, None)
        _warn_of_stranger(task.policy.allowed, options.worker)
        return planned.answer, 0
    from agent_harness.kernel.process import new_run_id
    from agent_harness.protocols.longtask import recovery
    from agent_harness.protocols.longtask.run.agent_slot import SliceSlot
    from agent_harness.protocols.longtask.run.lease_file import DEFAULT_TTL_SECONDS, RunLease
    from agent_harness.supervision.interruption import watched

    ttl = options.lock_ttl_seconds or task.policy.lock_ttl_seconds(DEFAULT_TTL_SECONDS)
    ttl = min(ttl, LONGEST_SECONDS)
    layout.inside("evidence/worker-output.txt", "evidence")
    layout.inside("sessions/any", "sessions")
    lock = RunLease(layout, owner=options.lock_owner, ttl_seconds=ttl, run_id=new_run_id())
    with watched(told=STOPPING) as interruption, interruption.held(), lock, SliceSlot(layout.root) as agent_slot:
        held = lock.acquire()
        if held:
            seen = claim.look(layout, task, checkpoint, store.now()).checkpoint
            found = SchedulingDecision("wait", "task lock is active", held.wait_seconds)
            return {**_head(found, seen), "worker": None, "lock": held.info}, 0
        lock.keep()
        recovery.clear_away(layout, lock.retired)
        if os.path.isdir(layout.verdicts):
            from agent_harness.session import ledger

            ledger.prune_outputs(layout.verdicts)
        left = layout.outside("slice.json")
        if left and os.path.lexists(left):
            from agent_harness.protocols.longtask.criteria_guard import CriteriaGuard

            if guard := CriteriaGuard.left_by(layout, task):
                guard.ended()
        report = claim.finalize(store, lock, interruption)
        prepared = _prepared(store, options, lock, agent_slot, interruption)
        if report is not None:
            prepared.answer["verification"] = report
        if prepared.plan is None:
            return prepared.answer, 128 + interruption.number if interruption.number else 0
        _warn_of_stranger(task.policy.allowed, options.worker)
        from agent_harness.protocols.longtask.run.slice import Slice
        from agent_harness.protocols.longtask.work import SliceWork

        under_way = Slice(store, prepared, options, lock=lock, agent_slot=agent_slot, interruption=interruption)
        return SliceWork(under_way, prepared.plan).walked()


def resume(layout: LongTaskLayout, options: RunOptions) -> Answer:
    """Explain the scheduling decision on stderr, then call ``run``."""
    from agent_harness.protocols.longtask.verbs import status

    status.explain(layout)
    return run(layout, options)


def _warn_of_stranger(allowed: list[str], worker: str | None) -> None:
    listed = [adapters.normalised(each) for each in allowed]
    if worker and listed and adapters.normalised(worker) not in listed:
        log.warn(f"{worker} is not in workerPolicy.allowed ({', '.join(listed)}); it runs because of --worker")


# ---- before the worker starts


def _prepared(
    store: LongTaskStore, options: RunOptions, lock: RunLease, agent_slot: SliceSlot, interruption: Stop
) -> Prepared:
    """Return the plan of the run as soon as its agent has a slot."""
    from contextlib import ExitStack

    from agent_harness.supervision.interruption import LOOK_SECONDS

    def prepared_by(change: CheckpointChange) -> Prepared:
        lock.verify()
        return prepare(change, options, agent_slot, may_wait=not (options.no_wait or interruption.number))

    with ExitStack() as waiting:
        while True:
            try:
                return store.change(prepared_by)
            except NoRoom as full:
                # while it waits, the run keeps its lease and writes nothing
                if not agent_slot.waits:
                    from agent_harness.session import now

                    waiting.enter_context(now.waiting(store.layout.outside("now.json", make=True), full, can=()))
                agent_slot.tell(full.message)
                time.sleep(LOOK_SECONDS)


def prepare(
    change: CheckpointChange, options: RunOptions, agent_slot: SliceSlot | None, *, may_wait: bool = False
) -> Prepared:
    """Decide whether to run. If so, plan the agent's start and take a slot."""
    # after an error, nothing is written; ``NoRoom`` asks the caller to wait for a slot
    dry_run = agent_slot is None
    seen = claim.look(change.layout, change.task, change.checkpoint, change.now)
    found, change.checkpoint = seen.due, seen.checkpoint
    scheduling.log_decision(change, found, change.checkpoint)
    if found.decision != "run":
        said = scheduling.rate_limits(change.layout, change.task, change.checkpoint, change.now)
        return Prepared({**_head(found, change.checkpoint, dry_run), "worker": None, **said}, change.task)
    scheduling.reopen(change)
    _end_cooldowns(change)
    requested, worker, fallback, cooldown = _choose(change, options)
    if worker is None:
        return Prepared(_wait_for_cooldown(change, requested, fallback, cooldown or Cooldown({}), dry_run), change.task)
    prepared = Prepared(_head(found, change.checkpoint, dry_run), change.task)
    prepared.requested, prepared.fallback = requested, fallback
    prepared.plan = adapters.plan(worker, change.task, change.layout, options)
    if agent_slot and (fields := adapters.unfilled_for(worker, change.task)):
        return Prepared(_ask_to_fill_in(change, requested, fields), change.task)
    if agent_slot and (why := agent_slot.take(worker)):
        if may_wait:
            raise NoRoom(why, hint="run lth run later", account=adapters.account_of(worker) or worker, until=None)
        return Prepared(_wait_for_slot(change, requested, worker, why), change.task)
    prepared.prompt = prompt.prompt(change.layout, change.task, change.checkpoint, reads_only=prepared.plan.reads_only)
    chosen: JsonObject = {"requestedWorker": requested}
    if cooldown:
        prepared.waited_for = cooldown.raw.get("blockedUntil")
        chosen["degradedFrom"] = requested
    until = {"blockedUntil": prepared.waited_for} if cooldown else {}
    change.event("worker_prompt_generated", worker=worker, **chosen, **until)
    change.event("worker_started", worker=worker, note=prepared.plan.command)
    prepared.answer |= {"worker": worker, **chosen, **({"workerCooldown": cooldown.raw} if cooldown else {})}
    prepared.answer |= {"command": prepared.plan.command, "cwd": prepared.plan.cwd}
    if dry_run:
        prepared.answer["workerPrompt"] = prepared.prompt
    prepared.before = Checkpoint(jsontext.loads(jsontext.line(change.checkpoint.raw)))
    return prepared


def _head(found: SchedulingDecision, checkpoint: Checkpoint, dry_run: bool = False) -> JsonObject:
    return {
        "decision": found.decision,
        "reason": found.reason,
        "dryRun": dry_run,
        "status": checkpoint.status,
        "waitSeconds": found.wait_seconds,
    }


def _end_cooldowns(change: CheckpointChange) -> None:
    raw = change.checkpoint.raw
    over = expired_cooldowns(change.checkpoint, change.now)
    left = {name: each.raw for name, each in change.checkpoint.cooldowns.items() if name not in over}
    if over:
        raw["workerCooldowns"] = left
        change.touch()
    if not left:
        raw.pop("workerCooldowns", None)
    for worker in over:
        change.event(
            "checkpoint_written", status=change.checkpoint.status, reason="worker cooldown expired", worker=worker
        )


def _choose(change: CheckpointChange, options: RunOptions) -> tuple[str, str | None, str | None, Cooldown | None]:
    """Return the requested agent, the agent to run, the fallback, and the requested agent's rate limit."""
    checkpoint, policy = change.checkpoint, change.task.policy
    requested = adapters.normalised(options.worker or policy.preferred or "local-command")
    named = options.fallback_worker or policy.fallback or ""
    fallback = adapters.normalised(named) or None
    fallback = None if fallback == requested else fallback
    cooldown = adapters.cooldown(checkpoint, requested, change.now)
    if cooldown is None:
        return requested, requested, fallback, None
    if fallback is None or adapters.cooldown(checkpoint, fallback, change.now):
        return requested, None, fallback, cooldown
    return requested, fallback, None, cooldown


def _ask_to_fill_in(change: CheckpointChange, requested: str, fields: str) -> JsonObject:
    found = SchedulingDecision("needs-human", f"{fields}; then run the same command again")
    change.event("needs_human", reason=found.reason, nextStep=change.checkpoint.next_step)
    return {**_head(found, change.checkpoint), "worker": None, "requestedWorker": requested}


def _wait_for_slot(change: CheckpointChange, requested: str, worker: str, why: str) -> JsonObject:
    change.event("run_skipped", worker=worker, reason=why, waitSeconds=SLOT_SECONDS)
    found = SchedulingDecision("wait", why, SLOT_SECONDS)
    return {**_head(found, change.checkpoint), "worker": None, "requestedWorker": requested}


def _wait_for_cooldown(
    change: CheckpointChange, requested: str, fallback: str | None, cooldown: Cooldown, dry_run: bool
) -> JsonObject:
    others = adapters.cooldown(change.checkpoint, fallback, change.now) if fallback else None
    known = [each for each in (cooldown, others) if each]
    until, text = min((each.until, str(each.raw["blockedUntil"])) for each in known if each.until)
    wait = max(1, seconds_until(until, change.now))
    reason = f"{requested} is rate-limited until {cooldown.raw.get('blockedUntil')}"
    change.event("run_skipped", worker=requested, reason=reason, blockedUntil=text, waitSeconds=wait)
    return {
        **_head(SchedulingDecision("wait", reason, wait), change.checkpoint, dry_run),
        "worker": None,
        "requestedWorker": requested,
        "workerCooldown": cooldown.raw,
        **scheduling.rate_limits(change.layout, change.task, change.checkpoint, change.now, requested),
    }
