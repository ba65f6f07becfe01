"""Baseline of a task (the state when the task was claimed), and a rollback to this baseline that loses nothing.

``restore`` in the kernel changes the work tree. With the policy ``hard``, this module then also removes the user's
uncommitted files. Rescue refs and the folder for rescued files keep everything that a rollback removes.
Source: ``tasklist.md`` 11.2, 11.3."""

import os
from dataclasses import dataclass, fields
from itertools import chain, count
from typing import TYPE_CHECKING

from agent_harness.errors import UnsafeTree
from agent_harness.kernel import clock, files, snapshot
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.client import IDENTITY
from agent_harness.kernel.git.status import joined, shown
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.snapshot.restore import BEFORE, Aside
from agent_harness.protocols.tasklist.attempts.attempt import (
    BASE_REFS,
    RESCUE_REFS,
    Attempt,
    attempt_of,
    place_of,
    ref_folder,
)
from agent_harness.protocols.tasklist.attempts.commits import paths_of, work_of
from agent_harness.protocols.tasklist.claims import leases
from agent_harness.protocols.tasklist.claims.caller import ClaimRecord
from agent_harness.protocols.tasklist.layout import written

if TYPE_CHECKING:
    from agent_harness.kernel.snapshot import Snapshot
    from agent_harness.protocols.tasklist.attempts.attempt import AttemptTree
    from agent_harness.protocols.tasklist.claims.caller import Caller
    from agent_harness.protocols.tasklist.records import Task


HOW_TO_GO_ON = "resolve it, then: harness resume"


class BaseMissing(UnsafeTree):
    """Error: the repository no longer contains the baseline snapshot that the task's record names."""

    code = "base_missing"


@dataclass(frozen=True, kw_only=True)
class RollbackOutcome:
    reason: str | None = None  # why it stayed as it is; None after a rollback
    rescue: str | None = None  # the ref of the removed work
    policy: str = ""
    base: str = ""  # the commit of the claim
    commits: tuple[JsonObject, ...] = ()  # rolled back
    left_in_place: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    rescue_of_own: str | None = None  # the ref of the person's uncommitted files, after the policy ``hard``
    base_missing: bool = False

    @property
    def rolled_back(self) -> bool:
        return self.reason is None

    def as_record(self) -> JsonObject:
        if not self.rolled_back:
            return {"rolled_back": False, "rescue": self.rescue, "reason": self.reason}
        return {
            "rolled_back": True,
            "policy": self.policy,
            "base": self.base,
            "rescue": self.rescue,
            "reason": None,
            "commits": [*self.commits],
            "left_in_place": [*self.left_in_place],
            "moved": [*self.moved],
            **({"rescue_of_own": self.rescue_of_own} if self.rescue_of_own else {}),
        }


@dataclass(frozen=True, kw_only=True)
class AttemptEvidence:
    """Traces of an attempt in the work tree, compared with the baseline (``tasklist.md`` 12)."""

    known: bool = False  # True if there is a baseline
    uncommitted: tuple[str, ...] = ()
    commits: tuple[JsonObject, ...] = ()
    foreign: tuple[JsonObject, ...] = ()  # those of other authors among them
    stashes: tuple[str, ...] = ()  # the lines of ``git stash list``
    checkpoints: tuple[JsonObject, ...] = ()

    def as_record(self) -> JsonObject:
        return {
            each.name: value if isinstance(value := getattr(self, each.name), bool) else [*value]
            for each in fields(self)
        }


# ---- at the claim ----------------------------------------------------------------------------------------------------


def take_baseline(caller: "Caller", task_id: str, attempt: int, *, dirty: str = "remember") -> ClaimRecord | None:
    """Save the work tree as an attempt's baseline. Return a record for the caller to store, or ``None`` without
    a commit."""
    place = place_of(caller)
    if place is None or place.git.head() is None:
        return None
    if dirty == "refuse":
        found = [path for each in place.git.status() if not place.is_ours(path := os.fsencode(each.path))]
        if found:
            said = f"{len(found)} files are not committed, such as {shown(found[0])}"
            raise UnsafeTree(said, hint="commit or stash them")
    taken = _take(place, task_id, attempt)
    return ClaimRecord(
        {
            "task": task_id,
            "attempt": attempt,
            "tree": written(place.top),
            "ref": taken.ref,
            "head": taken.head,
            "branch": taken.branch,
            "at": clock.timestamp(caller.store.now()),
            "snapshot": taken.as_record(),
        }
    )


def drop_baseline(caller: "Caller", record: ClaimRecord) -> None:
    """Delete the git ref of a baseline that no claim uses."""
    place, ref = place_of(caller), record.ref
    if place and ref and ref.startswith(f"{BASE_REFS}/") and place.git.commit_of(ref):
        place.git.update_ref(ref, None)


def _take(place: "AttemptTree", task_id: str, attempt: int) -> "Snapshot":
    folder = ref_folder(BASE_REFS, task_id)
    names = chain([f"{folder}/{attempt}"], (f"{folder}/{attempt}-{number}" for number in count(2)))
    while True:
        ref = next(name for name in names if place.git.commit_of(name) is None)
        # With the ref, two lists that have the same task id get two commits, even in the same second.
        message = f"Before attempt {attempt} at {task_id}\n\n{ref}"
        try:
            return snapshot.take(place.git, ref, exclude=place.exclude, message=message)
        except UnsafeTree:
            if place.git.commit_of(ref) is None:
                raise


# ---- rollback --------------------------------------------------------------------------------------------------------


def roll_back(
    caller: "Caller", task: "Task", *, policy: str = "restore", allow_pushed: bool = False
) -> RollbackOutcome:
    """Restore the work tree to its state at the claim. Raise ``UnsafeTree`` if that is not safe."""
    if policy == "none":
        return RollbackOutcome(reason="this task list's rollback policy is to leave the work tree as it is")
    attempt = _rollback_point(caller, task)
    if attempt is None:
        why = "there is no baseline: the task was claimed outside git or before the first commit"
        return RollbackOutcome(reason=why)
    # it raises before anything changes (tasklist.md 11.3)
    _check(caller, task, attempt, allow_pushed=allow_pushed)
    number = _next_number(attempt.place.git, task.id)
    rescue_files = caller.layout.rescue_files(task.id, number)
    files.drop_links(rescue_files, caller.layout.root)
    rescued = snapshot.restore(
        attempt.place.git,
        attempt.snapshot,
        f"{ref_folder(RESCUE_REFS, task.id)}/{number}",
        exclude=attempt.place.exclude,
        rescue_files=rescue_files,
    )
    return RollbackOutcome(
        rescue=rescued.ref,
        policy=policy,
        base=attempt.base,
        commits=tuple(_commit(*each) for each in rescued.rolled_back_commits),
        left_in_place=tuple(_plain(path) for path in rescued.left_in_place),
        moved=tuple(_plain(path) for path in rescued.moved),
        rescue_of_own=_clear(caller, task, attempt) if policy == "hard" else None,
    )


def plan(caller: "Caller", task: "Task", *, policy: str = "restore", allow_pushed: bool = False) -> JsonObject:
    """Return what ``roll_back`` would do, and change nothing."""
    attempt = _rollback_point(caller, task) if policy != "none" else None
    if attempt is None:
        return {**roll_back(caller, task, policy="none").as_record(), "possible": False}
    found: JsonObject = {"possible": True, "reason": None, "policy": policy, "base": attempt.base}
    found |= {"branch": attempt.snapshot.branch, "ref": attempt.snapshot.ref}
    try:
        _check(caller, task, attempt, allow_pushed=allow_pushed)
    except UnsafeTree as error:
        return {**found, "possible": False, "reason": error.message}
    seen = evidence(caller, task)
    return {**found, "commits": [*seen.commits], "files": [*seen.uncommitted]}


def _rollback_point(caller: "Caller", task: "Task") -> Attempt | None:
    attempt = attempt_of(caller, task)
    if attempt is not None or not task.base_ref:
        return attempt
    if place_of(caller) is None:
        raise UnsafeTree(
            f"{task.id} was claimed in another work tree, {task.worktree}",
            hint="run the same command in that work tree",
        )
    raise BaseMissing(f"the baseline {task.base_ref} of {task.id} no longer exists", hint="git fsck --lost-found")


def _commit(sha: str, subject: str) -> JsonObject:
    return {"commit": sha, "subject": _plain(subject)}


def _plain(text: str) -> str:
    return shown(os.fsencode(text))


# ---- the policy ``hard`` ---------------------------------------------------------------------------------------------

# It comes after an ordinary rollback, so that only the person's own changes are left to clear. They are in a rescue
# before the first file is touched, and what is untracked is moved, not deleted. Ignored files and the harness's own
# stay.


def _clear(caller: "Caller", task: "Task", attempt: Attempt) -> str | None:
    """Remove files that were uncommitted at the claim, and return the rescue ref that keeps these files."""
    git = attempt.place.git
    tracked, untracked = _own_changes(attempt)
    if not tracked and not untracked:
        return None
    ref = f"{ref_folder(RESCUE_REFS, task.id)}/own-{attempt.snapshot.commit[:12]}"
    # before the files go: a repeated call after a crash is safe
    git.update_ref(ref, attempt.snapshot.commit)
    kept = caller.layout.rescue_files(task.id, 0)
    files.drop_links(kept, caller.layout.root)
    aside = Aside(git, kept)
    for path in untracked:
        aside.move(path)
    if tracked:
        words = ("restore", "--source=HEAD", "--staged", "--worktree", "--pathspec-from-file=-", "--pathspec-file-nul")
        git.run(*words, input=joined(tracked), env={"GIT_LITERAL_PATHSPECS": "1"})
    return ref


def _own_changes(attempt: Attempt) -> tuple[list[bytes], list[bytes]]:
    tracked: list[bytes] = []
    untracked: list[bytes] = []
    for status, name in attempt.place.git.status():
        path = os.fsencode(name)
        if not attempt.place.is_ours(path) and not name.endswith("/"):
            (untracked if status == "??" else tracked).append(path)
    return tracked, untracked


# ---- conditions ------------------------------------------------------------------------------------------------------


def _check(caller: "Caller", task: "Task", attempt: Attempt, *, allow_pushed: bool) -> None:
    """Raise ``UnsafeTree`` if a rollback is not safe, for example after a push."""
    # tasklist.md 11.3
    git, base = attempt.place.git, attempt.snapshot
    attempt.refuse_elsewhere()
    waiting = git.operation_under_way()
    if waiting:
        raise _refused(f"git is in the middle of {waiting}", "git status")
    head = git.look()
    if head.branch != base.branch:
        raise _refused(f"{head.branch} is checked out, but the task was claimed on {base.branch}", "git branch")
    if head.commit is None or not git.ancestor(attempt.base, head.commit):
        raise _refused(f"the history was rewritten: {attempt.base[:12]} is not an ancestor of HEAD", "git reflog")
    pushed = git.published(attempt.base, head.commit)
    if pushed and not allow_pushed:
        raise _refused(f"{len(pushed)} commits of the attempt were pushed, such as {pushed[0][:12]}", "git log")
    other = _living_neighbour(caller, task, attempt.place.top)
    if other:
        raise _refused(f"Another process is working on {other} in this worktree", "harness status")


def _refused(reason: str, hint: str) -> UnsafeTree:
    return UnsafeTree(f"nothing was rolled back: {reason}", hint=f"{hint}; {HOW_TO_GO_ON}")


def _living_neighbour(caller: "Caller", task: "Task", top: str) -> str | None:
    state, now = caller.store.read(), caller.store.now()
    for other in state.tasks:
        is_here = other.status == "in_progress" and other.id != task.id and other.worktree == written(top)
        if is_here and other.claimed_by != caller.owner and leases.is_live(other, state, now):
            return other.id
    return None


# ---- evidence --------------------------------------------------------------------------------------------------------


def evidence(caller: "Caller", task: "Task") -> AttemptEvidence:
    steps = tuple(each.record for each in task.checkpoints_of_attempt)
    attempt = attempt_of(caller, task)
    if attempt is None:
        return AttemptEvidence(checkpoints=steps)
    attempt.refuse_elsewhere()
    git = attempt.place.git
    with work_of(attempt, task) as work:
        commits = git.commits_between(attempt.base, str(work.head.commit))
        uncommitted = tuple(paths_of(work))
    ours = {f"{name} <{address}>" for name, address in (git.identity, IDENTITY)}
    return AttemptEvidence(
        known=True,
        uncommitted=uncommitted,
        commits=tuple(_commit(each.sha, each.subject) for each in commits),
        foreign=tuple(
            _commit(each.sha, each.subject) | {"author": _plain(each.author)}
            for each in commits
            if each.author not in ours
        ),
        stashes=tuple(_plain(line) for line in git.text("stash", "list").splitlines()),
        checkpoints=steps,
    )


def _rescues(git: Git, task_id: str) -> list[snapshot.KeptRef]:
    return sorted(snapshot.kept_refs(git, f"{ref_folder(RESCUE_REFS, task_id)}/"))


def rescues_of(caller: "Caller", task: "Task") -> list[str]:
    """Return the refs that keep rolled-back work of the task's present attempt."""
    attempt = attempt_of(caller, task)
    if attempt is None:
        return []
    own = attempt.snapshot.commit
    found = _rescues(attempt.place.git, task.id)
    # another list's task with the same id has another baseline
    return [each.ref for each in found if each.commit == own or each.subject == f"{BEFORE}{own}"]


def _next_number(git: Git, task_id: str) -> int:
    numbers = [each.ref.rpartition("/")[2].partition("-")[0] for each in _rescues(git, task_id)]
    return max((int(each) for each in numbers if each.isdecimal()), default=0) + 1
