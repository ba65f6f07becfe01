"""Recovery: a table that says what the next run does with the leftovers of the previous run, and the cleanup.

    expired lease            is removed (``run.lease_file``)
    agent still running      is ended, if its run id proves that the agent belongs to that lease
    temporary files          are removed, if the process that wrote them is dead
    checkpoint file, log     stay unchanged: the checkpoint file is old or new, and readers skip an incomplete line

Source: ``longtask.md`` 4, 14, 15."""

from __future__ import annotations

import os

from agent_harness.kernel import files
from agent_harness.protocols.longtask import log
from agent_harness.protocols.longtask.store import DirectoryLock

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.records import LogEvent


_TEMPORARY = ".tmp."


class LeftoverRow:
    """One row of the recovery table: conditions, and the recovery step for them."""

    def __init__(self, lease: str | None, due: str | None, unfinished: bool | None, step: str, reason: str) -> None:
        self.lease = lease  # none, held, unreadable, over
        self.due = due  # the decision of the checkpoint; "claimed" for a `done` that is not proven
        self.unfinished = unfinished  # True if the last started worker never ended
        self.step = step
        self.reason = reason


ROWS: Sequence[LeftoverRow] = (
    LeftoverRow("held", None, None, "wait", "another run holds the lease"),
    LeftoverRow("unreadable", None, None, "wait", "the lease cannot be read, and counts as held until it is old"),
    LeftoverRow(
        None, "claimed", None, "verify first", "a worker claimed that the task is done, and the claim is not verified"
    ),
    LeftoverRow(None, "wait", None, "wait", "the task is blocked and must still wait"),
    LeftoverRow(None, "done", None, "stop", "the task is complete"),
    LeftoverRow(None, "needs-human", None, "stop", "a person must decide"),
    LeftoverRow("over", "run", True, "start again", "the last run died with its worker, so its lease is ended"),
    LeftoverRow("over", "run", False, "go on", "the last run died between two slices, so its lease is ended"),
    LeftoverRow("none", "run", True, "start again", "the last worker that was started never ended"),
    LeftoverRow("none", "run", False, "go on", "the last slice ended normally"),
)
"""Rows of the recovery table, of which the first matching row decides.

``start again`` and ``go on`` both run the slice that ``nextStep`` describes.
"""


def row_for(*, lease: str, due: str, unfinished: bool) -> LeftoverRow:
    return next(
        row
        for row in ROWS
        if row.lease in (None, lease) and row.due in (None, due) and row.unfinished in (None, unfinished)
    )


def is_unfinished(events: Iterable[LogEvent]) -> bool:
    """Return True if the last agent start has no end event. The events come oldest first."""
    running = False
    for event in events:
        running = event.type == "worker_started" or (running and event.type not in log.ENDS)
    return running


def clear_away(layout: LongTaskLayout, retired: JsonObject | None) -> None:
    """End a killed run's processes and remove its temporary files. The caller must hold the lease."""
    if retired is not None:
        from agent_harness.kernel.process import end_orphans

        ended = end_orphans({"run_id": retired.get("runId")})
        also = f"; {ended} processes of its worker were ended" if ended else ""
        log.warn(f"the run of {retired.get('owner') or 'somebody'} did not release its lease{also}")
    with DirectoryLock(layout.root):
        for folder in (layout.root, layout.evidence, layout.runs):
            for name in os.listdir(folder) if os.path.isdir(folder) else ():
                if _TEMPORARY in name:
                    files.sweep(os.path.join(folder, name.partition(_TEMPORARY)[0]))
