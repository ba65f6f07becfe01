"""`record`: progress, written by a person or by the worker itself. Source: ``longtask.md`` 12."""

from __future__ import annotations

from agent_harness.errors import UsageError, VerificationFailed
from agent_harness.kernel import clock
from agent_harness.protocols.longtask.schema import REASONS, SOURCES, STATUSES
from agent_harness.protocols.longtask.store import LongTaskStore
from agent_harness.protocols.longtask.values import at_time, flag, one_of, seconds, text, texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.store import CheckpointChange

    Options = dict[str, object]
    Record = dict[str, Any]

__all__ = ["record"]


def record(layout: LongTaskLayout, options: Options) -> tuple[str, int]:
    """Writes the progress that the options name. ``VerificationFailed``, and nothing written, for an untrue ``done``.

    ``UsageError`` for a word, a time or a number that means nothing, before anything is read.
    """
    status = one_of(options, "status", STATUSES)
    if status is None:
        raise UsageError(f"record requires --status: one of {', '.join(STATUSES)}")
    _check(options)
    store = LongTaskStore(layout)
    if status == "done":
        store.load()
        _verify(layout, options)
    task_id = store.change(lambda change: _record(change, status, options))
    return f"Recorded {status} for {task_id}", 0


def _check(options: Options) -> None:
    one_of(options, "reason", REASONS)
    one_of(options, "source", SOURCES)
    at_time(options, "blocked-until")
    seconds(options, "retry-after-seconds")
    note = text(options, "note")
    if note is not None and not note.strip():
        raise UsageError("--note is the next step: it must not be blank")


def _verify(layout: LongTaskLayout, options: Options) -> None:
    """``done`` is only written when every criterion holds; runs without the lock."""
    from agent_harness.protocols.longtask import criteria

    report, code = criteria.verify(layout, options)
    if code:
        raise VerificationFailed("verification failed; nothing was recorded", report=report)


def _record(change: CheckpointChange, status: str, options: Options) -> str:
    raw = change.checkpoint.raw
    note = text(options, "note")
    raw["status"] = status
    if note is not None:
        raw["nextStep"] = note
    raw["blockedUntil"] = _reopens(change.now, options)
    raw["blocker"] = _blocker(change, status, options)
    members = {
        "lastCompletedStep": text(options, "last-completed-step"),
        "activeFiles": texts(options, "active-files"),
        "openQuestions": texts(options, "open-questions"),
    }
    raw.update({name: value for name, value in members.items() if value is not None})
    change.touch()
    noted = {} if note is None else {"note": note}
    change.event("progress_recorded", status=status, **noted, blockedUntil=raw["blockedUntil"], blocker=raw["blocker"])
    return change.task.id


def _reopens(now: datetime, options: Options) -> str | None:
    """When the task may go on; an older time never stays."""
    at, wait = at_time(options, "blocked-until"), seconds(options, "retry-after-seconds")
    if at is None and wait is not None:
        from agent_harness.kernel.clock import timedelta

        at = now + timedelta(seconds=wait)
    return None if at is None else clock.timestamp(at, fraction=True)


def _blocker(change: CheckpointChange, status: str, options: Options) -> Record | None:
    asked = flag(options, "requires-human")
    if status not in ("blocked", "needs-human") and not asked and not {"reason", "source"} & options.keys():
        return None
    note = text(options, "note")
    return {
        "type": text(options, "reason") or ("manual" if status == "needs-human" else "unknown"),
        "source": text(options, "source") or "manual",
        **({} if note is None else {"message": note}),
        "observedAt": change.at,
        "retryAfterSeconds": seconds(options, "retry-after-seconds"),
        "requiresHuman": asked or status == "needs-human",
    }
