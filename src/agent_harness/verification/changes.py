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
    raw = git.run("diff-tree", "-r", "-z", "--raw", "--no-renames", "--no-abbrev", base, candidate)
    rows = _rows(raw)
    blobs = _blobs(git, {blob for row in rows if wanted(_inside(row.path, prefix)) for blob in (row.old, row.new)})
    files = tuple(
        FileChange(
            path=_inside(row.path, prefix),
            status=row.status if row.status in ("A", "D") else "M",
            before=blobs.get(row.old),
            after=blobs.get(row.new),
            link=row.mode in (_LINK, _MODULE),
        )
        for row in rows
    )
    before, _ = listing(git, base, prefix)
    after, submodules = listing(git, candidate, prefix)
    return CandidateChanges(files=files, before=before, after=after, submodules=submodules)


def listing(git: Git, commit: str, prefix: str) -> tuple[frozenset[str], tuple[str, ...]]:
    """All paths of a commit, and those among them that are submodules."""
    names: list[str] = []
    modules: list[str] = []
    for entry in git.run("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0"):
        head, _, path = entry.partition(b"\t")
        if path:
            names.append(_inside(os.fsdecode(path), prefix))
            if head.startswith(_MODULE.encode()):
                modules.append(names[-1])
    return frozenset(names), tuple(modules)


def contents(git: Git, commit: str, paths: Collection[str]) -> Mapping[str, bytes]:
    """What ``commit`` holds at these paths; missing and too large ones are left out."""
    prefix = os.fsdecode(git.prefix())
    wanted = {outside(path, prefix): path for path in paths}
    blobs: dict[str, str] = {}
    for entry in git.run("ls-tree", "-r", "-z", "--full-tree", commit).split(b"\0"):
        head, _, path = entry.partition(b"\t")
        if os.fsdecode(path) in wanted:
            blobs[wanted[os.fsdecode(path)]] = head.split()[2].decode()
    texts = _blobs(git, set(blobs.values()))
    return {path: texts[blob] for path, blob in blobs.items() if blob in texts}


@dataclass(frozen=True, slots=True)
class _Row:
    mode: str
    old: str
    new: str
    status: str
    path: str


def _rows(raw: bytes) -> list[_Row]:
    parts = raw.split(b"\0")
    rows: list[_Row] = []
    for head, path in zip(parts[::2], parts[1::2], strict=False):
        _, mode, old, new, status = head.decode().split(" ")
        rows.append(_Row(mode, old, new, status[:1], os.fsdecode(path)))
    return rows


def _blobs(git: Git, names: Collection[str]) -> dict[str, bytes]:
    """Contents by object name, for the blobs among them that are not too large."""
    asked = sorted(name for name in names if name.strip("0"))
    if not asked:
        return {}
    told = git.run("cat-file", "--batch-check", input="\n".join(asked).encode() + b"\n").decode().splitlines()
    sizes = sorted((int(line.split()[2]), line.split()[0]) for line in told if line.split()[1:2] == ["blob"])
    totals = accumulate(size for size, _ in sizes)
    fit = [
        name for (size, name), total in zip(sizes, totals, strict=True) if size <= LIMIT_BYTES and total <= _ALL_BYTES
    ]
    if not fit:
        return {}
    raw = git.run("cat-file", "--batch", input="\n".join(fit).encode() + b"\n")
    found: dict[str, bytes] = {}
    at = 0
    for name in fit:
        end = raw.index(b"\n", at)
        size = int(raw[at:end].split()[2])
        found[name] = raw[end + 1 : end + 1 + size]
        at = end + size + 2
    return found


def _inside(path: str, prefix: str) -> str:
    return os.path.relpath(path, prefix) if prefix else path


def outside(path: str, prefix: str) -> str:
    """A path of the project as a path of its repository."""
    return os.path.normpath(f"{prefix}/{path}") if prefix else path
