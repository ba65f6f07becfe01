"""`rescue`: the working copies as they were before each slice: a list, what has changed since, and the return to one.

Going back keeps what is there as a rescue point of its own, so that it can be undone. The checkpoint, the log and the
evidence of the task stay as they are. Source: ``longtask.md`` 10.2.
"""

from __future__ import annotations

import os

from agent_harness.errors import Busy
from agent_harness.kernel import clock, snapshot
from agent_harness.kernel.git.status import shown
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.process import new_run_id
from agent_harness.protocols.longtask.layout import LongTaskLayout
from agent_harness.protocols.longtask.options import RescueOptions
from agent_harness.protocols.longtask.run import session_folder
from agent_harness.protocols.longtask.run.lease_file import DEFAULT_TTL_SECONDS, RunLease
from agent_harness.protocols.longtask.run.session_folder import RescuePoint
from agent_harness.protocols.longtask.store import LongTaskStore


def answer(layout: LongTaskLayout, options: RescueOptions) -> tuple[JsonObject, int]:
    """The answer of ``lth rescue``: every rescue point, or the one that is shown or gone back to."""
    if options.restore:
        return restore(layout, options.restore), 0
    if options.show:
        return show(layout, options.show), 0
    task, _ = LongTaskStore(layout).load()
    return {"taskId": task.id, "points": [_entry(each) for each in session_folder.rescue_points(layout)]}, 0


def show(layout: LongTaskLayout, name: str) -> JsonObject:
    """One rescue point: the ``files`` that differ from it now, and the ``commits`` made since."""
    point = session_folder.find_point(layout, name)
    changes = point.git.changed_paths(point.snapshot.commit, point.tree_now())
    head = point.git.head()
    commits = point.git.commits_between(point.snapshot.head, head) if head else []
    return {
        **_entry(point),
        **snapshot.contents(changes, commits),
    }


def restore(layout: LongTaskLayout, name: str) -> JsonObject:
    """Brings files, index, branch and HEAD back to a rescue point; ``undo`` names the point of what was there.

    ``Busy`` while a run holds the lease. ``UnsafeTree``, with nothing touched, when git is in the middle of something.
    """
    task, _ = LongTaskStore(layout).load()
    lock = RunLease(layout, owner=None, ttl_seconds=DEFAULT_TTL_SECONDS, run_id=new_run_id())
    with lock:
        if lock.acquire():
            raise Busy(f"a run holds the lease {layout.lock}", hint="wait until it has ended")
        lock.keep()
        point = session_folder.find_point(layout, name)
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
    made = session_folder.take_point(
        layout,
        session_folder.made(layout, at),
        task_id=task_id,
        worker="",
        cwd=os.fspath(point.git.top()),
        at=at,
        why=f"before going back to {point.name}",
    )
    if made is None:
        raise AssertionError("the repository was there a moment ago")
    return made


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
