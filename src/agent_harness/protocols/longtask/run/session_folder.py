"""What one worker's session leaves beside its output file: transcript, recording, and the rescue point before it.

    sessions/STAMP/
      transcript.txt            what it said and did, and what the harness did; redacted
      recording.cassette.jsonl  the same for ``lth run --worker replay:FILE``
      rescue.json               the snapshot of the working copy, where that is a git repository

STAMP is the moment at which the session began. The newest 30 stay.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from agent_harness.errors import HarnessError
from agent_harness.kernel import files
from agent_harness.protocols.longtask import disk, log
from agent_harness.protocols.longtask.layout import LongTaskLayout, file_stamp
from agent_harness.protocols.longtask.run import rescue_point
from agent_harness.protocols.longtask.run.rescue_point import RescuePoint
from agent_harness.supervision.recording import Recording

__all__ = ["SessionFolder", "begun", "made"]

KEPT = 30
RECORDING, TRANSCRIPT = "recording.cassette.jsonl", "transcript.txt"


class SessionFolder:
    """The folder of one session."""

    def __init__(self, path: str, point: RescuePoint | None) -> None:
        self.path = path
        self.point = point

    @property
    def transcript(self) -> str:
        """Its transcript."""
        return os.path.join(self.path, TRANSCRIPT)

    def recording(self) -> Recording:
        """Its recording; with what became of the files where there is a rescue point."""
        path, point = Path(self.path, RECORDING), self.point
        return Recording(path, point.git, point.tree_now) if point else Recording(path)


def begun(layout: LongTaskLayout, *, task_id: str, worker: str, cwd: str, at: str, takes_point: bool) -> SessionFolder:
    """A new folder, with the working copy kept as it is; the oldest folders go.

    ``OutsideTask`` where it would lie elsewhere. A working copy that cannot be kept is a warning: the slice goes on.
    """
    path = made(layout, at)
    _forget_oldest(layout)
    if not takes_point:
        return SessionFolder(path, None)
    try:
        return SessionFolder(path, rescue_point.taken(layout, path, task_id=task_id, worker=worker, cwd=cwd, at=at))
    except HarnessError as error:
        log.warn(f"no rescue point before this slice: {error.message}")
        return SessionFolder(path, None)


def made(layout: LongTaskLayout, at: str) -> str:
    """A new, empty folder of a session."""
    start = layout.inside(layout.relative(os.path.join(layout.sessions, file_stamp(at))), "sessions")
    for path in disk.names(start):
        try:
            os.makedirs(path)
        except FileExistsError:
            continue
        except OSError as error:
            raise files.refusal(path, "made", error) from None
        return path
    raise AssertionError("there is always a free name")


def _forget_oldest(layout: LongTaskLayout) -> None:
    for name in sorted(os.listdir(layout.sessions))[:-KEPT]:
        path = os.path.join(layout.sessions, name)
        if os.path.isdir(path) and not os.path.islink(path):
            rescue_point.let_go(path)
            shutil.rmtree(path, ignore_errors=True)
