"""Recovery of tasks that an interrupted session left in progress, by the table in ``recovery.py``.

A recovery first takes over the claim under a new token. The old owner can then change nothing if it continues later,
and two concurrent recoveries cannot both act. Source: ``tasklist.md`` 12.
"""

import copy
import os
from typing import TYPE_CHECKING

from agent_harness.errors import NotOwner, PersonNeeded, ToolMissing, UnsafeTree, UsageError
from agent_harness.kernel import clock, lease
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.tasklist import lifecycle, progress, proven, recovery
from agent_harness.protocols.tasklist.attempts import close_attempt, left_by_turn, rollback, validation, verbs
from agent_harness.protocols.tasklist.attempts.attempt import (
    BASE_REFS,
    noted,
    place_of,
    ref_folder,
)
from agent_harness.protocols.tasklist.attempts.close_attempt import Failure
from agent_harness.protocols.tasklist.claims import leases
from agent_harness.protocols.tasklist.records import CATEGORIES, DEFAULT_LEASE_SECONDS
from agent_harness.session import ledger

if TYPE_CHECKING:
    from datetime import datetime

    from agent_harness.protocols.tasklist.claims.worker import Worker
    from agent_harness.protocols.tasklist.records import State, Task
    from agent_harness.protocols.tasklist.store import TaskListChange


DECISIONS = ("resume", "fail")


def recover(worker: "Worker", task_id: str | None = None, decide: str | None = None) -> list[JsonObject]:
    """Recover one task, or all interrupted tasks that this worker may recover; return the findings and actions.

    Each answer contains ``task_id``, ``row`` (the row of the table), ``reason``, ``evidence`` and ``action``:
    ``completed``, ``failed``, ``released``, ``blocked`` (the proof cannot run; the log says why) or ``resume``.
    ``resume`` means that only the agent can decide: it must pass ``resume`` or ``fail`` as ``decide``. After its
    decision (``decided``), the task belongs to this worker (``token``). Raise ``NotOwner`` for a task whose owner is
    still working. Raise ``UnsafeTree``, and halt the list, if someone else committed during the attempt.
    """
    if decide is not None and decide not in DECISIONS:
        raise UsageError(f"--decide must be resume or fail, got {decide!r}", hint="--decide resume or --decide fail")
    state, now = worker.store.read(), worker.store.now()
    if task_id is None:
        names = [task.id for task in state.tasks if _is_left(worker, state, task, now)]
        return [_recover(worker, name, None) for name in names]
    worker.find(state, task_id)
    return [_recover(worker, task_id, decide)]


# ---- permission ------------------------------------------------------------------------------------------------------


def _is_left(worker: "Worker", state: "State", task: "Task", now: "datetime") -> bool:
    """Return True if a task was interrupted in this work tree and this worker may recover the task."""
    if task.status != "in_progress" or task.worktree not in (None, worker.tree_name) or leases.is_left_by_run(task):
        return False
    if task.claimed_by == worker.owner:
        dead = leases.process_is_dead(task.claimed_process)
        return dead or not leases.is_live(task, state, now)
    return _may_take(worker, state, task, now)


def _may_take(worker: "Worker", state: "State", task: "Task", now: "datetime") -> bool:
    """Return True if the worker may take over a claim.

    The claim must be the worker's own or have no live owner, or the worker must own the running session.
    """
    if task.claimed_by in (None, worker.owner) or not leases.is_live(task, state, now):
        return True
    session = leases.holder(state, now)
    return session is not None and session.owner == worker.session_owner


def _refuse_living(worker: "Worker", state: "State", task: "Task", now: "datetime") -> None:
    if task.status != "in_progress":
        raise NotOwner(f"{task.id} is {task.status}, not in progress", hint="harness task claim")
    if leases.is_left_by_run(task):
        told = f"{task.id} is still claimed by a run with several agents, which has ended and may have proven it"
        raise NotOwner(told, hint=leases.command_of_run([task]))
    if not _may_take(worker, state, task, now):
        raise NotOwner(f"{task.id} belongs to {task.claimed_by}, who is working on it", hint="harness status")


def _take_over(worker: "Worker", task_id: str) -> "Worker":
    """Make the worker the owner of the task under a new token. Return a copy of the worker with this token."""
    token = lease.new_token()

    def act(change: "TaskListChange") -> None:
        state, now = change.state, change.now
        leases.keep(state, worker, now)
        task = worker.find(state, task_id)
        _refuse_living(worker, state, task, now)
        seconds = task.lease.seconds if task.lease and task.lease.seconds > 0 else DEFAULT_LEASE_SECONDS
        fresh = lease.renewed(lease.Lease(worker.owner, token, now, now, seconds), now, seconds).expires_at
        known = task.lease_expires_at
        proven.hand_over(worker.layout, task, token)
        task.raw.update(
            claimed_by=worker.owner,
            claim_token=token,
            lease_expires_at=clock.timestamp(max(fresh, known) if known else fresh),
            lease_seconds=seconds,
            claimed_process=worker.process.as_record() if worker.process else None,
            claimed_session=state.session_count,
            worktree=task.worktree or worker.tree_name,
        )
        _find_base(worker, task)
        change.touch()

    worker.store.change(act)
    taken = copy.copy(worker)
    taken.token = token
    return taken


def _find_base(worker: "Worker", task: "Task") -> None:
    """Find the baseline of a claim if a restored backup of the list does not contain the baseline's ref."""
    place, start = place_of(worker), task.started_at_commit
    if task.base_ref or not place or not start:
        return
    folder = ref_folder(BASE_REFS, task.id)
    words = ("for-each-ref", "--sort=-creatordate", "--format=%(refname)", f"{folder}/{task.attempts + 1}*")
    refs, own = place.git.text(*words).split(), worker.claim_record(task.id)
    if own.attempt == task.attempts + 1 and own.ref in refs:
        refs = [own.ref]  # another list in the repository may have a task with the same id
    for ref in refs:
        base = place.git.commit_of(f"{ref}^1") or ""
        if base.startswith(start):
            branch = worker.claim_record(task.id).branch
            known = place.git.look().branch if branch is None else branch
            task.raw.update(base_ref=ref, started_at_commit=base, started_branch=known)
            return


# ---- actions ---------------------------------------------------------------------------------------------------------


def _recover(worker: "Worker", task_id: str, decide: str | None) -> JsonObject:
    state = worker.store.read()
    task = worker.find(state, task_id)
    _refuse_living(worker, state, task, worker.store.now())
    _find_base(worker, task)
    intent = noted(worker, task, "intent")
    if intent.get("verb") in ("fail", "release"):
        ours = _take_over(worker, task_id)
        return _finish(ours, close_attempt.mine(ours, task_id), intent)
    left_by_turn.put_in_order(worker, task, ends=True)
    found = rollback.evidence(worker, task)
    if found.foreign and decide != "resume":
        raise _strangers(worker, task, found)
    row = recovery.row_for(
        uncommitted=bool(found.uncommitted) or not found.known,
        commits=bool(found.commits),
        checkpoints=bool(found.checkpoints),
    )
    answer: JsonObject = {"task_id": task.id, "row": row.step, "reason": row.reason, "evidence": found.as_record()}
    step = decide or row.step
    if step == "resume" and not decide:
        return answer | {"action": "resume", "decided": False}
    ours = _take_over(worker, task_id)
    return answer | _STEPS[step](ours, close_attempt.mine(ours, task_id), row, decide) | {"reason": row.reason}


def _resume(worker: "Worker", task: "Task", row: recovery.RecoveryRow, decide: str | None) -> JsonObject:
    _log(worker, task, "resumed", f"the agent decided to continue: {row.reason}")
    return {"action": "resume", "decided": decide is not None, "token": task.claim_token}


def _fail(worker: "Worker", task: "Task", row: recovery.RecoveryRow, decide: str | None) -> JsonObject:
    reason = "the agent decided that the work is lost" if decide else row.reason
    failure = Failure(
        category="SESSION_TIMEOUT",
        message=reason if decide else "No progress detected",
        rollback=bool(decide),
        recovery=("failed", reason),
    )
    return {"action": "failed", **close_attempt.failed(worker, task, failure)}


def _validate(worker: "Worker", task: "Task", row: recovery.RecoveryRow, decide: str | None) -> JsonObject:
    try:
        proof = verbs.proof_of(worker, task)
    except (PersonNeeded, ToolMissing) as error:
        return {"action": "blocked", "error": error.message, "hint": error.hint, "token": task.claim_token}
    ran, line = proof.ran, verbs.on_record(worker, task, proof, claimed=False, resumed=True)
    if ran is None or ran.passed:
        word = f": {line.grade}" if line.grade else ""
        words = ("completed", f"{row.reason}; validation passed{word}")
        done = close_attempt.completed(worker, task, proof.commit, proof=proof.summary, verdict=line, recovery=words)
        return {"action": "completed", **done, "validation": ran.as_record() if ran else None}
    said = ran.failure
    failure = Failure(
        category=ran.category,
        message=f"Interrupted; validation: {said}",
        recovery=("rolled back, failed", f"{row.reason}; validation: {said}"),
    )
    return {
        "action": "failed",
        **close_attempt.failed(worker, close_attempt.mine(worker, task.id), failure),
        "validation": ran.as_record(),
    }


_STEPS = {"resume": _resume, "fail": _fail, "validate": _validate}


def _finish(worker: "Worker", task: "Task", intent: JsonObject) -> JsonObject:
    """Complete the end of an attempt after a process was killed while it failed or released the task."""
    said = intent.get("message")
    message = said if isinstance(said, str) and said else "no reason given"
    reason = f"an interrupted {intent['verb']}"
    answer: JsonObject = {"task_id": task.id, "row": "finish", "reason": reason, "evidence": None}
    if intent["verb"] == "release":
        done = close_attempt.released(worker, task, message)
        _log(worker, task, "released", reason)
        return answer | {"action": "released", **done, "reason": reason}
    category = intent.get("category")
    failure = Failure(
        category=category if isinstance(category, str) and category in CATEGORIES else "SESSION_TIMEOUT",
        message=message,
        rollback=intent.get("rollback") is not False,
        recovery=("failed", reason),
    )
    return answer | {"action": "failed", **close_attempt.failed(worker, task, failure), "reason": reason}


def _strangers(worker: "Worker", task: "Task", found: rollback.AttemptEvidence) -> UnsafeTree:
    """Halt the list, because someone else committed during the attempt; return the error to raise.

    Such commits are neither verified nor rolled back.
    """
    first = found.foreign[0]
    message = f"{first['author']} committed {first['commit'][:12]} during the attempt at {task.id}"
    hint = f"a person decides: harness task recover {task.id} --decide resume, or fail it with --no-rollback"
    worker.store.change(lambda change: change.halt("TASK_EXEC", message, task.id))
    _log(worker, task, "refused", message)
    return UnsafeTree(message, hint=hint, evidence=found.as_record())


def _log(worker: "Worker", task: "Task", action: str, reason: str) -> None:
    text = f"action={progress.quoted(action)} reason={progress.quoted(reason)}"
    worker.store.note("RECOVERY", text, task=task.id)


# ---- tasks completed by others ---------------------------------------------------------------------------------------

# Only the harness closes a task; an agent that edits the file by hand gains nothing. Source: ``tasklist.md`` 8.


def confirm(worker: "Worker") -> list[JsonObject]:
    """Run the check of each completed task that is not proven, on the present files. Confirm or reopen the task.

    An interrupted undo is completed first. If the harness sees a list for the first time, its completed tasks are
    trusted.
    """
    worker.store.change(lambda change: proven.adopt(worker.layout, change.state))
    ended: list[JsonObject] = []
    if (left_open := proven.reversal_path(worker.layout)) and os.path.lexists(left_open):
        from agent_harness.protocols.tasklist.attempts import undo

        ended = undo.finish(worker)
    left = {each["task_id"]: each["reason"] for each in ended if each["action"] == "left"}
    found = proven.unproven(worker.layout, worker.store.read())
    looked_at = [_confirm(worker, task.id, left.get(task.id)) for task in found]
    return [*(each for each in ended if each["action"] != "left"), *looked_at]


def _confirm(worker: "Worker", task_id: str, interrupted: str | None) -> JsonObject:
    """Confirm or reopen one task. If an undo was interrupted, ``interrupted`` contains the reason.

    Without ``interrupted``, someone has marked the task as completed manually.
    """
    state = worker.store.read()
    task = worker.find(state, task_id)
    ran = validation.again(worker, task)
    passes = ran is not None and ran.passed
    code = "undo_interrupted" if interrupted else "marked_by_hand"
    line = verbs.word_of_file(worker, task, ran, code=code, revision=state.revision)
    action = "confirmed" if passes else "reopened"
    why = interrupted or "marked as completed manually"
    reason = f"{why}; the validation passes" if passes else f"{why}, but not proven"

    def act(change: "TaskListChange") -> None:
        own = worker.find(change.state, task_id)
        if own.status != "completed":
            return
        ledger.write(proven.ledger(worker.layout), line)
        if passes:
            proven.prove(worker.layout, change.state, task_id)
        else:
            lifecycle.reopen(own)
            change.touch()
        change.note("RECOVERY", f'action="{action}" reason="{reason}"', task=task_id)

    worker.store.change(act)
    return {"task_id": task_id, "action": action, "reason": reason}
