"""What a candidate changes against the tree of the claim, read from git objects: never from a folder."""

import os
import posixpath
from collections.abc import Callable, Iterator

from agent_harness.kernel.git import Git
from agent_harness.kernel.git.objects import ABSENT, FOLDER, Objects, TreeEntry
from agent_harness.kernel.git.status import GITLINK
from agent_harness.verification.changes import LIMIT_BYTES, CandidateChanges, FileChange
from agent_harness.verification.command.named_files import Tree

__all__ = ["changes_between", "has_submodules", "tree_at"]

LINK = "120000"
_ALL_BYTES = 128 * 1024 * 1024  # of all contents that are read; what does not fit is taken for unreadable


def tree_at(git: Git, objects: Objects, commit: str) -> Tree:
    """The tree of a commit, its paths relative to the project; what lies outside of the project begins with ``../``."""
    inside = _namer(git)
    files = {inside(path): entry for path, entry in _files(objects, objects.tree_of(commit), b"")}
    links = {path: _target(objects, path, entry) for path, entry in files.items() if entry.mode == LINK}
    return Tree(files.keys(), lambda path: _content(objects, files.get(path, ABSENT), LIMIT_BYTES), links)


def changes_between(
    git: Git, objects: Objects, base: str, candidate: str, before: Tree, *, wanted: Callable[[str], bool]
) -> CandidateChanges:
    """What differs; contents are read where ``wanted`` says so."""
    inside = _namer(git)
    rows = objects.differences(objects.tree_of(base), objects.tree_of(candidate))
    changed = {inside(path): pair for path, pair in rows.items()}
    budget = [_ALL_BYTES]

    def content(path: str, entry: TreeEntry) -> bytes | None:
        found = _content(objects, entry, min(LIMIT_BYTES, budget[0])) if wanted(path) else None
        budget[0] -= len(found or b"")
        return found

    files = tuple(
        FileChange(
            path=path,
            status="D" if new == ABSENT else "A" if old == ABSENT else "M",
            before=content(path, old),
            after=content(path, new),
            link=new.mode in (LINK, GITLINK),
        )
        for path, (old, new) in changed.items()
    )
    there = frozenset(path for path, (_, new) in changed.items() if new != ABSENT)
    known = frozenset(before.paths)
    return CandidateChanges(files=files, before=known, after=(known - changed.keys()) | there)


def has_submodules(objects: Objects, commit: str) -> bool:
    """Whether a commit names commits of other repositories, which a checkout leaves empty."""
    return any(entry.mode == GITLINK for _, entry in _files(objects, objects.tree_of(commit), b""))


def _files(objects: Objects, tree: str, below: bytes) -> Iterator[tuple[bytes, TreeEntry]]:
    for name, entry in objects.tree(tree).items():
        if entry.mode == FOLDER:
            yield from _files(objects, entry.oid, below + name + b"/")
        else:
            yield below + name, entry


def _namer(git: Git) -> Callable[[bytes], str]:
    """Names a path of the repository from the project's folder."""
    prefix = os.fsdecode(git.prefix())
    if not prefix:
        return os.fsdecode

    def name(raw: bytes) -> str:
        path = os.fsdecode(raw)
        return path.removeprefix(f"{prefix}/") if path.startswith(f"{prefix}/") else posixpath.relpath(path, prefix)

    return name


def _content(objects: Objects, entry: TreeEntry, limit: int) -> bytes | None:
    if entry == ABSENT or entry.mode == GITLINK or (objects.size(entry.oid) or 0) > limit:
        return None
    found = objects.read(entry.oid)
    return found[1] if found else None


def _target(objects: Objects, path: str, entry: TreeEntry) -> str:
    """Where a link leads, as a path of the project."""
    target = os.fsdecode(_content(objects, entry, 4096) or b"")
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
