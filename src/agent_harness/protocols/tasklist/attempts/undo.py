"""Undo of a completed task by the user: one new commit reverts the task's work, and the task is open again.

    plan       reverts the changes of the task's attempt on top of the present HEAD, as git objects only
    judge      runs the checks of the completed tasks on that commit, in a separate checkout
    finalize   records the undo, removes the task's proof, moves the branch, and updates the state and the ledger

The harness refuses an undo, and changes nothing, in five cases. A completed task depends on the undone task. The undo
breaks another task's check. Later work changed the same lines. The undo would overwrite the user's files. A session is
running. An undo cannot be undone. If an undo is killed, the same command or the next session completes the undo.
Source: ``faces.md`` F-STORY-2."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent_harness.errors import Busy, HarnessError, Refused, UnsafeTree, UsageError, VerificationFailed
from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel import merge_queue, undo_commit
from agent_harness.parallel.undo_commit import Reversal
from agent_harness.protocols.tasklist import lifecycle, proven, selection
from agent_harness.protocols.tasklist.attempts import validation
from agent_harness.protocols.tasklist.attempts.attempt import AttemptTree, place_of
from agent_harness.protocols.tasklist.claims import leases
from agent_harness.protocols.tasklist.records import WORKTREE
from agent_harness.session import ledger
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


@dataclass(frozen=True, kw_only=True)
class TaskUndo:
    task: "Task"
    verdict: ClaimVerdict  # by which it was accepted
    place: AttemptTree
    branch: str
    head: str
    commit: str  # the new commit, on no branch yet
    commits: tuple[JsonObject, ...]  # the reverted ones, the newest first
    paths: tuple[str, ...]
    checks: tuple["Task", ...]  # tasks whose checks run on it, those of the same files first

    def as_record(self) -> JsonObject:
        return {
            "task_id": self.task.id,
            "session": self.verdict.session,
            "accepted_at": self.verdict.commit,
            "commits": [*self.commits],
            "paths": [*self.paths],
            "checks": [task.id for task in self.checks],
            "head": self.head,
        }


def named(caller: "Caller", what: str) -> str:
    """Return the task id for ``what``, which is a task id or the name of a session."""
    word, state, path = what.strip(), caller.store.read(), proven.ledger(caller.layout, make=False)
    if word in state.by_id:
        return word
    if items := undo_commit.of_session(path, word):
        if len(items) == 1:
            return items[0]
        raise UsageError(
            f"Session {word[1:]} completed several tasks, so name one of them: {', '.join(items)}",
            hint=f"harness undo {items[0]}",
        )
    undo_commit.refuse_undo(path, word)
    raise UsageError(f"{what!r} is neither a task nor a session", hint="harness undo task-001  # or harness undo S8")


def asked(caller: "Caller", what: str) -> str:
    """Return the id of the task to undo. Raise ``Refused`` for an open task."""
    task_id = named(caller, what)
    if undo_commit.decided(proven.reversal_path(caller.layout)) is None:  # else a killed one is completed first
        _refuse_open(caller.store.read().by_id[task_id])
    return task_id


def undo(caller: "Caller", what: str, *, dry_run: bool, say: Callable[[str], None]) -> JsonObject:
    """Undo a completed task with a new commit. With ``dry_run``, only print the changes."""
    if not dry_run and (ended := _ended(caller, what)):
        return ended
    plan = _planned(caller, named(caller, what))
    for each in plan.commits:
        say(f"{plan.task.id}: {str(each['commit'])[:10]} {each['subject']}")
    first = ", ".join(plan.paths[:6]) + (", ..." if plan.paths[6:] else "")
    say(f"{len(plan.paths)} file{'s' if plan.paths[1:] else ''} will change: {first}")
    if plan.checks:
        say(
            f"The checks of {len(plan.checks)} completed task{'s' if plan.checks[1:] else ''} run on the result of "
            "the undo."
        )
    if dry_run:
        return {**plan.as_record(), "undone": False, "unclear": [], "next": f"harness undo {what}"}
    unclear = _judged(caller, plan, say)
    _finalize(caller, plan)
    say(f"Undid {plan.task.id}: {plan.commit[:10]}. The task is open again.")
    return {**plan.as_record(), "undone": True, "unclear": unclear, "commit": plan.commit, "next": "harness status"}


# ---- plan ------------------------------------------------------------------------------------------------------------


def _planned(caller: "Caller", task_id: str) -> TaskUndo:
    state = caller.store.read()
    _refuse_at_work(state, caller.store.now())
    task, place = caller.find(state, task_id), place_of(caller)
    if place is None:
        raise Refused("The task list is not in a git work tree; no commits are recorded", hint=f"harness why {task_id}")
    git = place.git
    branch, head = undo_commit.stands_on(git)
    verdict = _completed(caller, git, state, task)
    until, since = str(verdict.commit), undo_commit.before(git, verdict)
    tree = undo_commit.tree_without(git, head, since=since, until=until, own=place.is_ours)
    message = f"harness: take back [{task.id}] {task.title}\n\nThis reverts it: {until}\n"
    if tree != git.tree_of(head):
        commit = git.commit_tree(tree, [head], message)
    elif git.text("log", "-1", "--no-show-signature", "--format=%B", head).strip() == message.strip():
        head, commit = str(git.commit_of(f"{head}^1")), head  # a kill came between this commit and the state
    else:
        raise Refused(
            f"Nothing to undo: the changes made in commit {until[:10]} no longer exist", hint=f"harness diff {task_id}"
        )
    changed = undo_commit.changed_by(git, head, commit, own=place.is_ours)
    listed = git.commits_between(since, until)
    return TaskUndo(
        task=task,
        verdict=verdict,
        place=place,
        branch=branch,
        head=head,
        commit=commit,
        commits=tuple({"commit": each.sha, "subject": each.subject} for each in listed),
        paths=changed.paths,
        checks=tuple(_checks(git, state, task, changed.paths)),
    )


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
    verdict = undo_commit.accepted(git, proven.ledger(caller.layout, make=False), task.id)
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


def _judged(caller: "Caller", plan: TaskUndo, say: Callable[[str], None]) -> list[str]:
    """Run other tasks' checks on the undo's commit. Raise ``VerificationFailed`` if the undo breaks a check.
    Return the ids of tasks whose check also fails without the undo."""
    git, sandbox = Git(plan.place.folder), caller.store.read().config.sandbox
    terms = proven.ClaimTerms(WORKTREE, OFF, trust="fast", sandbox=sandbox)
    together: dict[tuple[str | None, float], tuple[CommandCheck, list[str]]] = {}
    for task in plan.checks:
        key = (task.validation_command, task.timeout_seconds)
        together.setdefault(key, (validation.check_of(task, terms), []))[1].append(task.id)
    unclear: list[str] = []
    for check, names in together.values():
        say(f"Running the check of {', '.join(names[:_MOST_NAMED])}...")
        found = run_at(git, plan.commit, check)
        if found.accepted:
            continue
        if run_at(git, plan.head, check).accepted:
            raise _broken(plan, names, found.output)
        say("The check also fails without the undo, so this failure does not count.")
        unclear += names
    return unclear


def _broken(plan: TaskUndo, names: list[str], output: str) -> VerificationFailed:
    shown = ", ".join(names[:_MOST_NAMED])
    return VerificationFailed(
        f"{plan.task.id} was not undone: the check of {shown} would fail",
        hint=f"harness undo {names[0]}  # first",
        broken=names,
        tail=validation.tail_of(output),
    )


# ---- settle ----------------------------------------------------------------------------------------------------------


def _finalize(caller: "Caller", plan: TaskUndo) -> None:
    path = proven.reversal_path(caller.layout)
    found = Reversal(
        item=plan.task.id,
        what=plan.task.id,
        branch=plan.branch,
        head=plan.head,
        commit=plan.commit,
        of=plan.verdict.n,
    )

    def act(change: "TaskListChange") -> None:
        _refuse_at_work(change.state, change.now)
        task = caller.find(change.state, plan.task.id)
        if task.status != plan.task.status:
            raise Busy(f"{task.id} became {task.status} during the undo", hint="harness status")
        undo_commit.decide(path, found)
        _carry_out(caller, change, plan.place.git, found)

    # under the lock, so that no task starts meanwhile
    caller.store.change(act)
    undo_commit.over(path)


def _carry_out(caller: "Caller", change: "TaskListChange", git: Git, found: Reversal) -> None:
    task = caller.find(change.state, found.item)
    # every step can be repeated after a crash
    proven.forget(caller.layout, task.id)
    try:
        if not found.has_moved(git):
            merge_queue.move(git, found.branch, found.head, found.commit)
    except HarnessError:
        proven.prove(caller.layout, change.state, task.id)
        undo_commit.over(proven.reversal_path(caller.layout))
        raise
    lifecycle.take_back(task)
    ledger.write(proven.ledger(caller.layout), found.line())
    change.note("WARN", f"a person undid {found.what}", task=task.id, end=f"(commit {found.commit[:7]})")
    change.touch(task)


# ---- after a kill ----------------------------------------------------------------------------------------------------


def _ended(caller: "Caller", what: str) -> JsonObject | None:
    """Complete an interrupted undo. Return the answer if ``what`` names the undone task, otherwise ``None``."""
    found = undo_commit.decided(proven.reversal_path(caller.layout))
    if found is None:
        return None
    is_same = found.item == named(caller, what)
    finish(caller)
    place = place_of(caller)
    if not (is_same and place and found.has_moved(place.git)):
        return None
    known: JsonObject = {"task_id": found.item, "unclear": [], "head": found.head, "commit": found.commit}
    return {**known, "undone": True, "next": "harness status"}


def finish(caller: "Caller") -> list[JsonObject]:
    """Complete an interrupted undo unless a task is in progress. Return the result, or an empty list."""
    path = proven.reversal_path(caller.layout)
    found = undo_commit.decided(path)
    if found is None:
        return []
    place = place_of(caller)
    answer: JsonObject = {"task_id": found.item, "row": "undo", "evidence": None}

    def act(change: "TaskListChange") -> JsonObject | None:
        task = change.state.by_id.get(found.item)
        git = place.git if place else None
        has_moved = git is not None and found.has_moved(git)
        is_here = git is not None and (git.branch(), git.head()) == (found.branch, found.head)
        if task is not None and git is not None and (has_moved or is_here):
            if selection.in_progress(change.state):
                return None
            if not (has_moved and _is_settled(git, task, found)):
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
    undo_commit.over(path)
    caller.store.note("RECOVERY", f'action="{done["action"]}" reason="{done["reason"]}"', task=found.item)
    return [done]


def _is_settled(git: Git, task: "Task", found: Reversal) -> bool:
    """Return True if the task is open, or if later work has completed the task again."""
    if task.status != "completed":
        return True
    commit = git.commit_of(task.completed_commit) if task.completed_commit else None
    return commit is not None and git.ancestor(found.commit, commit)
