"""What a worker's end makes of the checkpoint: rules over one change, each with the events that tell of it.

    exit 0, nothing written     paused, for review
    exit 0, checkpoint written  kept as it is; a claim of `done` only when it is verified
    failed                      the class of the failure decides
    interrupted                 the output is kept, the state stays
    checkpoint damaged          kept aside, the one before the run restored, a person is asked

Source: ``longtask.md`` 10.3, 10.4, 11.
"""

from __future__ import annotations

from agent_harness.protocols.longtask import (
    evidence,
    records,
    schema,
    values,
)
from agent_harness.protocols.longtask.records import moment
from agent_harness.protocols.longtask.run import classifier, codex_session

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from agent_harness.protocols.longtask.records import Checkpoint, Contract
    from agent_harness.protocols.longtask.run.ran import Ran
    from agent_harness.protocols.longtask.store import CheckpointChange, LongTaskStore

    Record = dict[str, Any]

__all__ = [
    "apply_class",
    "ask_about_damage",
    "authored",
    "cool_down",
    "earliest_end",
    "event_of_class",
    "keep_output",
    "note_of",
    "output_item",
    "record_classification",
    "session_evidence",
    "settle_success",
    "withdraw_claim",
]

_AUTHORED = (
    "status",
    "nextStep",
    "currentPhase",
    "lastCompletedStep",
    "blocker",
    "blockedUntil",
    "activeFiles",
    "openQuestions",
)
_LONGEST_NOTE = 500


def authored(before: Record, after: Record) -> bool:
    """Whether somebody wrote progress into the checkpoint in between; an absent member is the same as an empty one."""
    return any((before.get(name) or None) != (after.get(name) or None) for name in _AUTHORED)


def output_item(ran: Ran, path: str) -> Record:
    """The evidence item of a worker's output file; a failure carries its exit code."""
    item: Record = {"type": "worker-output", "path": path, "observedAt": ran.finished_at}
    return {**item, "exitCode": ran.exit_code} if ran.exit_code else item


# ---- exit 0


def settle_success(
    change: CheckpointChange, before: Record, ran: Ran, items: list[Record], *, fallback: bool = False
) -> None:
    """What exit 0 makes of the checkpoint; a claim of `done` has been verified before."""
    raw, worker = change.checkpoint.raw, ran.plan.worker
    kept = authored(before, raw)
    evidence.add(change, *items)
    if kept:
        reason = "fallback evidence recorded" if fallback else "worker output recorded"
    else:
        reason = f"{'fallback ' if fallback else ''}worker completed without checkpoint update"
        raw["status"] = "paused"
        raw["lastCompletedStep"] = f"{worker} completed one slice: {before.get('nextStep')}"
        raw["nextStep"] = f"Review the output in {items[-1]['path']} and choose the next bounded step."
        raw["blocker"] = None
        raw["blockedUntil"] = None
    change.event("checkpoint_written", status=change.checkpoint.status, reason=reason, worker=worker)


def withdraw_claim(change: CheckpointChange, worker: str | None, unmet: list[str]) -> None:
    """Takes back a claim of `done` that is not proven: the task goes on, and the next step names what is missing.

    ``worker`` is ``None`` for a claim that an earlier run left behind.
    """
    raw = change.checkpoint.raw
    raw["status"] = "paused"
    raw["blocker"] = None
    raw["blockedUntil"] = None
    named = ", ".join(unmet) if unmet else "every success criterion; nothing has been verified yet"
    raw["nextStep"] = f"The claim of done was not verified. Meet and prove: {named}."
    change.touch()
    named_worker = {"worker": worker} if worker else {}
    change.event("checkpoint_written", status="paused", reason=records.WITHDRAWN, **named_worker)


def ask_about_damage(change: CheckpointChange, worker: str) -> None:
    """Asks a person about a checkpoint that the worker left damaged; the one before the run is back in its place."""
    raw = change.checkpoint.raw
    raw["status"] = "needs-human"
    raw["blockedUntil"] = None
    raw["blocker"] = {
        "type": "unknown",
        "source": worker if worker in schema.SOURCES else "manual",
        "message": f"{worker} left an invalid checkpoint; it was kept as {change.damaged}",
        "observedAt": change.at,
        "retryAfterSeconds": None,
        "requiresHuman": True,
        "worker": worker,
    }
    change.touch()
    change.event("checkpoint_written", status="needs-human", reason="worker left an invalid checkpoint", worker=worker)


def keep_output(change: CheckpointChange, worker: str, items: list[Record]) -> None:
    """Adds the output of a run that was cut short; the state stays as it is."""
    evidence.add(change, *items)
    change.event("checkpoint_written", status=change.checkpoint.status, reason="worker output recorded", worker=worker)


# ---- failures


def apply_class(
    change: CheckpointChange,
    found: Record,
    items: list[Record],
    *,
    before: Record | None,
    worker: str | None,
    until: str | None = None,
    next_step: str | None = None,
    text: str,
) -> None:
    """Status, blocker and next step after a failure of a class, and the events of it.

    ``before`` is the checkpoint before the run: a next step that the worker wrote since then stays; without it the next
    step is always replaced. ``until`` is an end of the wait that comes earlier, ``next_step`` another next
    step than that of the class.
    """
    raw, name = change.checkpoint.raw, found["class"]
    status = found["statusSuggestion"]
    raw["status"] = status
    raw["blockedUntil"] = until or found["blockedUntil"]
    raw["blocker"] = None if name == "success" else _blocker(change, found, worker)
    if before is None or before.get("nextStep") == raw.get("nextStep"):
        raw["nextStep"] = next_step or classifier.NEXT_STEPS[name]
    change.touch()
    if items:
        evidence.add(change, *items)
    event_of_class(
        change, found, items, status=status, worker=worker, until=raw["blockedUntil"], blocker=raw["blocker"], text=text
    )
    named = {"worker": worker} if worker else {}
    change.event("checkpoint_written", status=status, reason=f"classified {name}", **named)


def event_of_class(
    change: CheckpointChange,
    found: Record,
    items: list[Record],
    *,
    status: str,
    worker: str | None,
    until: str | None,
    blocker: Record | None,
    text: str,
) -> None:
    """The event `rate_limited` or `failure_classified`."""
    limited = found["class"] == "rate_limit"
    change.event(
        "rate_limited" if limited else "failure_classified",
        status=status,
        reason=found["class"],
        note=note_of(text),
        blockedUntil=until,
        blocker=blocker,
        **({"evidence": items} if items else {}),
        **({"worker": worker} if worker and limited else {}),
    )


def note_of(text: str) -> str:
    """The first 500 characters of a text, redacted."""
    from agent_harness.kernel.redact import redact

    text = redact(text[: 8 * _LONGEST_NOTE])
    return text if len(text) <= _LONGEST_NOTE else f"{text[: _LONGEST_NOTE - 3]}..."


def cool_down(change: CheckpointChange, worker: str, found: Record, items: list[Record]) -> None:
    """Notes until when a worker is rate-limited."""
    cooldowns = dict(change.checkpoint.cooldowns)
    cooldowns[worker] = {
        "type": "rate_limit",
        "source": found["source"],
        "message": found["summary"],
        "observedAt": change.at,
        "blockedUntil": found["blockedUntil"],
        "retryAfterSeconds": found["retryAfterSeconds"],
        "evidence": [evidence.in_order(item) for item in items],
    }
    change.checkpoint.raw["workerCooldowns"] = cooldowns
    change.touch()


def earliest_end(checkpoint: Checkpoint) -> str | None:
    """When the first of the workers that cool down may go on; ``None`` when none does."""
    ends = [each.get("blockedUntil") for each in checkpoint.cooldowns.values() if isinstance(each, dict)]
    known = [(at, text) for text in ends if (at := moment(text)) is not None and isinstance(text, str)]
    return min(known)[1] if known else None


def _blocker(change: CheckpointChange, found: Record, worker: str | None) -> Record:
    blocker: Record = {
        "type": found["class"],
        "source": found["source"],
        "message": found["summary"],
        "observedAt": change.at,
        "retryAfterSeconds": found["retryAfterSeconds"],
        "requiresHuman": found["statusSuggestion"] == "needs-human",
    }
    return {**blocker, "worker": worker} if worker else blocker


def session_evidence(
    task: Contract,
    options: Mapping[str, object],
    text: str,
    base: str,
    at: str,
    *,
    began: str | None = None,
    ended: str | None = None,
) -> list[Record]:
    """The evidence item of the Codex session behind a rate limit, where it can be found."""
    config = task.section("codexWorker").get("sessionPath")
    named = values.text(options, "codex-session-path") or (config if isinstance(config, str) else None)
    path = codex_session.find(named, text, base, began=_seconds(began), ended=_seconds(ended))
    if path is None:
        return []
    note = "Codex session of the run that was rate-limited"
    return [{"type": "codex-session", "path": path, "source": "codex-cli", "observedAt": at, "note": note}]


def _seconds(timestamp: str | None) -> float | None:
    at = moment(timestamp)
    return at.timestamp() if at else None


# ---- `classify --record`


def record_classification(store: LongTaskStore, found: Record, text: str, options: Mapping[str, object]) -> None:
    """Writes a classification into the checkpoint and the log; the next step is always replaced."""

    def act(change: CheckpointChange) -> None:
        limited = found["source"] == "codex-cli" and found["class"] == "rate_limit"
        items = session_evidence(change.task, options, text, change.layout.root, change.at) if limited else []
        apply_class(change, found, items, before=None, worker=None, text=text)

    store.change(act)
