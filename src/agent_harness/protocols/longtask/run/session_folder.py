"""Files of one agent session, next to its output file.

sessions/STAMP/
  transcript.txt             words and actions of the agent and the harness; secrets are masked
  recording.cassette.jsonl   recording of the session for ``lth run --worker replay:FILE``
  rescue.json                rescue point from before the session: snapshot of the working copy, if it is in git

STAMP is the start time of the session. The newest 30 sessions are kept. The snapshot is a git object under the private
ref ``refs/harness/slices/TASK/STAMP``. A snapshot never contains the task's own files, even if they are in the same
repository. Agents can write to this folder, so the harness trusts ``rescue.json`` only if the file matches the ref.
Source: ``longtask.md`` 10.2."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from agent_harness.errors import Busy, HarnessError, StateDamaged, UnsafeTree
from agent_harness.kernel import clock, files, snapshot
from agent_harness.kernel.git import Git, own_output
from agent_harness.kernel.git.status import shown
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.process import new_run_id
from agent_harness.kernel.snapshot import Snapshot
from agent_harness.protocols.longtask import log, records, store
from agent_harness.protocols.longtask.layout import LongTaskLayout, file_stamp
from agent_harness.protocols.longtask.options import RescueOptions
from agent_harness.protocols.longtask.run.lease_file import DEFAULT_TTL_SECONDS, RunLease
from agent_harness.protocols.longtask.store import LongTaskStore
from agent_harness.supervision.recording import Recording

KEPT = 30
RECORDING, TRANSCRIPT = "recording.cassette.jsonl", "transcript.txt"


class SessionFolder:
    def __init__(self, path: str, point: RescuePoint | None) -> None:
        self.path = path
        self.point = point

    def recording(self) -> Recording:
        path, point = Path(self.path, RECORDING), self.point
        return Recording(path, point.git, point.tree_now) if point else Recording(path)


def begun(layout: LongTaskLayout, *, task_id: str, worker: str, cwd: str, at: str, takes_point: bool) -> SessionFolder:
    """Create a session folder. With ``takes_point``, also save the worktree as a rescue point."""
    path, point = made(layout, at), None
    _forget_oldest(layout)
    if takes_point:
        try:
            point = take_point(layout, path, task_id=task_id, worker=worker, cwd=cwd, at=at)
        except HarnessError as error:
            log.warn(f"no rescue point was made before this slice: {error.message}")
    return SessionFolder(path, point)


def made(layout: LongTaskLayout, at: str) -> str:
    """Create an empty session folder and return its path."""
    start = layout.inside(layout.relative(os.path.join(layout.sessions, file_stamp(at))), "sessions")
    for path in store.names(start):
        try:
            os.makedirs(path)
        except FileExistsError:
            continue
        except OSError as error:
            raise files.refusal(path, "made", error) from None
        return path
    raise AssertionError("no unused name was found")


def _forget_oldest(layout: LongTaskLayout) -> None:
    for name in sorted(os.listdir(layout.sessions))[:-KEPT]:
        path = os.path.join(layout.sessions, name)
        if os.path.isdir(path) and not os.path.islink(path):
            with suppress(HarnessError, OSError):
                if point := _read_point(layout, name):
                    # git can then delete the commit
                    point.git.update_ref(point.snapshot.ref, None, point.snapshot.commit)
            shutil.rmtree(path, ignore_errors=True)


REFS = "refs/harness/slices"
FILE = "rescue.json"
_OWN_FILES = ("task.json", "checkpoint.json", "harness.md", "runs", "sessions", "evidence", ".lth.lock", ".lth.lock.*")


@dataclass(frozen=True, kw_only=True)
class RescuePoint:
    """Saved state of a worktree, which a person can restore."""

    name: str
    folder: str  # of the session
    at: str
    worker: str
    why: str
    git: Git  # its root is the top of the worktree
    exclude: tuple[str, ...]
    snapshot: Snapshot

    def as_record(self) -> JsonObject:
        place = {"at": self.at, "worker": self.worker, "why": self.why, "top": os.fspath(self.git.top())}
        return {**place, "snapshot": self.snapshot.as_record()}

    def tree_now(self) -> str:
        return snapshot.tree_of_files(self.git, exclude=self.exclude, base=self.snapshot)


def repository_of(folder: str) -> Git | None:
    """Return the git worktree around the folder, or None without a repository or without git."""
    try:
        git = Git(folder)
        return Git(git.top()) if git.is_repository else None
    except (HarnessError, OSError):
        return None


def take_point(
    layout: LongTaskLayout, folder: str, *, task_id: str, worker: str, cwd: str, at: str, why: str = "before a slice"
) -> RescuePoint | None:
    """Save the worktree and return its rescue point. Outside a git repository, return None."""
    git = repository_of(cwd)
    if git is None:
        return None
    own_output.keep_out_of_sight(git.repository)
    name = os.path.basename(folder)
    exclude = _own_files(layout, git)
    ref = f"{REFS}/{records.slug(task_id, 'task')}/{name}"
    made = snapshot.take(git, ref, exclude=exclude, message=f"{why} of {task_id}")
    point = RescuePoint(
        name=name, folder=folder, at=at, worker=worker, why=why, git=git, exclude=exclude, snapshot=made
    )
    files.write_json(os.path.join(folder, FILE), point.as_record())
    return point


@contextmanager
def as_committed(layout: LongTaskLayout, git: Git, ref: str) -> Iterator[str]:
    """Yield a temporary commit of the current files. The task's own files are left out."""
    made = snapshot.candidate(git, ref, exclude=_own_files(layout, git), message="as it is claimed")
    try:
        yield made
    finally:
        git.update_ref(ref, None)


def rescue_points(layout: LongTaskLayout) -> list[RescuePoint]:
    """Return the task's rescue points that can be restored, newest first."""
    names = sorted(os.listdir(layout.sessions), reverse=True) if os.path.isdir(layout.sessions) else []
    return [found for name in names if (found := _read_point(layout, name)) is not None]


def find_point(layout: LongTaskLayout, name: str) -> RescuePoint:
    """Return the rescue point ``name``. Raise ``UnsafeTree`` if it does not exist."""
    found = next((each for each in rescue_points(layout) if each.name == name), None)
    if found is None:
        raise UnsafeTree(f"No rescue point named {name}", hint=f"lth rescue {layout.root}")
    return found


def _read_point(layout: LongTaskLayout, name: str) -> RescuePoint | None:
    folder = os.path.join(layout.sessions, name)
    try:
        record = files.read_json(layout.inside(layout.relative(os.path.join(folder, FILE))), exact=False)
        made = Snapshot.from_record(record.get("snapshot") or {})
    except (HarnessError, StateDamaged, OSError, AttributeError):
        return None
    git = repository_of(str(record.get("top")))
    if git is None or not made.ref.startswith(f"{REFS}/") or git.commit_of(made.ref) != made.commit:
        return None
    texts = {each: str(record.get(each) or "") for each in ("at", "worker", "why")}
    return RescuePoint(name=name, folder=folder, git=git, exclude=_own_files(layout, git), snapshot=made, **texts)


def _own_files(layout: LongTaskLayout, git: Git) -> tuple[str, ...]:
    top, root = os.fspath(git.top()), os.path.realpath(layout.root)
    if os.path.commonpath([top, root]) != top:
        return ()
    below = os.path.relpath(root, top)
    return tuple(name if below == os.curdir else f"{below}/{name}" for name in _OWN_FILES)


# ---- `lth rescue`: going back keeps what is there as a rescue point of its own. Checkpoint, log and evidence stay.


def rescue(layout: LongTaskLayout, options: RescueOptions) -> tuple[JsonObject, int]:
    if options.restore:
        return restore(layout, options.restore), 0
    if options.show:
        return show(layout, options.show), 0
    task, _ = LongTaskStore(layout).load()
    return {"taskId": task.id, "points": [_entry(each) for each in rescue_points(layout)]}, 0


def show(layout: LongTaskLayout, name: str) -> JsonObject:
    """Return a rescue point, and the worktree's changes since that point."""
    point = find_point(layout, name)
    changes = point.git.changed_paths(point.snapshot.commit, point.tree_now())
    head = point.git.head()
    commits = point.git.commits_between(point.snapshot.head, head) if head else []
    return {**_entry(point), **snapshot.contents(changes, commits)}


def restore(layout: LongTaskLayout, name: str) -> JsonObject:
    """Restore a rescue point. First save the current files as another one. Raise ``Busy`` while a run is active."""
    task, _ = LongTaskStore(layout).load()
    lock = RunLease(layout, owner=None, ttl_seconds=DEFAULT_TTL_SECONDS, run_id=new_run_id())
    with lock:
        # no run may be active while files change
        if lock.acquire():
            raise Busy(f"a run holds the lease {layout.lock}", hint="wait until it has ended")
        lock.keep()
        point = find_point(layout, name)
        before = _point_of_now(layout, point, task.id)
        done = snapshot.restore(
            point.git,
            point.snapshot,
            f"{before.snapshot.ref}-taken-back",
            exclude=point.exclude,
            rescue_files=os.path.join(before.folder, "set-aside"),
        )
    return {
        "restored": point.name,
        "undo": before.name,
        "top": os.fspath(point.git.top()),
        "commits": [{"commit": sha, "subject": shown(os.fsencode(text))} for sha, text in done.rolled_back_commits],
        "leftInPlace": list(done.left_in_place),
        "moved": list(done.moved),
    }


def _point_of_now(layout: LongTaskLayout, point: RescuePoint, task_id: str) -> RescuePoint:
    at = clock.timestamp(fraction=True)
    taken = take_point(
        layout,
        made(layout, at),
        task_id=task_id,
        worker="",
        cwd=os.fspath(point.git.top()),
        at=at,
        why=f"before going back to {point.name}",
    )
    if taken is None:
        raise AssertionError("the repository of the rescue point no longer exists")
    return taken


def _entry(point: RescuePoint) -> JsonObject:
    return {
        "id": point.name,
        "at": point.at,
        "worker": point.worker or None,
        "why": point.why,
        "top": os.fspath(point.git.top()),
        "ref": point.snapshot.ref,
        "commit": point.snapshot.commit,
    }
