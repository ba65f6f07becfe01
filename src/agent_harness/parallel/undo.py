"""Undo of an accepted item by the user: one new commit reverts the item's work, and the item is open again.

    name     finds the item, and the verdict that accepted it
    revert   creates the commit on top of the present head, as git objects only
    verify   the protocol verifies the commit
    decide   records the undo outside the project
    move     moves the branch and the files
    follow   the protocol updates its records, and the ledger gets a line

The first three steps change no index, work tree, merge state or branch, and refuse an undo that is not safe. The last
three steps can be repeated: after a kill, another process completes the undo. Source: ``faces.md`` F-STORY-2."""

import os
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass, replace

from agent_harness.errors import HarnessError, Refused, UnsafeTree, UsageError
from agent_harness.kernel import files
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.joining import tree_with
from agent_harness.kernel.git.objects import ABSENT, TreeEntry
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel import merge_queue
from agent_harness.parallel.merge_queue import trailers
from agent_harness.session import ledger
from agent_harness.session.ledger import ClaimVerdict

UNDO = "undo"
"""Ledger word for an item that the user undid."""
SHORTEST = 7  # characters of a commit's id


# ---- name ------------------------------------------------------------------------------------------------------------


def named(path: str, what: str, id_of: Callable[[str], str | None], *, kind: str, example: str) -> str:
    """Return the item that ``what`` names: an id for which ``id_of`` returns the item, or a session such as ``S8``."""
    word = what.strip()
    if item := id_of(word):
        return item
    items = _of_session(path, word)
    if items[1:]:
        said = f"Session {word[1:]} completed several {kind}s, so name one of them: {', '.join(items)}"
        raise UsageError(said, hint=f"harness undo {items[0]}")
    if items and (item := id_of(items[0])):
        return item
    if items:
        said = f"Session {word[1:]} completed {items[0]}, which is not in the list"
        raise UsageError(said, hint="harness log sessions")
    _refuse_undo(path, word)
    hint = f"harness undo {example}  # or harness undo S8"
    raise UsageError(f"{what!r} is neither a {kind} nor a session", hint=hint)


def _of_session(path: str, word: str) -> tuple[str, ...]:
    number = word[1:]
    if word[:1] not in ("s", "S") or not number.isdecimal():
        return ()
    found = (each for each in ledger.newest_first(path) if each.accepted and each.session == int(number))
    items = tuple(dict.fromkeys(each.item for each in found))
    if not items:
        raise UsageError(f"No work of session {number} was accepted", hint="harness log sessions")
    return items


def _refuse_undo(path: str, word: str) -> None:
    """Raise ``Refused`` if ``word`` is the beginning of an undo commit's id."""
    if len(word) < SHORTEST or not word.isalnum():
        return
    said = (each for each in ledger.newest_first(path) if each.by_person and each.word == UNDO)
    if found := next((each for each in said if each.commit and each.commit.startswith(word.lower())), None):
        told = f"{word} is the undo of {found.item}, and an undo cannot be undone"
        raise Refused(told, hint="harness run  # works on it again")


def accepted(git: Git, path: str, item: str) -> ClaimVerdict | None:
    """Return the last verdict that accepted the item, if the branch still contains its commit.

    Its ``commit`` is the commit on the branch, and its ``base`` is the commit before the item's work."""
    found = (each for each in ledger.newest_first(path) if each.item == item and each.accepted)
    line = next((each for each in found if each.commit and each.base), None)
    head = git.head()
    if line is None or line.commit is None or head is None:
        return None
    now = line.commit if git.ancestor(line.commit, head) else trailers.moved(git, head, [line.commit]).get(line.commit)
    return replace(line, commit=now, base=trailers.before(git, now, item) or line.base) if now else None


# ---- revert ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Reversal:
    """Undo of accepted work, with the data that a later process needs to complete the undo."""

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

    def can_go_on(self, git: Git) -> bool:
        """Return True if the branch contains the commit, or is still where the undo left it."""
        here = (git.branch(), git.head()) == (self.branch, self.head)
        return self.has_moved(git) or (here and git.commit_of(self.commit) is not None)


@dataclass(frozen=True, kw_only=True)
class UndoPlan:
    """Undo as a commit that is on no branch yet."""

    found: Reversal
    verdict: ClaimVerdict  # by which the item was accepted
    paths: tuple[str, ...]  # that change, the harness's own files aside
    gone: frozenset[str]  # of all files


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


def planned(
    git: Git,
    verdict: ClaimVerdict,
    message: str,
    *,
    what: str,
    told: str = "",
    on: tuple[str, str],
    own: Callable[[bytes], bool],
    free: Collection[str] = (),
    edit: Callable[[str], str] = lambda tree: tree,
) -> UndoPlan:
    """Create the undo's commit on the branch and head ``on``, without the changes that ``verdict`` accepted.

    ``what`` is the item's name for people, and ``told`` a sentence for the protocol's records. Files for which ``own``
    is true stay as they are, unless ``edit`` changes the tree. Files in ``free`` may have uncommitted changes."""
    branch, head = on
    tree = edit(_tree_without(git, head, since=str(verdict.base), until=str(verdict.commit), own=own))
    if tree != git.tree_of(head):
        commit = git.commit_tree(tree, [head], message)
    elif git.text("log", "-1", "--no-show-signature", "--format=%B", head).strip() == message.strip():
        head, commit = str(git.commit_of(f"{head}^1")), head  # a kill came between this commit and the records
    else:
        hint = f"harness diff {verdict.item}"
        raise Refused(
            f"Nothing to undo: the changes made in commit {str(verdict.commit)[:10]} no longer exist", hint=hint
        )
    changed = _changed(git, head, commit, free=free)
    known: JsonObject = {"branch": branch, "head": head, "commit": commit, "told": told}
    return UndoPlan(
        found=Reversal(item=verdict.item, what=what, of=verdict.n, **known),
        verdict=verdict,
        paths=tuple(sorted(os.fsdecode(path) for path in changed if not own(path))),
        gone=frozenset(os.fsdecode(path) for path, (_, new) in changed.items() if new == ABSENT),
    )


def _tree_without(git: Git, head: str, *, since: str, until: str, own: Callable[[bytes], bool]) -> str:
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
    return tree_with(git, merged.tree, {path: entry for path, (_, entry) in found.items() if own(path)})


def _changed(git: Git, head: str, commit: str, *, free: Collection[str]) -> dict[bytes, tuple[TreeEntry, TreeEntry]]:
    """Return the changes from ``head`` to ``commit``. Raise ``UnsafeTree`` if they overwrite user files."""
    found = git.differences(head, commit)
    dirty = {os.fsencode(change.path) for change in git.status()} - {os.fsencode(each) for each in free}
    hidden = {path for path, (old, _) in found.items() if old == ABSENT and os.path.lexists(git.file(path))}
    met = {path: new for path, (_, new) in found.items() if path in dirty | hidden}
    if in_the_way := sorted(map(os.fsdecode, met.keys() - {*merge_queue.already_there(git, met)})):
        raise UnsafeTree(
            f"These files are not committed: {', '.join(in_the_way[:5])}", hint="git commit  # or git stash"
        )
    return found


# ---- decide, move, follow --------------------------------------------------------------------------------------------


def carry_out(
    git: Git,
    found: Reversal,
    follow: Callable[[], None],
    *,
    record: str | None,
    verdicts: str,
    first: Callable[[], None] = lambda: None,
) -> None:
    """Record the decision, move the branch, and let the protocol ``follow``. The caller deletes the record (``over``).

    ``first`` is called before the move. If the branch cannot move, delete the record and raise the error."""
    if record is not None:
        files.write_json(record, {"v": 1, **asdict(found)})
    first()
    try:
        if not found.has_moved(git):
            merge_queue.move(git, found.branch, found.head, found.commit)
    except HarnessError:
        over(record)
        raise
    follow()
    ledger.write(verdicts, found.line())


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
