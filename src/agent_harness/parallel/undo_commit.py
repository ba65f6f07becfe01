"""Reversal of an accepted item on the present head: one commit without the item's changes, created as git objects.

The reversal rewrites no history, and changes no index, work tree or merge state. It returns conflicts as a result. The
caller verifies the commit before it moves a branch. The decision is recorded before the first step, so that another
process can complete the reversal after a kill. Source: ``faces.md`` F-STORY-2.
"""

import os
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace

from agent_harness.errors import HarnessError, Refused, UnsafeTree, UsageError
from agent_harness.kernel import files
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.isolated import IsolatedView
from agent_harness.kernel.git.objects import ABSENT
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel import merge_queue
from agent_harness.parallel.merge_queue import trailers
from agent_harness.session import ledger
from agent_harness.session.ledger import ClaimVerdict

UNDO = "undo"
"""Ledger word for an item that the user undid."""
_SHORTEST = 7  # characters of a commit


@dataclass(frozen=True, kw_only=True)
class Changed:
    paths: tuple[str, ...]  # the harness's own files aside
    gone: frozenset[str]  # of all files


# ---- selection


def of_session(path: str, word: str) -> tuple[str, ...]:
    """Return the items that were accepted in the session ``word``, such as ``S8``."""
    number = word[1:]
    if word[:1] not in ("s", "S") or not number.isdecimal():
        return ()
    found = (each for each in ledger.newest_first(path) if each.accepted and each.session == int(number))
    items = tuple(dict.fromkeys(each.item for each in found))
    if not items:
        raise UsageError(f"No work of session {number} was accepted", hint="harness log sessions")
    return items


def refuse_undo(path: str, word: str) -> None:
    """Raise ``Refused`` if ``word`` is the beginning of an undo commit's id."""
    if len(word) < _SHORTEST or not word.isalnum():
        return
    said = (each for each in ledger.newest_first(path) if each.by_person and each.word == UNDO)
    if found := next((each for each in said if each.commit and each.commit.startswith(word.lower())), None):
        told = f"{word} is the undo of {found.item}, and an undo cannot be undone"
        raise Refused(told, hint="harness run  # works on it again")


def accepted(git: Git, path: str, item: str) -> ClaimVerdict | None:
    """Return the last verdict that accepted the item, if the branch still contains its commit."""
    found = (each for each in ledger.newest_first(path) if each.item == item and each.accepted)
    line = next((each for each in found if each.commit and each.base), None)
    head = git.head()
    if line is None or line.commit is None or head is None:
        return None
    if git.ancestor(line.commit, head):
        return line
    now = trailers.moved(git, head, [line.commit]).get(line.commit)
    return replace(line, commit=now) if now else None


def before(git: Git, verdict: ClaimVerdict) -> str:
    return trailers.before(git, str(verdict.commit), verdict.item) or str(verdict.base)


# ---- the commit


def stands_on(git: Git) -> tuple[str, str]:
    """Return the checked-out branch and its commit. Raise ``UnsafeTree`` during a merge or rebase."""
    if under_way := git.operation_under_way():
        raise UnsafeTree(f"{under_way.capitalize()} is in progress in this repository", hint="git status")
    branch, head = git.branch(), git.head()
    if branch is None:
        raise UnsafeTree("HEAD is detached; the commit would belong to no branch", hint="git switch BRANCH")
    if head is None:
        raise UnsafeTree("This branch has no commit", hint="git log --all")
    return branch, head


def tree_without(git: Git, head: str, *, since: str, until: str, own: Callable[[bytes], bool]) -> str:
    """Return the tree of ``head`` without the changes from ``since`` to ``until``."""
    merged = merge_queue.merged(git, head, until, since)
    if conflicts := [each for each in merged.conflicts if not own(os.fsencode(each))]:
        raise Refused(
            f"Later work has changed the same lines: {', '.join(conflicts[:5])}",
            hint=f"git revert {until[:12]}",
            paths=conflicts[:50],
        )
    found = git.differences(merged.tree, git.tree_of(head))
    # files for which `own` is true stay as they are
    kept = {path: entry for path, (_, entry) in found.items() if own(path)}
    if not kept:
        return merged.tree
    ordered = sorted(kept.items(), key=lambda pair: pair[1] != ABSENT)  # removals first
    lines = (f"{entry.mode} {entry.oid or '0' * len(head)}\t".encode() + path + b"\0" for path, entry in ordered)
    with git.room() as room, IsolatedView(git.repository) as view:
        index = room.path("reversal")
        view.call("read-tree", merged.tree, index=index)
        view.call("update-index", "-z", "--add", "--replace", "--index-info", input=b"".join(lines), index=index)
        return os.fsdecode(view.call("write-tree", index=index).stdout).strip()


def changed_by(
    git: Git, head: str, commit: str, *, own: Callable[[bytes], bool], free: Collection[str] = ()
) -> Changed:
    """Return the changes from ``head`` to ``commit``. Raise ``UnsafeTree`` if they overwrite user files."""
    found = git.differences(head, commit)
    dirty = {os.fsencode(change.path) for change in git.status()} - {os.fsencode(each) for each in free}
    hidden = {path for path, (old, _) in found.items() if old == ABSENT and os.path.lexists(git.file(path))}
    met = {path: new for path, (_, new) in found.items() if path in dirty | hidden}
    if in_the_way := sorted(map(os.fsdecode, met.keys() - {*merge_queue.already_there(git, met)})):
        raise UnsafeTree(
            f"These files are not committed: {', '.join(in_the_way[:5])}", hint="git commit  # or git stash"
        )
    return Changed(
        paths=tuple(sorted(os.fsdecode(path) for path in found if not own(path))),
        gone=frozenset(os.fsdecode(path) for path, (_, new) in found.items() if new == ABSENT),
    )


# ---- carried out


@dataclass(frozen=True, kw_only=True)
class Reversal:
    """Verified undo of accepted work, with the data that a later process needs to complete the undo."""

    item: str
    what: str  # for people
    branch: str
    head: str  # of the branch, before
    commit: str  # and after
    of: int | None  # the line of the ledger that it is about
    told: str = ""  # the sentence for the story of the project
    tests: tuple[str, ...] = ()  # that count no more

    def line(self) -> ClaimVerdict:
        """Return the ledger line that records this reversal by the user."""
        return ClaimVerdict(
            id=f"undo {self.commit}",
            item=self.item,
            verdict=ledger.REJECTED,
            base=self.head,
            commit=self.commit,
            by="person",
            word=UNDO,
            of=self.of,
        )

    def has_moved(self, git: Git) -> bool:
        """Return True if the branch already contains the commit of the reversal."""
        tip = git.commit_of(self.branch)
        return tip is not None and git.commit_of(self.commit) is not None and git.ancestor(self.commit, tip)


def decide(path: str | None, found: Reversal) -> None:
    """Record the decided reversal in ``path``, so that a later process can complete it."""
    if path is not None:
        files.write_json(path, {"v": 1, **asdict(found)})


def decided(path: str | None) -> Reversal | None:
    """Return the reversal that a dead process left incomplete, or None."""
    if path is None or not os.path.exists(path):
        return None
    try:
        found = files.read_json(path)
        if found.get("again"):  # earlier versions could undo an undo
            return None
        known: JsonObject = {name: str(found[name]) for name in ("item", "what", "branch", "head", "commit", "told")}
        tests = tuple(map(str, found["tests"]))
        return Reversal(**known, tests=tests, of=found["of"] if type(found["of"]) is int else None)
    except (OSError, HarnessError, KeyError, TypeError):
        return None


def over(path: str | None) -> None:
    if path is not None:
        files.unlink(path)
