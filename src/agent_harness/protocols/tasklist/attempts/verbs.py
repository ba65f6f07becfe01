"""The verbs that end an attempt, or prove it: validate, complete, fail, release, rollback.

All of them need the owner's token, can be repeated by an agent that lost the answer, and hold the lock on the state
only while they write it. Source: ``tasklist.md`` 11, 13.3.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_harness.errors import ConfigurationError, TimedOut, ToolMissing, UsageError, VerificationFailed
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.redact import redact
from agent_harness.protocols.tasklist import proven
from agent_harness.protocols.tasklist.attempts import close_attempt, commits, rollback, validation
from agent_harness.protocols.tasklist.attempts.attempt import note, noted, place_of
from agent_harness.protocols.tasklist.attempts.close_attempt import Failure
from agent_harness.protocols.tasklist.attempts.validation import ValidationRun
from agent_harness.protocols.tasklist.records import CATEGORIES, IN_PLACE
from agent_harness.verification.command import GREEN

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.attempts.commits import AttemptWork
    from agent_harness.protocols.tasklist.claims.worker import Worker
    from agent_harness.protocols.tasklist.records import Task
    from agent_harness.protocols.tasklist.store import TaskListChange


NO_CANDIDATE = "no git work tree with a commit here: validations run in the folder itself, and nothing is rolled back"
GREEN_BEFORE = "it passed on the code before as well, so that it proves nothing"


def validate(worker: "Worker", task_id: str) -> JsonObject:
    """Runs the validation of a task of ours; the members of the answer are those of ``ValidationRun``.

    A pass is remembered for ``complete``. ``ConfigurationError`` (no command; the list is halted) and ``ToolMissing``
    (its program is missing; the second time the list is halted).
    """
    task = close_attempt.mine(worker, task_id)
    with commits.opened(worker, task) as work:
        return {"task_id": task.id, **validated(worker, task, work).as_record()}


def complete(worker: "Worker", task_id: str, *, commit: bool = True, message: str | None = None) -> JsonObject:
    """Proves the task and ends it: ``commit``, ``stats``, ``remaining``, ``validation`` (``None``: proven before).

    ``VerificationFailed`` or ``TimedOut`` when the proof fails: the task stays in progress and its work stays as it
    is. ``UnsafeTree`` when no commit can be made; then too. Repeated after success: ``already``.
    """
    if (found := _ended(worker, task_id, "completed")) is not None:
        return {**close_attempt.completed_answer(worker.store.read(), found), "already": True}
    task = close_attempt.mine(worker, task_id)
    proof = proof_of(worker, task, commit=commit, message=message)
    if proof.ran and not proof.ran.passed:
        raise _unproven(task, proof.ran)
    done = close_attempt.completed(worker, task, proof.commit, proof=proof.summary)
    said = proven.elsewhere(worker.layout)
    told = {"warning": said} if said else {}
    return {**done, "validation": proof.ran.as_record() if proof.ran else None, "already": False, **told}


@dataclass(frozen=True, kw_only=True)
class JudgedAttempt:
    """What the judge said of an attempt's work, and the commit that holds exactly this work."""

    ran: ValidationRun | None  # None: proven before, and nothing has changed since
    summary: JsonObject  # ``where`` and ``red_before``
    commit: str | None = None  # None: not proven, or nothing could be committed


def proof_of(worker: "Worker", task: "Task", *, commit: bool = True, message: str | None = None) -> JudgedAttempt:
    """Opens the attempt's work once, judges it unless it is proven already, and commits what was judged.

    Where the validation runs in the folder, what the run itself wrote there goes in as well, after the guard has seen
    it. Raises as ``complete``, but for a failed proof.
    """
    with commits.opened(worker, task) as work:
        known = validation.proof_on_record(worker, task, work)
        ran = None if known else validated(worker, task, work)
        proven_by = ran or known
        summary = {"where": proven_by.where, "red_before": proven_by.red_before} if proven_by else {}
        if ran and not ran.passed:
            return JudgedAttempt(ran=ran, summary=summary)
        own = close_attempt.mine(worker, task.id)
        if not commit:
            place = place_of(worker)
            return JudgedAttempt(ran=ran, summary=summary, commit=place.git.head() if place else None)
        in_folder = ran is not None and summary["where"] == IN_PLACE
        if work is None or not in_folder:
            return JudgedAttempt(ran=ran, summary=summary, commit=commits.commit(worker, work, _text(task, message)))
    with commits.opened(worker, own) as work:
        if ran and work and work.full_tree != ran.tree and (found := validation.examined(worker, own, work)):
            return JudgedAttempt(ran=ran.rejected(found), summary=summary)
        return JudgedAttempt(ran=ran, summary=summary, commit=commits.commit(worker, work, _text(task, message)))


def _text(task: "Task", message: str | None) -> str:
    """The message of the task's commit, by which a recovery finds it again."""
    text = f"[{task.id}] {message or task.title}".replace("\0", " ")
    return text.encode("utf-8", "replace").decode()


def fail(
    worker: "Worker",
    task_id: str,
    category: str,
    message: str,
    *,
    rollback: bool = True,
    allow_pushed: bool = False,
) -> JsonObject:
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


def release(worker: "Worker", task_id: str, why: str) -> JsonObject:
    """Gives the task back as if it had not been claimed; its work goes into a rescue. Repeated: ``already``."""
    if (found := _ended(worker, task_id, "pending")) is not None:
        return {"task_id": found.id, "status": found.status, "attempts": found.attempts, "already": True}
    task = close_attempt.mine(worker, task_id)
    return {**close_attempt.released(worker, task, _said(why)), "already": False}


def roll_back(worker: "Worker", task_id: str, *, dry_run: bool = False, allow_pushed: bool = False) -> JsonObject:
    """Brings the work tree back to the claim, and keeps the task; with ``dry_run`` says what that would do."""
    task = close_attempt.mine(worker, task_id)
    policy = "hard" if worker.store.read().config.rollback_policy == "hard" else "restore"  # here a person asks for it
    if dry_run:
        plan = rollback.plan(worker, task, policy=policy, allow_pushed=allow_pushed)
        return {"task_id": task.id, "dry_run": True, **plan}
    back = rollback.roll_back(worker, task, policy=policy, allow_pushed=allow_pushed)
    worker.store.change(lambda change: close_attempt.note_rollback_point(worker, change, task.id, back))
    return {"task_id": task.id, "dry_run": False, **back.as_record()}


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
    return task if task.last_owner == worker.owner else None


def validated(worker: "Worker", task: "Task", work: "AttemptWork | None") -> ValidationRun:
    """Runs the validation; what it cannot even start with goes into the log, and may halt the list."""
    try:
        ran = validation.run(worker, task, work)
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
    said = [] if ran.passed else [f"validation: {ran.failure}"]
    said += [NO_CANDIDATE] if work is None and proven.first_time(worker.layout, "no candidate") else []
    said += [f"validation: {GREEN_BEFORE}"] if ran.passed and ran.red_before == GREEN else []
    for text in said:
        worker.store.note("WARN", text, task=task.id)
    return ran


def _refuse(
    worker: "Worker", task: "Task", category: str, text: str, error: ConfigurationError | ToolMissing, *, halt: bool
) -> None:
    def act(change: "TaskListChange") -> None:
        change.note("ERROR", text, task=task.id, category=category)
        own = change.state.by_id.get(task.id)
        if (
            isinstance(error, proven.ProofChanged)
            and own
            and (changed := proven.put_back(worker.layout, own, claimed=True))
        ):
            change.note("WARN", changed, task=task.id)
            change.touch(own)
        if halt:
            change.halt(category, error.message, task.id)

    worker.store.change(act)


def _unproven(task: "Task", ran: ValidationRun) -> VerificationFailed | TimedOut:
    give_up = f"harness task fail {task.id} --category {ran.category} '…'"
    hint = f"fix it and run the same command again, or give up: {give_up}"
    kind = TimedOut if ran.result == "TIMEOUT" else VerificationFailed
    said = f"the validation of {task.id} says no: {ran.failure}"
    return kind(said, hint=hint, task_id=task.id, **ran.as_record())
