"""What a candidate commit changes, with the contents that the rules read.

Paths are relative to the project, which may be a folder inside the repository; what lies outside begins with ``../``.
Contents come from git objects, never from a folder, so that nothing is followed, filtered or hidden.
"""

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from itertools import accumulate
from pathlib import PurePosixPath

from agent_harness.kernel.git import Git
from agent_harness.kernel.git.objects import ABSENT, Objects

LIMIT_BYTES = 1024 * 1024  # of one file
_ALL_BYTES = 128 * 1024 * 1024  # of all of them; what does not fit is taken for unreadable, which no rule forgives
_LINK, _MODULE = "120000", "160000"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """One path that differs between two commits."""

    path: str
    status: str  # "A" added, "M" changed (content, mode or kind), "D" gone
    before: bytes | None = None  # None: not there, not read (not asked for, or too large)
    after: bytes | None = None
    link: bool = False  # the candidate has a symbolic link or a submodule there

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateChanges:
    """Everything that differs, and all paths of both commits."""

    files: tuple[FileChange, ...]
    before: frozenset[str]
    after: frozenset[str]
    submodules: tuple[str, ...] = ()


def between(git: Git, base: str, candidate: str, *, wanted: Callable[[str], bool]) -> CandidateChanges:
    """What ``candidate`` changes against ``base``; contents are read where ``wanted`` says so."""
    prefix = os.fsdecode(git.prefix())
    with git.objects() as objects:
        rows = {
            _inside(os.fsdecode(path), prefix): pair
            for path, pair in objects.differences(objects.tree_of(base), objects.tree_of(candidate)).items()
        }
        ids = {entry.oid for path, pair in rows.items() if wanted(path) for entry in pair}
        blobs = _blobs(objects, ids)
    files = tuple(
        FileChange(
            path=path,
            status="A" if old == ABSENT else "D" if new == ABSENT else "M",
            before=blobs.get(old.oid),
            after=blobs.get(new.oid),
            link=new.mode in (_LINK, _MODULE),
        )
        for path, (old, new) in rows.items()
    )
    before, modules = _listing(git, base, prefix)
    added = {path: new for path, (_, new) in rows.items() if new != ABSENT}
    return CandidateChanges(
        files=files,
        before=before,
        after=(before - rows.keys()) | added.keys(),
        submodules=tuple(
            sorted((modules - rows.keys()) | {path for path, entry in added.items() if entry.mode == _MODULE})
        ),
    )


def _listing(git: Git, commit: str, prefix: str) -> tuple[frozenset[str], frozenset[str]]:
    """All paths of a commit, and those among them that are submodules."""
    names: set[str] = set()
    modules: set[str] = set()
    for entry in git.run("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0"):
        head, _, path = entry.partition(b"\t")
        if path:
            name = _inside(os.fsdecode(path), prefix)
            names.add(name)
            if head.startswith(_MODULE.encode()):
                modules.add(name)
    return frozenset(names), frozenset(modules)


def contents(git: Git, commit: str, paths: Collection[str]) -> Mapping[str, bytes]:
    """What ``commit`` holds at these paths; missing and too large ones are left out."""
    prefix = os.fsdecode(git.prefix())
    with git.objects() as objects:
        tree = objects.tree_of(commit)
        blobs = {path: objects.at(tree, os.fsencode(outside(path, prefix))).oid for path in paths}
        texts = _blobs(objects, set(blobs.values()))
    return {path: texts[blob] for path, blob in blobs.items() if blob in texts}


def _blobs(objects: Objects, names: Collection[str]) -> dict[str, bytes]:
    """Contents by object name, for the blobs among them that are not too large."""
    sizes = sorted((size, name) for name in names if name and (size := objects.size(name)) is not None)
    totals = accumulate(size for size, _ in sizes)
    fit = [
        name for (size, name), total in zip(sizes, totals, strict=True) if size <= LIMIT_BYTES and total <= _ALL_BYTES
    ]
    return {name: found[1] for name in fit if (found := objects.read(name))}


def _inside(path: str, prefix: str) -> str:
    return os.path.relpath(path, prefix) if prefix else path


def outside(path: str, prefix: str) -> str:
    """A path of the project as a path of its repository."""
    return os.path.normpath(f"{prefix}/{path}") if prefix else path
