"""Recovery of tasks that an interrupted session left in progress, by the table in ``recovery.py``.

A recovery first takes over the claim with a new token. After that, the old owner cannot change anything, and only one
of two concurrent recoveries can continue. Source: ``tasklist.md`` 12."""

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

    from agent_harness.protocols.tasklist.claims.caller import Caller
    from agent_harness.protocols.tasklist.records import State, Task
    from agent_harness.protocols.tasklist.store import TaskListChange


DECISIONS = ("resume", "fail")


def recover(caller: "Caller", task_id: str | None = None, decide: str | None = None) -> list[JsonObject]:
    """Recover one task, or all interrupted tasks. Raise ``NotOwner`` while the owner is working."""
    if decide is not None and decide not in DECISIONS:
        raise UsageError(f"--decide must be resume or fail, got {decide!r}", hint="--decide resume or --decide fail")
    state, now = caller.store.read(), caller.store.now()
    if task_id is None:
        names = [task.id for task in state.tasks if _is_left(caller, state, task, now)]
        return [_recover(caller, name, None) for name in names]
    caller.find(state, task_id)
    return [_recover(caller, task_id, decide)]


# ---- permission ------------------------------------------------------------------------------------------------------


def _is_left(caller: "Caller", state: "State", task: "Task", now: "datetime") -> bool:
    """Return True if this caller may recover the interrupted task."""
    if task.status != "in_progress" or task.worktree not in (None, caller.tree_name) or leases.is_left_by_run(task):
        return False
    if task.claimed_by == caller.owner:
        dead = leases.process_is_dead(task.claimed_process)
        return dead or not leases.is_live(task, state, now)
    return _may_take(caller, state, task, now)


def _may_take(caller: "Caller", state: "State", task: "Task", now: "datetime") -> bool:
    if task.claimed_by in (None, caller.owner) or not leases.is_live(task, state, now):
        return True
    session = leases.holder(state, now)
    return session is not None and session.owner == caller.session_owner


def _refuse_living(caller: "Caller", state: "State", task: "Task", now: "datetime") -> None:
    if task.status != "in_progress":
        raise NotOwner(f"{task.id} is {task.status}, not in progress", hint="harness task claim")
    if leases.is_left_by_run(task):
        told = (
            f"{task.id} is still claimed by a run with several agents. That run has ended and may have proven the task"
        )
        raise NotOwner(told, hint=leases.command_of_run([task]))
    if not _may_take(caller, state, task, now):
        raise NotOwner(f"{task.id} belongs to {task.claimed_by}, who is working on the task", hint="harness status")


def _take_over(caller: "Caller", task_id: str) -> "Caller":
    token = lease.new_token()

    def act(change: "TaskListChange") -> None:
        state, now = change.state, change.now
        leases.keep(state, caller, now)
        task = caller.find(state, task_id)
        _refuse_living(caller, state, task, now)
        seconds = task.lease.seconds if task.lease and task.lease.seconds > 0 else DEFAULT_LEASE_SECONDS
        fresh = lease.renewed(lease.Lease(caller.owner, token, now, now, seconds), now, seconds).expires_at
        known = task.lease_expires_at
        proven.hand_over(caller.layout, task, token)
        task.raw.update(
            claimed_by=caller.owner,
            claim_token=token,
            lease_expires_at=clock.timestamp(max(fresh, known) if known else fresh),
            lease_seconds=seconds,
            claimed_process=caller.process.as_record() if caller.process else None,
            claimed_session=state.session_count,
            worktree=task.worktree or caller.tree_name,
        )
        _find_base(caller, task)
        change.touch()

    caller.store.change(act)
    taken = copy.copy(caller)
    taken.token = token
    return taken


def _find_base(caller: "Caller", task: "Task") -> None:
    """Search the git refs for the baseline of a task that no longer names its baseline."""
    place, start = place_of(caller), task.started_at_commit
    if task.base_ref or not place or not start:
        return
    folder = ref_folder(BASE_REFS, task.id)
    words = ("for-each-ref", "--sort=-creatordate", "--format=%(refname)", f"{folder}/{task.attempts + 1}*")
    refs, own = place.git.text(*words).split(), caller.claim_record(task.id)
    if own.attempt == task.attempts + 1 and own.ref in refs:
        refs = [own.ref]  # another list in the repository may have a task with the same id
    for ref in refs:
        base = place.git.commit_of(f"{ref}^1") or ""
        if base.startswith(start):
            branch = caller.claim_record(task.id).branch
            known = place.git.look().branch if branch is None else branch
            task.raw.update(base_ref=ref, started_at_commit=base, started_branch=known)
            return


# ---- actions ---------------------------------------------------------------------------------------------------------


def _recover(caller: "Caller", task_id: str, decide: str | None) -> JsonObject:
    state = caller.store.read()
    task = caller.find(state, task_id)
    _refuse_living(caller, state, task, caller.store.now())
    _find_base(caller, task)
    intent = noted(caller, task, "intent")
    if intent.get("verb") in ("fail", "release"):
        ours = _take_over(caller, task_id)
        return _finish(ours, close_attempt.mine(ours, task_id), intent)
    left_by_turn.put_in_order(caller, task, ends=True)
    found = rollback.evidence(caller, task)
    if found.foreign and decide != "resume":
        raise _strangers(caller, task, found)
    row = recovery.row_for(
        uncommitted=bool(found.uncommitted) or not found.known,
        commits=bool(found.commits),
        checkpoints=bool(found.checkpoints),
    )
    answer: JsonObject = {"task_id": task.id, "row": row.step, "reason": row.reason, "evidence": found.as_record()}
    step = decide or row.step
    if step == "resume" and not decide:
        return answer | {"action": "resume", "decided": False}
    ours = _take_over(caller, task_id)
    return answer | _STEPS[step](ours, close_attempt.mine(ours, task_id), row, decide) | {"reason": row.reason}


def _resume(caller: "Caller", task: "Task", row: recovery.RecoveryRow, decide: str | None) -> JsonObject:
    _log(caller, task, "resumed", f"the agent decided to continue: {row.reason}")
    return {"action": "resume", "decided": decide is not None, "token": task.claim_token}


def _fail(caller: "Caller", task: "Task", row: recovery.RecoveryRow, decide: str | None) -> JsonObject:
    reason = "the agent decided that the work is lost" if decide else row.reason
    failure = Failure(
        category="SESSION_TIMEOUT",
        message=reason if decide else "No progress detected",
        rollback=bool(decide),
        recovery=("failed", reason),
    )
    return {"action": "failed", **close_attempt.failed(caller, task, failure)}


def _validate(caller: "Caller", task: "Task", row: recovery.RecoveryRow, decide: str | None) -> JsonObject:
    try:
        proof = verbs.proof_of(caller, task)
    except (PersonNeeded, ToolMissing) as error:
        return {"action": "blocked", "error": error.message, "hint": error.hint, "token": task.claim_token}
    ran, line = proof.ran, verbs.on_record(caller, task, proof, claimed=False, resumed=True)
    if ran is None or ran.passed:
        word = f": {line.grade}" if line.grade else ""
        words = ("completed", f"{row.reason}; validation passed{word}")
        done = close_attempt.completed(caller, task, proof.commit, proof=proof.summary, verdict=line, recovery=words)
        return {"action": "completed", **done, "validation": ran.as_record() if ran else None}
    said = ran.failure
    failure = Failure(
        category=ran.category,
        message=f"Interrupted; validation: {said}",
        recovery=("rolled back, failed", f"{row.reason}; validation: {said}"),
    )
    return {
        "action": "failed",
        **close_attempt.failed(caller, close_attempt.mine(caller, task.id), failure),
        "validation": ran.as_record(),
    }


_STEPS = {"resume": _resume, "fail": _fail, "validate": _validate}


def _finish(caller: "Caller", task: "Task", intent: JsonObject) -> JsonObject:
    said = intent.get("message")
    message = said if isinstance(said, str) and said else "no reason given"
    reason = f"an interrupted {intent['verb']}"
    answer: JsonObject = {"task_id": task.id, "row": "finish", "reason": reason, "evidence": None}
    if intent["verb"] == "release":
        done = close_attempt.released(caller, task, message)
        _log(caller, task, "released", reason)
        return answer | {"action": "released", **done, "reason": reason}
    category = intent.get("category")
    failure = Failure(
        category=category if isinstance(category, str) and category in CATEGORIES else "SESSION_TIMEOUT",
        message=message,
        rollback=intent.get("rollback") is not False,
        recovery=("failed", reason),
    )
    return answer | {"action": "failed", **close_attempt.failed(caller, task, failure), "reason": reason}


def _strangers(caller: "Caller", task: "Task", found: rollback.AttemptEvidence) -> UnsafeTree:
    """Halt the task list because another author committed, and return the error for the caller."""
    first = found.foreign[0]
    message = f"{first['author']} committed {first['commit'][:12]} during the attempt at {task.id}"
    hint = f"a person decides: harness task recover {task.id} --decide resume, or fail it with --no-rollback"
    caller.store.change(lambda change: change.halt("TASK_EXEC", message, task.id))
    _log(caller, task, "refused", message)
    return UnsafeTree(message, hint=hint, evidence=found.as_record())


def _log(caller: "Caller", task: "Task", action: str, reason: str) -> None:
    text = f"action={progress.quoted(action)} reason={progress.quoted(reason)}"
    caller.store.note("RECOVERY", text, task=task.id)


# ---- tasks completed by others ---------------------------------------------------------------------------------------

# Only the harness closes a task; an agent that edits the file by hand gains nothing. Source: ``tasklist.md`` 8.


def confirm(caller: "Caller") -> list[JsonObject]:
    """Verify each completed task without a proof record, and reopen it if its check fails."""
    caller.store.change(lambda change: proven.adopt(caller.layout, change.state))
    ended: list[JsonObject] = []
    if (left_open := proven.reversal_path(caller.layout)) and os.path.lexists(left_open):
        from agent_harness.protocols.tasklist.attempts import undo

        ended = undo.finish(caller)
    left = {each["task_id"]: each["reason"] for each in ended if each["action"] == "left"}
    found = proven.unproven(caller.layout, caller.store.read())
    looked_at = [_confirm(caller, task.id, left.get(task.id)) for task in found]
    again = {each["task_id"] for each in looked_at}
    return [*(each for each in ended if each["task_id"] not in again), *looked_at]


def _confirm(caller: "Caller", task_id: str, interrupted: str | None) -> JsonObject:
    state = caller.store.read()
    task = caller.find(state, task_id)
    ran = validation.again(caller, task)
    passes = ran is not None and ran.passed
    code = "undo_interrupted" if interrupted else "marked_by_hand"
    line = verbs.word_of_file(caller, task, ran, code=code, revision=state.revision)
    action = "confirmed" if passes else "reopened"
    why = interrupted or "marked as completed manually"
    reason = f"{why}; the validation passes" if passes else f"{why}, but not proven"

    def act(change: "TaskListChange") -> None:
        own = caller.find(change.state, task_id)
        if own.status != "completed":
            return
        ledger.write(proven.ledger(caller.layout), line)
        if passes:
            proven.prove(caller.layout, change.state, task_id)
        else:
            lifecycle.reopen(own)
            change.touch()
        change.note("RECOVERY", f'action="{action}" reason="{reason}"', task=task_id)

    caller.store.change(act)
    return {"task_id": task_id, "action": action, "reason": reason}
