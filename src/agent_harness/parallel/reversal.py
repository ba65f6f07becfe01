"""What an accepted item has brought, taken out of the present head again: one commit, made as objects.

Nothing is rewritten, and no index, work tree or merge state is touched: a conflict is an answer. Who takes an item back
judges the commit before a branch moves to it. What comes of that is written down before its first step, so that a kill
in the middle leaves it for whoever comes next. Source: ``faces.md`` F-STORY-2.
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

UNDO, REDO = "undo", "redo"
"""The words of a person in the ledger by which an item was taken back, and by which it came again."""
_SHORTEST = 7  # characters of a commit


@dataclass(frozen=True, kw_only=True)
class Changed:
    """What a commit would change of the files of a project."""

    paths: tuple[str, ...]  # the harness's own files aside
    come: frozenset[str]  # of all files
    gone: frozenset[str]


# ---- what is taken back


def of_session(path: str, word: str) -> tuple[str, ...]:
    """The ids of the items of which the session that ``S8`` names had work accepted; none for any other word."""
    number = word[1:]
    if word[:1] not in ("s", "S") or not number.isdecimal():
        return ()
    found = (each for each in ledger.newest_first(path) if each.accepted and each.session == int(number))
    items = tuple(dict.fromkeys(each.item for each in found))
    if not items:
        raise UsageError(f"Nothing of session {number} was accepted", hint="harness log sessions")
    return items


def undone_by(path: str, word: str) -> ClaimVerdict | None:
    """The line of the person who took an item back by the commit that the word begins; ``None`` where none is."""
    if len(word) < _SHORTEST or not word.isalnum():
        return None
    said = (each for each in ledger.newest_first(path) if each.by_person and each.word == UNDO)
    return next((each for each in said if each.commit and each.commit.startswith(word.lower())), None)


def accepted(git: Git, path: str, item: str) -> ClaimVerdict | None:
    """The last line by which work on the item was accepted that the head still has; ``None`` where no such is."""
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
    """The commit before the work of this verdict: what has landed beside it meanwhile is none of it."""
    return trailers.before(git, str(verdict.commit), verdict.item) or str(verdict.base)


# ---- the commit


def stands_on(git: Git) -> tuple[str, str]:
    """The branch that is checked out and its commit. ``UnsafeTree`` where git is in the middle of something."""
    if under_way := git.operation_under_way():
        raise UnsafeTree(f"{under_way.capitalize()} is under way in this repository", hint="git status")
    branch, head = git.branch(), git.head()
    if branch is None:
        raise UnsafeTree("HEAD is detached; the commit would belong to no branch", hint="git switch BRANCH")
    if head is None:
        raise UnsafeTree("This branch has no commit", hint="git log --all")
    return branch, head


def tree_without(git: Git, head: str, *, since: str, until: str, own: Callable[[bytes], bool]) -> str:
    """The tree of ``head`` without what came between two commits of its history; ``own`` files are as in the head.

    ``Refused`` where later work has changed the same lines; it names the files.
    """
    merged = merge_queue.merged(git, head, until, since)
    if conflicts := [each for each in merged.conflicts if not own(os.fsencode(each))]:
        raise Refused(
            f"Later work has changed the same lines: {', '.join(conflicts[:5])}",
            hint=f"git revert {until[:12]}",
            paths=conflicts[:50],
        )
    found = git.differences(merged.tree, git.tree_of(head))
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
    """What moving from ``head`` to ``commit`` would change.

    ``UnsafeTree`` where a file of a person is in the way: one that is not committed, but for those of ``free``, or an
    ignored one where a file would come. One that is as it would be already, as a kill leaves it, is not.
    """
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
        come=frozenset(os.fsdecode(path) for path, (old, _) in found.items() if old == ABSENT),
        gone=frozenset(os.fsdecode(path) for path, (_, new) in found.items() if new == ABSENT),
    )


# ---- carried out


@dataclass(frozen=True, kw_only=True)
class Reversal:
    """One that is decided and judged, with all that its end needs."""

    item: str
    again: bool  # the item comes back
    what: str  # for people
    branch: str
    head: str  # of the branch, before
    commit: str  # and after
    of: int | None  # the line of the ledger that it is about
    told: str = ""  # the sentence for the story of the project
    tests: tuple[str, ...] = ()  # that count no more, or again
    files_read: tuple[str, ...] = ()  # by tests, where some count again

    def line(self) -> ClaimVerdict:
        """The person's, for the ledger."""
        return ClaimVerdict(
            id=f"undo {self.commit}",
            item=self.item,
            verdict=ledger.ACCEPTED if self.again else ledger.REJECTED,
            base=self.head,
            commit=self.commit,
            by="person",
            word=REDO if self.again else UNDO,
            of=self.of,
        )

    def has_moved(self, git: Git) -> bool:
        """Whether the branch has the commit by now."""
        tip = git.commit_of(self.branch)
        return tip is not None and git.commit_of(self.commit) is not None and git.ancestor(self.commit, tip)


def decide(path: str | None, found: Reversal) -> None:
    """Writes it down, durably; where there is no place for it, a kill in the middle is not fixed."""
    if path is not None:
        files.write_json(path, {"v": 1, **asdict(found)})


def decided(path: str | None) -> Reversal | None:
    """The one that was being carried out when its process died; ``None`` where none is, or what is there is no such."""
    if path is None or not os.path.exists(path):
        return None
    try:
        found = files.read_json(path)
        known: JsonObject = {name: str(found[name]) for name in ("item", "what", "branch", "head", "commit", "told")}
        known |= {name: tuple(map(str, found[name])) for name in ("tests", "files_read")}
        return Reversal(**known, again=found["again"] is True, of=found["of"] if type(found["of"]) is int else None)
    except (OSError, HarnessError, KeyError, TypeError):
        return None


def over(path: str | None) -> None:
    """Nothing of it is left to be done."""
    if path is not None:
        files.unlink(path)
