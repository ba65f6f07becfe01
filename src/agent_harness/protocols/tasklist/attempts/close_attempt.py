"""How an attempt ends in the state and in the log: one write each, after everything that it says was done.

What an ending comes to is noted before the first lasting change, so that a process that is killed between the way back
and the write of the state is finished by the recovery, and an attempt never counts twice. Source: ``tasklist.md`` 11.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent_harness.errors import HarnessError, LeaseLost, NotOwner, UnsafeTree
from agent_harness.kernel import clock, process
from agent_harness.kernel.redact import redact
from agent_harness.protocols.tasklist import (
    lifecycle,
    progress,
    proven,
    selection,
)
from agent_harness.protocols.tasklist.attempts import rollback, validation
from agent_harness.protocols.tasklist.attempts.attempt import note, place_of
from agent_harness.protocols.tasklist.claims.lease_keeper import LeaseKeeper
from agent_harness.protocols.tasklist.workers import worker_sessions

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.records import State, Task
    from agent_harness.protocols.tasklist.store import TaskListChange
    from agent_harness.protocols.tasklist.workers.worker import Worker

__all__ = [
    "Failure",
    "completed",
    "completed_answer",
    "failed",
    "failed_answer",
    "halt_in",
    "mine",
    "note_rollback_point",
    "released",
    "short",
]

Record = dict[str, Any]

CLEANUP_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Why an attempt ends without a proof, and what becomes of the work tree."""

    category: str
    message: str
    rollback: bool = True
    allow_pushed: bool = False
    recovery: tuple[str, str] | None = None  # action and reason, when a recovery ends it


def mine(worker: "Worker", task_id: str) -> "Task":
    """The task, when it is in progress and this worker's. Raises as ``Worker.own``."""
    return worker.own(worker.store.read(), task_id, worker.store.now())


def short(commit: str | None) -> str:
    """A commit as the log names it."""
    return commit[:7] if commit else "none"


# ---- completed -----------------------------------------------------------------------------------------------------


def completed(
    worker: "Worker",
    task: "Task",
    commit: str | None,
    *,
    proof: Record,
    recovery: tuple[str, str] | None = None,
) -> Record:
    """Writes down that the task is done, and how it was proven; the numbers that are left."""

    def act(change: "TaskListChange") -> Record:
        own = worker.own(change.state, task.id, change.now)
        proven.prove(worker.layout, change.state, own.id)
        lifecycle.complete(own, change.now)
        worker_sessions.count(change.state, worker, change.now)
        own.raw["completed_commit"] = commit
        own.raw["proof"] = proof
        say = _speaker(change, task.id)
        if recovery:
            say("RECOVERY", _recovery_text(*recovery))
        say("Completed", f"(commit {short(commit)})")
        change.touch()
        return completed_answer(change.state, own)

    return worker.store.change(act)


def completed_answer(state: "State", task: "Task") -> Record:
    """What ``complete`` answers about a completed task."""
    numbers = selection.stats(state)
    return {
        "task_id": task.id,
        "status": task.status,
        "commit": task.raw.get("completed_commit"),
        "proof": task.proof,
        "attempts": task.attempts,
        "stats": numbers,
        "remaining": numbers["pending"],
        "work_left": selection.work_left(state),
    }


# ---- failed and released -------------------------------------------------------------------------------------------


def failed(worker: "Worker", task: "Task", failure: Failure) -> Record:
    """Takes the attempt's work back (into a rescue), cleans up, and counts the attempt: once, whatever happens.

    ``UnsafeTree`` after all this, with the list halted and the work tree untouched, when going back was refused.
    """
    words = {"verb": "fail", "category": failure.category, "message": failure.message, "rollback": failure.rollback}
    note(worker, task, intent=words)
    back, refused = _go_back(worker, task, failure)
    cleaned = _clean_up(worker, task) if refused is None else None
    rescues = _rescues(worker, task)
    missing = bool(back.pop("base_missing", False))

    def act(change: "TaskListChange") -> Record:
        own = worker.own(change.state, task.id, change.now)
        if _must_halt(own, failure) or refused:
            halt_in(change, failure.category, refused.message if refused else failure.message, own.id)
        lifecycle.fail(own, failure.category, failure.message, change.now, give_up=missing)
        worker_sessions.count(change.state, worker, change.now)
        own.raw["rescues"] = [*own.rescues, *(ref for ref in rescues if ref not in own.rescues)]
        _tell_failure(change, own, failure, back, cleaned)
        change.touch()
        return {**failed_answer(change.state, own), **back, "cleanup": cleaned, "halted": change.state.halt is not None}

    answer = worker.store.change(act)
    if refused:
        refused.data.update(answer)
        raise refused
    return answer


def failed_answer(state: "State", task: "Task") -> Record:
    """What ``fail`` answers about a failed task."""
    return {
        "task_id": task.id,
        "status": task.status,
        "attempts": task.attempts,
        "max_attempts": task.max_attempts,
        "retryable": selection.retryable(state, task.id),
        "error": task.error_log[-1] if task.error_log else None,
        "rescue": task.rescues[-1] if task.rescues else None,
    }


def released(worker: "Worker", task: "Task", why: str) -> Record:
    """Takes the attempt's work back and makes the task pending again; ``attempts`` stays.

    ``UnsafeTree``, with nothing changed, when going back is refused.
    """
    policy = worker.store.read().rollback_policy
    note(worker, task, intent={"verb": "release", "message": why})
    try:
        back = rollback.roll_back(worker, task, policy=policy)
    except rollback.BaseMissing as error:
        back = {"rolled_back": False, "rescue": None, "reason": error.message}
    except HarnessError:
        note(worker, task, intent={})
        raise
    rescues = _rescues(worker, task)

    def act(change: "TaskListChange") -> Record:
        own = worker.own(change.state, task.id, change.now)
        lifecycle.release(own)
        own.raw["rescues"] = [*own.rescues, *(ref for ref in rescues if ref not in own.rescues)]
        say = _speaker(change, own.id)
        say("WARN", f"released: {why}")
        _log_rollback_point(say, back)
        change.touch()
        return {"task_id": own.id, "status": own.status, "attempts": own.attempts, **back}

    return worker.store.change(act)


def note_rollback_point(worker: "Worker", change: "TaskListChange", task_id: str, back: Record) -> None:
    """Writes down that the work tree of a task was brought back while it stays in progress."""
    own = worker.own(change.state, task_id, change.now)
    if back["rescue"]:
        own.raw["rescues"] = [*own.rescues, back["rescue"]]
    _log_rollback_point(_speaker(change, own.id), back)
    change.touch()


# ---- steps -----------------------------------------------------------------------------------------------------------


def _go_back(worker: "Worker", task: "Task", failure: Failure) -> tuple[Record, UnsafeTree | None]:
    policy = worker.store.read().rollback_policy
    if not failure.rollback:
        return {"rolled_back": False, "rescue": None, "reason": "as asked, the work tree stays as it is"}, None
    try:
        return rollback.roll_back(worker, task, policy=policy, allow_pushed=failure.allow_pushed), None
    except rollback.BaseMissing as error:
        return {"rolled_back": False, "rescue": None, "reason": error.message, "base_missing": True}, None
    except UnsafeTree as error:
        return {"rolled_back": False, "rescue": None, "reason": error.message}, error
    except HarnessError:
        note(worker, task, intent={})  # somebody is busy there: it is the owner's to try again, or to go on
        raise


def _clean_up(worker: "Worker", task: "Task") -> Record | None:
    """Runs ``on_failure.cleanup``; how it went. Only a claim that was lost meanwhile stops the failure."""
    if not task.cleanup:
        return None
    try:
        done = process.run(
            task.cleanup,
            cwd=validation.folder_of(worker),
            env=process.scrubbed_environment(),
            timeout_seconds=CLEANUP_SECONDS,
            stop=LeaseKeeper(worker, task),
        )
    except (LeaseLost, NotOwner):
        raise
    except HarnessError as error:
        return {"ok": False, "exit": None, "timed_out": False, "tail": [error.message]}
    output = redact(done.output.decode("utf-8", "replace"))
    return {
        "ok": done.exit_code == 0,
        "exit": done.exit_code,
        "timed_out": done.timed_out,
        "tail": validation.tail_of(output),
    }


def _rescues(worker: "Worker", task: "Task") -> list[str]:
    """The refs of all rescues of the task, also of tries that a crash cut short."""
    place = place_of(worker)
    return list(rollback.rescue_refs(place.git, task.id)) if place else []


def _must_halt(task: "Task", failure: Failure) -> bool:
    """Whether this needs a person: a setting, or an environment that failed twice."""
    before = any(each.startswith("[ENV_SETUP]") for each in task.error_log)
    return failure.category == "CONFIG" or (failure.category == "ENV_SETUP" and before)


def halt_in(change: "TaskListChange", category: str, message: str, task_id: str | None) -> None:
    """Stops everything for a person."""
    at = clock.timestamp(change.now)
    change.state.raw["halt"] = {"category": category, "task_id": task_id, "message": message, "at": at}


# ---- words -----------------------------------------------------------------------------------------------------------


def _speaker(change: "TaskListChange", task_id: str) -> Callable[..., None]:
    def say(kind: str, text: str, category: str | None = None) -> None:
        session = change.state.session_count
        change.log(progress.entry(kind, session, at=change.now, task=task_id, category=category, text=text))

    return say


def _recovery_text(action: str, reason: str) -> str:
    return f"action={progress.quoted(action)} reason={progress.quoted(reason)}"


def _tell_failure(
    change: "TaskListChange", task: "Task", failure: Failure, back: Record, cleaned: Record | None
) -> None:
    say = _speaker(change, task.id)
    if failure.recovery:
        say("RECOVERY", _recovery_text(*failure.recovery))
    say("ERROR", failure.message, failure.category)
    _log_rollback_point(say, back)
    if cleaned:
        how = "timed out" if cleaned["timed_out"] else f"exit={cleaned['exit']}"
        last: Sequence[str] = cleaned["tail"][-1:]
        say("ROLLBACK" if cleaned["ok"] else "WARN", " ".join(["cleanup", how, *(map(progress.quoted, last))]))


def _log_rollback_point(say: Callable[..., None], back: Record) -> None:
    if back["rolled_back"]:
        rescue = f" (rescue={back['rescue']})" if back["rescue"] else ""
        say("ROLLBACK", f"git reset --hard {short(back['base'])}{rescue}")
    else:
        say("WARN", f"not rolled back: {back['reason']}")
