"""What a candidate changes against the tree of the claim, read from git objects: never from a folder."""

import os
import posixpath
from collections.abc import Callable

from agent_harness.kernel.git import Git
from agent_harness.kernel.git.status import GITLINK, IndexEntry
from agent_harness.verification.changes import LIMIT_BYTES, CandidateChanges, FileChange
from agent_harness.verification.command.named_files import Tree
from agent_harness.verification.command.object_reader import LINK, ObjectReader

__all__ = ["changes_between", "tree_at"]

_ALL_BYTES = 128 * 1024 * 1024  # of all contents that are read; what does not fit is taken for unreadable


def tree_at(git: Git, objects: ObjectReader, treeish: str) -> Tree:
    """The tree of a commit, its paths relative to the project; what lies outside of the project begins with ``../``."""
    inside = _namer(git)
    files = {inside(path): entry for path, entry in objects.files(treeish).items()}
    links = {path: _target(objects, path, entry) for path, entry in files.items() if entry.mode == LINK}

    def read(path: str) -> bytes | None:
        entry = files.get(path)
        return _content(objects, entry, LIMIT_BYTES) if entry else None

    return Tree(files.keys(), read, links)


def changes_between(
    git: Git, objects: ObjectReader, base: str, candidate: str, before: Tree, *, wanted: Callable[[str], bool]
) -> CandidateChanges:
    """What differs; contents are read where ``wanted`` says so."""
    inside = _namer(git)
    budget = [_ALL_BYTES]

    def content(entry: IndexEntry | None, path: str) -> bytes | None:
        found = _content(objects, entry, min(LIMIT_BYTES, budget[0])) if entry and wanted(path) else None
        budget[0] -= len(found or b"")
        return found

    changed: list[FileChange] = []
    for raw, (old, new) in objects.differences(base, candidate).items():
        path = inside(raw)
        changed.append(
            FileChange(
                path=path,
                status="D" if new is None else "A" if old is None else "M",
                before=content(old, path),
                after=content(new, path),
                link=new is not None and new.mode in (LINK, GITLINK),
            )
        )
    after = objects.files(candidate)
    return CandidateChanges(
        files=tuple(changed),
        before=frozenset(before.paths),
        after=frozenset(map(inside, after)),
        submodules=tuple(inside(path) for path, entry in after.items() if entry.mode == GITLINK),
    )


def _namer(git: Git) -> Callable[[bytes], str]:
    """Names a path of the repository from the project's folder."""
    prefix = os.fsdecode(git.prefix())
    if not prefix:
        return os.fsdecode

    def name(raw: bytes) -> str:
        path = os.fsdecode(raw)
        return path.removeprefix(f"{prefix}/") if path.startswith(f"{prefix}/") else posixpath.relpath(path, prefix)

    return name


def _content(objects: ObjectReader, entry: IndexEntry, limit: int) -> bytes | None:
    if entry.mode == GITLINK or (objects.size_of(entry.oid) or 0) > limit:
        return None
    return objects.read(entry.oid)


def _target(objects: ObjectReader, path: str, entry: IndexEntry) -> str:
    """Where a link leads, as a path of the project."""
    target = os.fsdecode(_content(objects, entry, 4096) or b"")
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
