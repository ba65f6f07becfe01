"""A working copy as it was before a slice, kept as a git object under a private ref, and the record that finds it.

    refs/harness/slices/TASK/STAMP      the snapshot
    sessions/STAMP/rescue.json     which repository, which snapshot, before which worker

The task's own files are no part of it, also where they lie in the same repository. The record is in a folder that
workers can write: it is believed only as far as the ref agrees with it. Source: ``longtask.md`` 10.2.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

from agent_harness.errors import HarnessError, StateDamaged, UnsafeTree
from agent_harness.kernel import files, snapshot
from agent_harness.kernel.git import Git
from agent_harness.kernel.snapshot import Snapshot
from agent_harness.protocols.longtask import records
from agent_harness.protocols.longtask.layout import LongTaskLayout

__all__ = ["RescuePoint", "find", "let_go", "points", "repository_of", "taken"]

REFS = "refs/harness/slices"
FILE = "rescue.json"
_OWN_FILES = ("task.json", "checkpoint.json", "harness.md", "runs", "sessions", "evidence", ".lth.lock", ".lth.lock.*")


@dataclass(frozen=True, kw_only=True)
class RescuePoint:
    """One snapshot, and where it belongs. ``name`` is the name of its session's folder."""

    name: str
    folder: str  # of the session
    at: str
    worker: str
    why: str
    git: Git  # its root is the top of the work tree
    exclude: tuple[str, ...]
    snapshot: Snapshot

    def as_record(self) -> dict[str, Any]:
        """The members of the JSON record."""
        place = {"at": self.at, "worker": self.worker, "why": self.why, "top": os.fspath(self.git.top())}
        return {**place, "snapshot": self.snapshot.as_record()}

    def tree_now(self) -> str:
        """A commit of the work tree as it is now, which no ref names any more when this returns."""
        ref = f"{self.snapshot.ref}-now"
        made = snapshot.candidate(self.git, ref, exclude=self.exclude, message="as it is now", base=self.snapshot)
        self.git.update_ref(ref, None)
        return made


def repository_of(folder: str) -> Git | None:
    """The work tree that a folder lies in; ``None`` outside of git, or without git."""
    try:
        git = Git(folder)
        return Git(git.top()) if git.is_repository else None
    except (HarnessError, OSError):
        return None


def taken(
    layout: LongTaskLayout, folder: str, *, task_id: str, worker: str, cwd: str, at: str, why: str = "before a slice"
) -> RescuePoint | None:
    """Keeps the work tree that ``cwd`` lies in; ``None`` outside of git. Nothing that the user sees changes.

    ``UnsafeTree`` when an operation is under way there.
    """
    git = repository_of(cwd)
    if git is None:
        return None
    name = os.path.basename(folder)
    exclude = _own_files(layout, git)
    ref = f"{REFS}/{records.slug(task_id, 'task')}/{name}"
    made = snapshot.take(git, ref, exclude=exclude, message=f"{why} of {task_id}")
    point = RescuePoint(
        name=name, folder=folder, at=at, worker=worker, why=why, git=git, exclude=exclude, snapshot=made
    )
    files.write_json(os.path.join(folder, FILE), point.as_record())
    return point


def points(layout: LongTaskLayout) -> list[RescuePoint]:
    """Every rescue point of the task that can still be gone back to, the newest first."""
    names = sorted(os.listdir(layout.sessions), reverse=True) if os.path.isdir(layout.sessions) else []
    return [found for name in names if (found := _read(layout, name)) is not None]


def find(layout: LongTaskLayout, name: str) -> RescuePoint:
    """The rescue point of that name. ``UnsafeTree`` when there is none."""
    found = next((each for each in points(layout) if each.name == name), None)
    if found is None:
        raise UnsafeTree(f"there is no rescue point {name}", hint=f"lth rescue {layout.root}")
    return found


def let_go(folder: str) -> None:
    """Takes the ref of a session's rescue point away, so that git may collect what nothing else holds."""
    try:
        record = files.read_json(os.path.join(folder, FILE), exact=False)
        made = Snapshot.from_record(record.get("snapshot") or {})
        git = repository_of(str(record.get("top")))
        if git and made.ref.startswith(f"{REFS}/"):
            git.update_ref(made.ref, None, made.commit)
    except (HarnessError, OSError, AttributeError):
        return


def _read(layout: LongTaskLayout, name: str) -> RescuePoint | None:
    folder = os.path.join(layout.sessions, name)
    try:
        record = files.read_json(layout.inside(layout.relative(os.path.join(folder, FILE))), exact=False)
        made = Snapshot.from_record(record.get("snapshot") or {})
    except (HarnessError, StateDamaged, OSError, AttributeError):
        return None
    git = repository_of(str(record.get("top")))
    if git is None or not made.ref.startswith(f"{REFS}/") or git.commit_of(made.ref) != made.commit:
        return None
    told = {each: str(record.get(each) or "") for each in ("at", "worker", "why")}
    return RescuePoint(name=name, folder=folder, git=git, exclude=_own_files(layout, git), snapshot=made, **told)


def _own_files(layout: LongTaskLayout, git: Git) -> tuple[str, ...]:
    """The task's own files as patterns relative to the top of a work tree; none where the task lies elsewhere."""
    top, root = os.fspath(git.top()), os.path.realpath(layout.root)
    if os.path.commonpath([top, root]) != top:
        return ()
    below = os.path.relpath(root, top)
    return tuple(name if below == os.curdir else f"{below}/{name}" for name in _OWN_FILES)
