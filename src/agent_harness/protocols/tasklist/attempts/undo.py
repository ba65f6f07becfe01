"""Undo of a completed task: what differs from the undo of other items (``parallel/undo.py``).

No other completed task may depend on the task, and no session may be running. The checks of the other completed tasks
run on the undo's commit: a check that the commit breaks refuses the undo. Then the task is open again, without a proof.
If an undo is killed, the same command or the next session completes the undo. Source: ``faces.md`` F-STORY-2."""

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from agent_harness.errors import Busy, HarnessError, Refused, UnsafeTree, VerificationFailed
from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel import undo as shared
from agent_harness.parallel.undo import Reversal, UndoPlan
from agent_harness.protocols.tasklist import lifecycle, proven, selection
from agent_harness.protocols.tasklist.attempts import validation
from agent_harness.protocols.tasklist.attempts.attempt import AttemptTree, place_of
from agent_harness.protocols.tasklist.claims import leases
from agent_harness.protocols.tasklist.records import WORKTREE
from agent_harness.session.ledger import ClaimVerdict
from agent_harness.verification.command.runner import CommandCheck
from agent_harness.verification.judge import run_at
from agent_harness.verification.verdict import OFF

if TYPE_CHECKING:
    from datetime import datetime

    from agent_harness.protocols.tasklist.claims.caller import Caller
    from agent_harness.protocols.tasklist.records import State, Task
    from agent_harness.protocols.tasklist.store import TaskListChange

_MOST_NAMED = 5


def _named(caller: "Caller", what: str) -> str:
    """Return the task id for ``what``, which is a task id or the name of a session."""
    known, path = caller.store.read().by_id, proven.ledger(caller.layout, make=False)
    return shared.named(path, what, lambda word: word if word in known else None, kind="task", example="task-001")


def asked(caller: "Caller", what: str) -> str:
    """Return the id of the task to undo. Raise ``Refused`` for an open task."""
    task_id = _named(caller, what)
    if shared.decided(proven.reversal_path(caller.layout)) is None:  # else a killed one is completed first
        _refuse_open(caller.store.read().by_id[task_id])
    return task_id


def undo(caller: "Caller", what: str, *, dry_run: bool, say: Callable[[str], None]) -> JsonObject:
    """Undo a completed task with a new commit. With ``dry_run``, only print the changes."""
    if not dry_run and (ended := _ended(caller, what)):
        return ended
    state = caller.store.read()
    task, place, plan = _planned(caller, state, _named(caller, what))
    git, found, verdict = place.git, plan.found, plan.verdict
    listed = git.commits_between(verdict.base, str(verdict.commit))  # the newest first
    for each in listed:
        say(f"{task.id}: {each.sha[:10]} {each.subject}")
    first = ", ".join(plan.paths[:6]) + (", ..." if plan.paths[6:] else "")
    say(f"{len(plan.paths)} file{'s' if plan.paths[1:] else ''} will change: {first}")
    checks = [*_checks(git, state, task, plan.paths)]
    if checks:
        many = f"{len(checks)} completed task{'s' if checks[1:] else ''}"
        say(f"The checks of {many} run on the result of the undo.")
    record: JsonObject = {"task_id": task.id, "session": verdict.session, "accepted_at": verdict.commit}
    record |= {"commits": [{"commit": each.sha, "subject": each.subject} for each in listed]}
    record |= {"paths": [*plan.paths], "checks": [each.id for each in checks], "head": found.head}
    if dry_run:
        return {**record, "undone": False, "unclear": [], "next": f"harness undo {what}"}
    unclear = _judged(Git(place.folder), found, checks, state.config.sandbox, say)
    _finalize(caller, git, found)
    say(f"Undid {task.id}: {found.commit[:10]}. The task is open again.")
    return {**record, "undone": True, "unclear": unclear, "commit": found.commit, "next": "harness status"}


# ---- plan ------------------------------------------------------------------------------------------------------------


def _planned(caller: "Caller", state: "State", task_id: str) -> tuple["Task", AttemptTree, UndoPlan]:
    _refuse_at_work(state, caller.store.now())
    task, place = caller.find(state, task_id), place_of(caller)
    if place is None:
        raise Refused("The task list is not in a git work tree; no commits are recorded", hint=f"harness why {task_id}")
    git = place.git
    on = shared.stands_on(git)
    verdict = _completed(caller, git, state, task)
    message = f"harness: take back [{task.id}] {task.title}\n\nThis reverts it: {verdict.commit}\n"
    return task, place, shared.planned(git, verdict, message, what=task.id, on=on, own=place.is_ours)


def _refuse_at_work(state: "State", now: "datetime") -> None:
    """Raise ``Busy`` while a session is running on the task list or a task is in progress."""
    if session := leases.holder(state, now):
        raise Busy(f"A session is running (owner={session.owner})", hint="wait, or: harness pause", owner=session.owner)
    if under_way := selection.in_progress(state):
        task = under_way[0]
        raise Busy(f"{task.id} is in progress by {task.claimed_by}", hint="harness status", task_id=task.id)


def _refuse_open(task: "Task") -> None:
    if task.status != "completed":
        raise Refused(f"{task.id} is {task.status}, so there is nothing to undo", hint=f"harness why {task.id}")


def _completed(caller: "Caller", git: Git, state: "State", task: "Task") -> ClaimVerdict:
    _refuse_open(task)
    standing = [each.id for each in state.tasks if each.status == "completed" and task.id in (each.depends_on or ())]
    if standing:
        said = f"{', '.join(standing[:_MOST_NAMED])} depends on {task.id} and is completed"
        raise Refused(said, hint=f"harness undo {standing[0]}  # then undo {task.id}", dependants=standing)
    verdict = shared.accepted(git, proven.ledger(caller.layout, make=False), task.id)
    if verdict is None:
        hint = f"git revert COMMIT  # then: harness task set {task.id} status=pending"
        raise Refused(f"No commit of {task.id} is recorded on this branch", hint=hint)
    return verdict


def _checks(git: Git, state: "State", task: "Task", paths: tuple[str, ...]) -> Iterator["Task"]:
    """Yield the other completed tasks that have a check. Tasks whose commits changed the same files come first."""
    done = (each for each in state.tasks if each.status == "completed" and each.id != task.id)
    far: list[Task] = []
    for each in done:
        if each.validation_command is None:
            continue
        if _paths_of(git, each) & {*paths}:
            yield each
        else:
            far.append(each)
    yield from far


def _paths_of(git: Git, task: "Task") -> frozenset[str]:
    commit = git.commit_of(task.completed_commit) if task.completed_commit else None
    found = git.changed_paths(git.commit_of(f"{commit}^1"), commit) if commit else ()
    return frozenset(each.path for each in found)


# ---- verify ----------------------------------------------------------------------------------------------------------


def _judged(git: Git, found: Reversal, checks: list["Task"], sandbox: object, say: Callable[[str], None]) -> list[str]:
    """Run other tasks' checks on the undo's commit. Raise ``VerificationFailed`` if the undo breaks a check.
    Return the ids of tasks whose check also fails without the undo."""
    terms = proven.ClaimTerms(WORKTREE, OFF, trust="fast", sandbox=sandbox)
    together: dict[tuple[str | None, float], tuple[CommandCheck, list[str]]] = {}
    for task in checks:
        key = (task.validation_command, task.timeout_seconds)
        together.setdefault(key, (validation.check_of(task, terms), []))[1].append(task.id)
    unclear: list[str] = []
    for check, names in together.values():
        say(f"Running the check of {', '.join(names[:_MOST_NAMED])}...")
        ran = run_at(git, found.commit, check)
        if ran.accepted:
            continue
        if run_at(git, found.head, check).accepted:
            raise _broken(found.item, names, ran.output)
        say("The check also fails without the undo, so this failure does not count.")
        unclear += names
    return unclear


def _broken(task_id: str, names: list[str], output: str) -> VerificationFailed:
    shown = ", ".join(names[:_MOST_NAMED])
    return VerificationFailed(
        f"{task_id} was not undone: the check of {shown} would fail",
        hint=f"harness undo {names[0]}  # first",
        broken=names,
        tail=validation.tail_of(output),
    )


# ---- settle ----------------------------------------------------------------------------------------------------------


def _finalize(caller: "Caller", git: Git, found: Reversal) -> None:
    def act(change: "TaskListChange") -> None:
        _refuse_at_work(change.state, change.now)
        task = caller.find(change.state, found.item)
        if task.status != "completed":
            raise Busy(f"{task.id} became {task.status} during the undo", hint="harness status")
        _carry_out(caller, change, git, found)

    # under the lock, so that no task starts meanwhile
    caller.store.change(act)
    shared.over(proven.reversal_path(caller.layout))


def _carry_out(caller: "Caller", change: "TaskListChange", git: Git, found: Reversal) -> None:
    task = caller.find(change.state, found.item)
    checked = proven.checked(caller.layout).get(task.id)

    def follow() -> None:
        lifecycle.take_back(task)
        change.note("WARN", f"a person undid {found.what}", task=task.id, end=f"(commit {found.commit[:7]})")
        change.touch(task)

    record, verdicts = proven.reversal_path(caller.layout), proven.ledger(caller.layout)
    try:
        # without a proof before the files change: after a kill at any moment, the task's check runs again
        shared.carry_out(
            git,
            found,
            follow,
            record=record,
            verdicts=verdicts,
            first=lambda: proven.forget(caller.layout, task.id),
        )
    except HarnessError:
        if not found.has_moved(git):
            proven.prove(caller.layout, change.state, task.id, only=checked)
        raise


# ---- after a kill ----------------------------------------------------------------------------------------------------


def _ended(caller: "Caller", what: str) -> JsonObject | None:
    """Complete an interrupted undo. Return the answer if ``what`` names the undone task, otherwise ``None``."""
    found = shared.decided(proven.reversal_path(caller.layout))
    if found is None:
        return None
    is_same = found.item == _named(caller, what)
    finish(caller)
    place = place_of(caller)
    if not (is_same and place and found.has_moved(place.git)):
        return None
    known: JsonObject = {"task_id": found.item, "unclear": [], "head": found.head, "commit": found.commit}
    return {**known, "undone": True, "next": "harness status"}


def finish(caller: "Caller") -> list[JsonObject]:
    """Complete an interrupted undo unless a task is in progress. Return the result, or an empty list."""
    path = proven.reversal_path(caller.layout)
    found = shared.decided(path)
    if found is None:
        return []
    place = place_of(caller)
    answer: JsonObject = {"task_id": found.item, "row": "undo", "evidence": None}

    def act(change: "TaskListChange") -> JsonObject | None:
        task = change.state.by_id.get(found.item)
        git = place.git if place else None
        if task is not None and git is not None and found.can_go_on(git):
            if selection.in_progress(change.state):
                return None
            if not (found.has_moved(git) and _is_settled(git, task, found)):
                _carry_out(caller, change, git, found)
            said = f"undoing {found.what} was interrupted, and is now complete (commit {found.commit[:7]})"
            return answer | {"action": "reopened", "reason": said}
        return answer | {"action": "left", "reason": f"undoing {found.what} was interrupted"}

    try:
        done = caller.store.change(act)
    except UnsafeTree as error:  # files are in the way: nothing has changed
        done = answer | {"action": "left", "reason": f"undoing {found.what} was interrupted: {error.message}"}
    if done is None:
        return []
    shared.over(path)
    caller.store.note("RECOVERY", f'action="{done["action"]}" reason="{done["reason"]}"', task=found.item)
    return [done]


def _is_settled(git: Git, task: "Task", found: Reversal) -> bool:
    """Return True if the task is open, or if later work has completed the task again."""
    if task.status != "completed":
        return True
    commit = git.commit_of(task.completed_commit) if task.completed_commit else None
    return commit is not None and git.ancestor(found.commit, commit)
