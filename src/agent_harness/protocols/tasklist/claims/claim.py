"""Claim of a task, and the steps before the claim: recovery of unfinished work, and the baseline of the attempt.

A claim holds one lock and writes the list once. It checks the list, releases expired claims, and marks as failed the
tasks that can never start. It then selects and claims the next task. Source: ``tasklist.md`` 7, 10, 11.2, 12."""

from __future__ import annotations

import os

from agent_harness.errors import Busy, HarnessError, LimitReached, NothingEligible, PersonNeeded, Refused, UsageError
from agent_harness.kernel import lease
from agent_harness.protocols.tasklist import (
    lifecycle,
    progress,
    selection,
)
from agent_harness.protocols.tasklist.claims import leases
from agent_harness.protocols.tasklist.records import ADD, DEFAULT_LEASE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.tasklist.claims.caller import Caller, ClaimRecord
    from agent_harness.protocols.tasklist.records import State, Task
    from agent_harness.protocols.tasklist.store import TaskListChange


SHARED = "several workers share this folder, which is not a git work tree: no work is rolled back"
_GUESSES = 3
"""Number of times that a baseline is prepared outside the lock. After that, the baseline is prepared under the lock."""


class _OtherTask(Exception):
    """Signal that the harness prepared a baseline for one task, but then selected another task."""


class _Interrupted(Exception):
    """Signal that the harness must recover an interrupted task before a caller can claim any task."""


class _ClaimRequest:
    __slots__ = ("caller", "dirty", "prepared", "recovered", "seconds", "task_id")

    def __init__(self, caller: Caller, task_id: str | None, seconds: float, dirty: str) -> None:
        self.caller = caller
        self.task_id = task_id
        self.seconds = seconds
        self.dirty = dirty
        self.prepared: ClaimRecord | None = None
        self.recovered = False  # True once unfinished tasks have been recovered

    def drop(self) -> None:
        if self.prepared:
            from agent_harness.protocols.tasklist.attempts import rollback

            rollback.drop_baseline(self.caller, self.prepared)


def claim(
    caller: Caller,
    task_id: str | None = None,
    *,
    lease_seconds: float = DEFAULT_LEASE_SECONDS,
    dirty: str = "remember",
) -> JsonObject:
    """Claim a task, and return its data. Raise ``NothingEligible`` if no task can be claimed."""
    request = _ClaimRequest(caller, task_id, lease_seconds, dirty)
    try:
        return _claimed(request)
    except Busy:
        if not leases.bring_back(caller):
            raise
    except NothingEligible:
        from agent_harness.protocols.tasklist.attempts import recover

        if not any(each["action"] == "reopened" for each in recover.confirm(caller)):
            raise
    return _claimed(request)


def _claimed(request: _ClaimRequest) -> JsonObject:
    if request.caller.git:
        _recover(request)
    try:
        return _give_one(request)
    except _Interrupted:
        _recover(request)
        return _give_one(request)


def _recover(request: _ClaimRequest) -> None:
    _recover_first(request.caller, request.caller.store.look())
    request.recovered = True


def _give_one(request: _ClaimRequest) -> JsonObject:
    caller = request.caller
    for number in range(_GUESSES + 1):
        request.prepared = _prepare(request) if number < _GUESSES else None
        try:
            won = caller.store.change(lambda change: _claim(change, request))
        except _OtherTask:
            request.drop()
            continue
        except BaseException:
            request.drop()
            raise
        nothing = isinstance(won, NothingEligible)
        if request.prepared and (nothing or won.get("base_ref") != request.prepared.ref):
            request.drop()
        if nothing:
            raise won
        return won
    raise Busy("other workers claimed every task that this worker tried", hint="harness task claim")


def _prepare(request: _ClaimRequest) -> ClaimRecord | None:
    caller = request.caller
    if not caller.git:
        return None
    state, now = caller.store.look(), caller.store.now()
    try:
        task = caller.find(state, request.task_id) if request.task_id else preview(caller, state, now)
    except HarnessError:
        return None  # the claim itself says what is wrong
    if task.status not in ("pending", "failed"):
        return None
    from agent_harness.protocols.tasklist.claims import environment_inventory

    environment_inventory.look(caller, task)
    return _baseline(caller, task, request.dirty)


def preview(caller: Caller, state: State, now: datetime) -> Task:
    """Return the task that ``claim`` would select, but do not claim it."""
    state = state.copy()
    refuse_claims(caller, state, now)
    under_way = selection.in_progress(state)
    held = _held(caller, state, under_way, now)
    if held:
        return held
    _refuse_others(caller, state, under_way, now)
    for task in leases.expired(state, now):
        lifecycle.reap(task, now)
    selection.finalize(state, now)
    task = selection.next_task(state, lambda each: progress.last_error_time(caller.layout, each))
    if task is None:
        raise _nothing(state)
    return task


def _nothing(state: State) -> NothingEligible:
    empty, left = not state.tasks, selection.work_left(state)
    return NothingEligible(_why_nothing(state), hint=ADD if empty else "harness status", work_left=left, empty=empty)


def refuse_claims(caller: Caller, state: State, now: datetime) -> None:
    """Raise an error if this caller may not claim any task now."""
    refuse_rest(caller, state)
    if state.sessions_used_up:
        raise LimitReached(
            f"max_sessions is reached ({state.session_count} of {state.config.max_sessions})",
            hint="harness status  # a person may raise session_config.max_sessions",
        )
    if state.config.concurrent and not caller.id:
        raise UsageError("missing HARNESS_WORKER_ID", hint="export HARNESS_WORKER_ID=a-name-that-stays-the-same")
    leases.refuse_other(state, caller, now)
    done = _outcomes(caller, state)
    if 0 < state.config.max_tasks <= done and state.session_count:
        raise LimitReached(
            f"max_tasks_per_session is reached ({done} of {state.config.max_tasks})", hint="harness session end"
        )


def refuse_rest(caller: Caller, state: State) -> None:
    """Raise ``PersonNeeded`` if the task list is halted, or ``Busy`` if the user has paused the list."""
    if halt := state.halt:
        said = f"{halt.get('category')}: {halt.get('message')}"
        raise PersonNeeded(f"the task list is halted: {said}", hint="fix it, then: harness resume", halt=halt)
    if caller.store.paused():
        raise Busy("a person has paused the work", hint="harness resume")


def _outcomes(caller: Caller, state: State) -> int:
    """Return the number of ended attempts that count towards the session's limit."""
    if not state.config.max_tasks:
        return 0
    if not state.config.concurrent:
        return progress.outcomes(caller.layout, state.session_count)
    return leases.outcomes(state, caller)


def _claim(change: TaskListChange, request: _ClaimRequest) -> JsonObject | NothingEligible:
    state, now, caller = change.state, change.now, request.caller
    under_way = selection.in_progress(state)
    if under_way and not request.recovered and _unfinished(caller, state, now):
        raise _Interrupted
    refuse_claims(caller, state, now)
    leases.keep(state, caller, now)
    held = _held(caller, state, under_way, now)
    if held and request.task_id in (None, held.id):
        lifecycle.renew(held, now, request.seconds)
        change.touch(held)
        return _answer(held, resumed=True)
    if held:
        raise Busy(
            f"you already have {held.id} in progress. End that task first",
            hint=f"harness task complete {held.id}",
            task_id=held.id,
        )
    _refuse_others(caller, state, under_way, now)
    if under_way:
        leases.reap(change)
    for marked in selection.finalize(state, now):
        change.note("ERROR", marked.message, task=marked.task.id, category="DEPENDENCY")
        change.touch(marked.task)
    task = _chosen(caller, state, request.task_id)
    if task is None:
        return _nothing(state)
    prepared = request.prepared
    if prepared and (prepared.task_id, prepared.attempt) != (task.id, task.attempts + 1):
        raise _OtherTask
    if prepared is None and caller.git:
        prepared = _baseline(caller, task, request.dirty)
    _give(change, request, task, prepared)
    return _answer(task, resumed=False)


def _held(caller: Caller, state: State, under_way: list[Task], now: datetime) -> Task | None:
    for task in under_way:
        held = task.lease
        alive = not lease.expired(held, now) if held else leases.is_live(task, state, now)
        if task.claimed_by == caller.owner and alive:
            return task
    return None


def _refuse_others(caller: Caller, state: State, under_way: list[Task], now: datetime) -> None:
    for task in under_way:
        if not leases.is_live(task, state, now) or task.claimed_by == caller.owner:
            continue
        if not state.config.concurrent:
            raise Busy(
                f"{task.id} is in progress by {task.claimed_by}",
                hint="wait, or: harness session start --take-over",
                owner=task.claimed_by,
            )
        if task.worktree == caller.tree_name and caller.git:
            refused = Refused(
                f"{task.claimed_by} is working on {task.id} in the same work tree ({caller.tree})",
                hint="git worktree add ../another-folder  # and claim there",
                owner=task.claimed_by,
            )
            refused.code = "worktree_shared"
            raise refused


def _chosen(caller: Caller, state: State, task_id: str | None) -> Task | None:
    def failed_at(each: str) -> datetime | None:
        return progress.last_error_time(caller.layout, each)

    if task_id is None:
        return selection.next_task(state, failed_at)
    task = caller.find(state, task_id)
    if task not in selection.eligible(state, failed_at):
        raise NothingEligible(f"{task_id} cannot be claimed: {_why_not(state, task)}", hint="harness task next")
    return task


def _why_not(state: State, task: Task) -> str:
    wrong = next((each.message for each in state.findings() if each.task_id == task.id), None)
    if wrong:
        return wrong
    waits = [
        need for need in task.depends_on or [] if need not in state.by_id or state.by_id[need].status != "completed"
    ]
    if waits and task.status in ("pending", "failed"):
        return f"it waits for {', '.join(waits[:3])}"
    return f"it is {task.status}" + (" for good" if task.status == "failed" else "")


def _why_nothing(state: State) -> str:
    found = selection.counts(state)
    if not state.tasks:
        return "there are no tasks yet"
    if not selection.work_left(state):
        failed = found.get("failed", 0)
        return "every task is completed" if not failed else f"nothing is left to do: {failed} failed for good"
    if found.get("in_progress"):
        return f"nothing can be claimed now: {found['in_progress']} in progress by others"
    wrong = state.findings()
    return f"nothing can be claimed: {wrong[0].message}" if wrong else "nothing can be claimed now"


def _give(change: TaskListChange, request: _ClaimRequest, task: Task, prepared: ClaimRecord | None) -> None:
    from agent_harness.protocols.tasklist import proven

    caller = request.caller
    if changed := proven.put_back(caller.layout, task, claimed=False):
        change.note("WARN", changed, task=task.id)
    lifecycle.start(
        task,
        owner=caller.owner,
        token=lease.new_token(),
        at=change.now,
        lease_seconds=request.seconds,
        head=prepared.head if prepared else None,
        branch=prepared.branch if prepared else None,
        base_ref=prepared.ref if prepared else None,
    )
    task.raw["worktree"] = caller.tree_name
    task.raw["claimed_session"] = change.state.session_count
    task.raw["claimed_process"] = caller.process.as_record() if caller.process else None
    if prepared:
        caller.keep_claim_record(task.id, prepared.record)
    kept = None if prepared else _kept_files(caller, task)
    base = prepared.snapshot.get("commit") if prepared else None
    proven.begin(caller.layout, change.state, task, kept=kept, base=base)
    if prepared is None:
        _say_shared(change, caller, task)
    base = task.started_at_commit
    change.note("Starting", task.title, task=task.id, end=f"(base={base[:7] if base else 'none'})")
    change.touch(task)


def _say_shared(change: TaskListChange, caller: Caller, task: Task) -> None:
    if not change.state.config.concurrent:
        return
    others = [each for each in selection.in_progress(change.state) if each.id != task.id]
    if not any(each.worktree == caller.tree_name for each in others):
        return
    from agent_harness.protocols.tasklist import proven

    if proven.first_time(caller.layout, "shared folder"):
        # once for each list
        change.note("WARN", SHARED, task=task.id)


def _answer(task: Task, *, resumed: bool) -> JsonObject:
    raw = task.raw
    return {
        "task": task.copy(),
        "task_id": task.id,
        "title": task.title,
        "token": task.claim_token,
        "attempt": task.attempts + 1,
        "base": task.started_at_commit,
        "base_ref": task.base_ref,
        "lease_expires_at": raw.get("lease_expires_at"),
        "worker_id": task.claimed_by,
        "resumed": resumed,
    }


# ---- unfinished tasks, and the baseline of the next --------------------------------------------------


def _baseline(caller: Caller, task: Task, dirty: str) -> ClaimRecord | None:
    from agent_harness.protocols.tasklist.attempts import rollback

    return rollback.take_baseline(caller, task.id, task.attempts + 1, dirty=dirty)


def _kept_files(caller: Caller, task: Task) -> JsonObject | None:
    """Return a record of the files that affect the check, as a baseline outside git."""
    own = (".harness", "harness-")
    if task.validation_command is None:
        return None
    if not caller.git and all(name.startswith(own) for name in os.listdir(caller.layout.root)):
        return None  # nothing is there but the harness's own files: the claim need not load the guard
    from agent_harness.protocols.tasklist.attempts.attempt import folder_of
    from agent_harness.protocols.tasklist.claims import environment_inventory
    from agent_harness.verification.command.folder import keep

    environment_inventory.look(caller, task)
    return keep(folder_of(caller), task.validation_command).as_record()


def _unfinished(caller: Caller, state: State, now: datetime) -> list[Task]:
    """Return the interrupted tasks that this caller can recover."""
    if caller.store.paused() or state.halt:
        return []
    left = leases.expired(state, now)
    here = caller.tree_name if left else ""
    return [
        task
        for task in left
        if (not state.config.concurrent or task.worktree in (None, here))
        # without these traces, the next claim releases the task
        and (task.base_ref or task.started_at_commit or task.checkpoints_of_attempt)
    ]


def _recover_first(caller: Caller, state: State) -> None:
    """Recover the interrupted tasks of this work tree. Raise ``Busy`` if only the agent can decide about a task."""
    if not selection.in_progress(state):
        return
    for task in _unfinished(caller, state, caller.store.now()):
        from agent_harness.protocols.tasklist.attempts import recover

        for found in recover.recover(caller, task.id):
            if found.get("action") == "resume":
                raise _must_judge(task)


def _must_judge(task: Task) -> Busy:
    steps = ", ".join(str(each.step) for each in task.checkpoints_of_attempt)
    busy = Busy(
        f"{task.id} was interrupted after step {steps}, but its files are unchanged: check what was really done",
        hint=f"harness task recover {task.id} --decide resume  # or --decide fail",
        task_id=task.id,
    )
    busy.code = "interrupted"
    return busy
