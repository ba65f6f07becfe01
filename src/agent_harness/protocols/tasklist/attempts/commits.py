"""Commit of a task. It contains the attempt's changes, but not the changes that the user had made before.

The commit excludes a file that was modified or untracked when the task was claimed and that has not changed since. Such
a file stays staged if it was staged. If the attempt also changed this file, the commit contains the whole file. Source:
``tasklist.md`` 11.4."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from agent_harness.errors import UnsafeTree
from agent_harness.kernel import snapshot
from agent_harness.kernel.git import DETACHED, Git, GitFailed, Head
from agent_harness.kernel.git.joining import tree_with
from agent_harness.kernel.git.objects import ABSENT, TreeEntry, index_lines
from agent_harness.kernel.git.status import parents, shown
from agent_harness.protocols.tasklist.attempts.attempt import (
    Attempt,
    attempt_of,
    place_of,
    ref_folder,
)

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.claims.caller import Caller
    from agent_harness.protocols.tasklist.records import Task


CANDIDATE_REFS = "refs/harness/candidates"
EMPTY_BLOBS = (
    "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391",
    "473a0f4c3be8a93681a267e3b1e9a7dcda1185436fe141f7749120a303721813",
)


@dataclass(frozen=True)
class AttemptWork:
    attempt: Attempt
    full: str  # a commit of everything not ignored, the person's own files too: it is verified
    full_tree: str
    head: Head
    tree: str  # of HEAD, with the attempt's uncommitted changes
    changes: Mapping[bytes, tuple[TreeEntry, TreeEntry]]  # from HEAD to this tree
    kept: frozenset[bytes]  # the person's own files that are as they were
    committed: frozenset[bytes]  # changed by commits since the claim

    @cached_property
    def new(self) -> frozenset[bytes]:
        return frozenset(path for path, (_, now) in self.changes.items() if now != ABSENT)

    @cached_property
    def folders(self) -> frozenset[bytes]:
        """Parent folders of the changed files, without the folders of deleted files."""
        return frozenset(parent for path in self.new for parent in parents(path))

    def is_theirs(self, path: bytes) -> bool:
        """Return True if the user, and not the attempt, changed this file."""
        is_known = path in self.kept or path in self.attempt.staged
        is_changed = path in self.committed or path in self.changes
        return is_known and not is_changed and path not in self.folders and self.new.isdisjoint(parents(path))


def commit_work(caller: "Caller", task: "Task", message: str) -> str | None:
    """Commit the attempt's work, and return the commit. Raise ``UnsafeTree`` if the branch moves meanwhile."""
    with opened(caller, task) as work:
        return commit(caller, work, message)


def commit(caller: "Caller", work: AttemptWork | None, message: str) -> str | None:
    """Commit the changes in ``work``, and return the new commit. Without changes, return HEAD."""
    if work is None:
        place = place_of(caller)
        return place.git.head() if place else None
    if not work.changes:
        return work.head.commit
    made = work.attempt.place.git.commit_tree(work.tree, [str(work.head.commit)], message)
    _stage(work, made)
    _advance(work, made)
    return made


@contextmanager
def opened(caller: "Caller", task: "Task") -> Iterator[AttemptWork | None]:
    """Yield the present work of the task's attempt, or ``None`` without a baseline."""
    attempt = attempt_of(caller, task)
    if attempt is None:
        yield None
        return
    attempt.refuse_elsewhere()
    with work_of(attempt, task) as work:
        yield work


def fingerprint(caller: "Caller", task: "Task") -> str | None:
    """Return the git tree id of all files that are not ignored, or ``None`` without a baseline."""
    attempt = attempt_of(caller, task)
    if attempt is None:
        return None
    attempt.refuse_elsewhere()
    place = attempt.place
    return snapshot.tree_of_files(place.git, exclude=place.exclude, base=attempt.snapshot)


@contextmanager
def work_of(attempt: Attempt, task: "Task") -> Iterator[AttemptWork]:
    """Yield the attempt's work as git objects. Until the ``with`` block ends, git does not delete these objects."""
    git = attempt.place.git
    with _candidate(attempt, task) as full:
        head = git.look()
        if head.commit is None or head.tree is None:
            raise UnsafeTree(f"the branch {head.branch} no longer points to a commit", hint="git log --all --oneline")
        committed = frozenset(git.differences(attempt.base, head.commit))
        full_tree = git.tree_of(full)
        kept, tree = _apart(attempt, full, head)
        changes = git.differences(head.tree, tree) if tree != head.tree else {}
        yield AttemptWork(attempt, full, full_tree, head, tree, changes, kept, committed)


@contextmanager
def _candidate(attempt: Attempt, task: "Task") -> Iterator[str]:
    """Yield a commit of all files that git does not ignore."""
    place = attempt.place
    # other lists may use the same task ids
    ref = ref_folder(f"{CANDIDATE_REFS}/{attempt.list_name}", task.id)
    commit = snapshot.candidate(
        place.git, ref, exclude=place.exclude, message=f"Candidate of {task.id}", base=attempt.snapshot
    )
    try:
        yield commit
    finally:
        place.git.update_ref(ref, None)


def _apart(attempt: Attempt, full: str, head: Head) -> tuple[frozenset[bytes], str]:
    """Return the user's own changed files, and the git tree to commit without these changes."""
    git = attempt.place.git
    found = git.differences(full, str(head.commit))
    own = attempt.untouched()
    new = {path for path, (now, _) in found.items() if now != ABSENT and path not in own}
    folders = {parent for path in new for parent in parents(path)}
    kept = frozenset(path for path in own if path not in folders and new.isdisjoint(parents(path)))
    wanted = {
        path: entry
        for path, (now, entry) in found.items()
        if path in kept or (attempt.place.is_ours(path) and now != ABSENT)
    }
    return kept, tree_with(git, full, wanted)


# ---- the index and the branch ----------------------------------------------------------------------------------------


def _stage(work: AttemptWork, commit: str) -> None:
    """Make the index agree with the commit, except for files that the user had staged."""
    git = work.attempt.place.git
    found = _index_since(git, commit)
    wanted = {path: want for path, (said, now) in found.items() if (want := _wanted(work, path, said, now)) != now}
    missing = [path for path in work.attempt.staged if path not in found and work.is_theirs(path)]
    wanted |= {path: work.attempt.staged[path] for path in missing}
    if wanted:
        git.run("update-index", "-z", "--add", "--replace", "--index-info", input=index_lines(wanted, len(commit)))
        git.run("update-index", "-q", "--refresh", check=False)


def _index_since(git: Git, commit: str) -> dict[bytes, tuple[TreeEntry, TreeEntry]]:
    fields = git.run("diff-index", "--cached", "-z", "--raw", "--no-renames", "--no-abbrev", commit).split(b"\0")
    both: dict[bytes, tuple[TreeEntry, TreeEntry]] = {}
    for head, path in zip(fields[:-1:2], fields[1::2], strict=True):  # :100644 100644 OID OID M
        modes_and_oids = head.decode().removeprefix(":").split()
        said, now = map(TreeEntry, modes_and_oids[:2], modes_and_oids[2:4])
        both[path] = said if said.mode != ABSENT.mode else ABSENT, now if now.mode != ABSENT.mode else ABSENT
    return both


def _wanted(work: AttemptWork, path: bytes, said: TreeEntry, now: TreeEntry) -> TreeEntry:
    if work.attempt.place.is_ours(path):
        return said if said == ABSENT and path in work.committed else now
    if not work.is_theirs(path):
        return said
    if path not in work.attempt.staged and now.oid in EMPTY_BLOBS and said == ABSENT:
        return now  # `git add -N`
    return work.attempt.staged.get(path, said)


def _advance(work: AttemptWork, commit: str) -> None:
    head, git = work.head, work.attempt.place.git
    ref = "HEAD" if head.branch == DETACHED else head.branch
    try:
        git.update_ref(ref, commit, head.commit, message=f"commit: {commit[:12]}")
    except GitFailed as error:
        hint = "git log --oneline -3  # then run the same command again"
        now = git.head()
        if now and now != head.commit:
            message = f"Another command moved {ref} to {now[:12]} while the task was verified; nothing was committed"
            raise UnsafeTree(message, hint=hint) from error
        raise UnsafeTree(f"{ref} could not be moved to the task's commit: {error.message}", hint=hint) from error


def paths_of(work: AttemptWork) -> list[str]:
    lost = [path for path in work.attempt.own if path not in work.kept and path not in work.committed]
    return sorted({shown(path) for path in (*work.changes, *lost)})
