"""Attempt at a task as stored on disk: its work tree, the state when the task was claimed, and the claim record.

The claim record in ``.harness/claims/`` is only a cache. A snapshot, which is a git object under a private ref, also
contains the state at the claim. If the record is lost, the harness rebuilds it from this ref. Source: ``tasklist.md``
11.2."""

import hashlib
import os
import shlex
import stat
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from agent_harness.errors import StateDamaged, UnsafeTree
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.isolated import id_bytes
from agent_harness.kernel.git.objects import ABSENT, TreeEntry
from agent_harness.kernel.git.status import (
    GITLINK,
    Links,
    kind_at,
    matcher,
)
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.snapshot import Snapshot
from agent_harness.protocols.tasklist import proven
from agent_harness.protocols.tasklist.claims.caller import ClaimRecord
from agent_harness.protocols.tasklist.layout import HARNESS_FILES, path_of, safe_name

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.claims.caller import Caller
    from agent_harness.protocols.tasklist.records import Task


BASE_REFS = "refs/harness/base"
RESCUE_REFS = "refs/harness/rescue"


@dataclass(frozen=True)
class AttemptTree:
    git: Git  # its root is the top of the work tree
    exclude: tuple[str, ...]  # patterns of the harness's own files, relative to the top
    folder: str  # for the project's commands: the task list's folder in this work tree

    @cached_property
    def top(self) -> str:
        return os.fspath(self.git.top())

    def is_ours(self, path: bytes) -> bool:
        return self._matches(path)

    @cached_property
    def _matches(self) -> Callable[[bytes], bool]:
        return matcher(self.exclude)


def place_of(caller: "Caller") -> AttemptTree | None:
    """Return the git work tree of the caller, or ``None`` outside a repository."""
    if caller.git is None or not caller.git.is_repository:
        return None
    git = Git(caller.git.top())
    home = Git(caller.layout.root)
    if not home.is_repository or home.shared_dir() != git.shared_dir():
        return AttemptTree(git, (), os.fspath(git.top()))
    below = os.fsdecode(home.prefix())
    folder = os.path.join(git.top(), below) if below else os.fspath(git.top())
    exclude = tuple(f"{below}/{name}" if below else name for name in HARNESS_FILES)
    return AttemptTree(git, exclude, folder if os.path.isdir(folder) else os.fspath(git.top()))


def folder_of(caller: "Caller") -> str:
    """Return the folder in the caller's work tree in which the project's commands run."""
    place = place_of(caller)
    return place.folder if place else caller.layout.root


# ---- the record ------------------------------------------------------------------------------------------------------


def record_of(caller: "Caller", task: "Task") -> ClaimRecord:
    """Return the record of the task's present claim, or an empty record."""
    found = caller.claim_record(task.id)
    return found if found.is_of(task) else ClaimRecord({})


def note(caller: "Caller", task: "Task", **members: object) -> None:
    """Store ``members`` in the record of the task's present claim."""
    found = record_of(caller, task).record or {"task": task.id, "attempt": task.attempts + 1, "ref": task.base_ref}
    # a later claim does not see them
    kept = {name: {**value, "claim": claim_key(task)} for name, value in members.items() if isinstance(value, dict)}
    caller.keep_claim_record(task.id, {**found, **kept})


def noted(caller: "Caller", task: "Task", name: str) -> JsonObject:
    return record_of(caller, task).noted(name, claim_key(task))


def claim_key(task: "Task") -> str:
    """Return an id of the task's present claim that does not reveal the claim token."""
    return hashlib.sha256((task.claim_token or "").encode("utf-8", "surrogatepass")).hexdigest()[:16]


# ---- the attempt -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Attempt:
    """Attempt at a task, together with its baseline: a snapshot of the work tree from the moment of the claim."""

    place: AttemptTree
    snapshot: Snapshot
    tree: str | None  # the work tree of the claim, if the state has it
    list_name: str  # identifies the task list in the repository: part of the names that only this list uses

    @property
    def base(self) -> str:
        return self.snapshot.head or ""

    @cached_property
    def own(self) -> dict[bytes, TreeEntry]:
        """Git entries of the files that were uncommitted at the claim, by path."""
        found = self.place.git.differences(self.base, self.snapshot.commit)
        return {path: entry for path, (_, entry) in found.items() if not self.place.is_ours(path)}

    @cached_property
    def staged(self) -> dict[bytes, TreeEntry]:
        """Git entries of the files that were staged at the claim, by path."""
        found = self.place.git.differences(self.base, self.snapshot.index_tree)
        return {path: entry for path, (_, entry) in found.items() if not self.place.is_ours(path)}

    def refuse_elsewhere(self) -> None:
        if self.tree and os.path.realpath(self.tree) != os.path.realpath(self.place.top):
            raise UnsafeTree(
                f"the task was claimed in another work tree, {self.tree}", hint=f"cd {shlex.quote(self.tree)}"
            )

    def untouched(self) -> set[bytes]:
        top = os.fsencode(self.place.top)
        return {
            path
            for path, entry in self.own.items()
            if entry_at(self.place.git, path, entry) == entry
            or (entry == ABSENT and kind_at(top, path) == "folder")  # git knows files only
        }


def attempt_of(caller: "Caller", task: "Task") -> Attempt | None:
    """Return the task's attempt in progress, or ``None`` without a baseline."""
    place = place_of(caller)
    if place is None or not task.base_ref or not task.base_ref.startswith(f"{BASE_REFS}/"):
        return None
    record = record_of(caller, task)
    named = place.git.commit_of(task.base_ref)
    known = proven.base_of(caller.layout, task)
    if known and (task.base_ref, named) != known:  # somebody moved the ref of the baseline
        ref, commit = known
        if not ref.startswith(f"{BASE_REFS}/") or place.git.commit_of(commit) is None:
            return None
        task.raw["base_ref"] = ref
        place.git.update_ref(ref, commit)
        record, named = record_of(caller, task), commit
    snapshot = _recorded(place.git, record, named) or _found_again(place.git, task, named)
    tree = task.worktree or record.tree
    if snapshot is None:
        return None
    list_name = hashlib.sha256(os.fsencode(os.path.realpath(caller.layout.tasks))).hexdigest()[:24]
    return Attempt(place, snapshot, path_of(tree) if tree else None, list_name)


def _recorded(git: Git, record: ClaimRecord, named: str | None) -> Snapshot | None:
    try:
        found = Snapshot.from_record(record.snapshot)
    except (StateDamaged, AttributeError):
        return None
    usable = found.head is not None and (named or git.commit_of(found.commit)) == found.commit
    return found if usable else None


def _found_again(git: Git, task: "Task", named: str | None) -> Snapshot | None:
    """Rebuild the snapshot of a claim whose record is lost, or return ``None``."""
    base, branch = task.started_at_commit, task.started_branch
    if not named or not base or not branch or git.commit_of(f"{named}^1") != base:
        return None
    beside = git.commit_of(f"{named}^2")
    if not beside:
        return None
    lost = {"index_exact": "lost-exact", "index_plain": "lost-plain", "index_full": "lost-full"}
    return Snapshot(
        ref=task.base_ref or "", commit=named, head=base, branch=branch, index_tree=git.tree_of(beside), **lost
    )


# ---- files -----------------------------------------------------------------------------------------------------------


def entry_at(git: Git, path: bytes, like: TreeEntry) -> TreeEntry | None:
    """Return the git entry of the file that is now at ``path``, or ``ABSENT``.
    Return ``None`` for an unreadable file, a pipe, or a folder that is not a submodule."""
    top = os.fsencode(git.top())
    full = os.path.join(top, path)
    kind = kind_at(top, path)
    if kind == "nothing" or Links(top).above(path):
        return ABSENT
    if kind == "folder":
        return TreeEntry(GITLINK, Git(os.fsdecode(full)).head() or "") if like.mode == GITLINK else None
    return _entry_of(full, 2 * id_bytes(git.repository)) if kind == "file" else None


def _entry_of(full: bytes, digits: int) -> TreeEntry | None:
    try:
        found = os.lstat(full)
        if stat.S_ISLNK(found.st_mode):
            target = os.readlink(full)
            digest = _digest(digits, len(target))
            digest.update(target)
            return TreeEntry("120000", digest.hexdigest())
        with open(full, "rb") as file:
            digest = _digest(digits, os.fstat(file.fileno()).st_size)
            while part := file.read(1 << 20):
                digest.update(part)
    except OSError:
        return None
    return TreeEntry("100755" if found.st_mode & 0o100 else "100644", digest.hexdigest())


def _digest(digits: int, size: int) -> "hashlib._Hash":
    made = (hashlib.sha256 if digits == 64 else hashlib.sha1)(usedforsecurity=False)
    made.update(b"blob %d\0" % size)
    return made


def ref_folder(refs: str, task_id: str) -> str:
    return f"{refs}/{safe_name(task_id)}"
