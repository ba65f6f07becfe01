"""Is `done` proven? A worker that says so is believed only once its claim was verified, also when its run was killed.

The log tells: behind the last worker that `lth run` started, it names either a verification or none. Until there is
one, whoever looks sees a task that goes on, and the next `lth run` verifies before anything else.

Source: ``longtask.md`` 10.3, 18 (row 11).
"""

from __future__ import annotations

from agent_harness.errors import HarnessError, Interrupted
from agent_harness.kernel.json import jsontext
from agent_harness.protocols.longtask import log, records
from agent_harness.protocols.longtask.lifecycle import SchedulingDecision, decide
from agent_harness.protocols.longtask.records import Checkpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime
    from typing import Any

    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.run.lease_file import RunLease
    from agent_harness.protocols.longtask.store import CheckpointChange, LongTaskStore
    from agent_harness.supervision.interruption import Stop

    Record = dict[str, Any]

__all__ = ["Seen", "is_proven", "look", "settle"]

VERIFIED = "claim of done verified"
REASON = "a claim of done is not verified"

_PROOFS = frozenset((VERIFIED, "worker output recorded", "fallback evidence recorded"))


class Seen:
    """A task as it may be believed: its checkpoint, what is due, and whether a claim of `done` waits for its proof."""

    __slots__ = ("checkpoint", "claimed", "due")

    def __init__(self, checkpoint: Checkpoint, due: SchedulingDecision, *, claimed: bool) -> None:
        self.checkpoint = checkpoint
        self.due = due
        self.claimed = claimed


def look(layout: LongTaskLayout, checkpoint: Checkpoint, now: datetime) -> Seen:
    """What is due. A claim that is not proven shows as `paused`, whatever else the worker wrote; nothing is written."""
    if checkpoint.status != "done" or is_proven(log.newest_first(layout)):
        return Seen(checkpoint, decide(checkpoint, now), claimed=False)
    return Seen(Checkpoint({**checkpoint.raw, "status": "paused"}), SchedulingDecision("run", REASON), claimed=True)


def is_proven(events: Iterable[Record]) -> bool:
    """Whether `done` stands on a verification, by the events of the log, the last one written first.

    Where no worker was ever started by `lth run`, people say what is done.
    """
    for event in events:
        kind, reason = event["type"], event.get("reason")
        if kind == "worker_started" or reason == records.WITHDRAWN:
            return False
        if event.get("status") == "done" and (kind == "progress_recorded" or reason in _PROOFS):
            return True
    return True


def settle(store: LongTaskStore, lock: RunLease, interruption: Stop) -> Record | None:
    """Verifies a claim that an earlier run left behind; its report, or ``None`` when there is no such claim.

    Afterwards the checkpoint says `done` with the proof in the log, or `paused` with the criteria that are not met.
    Call it with the lease in hand; the commands of the criteria run without any other lock. ``Interrupted`` after a
    signal: the claim stays what it is.
    """
    report: Record | None = None
    for last in (False, False, True):
        task, checkpoint = store.load()
        if not look(store.layout, checkpoint, store.now()).claimed:
            break
        from agent_harness.protocols.longtask import criteria

        text = jsontext.line(checkpoint.raw)
        report = criteria.check(store.layout, task, checkpoint, stop=lambda: not _goes_on(lock, interruption))
        _require(lock, interruption)
        told = (text, report, last)
        store.change(lambda change, told=told: _settle(change, *told))
    return report


def _goes_on(lock: RunLease, interruption: Stop) -> bool:
    return interruption.number is None and lock.in_time()


def _require(lock: RunLease, interruption: Stop) -> None:
    if interruption.number is not None:
        error = Interrupted("interrupted while a claim of done was being verified; the claim stays what it is")
        error.exit_code = 128 + interruption.number
        raise error
    if not lock.check():
        raise HarnessError("the lease was lost before the worker started", hint="run the same command again")


def _settle(change: CheckpointChange, text: str, report: Record, last: bool) -> None:
    """Writes what the verification of a checkpoint found.

    Another checkpoint than the verified one is left for the next round; in the ``last`` it is not believed.
    """
    same = jsontext.line(change.checkpoint.raw) == text
    if same and report["status"] == "pass":
        change.event("checkpoint_written", status="done", reason=VERIFIED)
    elif same or (last and change.checkpoint.status == "done"):
        from agent_harness.protocols.longtask import criteria
        from agent_harness.protocols.longtask.run import outcome

        outcome.withdraw_claim(change, None, criteria.unmet(report) if same else [])
