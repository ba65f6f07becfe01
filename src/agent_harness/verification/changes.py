"""Changes of a candidate commit, with the file contents that the rules need. Paths are relative to the project. The
project may be a subfolder of the repository, so paths outside the project begin with ``../``. Contents are read from
git objects and not from a folder. Therefore no symbolic link is followed and no filter runs."""

import os
import posixpath
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import accumulate
from pathlib import PurePosixPath

from agent_harness.kernel.git import Git
from agent_harness.kernel.git.objects import ABSENT, FOLDER, Objects, TreeEntry
from agent_harness.kernel.git.status import GITLINK

LIMIT_BYTES = 1024 * 1024  # of one file
_ALL_BYTES = 128 * 1024 * 1024  # of all of them; what does not fit is taken for unreadable, which no rule forgives
_LINK = "120000"


@dataclass(frozen=True, slots=True, kw_only=True)
class FileChange:
    """File that differs between two commits. A content is None if the file is missing or was not read."""

    path: str
    status: str  # "A" added, "M" changed (content, mode or kind), "D" gone
    before: bytes | None = None  # None: not there, not read (not asked for, or too large)
    after: bytes | None = None
    link: bool = False  # the candidate has a symbolic link or a submodule there
    leads_out: str = ""  # where the link leads, if that is not in the repository

    @property
    def name(self) -> str:
        return PurePosixPath(self.path).name


@dataclass(frozen=True, slots=True, kw_only=True)
class CandidateChanges:
    files: tuple[FileChange, ...]
    before: frozenset[str]
    after: frozenset[str]
    submodules: tuple[str, ...] = ()  # of the candidate; a checkout leaves them empty


@dataclass(frozen=True, slots=True)
class Tree:
    """Paths of a file tree, relative to the project, and a function that reads a file."""

    paths: Collection[str]
    read: Callable[[str], bytes | None]
    links: Mapping[str, str] = field(default_factory=dict)  # path of a symbolic link -> where it leads, in the project


def between(
    git: Git, objects: Objects, base: str, candidate: str, *, wanted: Callable[[str], bool]
) -> CandidateChanges:
    """Return the files that differ between two commits. Load a file's contents only if ``wanted(path)`` is True."""
    inside, tree = _namer(git), objects.tree_of(base)
    rows = {inside(path): pair for path, pair in objects.differences(tree, objects.tree_of(candidate)).items()}
    ids = {entry.oid for path, pair in rows.items() if wanted(path) for entry in pair if entry.mode != GITLINK}
    blobs = _blobs(objects, ids | {new.oid for _, new in rows.values() if new.mode == _LINK})
    prefix = os.fsdecode(git.prefix())
    files = tuple(
        FileChange(
            path=path,
            status="A" if old == ABSENT else "D" if new == ABSENT else "M",
            before=blobs.get(old.oid),
            after=blobs.get(new.oid),
            link=new.mode in (_LINK, GITLINK),
            leads_out=_outside_of(outside(path, prefix), blobs.get(new.oid)) if new.mode == _LINK else "",
        )
        for path, (old, new) in rows.items()
    )
    before = {inside(path): entry for path, entry in _files(objects, tree, b"")}
    after = {
        path: entry for path, entry in {**before, **{p: new for p, (_, new) in rows.items()}}.items() if entry != ABSENT
    }
    return CandidateChanges(
        files=files,
        before=frozenset(before),
        after=frozenset(after),
        submodules=tuple(sorted(path for path, entry in after.items() if entry.mode == GITLINK)),
    )


def _outside_of(path: str, target: bytes | None) -> str:
    """Return the target of a symbolic link if the target is outside the repository, otherwise ""."""
    named = os.fsdecode(target or b"")
    leads = posixpath.normpath(posixpath.join(posixpath.dirname(path), named))
    return named if leads.startswith(("/", "../")) else ""


def tree_at(git: Git, objects: Objects, commit: str) -> Tree:
    inside = _namer(git)
    files = {inside(path): entry for path, entry in _files(objects, objects.tree_of(commit), b"")}

    def content(path: str, limit: int = LIMIT_BYTES) -> bytes | None:
        entry = files.get(path, ABSENT)
        if entry == ABSENT or entry.mode == GITLINK or (objects.size(entry.oid) or 0) > limit:
            return None
        found = objects.read(entry.oid)
        return found[1] if found else None

    links = {
        path: posixpath.normpath(posixpath.join(posixpath.dirname(path), os.fsdecode(content(path, 4096) or b"")))
        for path, entry in files.items()
        if entry.mode == _LINK
    }
    return Tree(files.keys(), content, links)


def contents(git: Git, commit: str, paths: Collection[str]) -> Mapping[str, bytes]:
    """Return the contents of these files in ``commit``. Omit missing and very large files."""
    prefix = os.fsdecode(git.prefix())
    with git.objects() as objects:
        tree = objects.tree_of(commit)
        blobs = {path: objects.at(tree, os.fsencode(outside(path, prefix))).oid for path in paths}
        texts = _blobs(objects, set(blobs.values()))
    return {path: texts[blob] for path, blob in blobs.items() if blob in texts}


def _files(objects: Objects, tree: str, below: bytes) -> Iterator[tuple[bytes, TreeEntry]]:
    for name, entry in objects.tree(tree).items():
        if entry.mode == FOLDER:
            yield from _files(objects, entry.oid, below + name + b"/")
        else:
            yield below + name, entry


def _blobs(objects: Objects, names: Collection[str]) -> dict[str, bytes]:
    sizes = sorted((size, name) for name in names if name and (size := objects.size(name)) is not None)
    totals = accumulate(size for size, _ in sizes)
    fit = [
        name for (size, name), total in zip(sizes, totals, strict=True) if size <= LIMIT_BYTES and total <= _ALL_BYTES
    ]
    return {name: found[1] for name in fit if (found := objects.read(name))}


def _namer(git: Git) -> Callable[[bytes], str]:
    """Return a function that turns a repository path into a path relative to the project."""
    prefix = os.fsdecode(git.prefix())
    if not prefix:
        return os.fsdecode

    def name(raw: bytes) -> str:
        path = os.fsdecode(raw)
        return path.removeprefix(f"{prefix}/") if path.startswith(f"{prefix}/") else posixpath.relpath(path, prefix)

    return name


def outside(path: str, prefix: str) -> str:
    return os.path.normpath(f"{prefix}/{path}") if prefix else path
