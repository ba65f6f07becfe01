"""Claiming a task, holding on to it, and telling how far it is. Source: ``tasklist.md`` 7, 10.

The claim is the gate: under one lock the list is checked, expired claims are taken back, hopeless tasks are failed, the
next task is chosen and given away, in one write.
"""

from __future__ import annotations

from agent_harness.errors import Busy, HarnessError, LimitReached, NothingEligible, PersonNeeded, Refused, UsageError
from agent_harness.kernel import lease
from agent_harness.protocols.tasklist import (
    lifecycle,
    progress,
    selection,
)
from agent_harness.protocols.tasklist.claims import before_claim, expiry
from agent_harness.protocols.tasklist.records import ADD, DEFAULT_LEASE_SECONDS
from agent_harness.protocols.tasklist.workers import session_lease

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from agent_harness.protocols.tasklist.records import State, Task
    from agent_harness.protocols.tasklist.store import TaskListChange
    from agent_harness.protocols.tasklist.workers.worker import Worker

    Record = dict[str, Any]

__all__ = ["claim", "gate", "preview", "refuse_rest"]

SHARED = "several workers share this folder, which is no git work tree: nothing that one of them does is rolled back"
_GUESSES = 3
"""So many ways back are prepared outside of the lock; then one is prepared under it, however long it takes."""


class _OtherTask(Exception):
    """Somebody else took the task for which a way back was prepared."""


class _Interrupted(Exception):
    """A task was left unfinished here, and is to be recovered before anything is claimed."""


class _Wish:
    """What one call of ``claim`` asks for, and the way back that was prepared for it."""

    __slots__ = ("dirty", "prepared", "recovered", "seconds", "task_id", "worker")

    def __init__(self, worker: Worker, task_id: str | None, seconds: float, dirty: str) -> None:
        self.worker = worker
        self.task_id = task_id
        self.seconds = seconds
        self.dirty = dirty
        self.prepared: Record | None = None
        self.recovered = False  # whether what was left unfinished has been looked at

    def drop(self) -> None:
        """Gives up the way back."""
        if self.prepared:
            before_claim.drop(self.worker, self.prepared)


def claim(
    worker: Worker,
    task_id: str | None = None,
    *,
    lease_seconds: float = DEFAULT_LEASE_SECONDS,
    dirty: str = "remember",
) -> Record:
    """Gives the worker the next task, or the one it names, or the one that it already holds.

    ``NothingEligible``, ``Busy`` (another session, paused, an interrupted task that the agent must judge),
    ``PersonNeeded`` (halt), ``LimitReached``, ``Refused`` (two workers in one work tree), ``UnsafeTree``.
    """
    wish = _Wish(worker, task_id, lease_seconds, dirty)
    try:
        return _claimed(wish)
    except Busy:
        if not session_lease.bring_back(worker):
            raise
        return _claimed(wish)


def _claimed(wish: _Wish) -> Record:
    if wish.worker.git:
        _recover(wish)
    try:
        return _give_one(wish)
    except _Interrupted:
        _recover(wish)
        return _give_one(wish)


def _recover(wish: _Wish) -> None:
    before_claim.recover_first(wish.worker, wish.worker.store.look())
    wish.recovered = True


def _give_one(wish: _Wish) -> Record:
    worker = wish.worker
    for number in range(_GUESSES + 1):
        wish.prepared = _prepare(wish) if number < _GUESSES else None
        try:
            won = worker.store.change(lambda change: _claim(change, wish))
        except _OtherTask:
            wish.drop()
            continue
        except BaseException:
            wish.drop()
            raise
        if wish.prepared and won.get("base_ref") != wish.prepared["ref"]:
            wish.drop()
        if "nothing" in won:
            raise _nothing(won["nothing"], work_left=won["work_left"], empty=won["empty"])
        return won
    raise Busy("other workers took every task that was looked at", hint="harness task claim")


def _prepare(wish: _Wish) -> Record | None:
    """A way back for the task that will probably be claimed; ``None`` outside of git, or when none will be."""
    worker = wish.worker
    if not worker.git:
        return None
    state, now = worker.store.look(), worker.store.now()
    try:
        task = worker.find(state, wish.task_id) if wish.task_id else preview(worker, state, now)
    except HarnessError:
        return None  # the claim itself says what is wrong
    if task.status not in ("pending", "failed"):
        return None
    return before_claim.baseline(worker, task, wish.dirty)


def preview(worker: Worker, state: State, now: datetime) -> Task:
    """What ``claim`` would give; changes nothing. Raises as ``claim`` does."""
    state = state.copy()
    gate(worker, state, now)
    under_way = selection.in_progress(state)
    held = _held(worker, state, under_way, now)
    if held:
        return held
    _refuse_others(worker, state, under_way, now)
    for task in expiry.expired(state, now):
        lifecycle.reap(task, now)
    selection.settle(state, now)
    task = selection.next_task(state, lambda each: progress.last_error_time(worker.layout, each))
    if task is None:
        raise _nothing(_why_nothing(state), work_left=selection.work_left(state), empty=not state.tasks)
    return task


def _nothing(why: str, *, work_left: bool, empty: bool) -> NothingEligible:
    return NothingEligible(why, hint=ADD if empty else "harness status", work_left=work_left, empty=empty)


def gate(worker: Worker, state: State, now: datetime) -> None:
    """Raises while this worker may not claim anything at all."""
    refuse_rest(worker, state)
    if state.sessions_used_up:
        raise LimitReached(
            f"max_sessions is reached ({state.session_count} of {state.max_sessions})",
            hint="harness status; a person may raise session_config.max_sessions",
        )
    if state.concurrent and not worker.id:
        raise UsageError("missing HARNESS_WORKER_ID", hint="export HARNESS_WORKER_ID=a-name-that-stays-the-same")
    session_lease.refuse_other(state, worker, now)
    done = _outcomes(worker, state)
    if 0 < state.max_tasks <= done and state.session_count:
        raise LimitReached(
            f"max_tasks_per_session is reached ({done} of {state.max_tasks})", hint="harness session end"
        )


def refuse_rest(worker: Worker, state: State) -> None:
    """``PersonNeeded`` while the list is halted, ``Busy`` while a person has paused it."""
    if halt := state.halt:
        said = f"{halt.get('category')}: {halt.get('message')}"
        raise PersonNeeded(f"halted by {said}", hint="fix it, then: harness resume", halt=halt)
    if worker.store.paused():
        raise Busy("a person has paused the work", hint="harness resume")


def _outcomes(worker: Worker, state: State) -> int:
    """Attempts that ended in this session; in concurrent mode, those of this worker."""
    if not state.max_tasks:
        return 0
    if not state.concurrent:
        return progress.outcomes(worker.layout, state.session_count)
    from agent_harness.protocols.tasklist.workers import worker_sessions

    return worker_sessions.outcomes(state, worker)


def _claim(change: TaskListChange, wish: _Wish) -> Record:
    state, now, worker = change.state, change.now, wish.worker
    under_way = selection.in_progress(state)
    if under_way and not wish.recovered and before_claim.unfinished(worker, state, now):
        raise _Interrupted
    gate(worker, state, now)
    session_lease.keep(state, worker, now)
    held = _held(worker, state, under_way, now)
    if held and wish.task_id in (None, held.id):
        lifecycle.renew(held, now, wish.seconds)
        change.touch(held)
        return _answer(held, resumed=True)
    if held:
        raise Busy(f"you hold {held.id}: end that first", hint=f"harness task complete {held.id}", task_id=held.id)
    _refuse_others(worker, state, under_way, now)
    if under_way:
        expiry.reap(change)
    _settle(change)
    task = _chosen(worker, state, wish.task_id)
    if task is None:
        return {"nothing": _why_nothing(state), "work_left": selection.work_left(state), "empty": not state.tasks}
    prepared = wish.prepared
    if prepared and (prepared["task"], prepared["attempt"]) != (task.id, task.attempts + 1):
        raise _OtherTask
    if prepared is None and worker.git:
        prepared = before_claim.baseline(worker, task, wish.dirty)
    _give(change, wish, task, prepared)
    return _answer(task, resumed=False)


def _held(worker: Worker, state: State, under_way: list[Task], now: datetime) -> Task | None:
    """The task in progress that is this worker's, with a lease that stands."""
    for task in under_way:
        held = task.lease
        alive = not lease.expired(held, now) if held else expiry.is_live(task, state, now)
        if task.claimed_by == worker.owner and alive:
            return task
    return None


def _refuse_others(worker: Worker, state: State, under_way: list[Task], now: datetime) -> None:
    """A work tree of git has one worker; an exclusive list has one, wherever it is."""
    for task in under_way:
        if not expiry.is_live(task, state, now) or task.claimed_by == worker.owner:
            continue
        if not state.concurrent:
            raise Busy(
                f"{task.id} is in progress by {task.claimed_by}",
                hint="wait, or: harness session start --take-over",
                owner=task.claimed_by,
            )
        if task.raw.get("worktree") == worker.tree_name and worker.git:
            refused = Refused(
                f"{task.claimed_by} works on {task.id} in this same work tree ({worker.tree})",
                hint="git worktree add ../another-folder, and claim there",
                owner=task.claimed_by,
            )
            refused.code = "worktree_shared"
            raise refused


def _settle(change: TaskListChange) -> None:
    for marked in selection.settle(change.state, change.now):
        session = change.state.session_count
        name = marked.task.id
        change.log(
            progress.entry("ERROR", session, at=change.now, task=name, category="DEPENDENCY", text=marked.message)
        )
        change.touch(marked.task)


def _chosen(worker: Worker, state: State, task_id: str | None) -> Task | None:
    def failed_at(each: str) -> datetime | None:
        return progress.last_error_time(worker.layout, each)

    if task_id is None:
        return selection.next_task(state, failed_at)
    task = worker.find(state, task_id)
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


def _give(change: TaskListChange, wish: _Wish, task: Task, prepared: Record | None) -> None:
    from agent_harness.protocols.tasklist import proven

    worker = wish.worker
    lifecycle.start(
        task,
        owner=worker.owner,
        token=lease.new_token(),
        at=change.now,
        lease_seconds=wish.seconds,
        head=prepared["head"] if prepared else None,
        branch=prepared["branch"] if prepared else None,
        base_ref=prepared["ref"] if prepared else None,
    )
    task.raw["worktree"] = worker.tree_name
    task.raw["claimed_session"] = change.state.session_count
    task.raw["claimed_process"] = worker.process.as_record() if worker.process else None
    if prepared:
        worker.keep_claim_record(task.id, prepared)
    proven.begin(worker.layout, change.state, task, kept=None if prepared else before_claim.kept_files(worker, task))
    if prepared is None:
        _say_shared(change, worker, task)
    base = task.started_at_commit
    note = f"(base={base[:7] if base else 'none'})"
    session = change.state.session_count
    change.log(progress.entry("Starting", session, at=change.now, task=task.id, text=task.title, note=note))
    change.touch(task)


def _say_shared(change: TaskListChange, worker: Worker, task: Task) -> None:
    """What a folder that several workers share cannot do, once for each list."""
    others = [each for each in selection.in_progress(change.state) if each.id != task.id]
    shared = any(each.raw.get("worktree") == worker.tree_name for each in others)
    if not shared:
        return
    from agent_harness.protocols.tasklist import proven

    if proven.first_time(worker.layout, "shared folder"):
        change.log(progress.entry("WARN", change.state.session_count, at=change.now, task=task.id, text=SHARED))


def _answer(task: Task, *, resumed: bool) -> Record:
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
