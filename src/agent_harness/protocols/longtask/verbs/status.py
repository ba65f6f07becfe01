"""Read-only commands `status`, `ls`, `summary` and `tail`, and the lines that `resume` prints first.

Source: ``longtask.md`` 6, 19."""

from __future__ import annotations

import os

from agent_harness.errors import HarnessError
from agent_harness.kernel.terminal import one_line
from agent_harness.protocols.longtask import claim, evidence, log, recovery, schema
from agent_harness.protocols.longtask.layout import LongTaskLayout
from agent_harness.protocols.longtask.records import Checkpoint, LogEvent
from agent_harness.protocols.longtask.store import LongTaskStore
from agent_harness.protocols.longtask.verbs import scheduling

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.longtask.claim import Seen
    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.options import EventOptions, ListOptions
    from agent_harness.protocols.longtask.records import Contract


def status(layout: LongTaskLayout) -> tuple[str, int]:
    """Return the text of ``lth status`` and the exit status."""
    from agent_harness.session import now

    store = LongTaskStore(layout)
    task, held = store.load()
    items, _ = evidence.everything(layout, held)
    events, _ = store.events()
    found = claim.look(layout, task, held, store.now())
    checkpoint = found.checkpoint
    working = lease_of(store) == "held" and recovery.is_unfinished(events)
    word = _word(layout, task, checkpoint)
    proof = f"{word['grade']}: {word['basis']}" if word.get("grade") else "a person's word"
    rows = [
        ("task", f"{task.id}: {task.title}"),
        ("status", checkpoint.status + (f" ({checkpoint.phase})" if checkpoint.phase else "")),
        *([("proof", proof)] if word else []),
        ("due", _due(found)),
        ("next run", _rollback_point(store, found, events)),
        *([] if checkpoint.status == "done" else [("next step", checkpoint.next_step)]),
        *_blockers(checkpoint),
        *(("rate limit", _limit(each)) for each in _rate_limits(task, checkpoint, store)),
        ("evidence", f"{len(items)} item{'' if len(items) == 1 else 's'}"),
        ("usage", _usage(log.total_usage(events), working=working)),
        ("last event", _event(events[-1]) if events else "none"),
        ("lease", _lease(store)),
        *(("now", each.line()) for each in now.read(layout.home())),
    ]
    return "\n".join(f"{name + ':':<12}{one_line(text)}" for name, text in rows), 0


def _word(layout: LongTaskLayout, task: Contract, checkpoint: Checkpoint) -> JsonObject:
    line = claim.proof_of(layout, task.id) if checkpoint.status == "done" else None
    return {"grade": line.grade, "basis": line.basis} if line else {}


def explain(layout: LongTaskLayout) -> None:
    """Explain on stderr what ``lth resume`` is going to do."""
    store = LongTaskStore(layout)
    task, held = store.load()
    found = claim.look(layout, task, held, store.now())
    way = _rollback_point(store, found, store.events()[0])
    log.tell(f"resume: {way} ({_due(found)}); next step: {one_line(found.checkpoint.next_step)}")
    for each in _rate_limits(task, found.checkpoint, store):
        log.tell(f"resume: rate limit: {one_line(_limit(each))}")


def _rollback_point(store: LongTaskStore, found: Seen, events: list[LogEvent]) -> str:
    row = recovery.row_for(
        lease=lease_of(store),
        due="claimed" if found.claimed else found.due.decision,
        unfinished=recovery.is_unfinished(events),
    )
    return f"{row.step}: {row.reason}"


def _due(found: Seen) -> str:
    due = found.due
    wait = f", {due.wait_seconds} s left" if due.wait_seconds else ""
    return f"{due.decision}: {due.reason}{wait}"


def _blockers(checkpoint: Checkpoint) -> Iterator[tuple[str, str]]:
    if checkpoint.blocked_until:
        yield "blocked", f"until {checkpoint.blocked_until}"
    if checkpoint.blocker and checkpoint.blocker.raw:
        said = map(checkpoint.blocker.raw.get, ("type", "source", "message"))
        yield "blocker", ", ".join(str(each) for each in said if each)
    for worker, cooldown in checkpoint.cooldowns.items():
        yield "cooldown", f"{worker} until {cooldown.raw.get('blockedUntil')}"


def _rate_limits(task: Contract, checkpoint: Checkpoint, store: LongTaskStore) -> list[JsonObject]:
    found: list[JsonObject] = scheduling.rate_limits(store.layout, task, checkpoint, store.now()).get("rateLimits", [])
    return found


def _limit(found: JsonObject) -> str:
    from agent_harness.kernel.rate_limits import spoken_end

    until = spoken_end(found["untilLocal"], found.get("toldUntil"))
    return f"{found['worker']} until {until}; to continue now: {found['lift']}"


def _usage(spent: JsonObject, *, working: bool) -> str:
    """Return the task's tokens and cost as text."""
    unknown = spent["unknownRuns"] - working
    if not spent["knownRuns"]:
        said = "run" if unknown == 1 else "runs"
        return f"unknown; not reported by {unknown} {said}" if unknown > 0 else "none yet" if working else "none"
    cost = "cost unknown" if spent["costUsd"] is None else f"{spent['costUsd']:.2f} USD"
    others = f"; not reported by {unknown} more" if unknown > 0 else ""
    return f"{spent['totalTokens']} tokens, {cost}, in {spent['knownRuns']} runs{others}"


def _event(event: LogEvent) -> str:
    said = map(event.raw.get, ("type", "worker", "status", "reason"))
    return f"{event.at} {' '.join(str(each) for each in said if each)}"


def _look(store: LongTaskStore) -> Any:
    if not os.path.lexists(store.layout.lock):
        return None
    from agent_harness.protocols.longtask.run import lease_file

    return lease_file.look(store.layout, store.now())


def lease_of(store: LongTaskStore) -> str:
    found = _look(store)
    return "none" if found is None else _kind(found)


def _kind(lease: Any) -> str:
    if not lease.held:
        return "over"
    return "held" if "expiresAt" in lease.info else "unreadable"


def _lease(store: LongTaskStore) -> str:
    found = _look(store)
    if found is None:
        return "none"
    said = ", ".join(f"{name} {found.info[name]}" for name in ("owner", "expiresAt", "message") if name in found.info)
    return f"{_kind(found)}: {said}"


def tail(layout: LongTaskLayout, options: EventOptions) -> tuple[JsonObject, int]:
    """Return the newest events of the task, newest last."""
    limit, kind = options.limit or 20, options.type
    store = LongTaskStore(layout)
    store.load()
    events, skipped = store.events()
    found = [event for event in events if kind is None or event.type == kind][-limit:]
    answer: JsonObject = {
        "taskId": store.task_id(),
        "limit": limit,
        "type": kind,
        "count": len(found),
        "events": [event.raw for event in found],
    }
    return _with_skipped(answer, skipped), 0


def summary(layout: LongTaskLayout, options: EventOptions) -> tuple[JsonObject, int]:
    """Return statistics about the task, and the newest events."""
    limit = options.limit or 5
    store = LongTaskStore(layout)
    task, checkpoint = store.load()
    events, torn_events = store.events()
    items, torn_items = evidence.everything(layout, checkpoint)
    seen = claim.look(layout, task, checkpoint, store.now()).checkpoint
    answer: JsonObject = {
        "taskId": task.id,
        "status": seen.status,
        "currentPhase": seen.raw.get("currentPhase"),
        "nextStep": seen.next_step,
        "blockedUntil": seen.blocked_until,
        "blocker": seen.blocker.raw if seen.blocker else None,
        "evidenceCount": len(items),
        "checkpointEvidenceCount": len(checkpoint.evidence),
        "archivedEvidenceCount": schema.whole(checkpoint.archived_count, 0),
        "totalEvents": len(events),
        "eventCounts": _counts(events, "type"),
        "workerCounts": _counts(events, "worker"),
        "rateLimits": [_rate_limit(event) for event in events if event.type == "rate_limited"],
        "lastEvent": events[-1].raw if events else None,
        "latestEvents": [event.raw for event in events[-limit:]],
        "usage": log.total_usage(events),
        **_word(layout, task, seen),
    }
    return _with_skipped(answer, torn_events + torn_items), 0


def _counts(events: list[LogEvent], name: str) -> dict[str, int]:
    counts: dict[str, int] = {}
    for event in events:
        value = event.raw.get(name)
        if isinstance(value, str) and value:
            counts[value] = counts.get(value, 0) + 1
    return counts


def _rate_limit(event: LogEvent) -> JsonObject:
    blocker = event.raw.get("blocker")
    found = {name: event.raw.get(name) for name in ("at", "status", "reason", "worker", "blockedUntil")}
    return {**found, "source": blocker.get("source") if isinstance(blocker, dict) else None}


def _with_skipped(answer: JsonObject, skipped: int) -> JsonObject:
    return {**answer, "skippedLines": skipped} if skipped else answer


_SIGNS = ("task.json", "checkpoint.json")
_PASSED_OVER = frozenset(("node_modules", "__pycache__"))
_WIDEST_STEP = 60
_TITLES = ("TASK", "STATUS", "DUE", "NEXT STEP")


def ls(layout: LongTaskLayout, options: ListOptions) -> tuple[JsonObject | str, int]:
    """Return a table of all tasks below the folder."""
    if not os.path.isdir(layout.root):
        raise HarnessError(f"there is no such folder: {layout.root}")
    tasks = [_task_row(layout.root, path) for path in _places(layout.root)]
    if options.json:
        return {"folder": layout.root, "count": len(tasks), "tasks": tasks}, 0
    return _task_table(tasks) if tasks else f"no long tasks below {one_line(layout.root)}", 0


def _places(root: str) -> Iterator[str]:
    def skipped(error: OSError) -> None:
        log.warn(f"{error.filename} was skipped: {error.strerror}")

    for folder, names, files in os.walk(root, onerror=skipped):
        if all(sign in files for sign in _SIGNS):
            names.clear()
            yield folder
        names[:] = sorted(name for name in names if not name.startswith(".") and name not in _PASSED_OVER)


def _task_row(root: str, path: str) -> JsonObject:
    layout = LongTaskLayout(path)
    store = LongTaskStore(layout)
    head = {"path": os.path.relpath(path, root), "taskId": store.task_id()}
    try:
        task, held = store.load()
        seen = claim.look(layout, task, held, store.now())
    except HarnessError as error:
        return {**head, "status": "invalid", "decision": None, "errors": getattr(error, "errors", [error.message])}
    return {
        **head,
        "title": task.title,
        "status": seen.checkpoint.status,
        "decision": seen.due.decision,
        "reason": seen.due.reason,
        "blockedUntil": seen.checkpoint.blocked_until,
        "waitSeconds": seen.due.wait_seconds,
        "nextStep": seen.checkpoint.next_step,
        "lease": lease_of(store),
        **_word(layout, task, seen.checkpoint),
    }


# ---- for people


def _task_table(tasks: list[JsonObject]) -> str:
    rows = [_TITLES, *(_cells(each) for each in tasks)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_TITLES) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    )


def _cells(task: JsonObject) -> tuple[str, ...]:
    step = one_line(task["errors"][0] if "errors" in task else task["nextStep"])
    step = step if len(step) <= _WIDEST_STEP else f"{step[: _WIDEST_STEP - 3]}..."
    status = f"{task['status']}, {task['grade']}" if task.get("grade") else task["status"]
    return one_line(task["path"]), status, _due_cell(task), step


def _due_cell(task: JsonObject) -> str:
    if task.get("lease") == "held":
        return "running"
    return f"wait {task['waitSeconds']} s" if task.get("waitSeconds") else task["decision"] or "-"
