"""End of an attempt. The state and the log record the end only after all its actions are done.

The harness records the intended result before the first permanent change. If the harness is killed before it writes the
state, a recovery can complete the end of the attempt. The attempt then counts only once. Source: ``tasklist.md`` 11."""

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

from agent_harness.errors import HarnessError, LeaseLost, NotOwner, UnsafeTree
from agent_harness.kernel import process
from agent_harness.kernel.git.locate import folders_of_project
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.process.sandbox import of_agent, settings_from
from agent_harness.kernel.redact import redact
from agent_harness.protocols.tasklist import (
    lifecycle,
    progress,
    proven,
    selection,
)
from agent_harness.protocols.tasklist.attempts import left_by_turn, rollback, validation
from agent_harness.protocols.tasklist.attempts.attempt import folder_of, note
from agent_harness.protocols.tasklist.attempts.rollback import RollbackOutcome
from agent_harness.protocols.tasklist.claims import environment_inventory, leases
from agent_harness.protocols.tasklist.claims.caller import LeaseKeeper
from agent_harness.protocols.tasklist.records import CHECKED
from agent_harness.session import ledger

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.claims.caller import Caller
    from agent_harness.protocols.tasklist.records import State, Task
    from agent_harness.protocols.tasklist.store import TaskListChange
    from agent_harness.session.ledger import ClaimVerdict


CLEANUP_SECONDS = 120.0


@dataclass(frozen=True, kw_only=True)
class Failure:
    """Failure of an attempt: the reason, and the options for the rollback of its work."""

    category: str
    message: str
    rollback: bool = True
    allow_pushed: bool = False
    recovery: tuple[str, str] | None = None  # action and reason, if a recovery ends it
    question: JsonObject | None = None  # a person decides, and the task is not tried again before


@dataclass(frozen=True, kw_only=True)
class CleanupRun:
    ok: bool = False
    exit: int | None = None
    timed_out: bool = False
    tail: list[str]


def mine(caller: "Caller", task_id: str) -> "Task":
    return caller.own(caller.store.read(), task_id, caller.store.now())


def short(commit: str | None) -> str:
    return commit[:7] if commit else "none"


# ---- completed -------------------------------------------------------------------------------------------------------


def completed(
    caller: "Caller",
    task: "Task",
    commit: str | None,
    *,
    proof: JsonObject,
    verdict: "ClaimVerdict",
    recovery: tuple[str, str] | None = None,
) -> JsonObject:
    """Record a task as completed, and return the JSON answer."""

    def act(change: "TaskListChange") -> JsonObject:
        own = caller.own(change.state, task.id, change.now)
        _put_terms_back(caller, change, own)
        only = verdict.basis or "" if verdict.grade == CHECKED else None
        proven.prove(caller.layout, change.state, own.id, only=only)
        own.raw.pop("question", None)
        # before the state changes; a repeated call writes no second line
        ledger.write(proven.ledger(caller.layout), verdict)
        lifecycle.complete(own, change.now)
        leases.count_outcome(change.state, caller, change.now)
        own.raw["completed_commit"] = commit
        own.raw["proof"] = proof
        _note_recovery(change, own, recovery)
        change.note("Completed", f"(commit {short(commit)})", task=own.id)
        change.touch()
        return completed_answer(change.state, own)

    answer = caller.store.change(act)
    environment_inventory.note_end(caller, task, completed=True)
    return answer | word_of(verdict)


def word_of(verdict: "ClaimVerdict | None") -> JsonObject:
    return {"grade": verdict.grade, "basis": verdict.basis} if verdict and verdict.grade else {}


def completed_answer(state: "State", task: "Task") -> JsonObject:
    numbers = selection.stats(state)
    return {
        "task_id": task.id,
        "status": task.status,
        "commit": task.completed_commit,
        "proof": task.proof,
        "attempts": task.attempts,
        "stats": numbers,
        "remaining": numbers["pending"],
        "work_left": selection.work_left(state),
    }


# ---- failed and released ---------------------------------------------------------------------------------------------


def failed(caller: "Caller", task: "Task", failure: Failure) -> JsonObject:
    """Roll back and count a failed attempt. If the rollback is unsafe, halt the list and raise ``UnsafeTree``."""
    words = {"verb": "fail", "category": failure.category, "message": failure.message, "rollback": failure.rollback}
    note(caller, task, intent=words)
    back, refused = _go_back(caller, task, failure)
    cleaned = _clean_up(caller, task) if refused is None else None
    rescues = rollback.rescues_of(caller, task)

    def act(change: "TaskListChange") -> JsonObject:
        own = caller.own(change.state, task.id, change.now)
        _put_terms_back(caller, change, own)
        again = any(each.startswith("[ENV_SETUP]") for each in own.error_log)  # an environment that failed twice
        if refused or failure.category == "CONFIG" or (failure.category == "ENV_SETUP" and again):
            change.halt(failure.category, refused.message if refused else failure.message, own.id)
        made = own.attempts + 1
        lifecycle.fail(
            own,
            failure.category,
            failure.message,
            change.now,
            give_up=back.base_missing or failure.question is not None,
        )
        if failure.question:
            own.raw["question"] = {**failure.question, "attempts": made}
        leases.count_outcome(change.state, caller, change.now)
        lifecycle.keep_rescues(own, rescues)
        _note_recovery(change, own, failure.recovery)
        change.note("ERROR", failure.message, task=own.id, category=failure.category)
        _note_rollback(change, own, back)
        if cleaned:
            how = "timed out" if cleaned.timed_out else f"exit={cleaned.exit}"
            last = map(progress.quoted, cleaned.tail[-1:])
            change.note("ROLLBACK" if cleaned.ok else "WARN", " ".join(["cleanup", how, *last]), task=own.id)
        change.touch()
        ended = {"cleanup": asdict(cleaned) if cleaned else None, "halted": change.state.halt is not None}
        return {**failed_answer(change.state, own), **back.as_record(), **ended}

    answer = caller.store.change(act)
    environment_inventory.note_end(caller, task, completed=False)
    if refused:
        refused.data.update(answer)
        raise refused
    return answer


def failed_answer(state: "State", task: "Task") -> JsonObject:
    return {
        "task_id": task.id,
        "status": task.status,
        "attempts": task.attempts_made,
        "max_attempts": task.max_attempts,
        "retryable": selection.retryable(state, task.id),
        "error": task.error_log[-1] if task.error_log else None,
        "rescue": task.rescues[-1] if task.rescues else None,
    }


def released(caller: "Caller", task: "Task", why: str) -> JsonObject:
    """Roll back an attempt without counting it, and make the task pending again.
    Raise ``UnsafeTree``, and keep the claim, if the rollback is not safe."""
    policy = caller.store.read().config.rollback_policy
    note(caller, task, intent={"verb": "release", "message": why})
    try:
        back = _rolled_back(caller, task, policy=policy)
    except rollback.BaseMissing as error:
        back = RollbackOutcome(reason=error.message)
    except HarnessError:
        note(caller, task, intent={})
        raise
    rescues = rollback.rescues_of(caller, task)

    def act(change: "TaskListChange") -> JsonObject:
        own = caller.own(change.state, task.id, change.now)
        _put_terms_back(caller, change, own)
        lifecycle.release(own)
        lifecycle.keep_rescues(own, rescues)
        change.note("WARN", f"released: {why}", task=own.id)
        _note_rollback(change, own, back)
        change.touch()
        return {"task_id": own.id, "status": own.status, "attempts": own.attempts, **back.as_record()}

    answer = caller.store.change(act)
    environment_inventory.note_end(caller, task, completed=False)
    return answer


def note_rollback_point(caller: "Caller", change: "TaskListChange", task_id: str, back: RollbackOutcome) -> None:
    """Record that the work tree of a task was rolled back. The task stays in progress."""
    own = caller.own(change.state, task_id, change.now)
    if back.rescue:
        lifecycle.keep_rescues(own, [back.rescue])
    _note_rollback(change, own, back)
    change.touch()


def _put_terms_back(caller: "Caller", change: "TaskListChange", task: "Task") -> None:
    if changed := proven.put_terms_back(caller.layout, change.state, task):
        change.note("WARN", changed, task=task.id)


# ---- steps -----------------------------------------------------------------------------------------------------------


def _go_back(caller: "Caller", task: "Task", failure: Failure) -> tuple[RollbackOutcome, UnsafeTree | None]:
    policy = caller.store.read().config.rollback_policy
    if not failure.rollback:
        return RollbackOutcome(reason="the work tree was left as it is, as requested"), None
    try:
        return _rolled_back(caller, task, policy=policy, allow_pushed=failure.allow_pushed), None
    except rollback.BaseMissing as error:
        return RollbackOutcome(reason=error.message, base_missing=True), None
    except UnsafeTree as error:
        return RollbackOutcome(reason=error.message), error
    except HarnessError:
        note(caller, task, intent={})  # another process is busy there: the owner tries again, or goes on
        raise


def _rolled_back(caller: "Caller", task: "Task", *, policy: str, allow_pushed: bool = False) -> RollbackOutcome:
    if policy != "none":
        # an agent's turn may have left an unfinished git operation or another branch
        left_by_turn.put_in_order(caller, task, ends=True)
    return rollback.roll_back(caller, task, policy=policy, allow_pushed=allow_pushed)


def _clean_up(caller: "Caller", task: "Task") -> CleanupRun | None:
    """Run the task's cleanup command. Raise ``LeaseLost`` or ``NotOwner`` if the claim is lost."""
    if not task.cleanup:
        return None
    folder, wished = folder_of(caller), settings_from(caller.store.read().config.sandbox)
    try:
        done = process.run(
            task.cleanup,
            cwd=folder,
            env=process.scrubbed_environment(),
            timeout_seconds=CLEANUP_SECONDS,
            sandbox=of_agent([caller.layout.root, folder], settings=wished, installs=True, reads=folders_of_project()),
            stop=LeaseKeeper(caller, task),
        )
    except (LeaseLost, NotOwner):
        raise
    except HarnessError as error:
        return CleanupRun(tail=[error.message])
    tail = validation.tail_of(redact(done.output.decode("utf-8", "replace")))
    return CleanupRun(ok=done.exit_code == 0, exit=done.exit_code, timed_out=done.timed_out, tail=tail)


def _note_recovery(change: "TaskListChange", task: "Task", words: tuple[str, str] | None) -> None:
    if words:
        action, reason = map(progress.quoted, words)
        change.note("RECOVERY", f"action={action} reason={reason}", task=task.id)


def _note_rollback(change: "TaskListChange", task: "Task", back: RollbackOutcome) -> None:
    if not back.rolled_back:
        change.note("WARN", f"not rolled back: {back.reason}", task=task.id)
        return
    rescue = f" (rescue={back.rescue})" if back.rescue else ""
    change.note("ROLLBACK", f"git reset --hard {short(back.base)}{rescue}", task=task.id)
