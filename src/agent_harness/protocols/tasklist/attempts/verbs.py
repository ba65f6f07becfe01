"""The verbs that end an attempt, or prove it: validate, complete, fail, release, rollback.

All of them need the owner's token, can be repeated by an agent that lost the answer, and hold the lock on the state
only while they write it. Source: ``tasklist.md`` 11, 13.3.
"""

from typing import TYPE_CHECKING, Any

from agent_harness.errors import ConfigurationError, TimedOut, ToolMissing, UsageError, VerificationFailed
from agent_harness.kernel.redact import redact
from agent_harness.protocols.tasklist import progress, proven
from agent_harness.protocols.tasklist.attempts import close_attempt, rollback, validation
from agent_harness.protocols.tasklist.attempts.attempt import note, noted, place_of
from agent_harness.protocols.tasklist.attempts.close_attempt import Failure
from agent_harness.protocols.tasklist.records import CATEGORIES

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.records import Task
    from agent_harness.protocols.tasklist.store import TaskListChange
    from agent_harness.protocols.tasklist.workers.worker import Worker

__all__ = ["commit_of", "complete", "fail", "how", "release", "roll_back", "validate", "validated"]

Record = dict[str, Any]


def validate(worker: "Worker", task_id: str) -> Record:
    """Runs the validation of a task of ours; ``validation.run`` tells the members of the answer.

    A pass is remembered for ``complete``. ``ConfigurationError`` (no command; the list is halted) and ``ToolMissing``
    (its program is missing; the second time the list is halted).
    """
    task = close_attempt.mine(worker, task_id)
    return {"task_id": task.id, **validated(worker, task)}


def complete(worker: "Worker", task_id: str, *, commit: bool = True, message: str | None = None) -> Record:
    """Proves the task and ends it: ``commit``, ``stats``, ``remaining``, ``validation`` (``None``: proven before).

    ``VerificationFailed`` or ``TimedOut`` when the proof fails: the task stays in progress and its work stays as it
    is. ``UnsafeTree`` when no commit can be made; then too. Repeated after success: ``already``.
    """
    if (found := _ended(worker, task_id, "completed")) is not None:
        return {**close_attempt.completed_answer(worker.store.read(), found), "already": True}
    task = close_attempt.mine(worker, task_id)
    ran = None if validation.still_proven(worker, task) else validated(worker, task)
    if ran and ran["result"] != "PASS":
        raise _unproven(task, ran)
    made = commit_of(worker, close_attempt.mine(worker, task_id), message) if commit else _head(worker)
    return {**close_attempt.completed(worker, task, made), "validation": ran, "already": False}


def commit_of(worker: "Worker", task: "Task", message: str | None = None) -> str | None:
    """The task's commit, under the message by which a recovery finds it again."""
    text = f"[{task.id}] {message or task.title}".replace("\0", " ")
    return rollback.commit_work(worker, task, text.encode("utf-8", "replace").decode())


def fail(
    worker: "Worker",
    task_id: str,
    category: str,
    message: str,
    *,
    rollback: bool = True,
    allow_pushed: bool = False,
) -> Record:
    """Ends the attempt without a proof: ``attempts``, ``retryable``, ``rolled_back``, ``rescue``, ``cleanup`` and more.

    ``UnsafeTree`` when going back was refused: the attempt is counted, the list halted, the work tree untouched.
    Repeated after success: ``already``.
    """
    if category not in CATEGORIES:
        raise UsageError(f"{category} is no category", hint=f"one of {', '.join(CATEGORIES)}")
    if (found := _ended(worker, task_id, "failed")) is not None:
        return {**close_attempt.failed_answer(worker.store.read(), found), "already": True}
    failure = Failure(category=category, message=_said(message), rollback=rollback, allow_pushed=allow_pushed)
    return {**close_attempt.failed(worker, close_attempt.mine(worker, task_id), failure), "already": False}


def release(worker: "Worker", task_id: str, why: str) -> Record:
    """Gives the task back as if it had not been claimed; its work goes into a rescue. Repeated: ``already``."""
    if (found := _ended(worker, task_id, "pending")) is not None:
        return {"task_id": found.id, "status": found.status, "attempts": found.attempts, "already": True}
    task = close_attempt.mine(worker, task_id)
    return {**close_attempt.released(worker, task, _said(why)), "already": False}


def roll_back(worker: "Worker", task_id: str, *, dry_run: bool = False, allow_pushed: bool = False) -> Record:
    """Brings the work tree back to the claim, and keeps the task; with ``dry_run`` says what that would do."""
    task = close_attempt.mine(worker, task_id)
    policy = "hard" if worker.store.read().rollback_policy == "hard" else "restore"  # here a person asks for it
    if dry_run:
        plan = rollback.plan(worker, task, policy=policy, allow_pushed=allow_pushed)
        return {"task_id": task.id, "dry_run": True, **plan}
    back = rollback.roll_back(worker, task, policy=policy, allow_pushed=allow_pushed)
    worker.store.change(lambda change: close_attempt.note_rollback_point(worker, change, task.id, back))
    return {"task_id": task.id, "dry_run": False, **back}


def _said(text: str) -> str:
    """What an agent wrote, on one line, without secrets, as JSON can hold it."""
    line = " ".join(text.split()).encode("utf-8", "replace").decode()
    return redact(line) or "no reason given"


# ---- parts -----------------------------------------------------------------------------------------------------------


def _ended(worker: "Worker", task_id: str, status: str) -> "Task | None":
    """The task, when this very worker has ended it so already."""
    task = worker.find(worker.store.read(), task_id)
    if task.status != status:
        return None
    if worker.token is not None:
        return task if worker.token == task.last_claim_token else None
    return task if task.raw.get("last_owner") == worker.owner else None


def validated(worker: "Worker", task: "Task") -> Record:
    """Runs the validation; what it cannot even start with goes into the log, and may halt the list."""
    try:
        ran = validation.run(worker, task)
    except validation.MissingCommand as error:
        _refuse(worker, task, "CONFIG", "Missing validation.command", error, halt=True)
        raise
    except proven.ProofChanged as error:
        _refuse(worker, task, "CONFIG", error.message, error, halt=True)
        raise
    except validation.ProgramMissing as error:
        again = bool(noted(worker, task, "environment"))
        note(worker, task, environment={"missing": error.message})
        _refuse(worker, task, "ENV_SETUP", error.message, error, halt=again)
        raise
    if ran["result"] != "PASS":
        text = f"validation: {how(ran)}"
        session = worker.store.read().session_count
        worker.store.log(progress.entry("WARN", session, task=task.id, text=text))
    return ran


def _refuse(
    worker: "Worker", task: "Task", category: str, text: str, error: ConfigurationError | ToolMissing, *, halt: bool
) -> None:
    def act(change: "TaskListChange") -> None:
        session = change.state.session_count
        change.log(progress.entry("ERROR", session, at=change.now, task=task.id, category=category, text=text))
        if halt:
            close_attempt.halt_in(change, category, error.message, task.id)
            change.touch()

    worker.store.change(act)


def _unproven(task: "Task", ran: Record) -> VerificationFailed | TimedOut:
    category = "TIMEOUT" if ran["result"] == "TIMEOUT" else "TEST_FAIL"
    hint = f"fix it and run the same command again, or give up: harness task fail {task.id} --category {category} '…'"
    kind = TimedOut if ran["result"] == "TIMEOUT" else VerificationFailed
    return kind(f"the validation of {task.id} says no: {how(ran)}", hint=hint, task_id=task.id, **ran)


def how(ran: Record) -> str:
    """A validation that did not pass, in a few words."""
    return f"timed out after {ran['seconds']:.0f} s" if ran["result"] == "TIMEOUT" else f"FAIL (exit {ran['exit']})"


def _head(worker: "Worker") -> str | None:
    place = place_of(worker)
    return place.git.head() if place else None
