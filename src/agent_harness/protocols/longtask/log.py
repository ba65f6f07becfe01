"""Event log and evidence archive. Both are append-only files. Readers skip damaged lines.

Source: ``longtask.md`` 3.4, 6, 12, 15."""

from __future__ import annotations

import os
import stat
import sys

from agent_harness.errors import HarnessError, StateDamaged
from agent_harness.kernel import files
from agent_harness.kernel.json import dollars, jsontext, number_below, token_count
from agent_harness.protocols.longtask import records, schema
from agent_harness.protocols.longtask.layout import ARCHIVE, LongTaskLayout
from agent_harness.protocols.longtask.records import EvidenceItem, LogEvent

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import ExitStack

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.longtask.records import Checkpoint, Contract


_LISTENERS: list[Callable[[str], None]] = []


def told_to(say: Callable[[str], None]) -> ExitStack:
    """Pass messages to ``say`` until the caller closes the returned stack."""
    from contextlib import ExitStack

    _LISTENERS.append(say)
    until = ExitStack()
    until.callback(_LISTENERS.remove, say)
    return until


def tell(line: str) -> None:
    """Pass the line to the live view. Without a live view, print it on stderr."""
    if _LISTENERS:
        _LISTENERS[-1](line)
        return
    try:
        sys.stderr.write(f"{line}\n")
    except (OSError, ValueError):  # there is no reader
        return


def warn(text: str) -> None:
    from agent_harness.kernel.terminal import one_line

    tell(f"lth: warning: {one_line(text)}")


def add(layout: LongTaskLayout, record: JsonObject, task_id: str | None = None) -> bool:
    """Append an event to the log. For an invalid event, warn and return False."""
    misfits = schema.misfits(record, schema.RUN_EVENT, "event")
    at = record.get("at")
    if not misfits and (not isinstance(at, str) or records.moment(at) is None):
        misfits = [f"event.at must be a timestamp, got {at}"]
    if misfits:
        warn(f"an event was not written: {'; '.join(misfits)}")
        return False
    from agent_harness.kernel import journal  # readers need none

    refuse_elsewhere(layout, str(at))
    # outside the task too, where no agent can change it
    if task_id is not None:
        _keep(layout, record, task_id)
    journal.append(_day_of(layout, str(at)), record)
    return True


def _day_of(layout: LongTaskLayout, at: str) -> str:
    path = layout.run_log(at)
    try:
        layout.inside(layout.relative(path), "runs")
        return max([path, *days(layout)[-1:]])
    except HarnessError:  # the writer reports the error
        return path


def refuse_elsewhere(layout: LongTaskLayout, at: str) -> None:
    """Raise an error if the daily log cannot be written. Call this before any other write."""
    path = _day_of(layout, at)
    layout.inside(layout.relative(path), "runs")
    for place, fits in ((layout.runs, stat.S_ISDIR), (path, stat.S_ISREG)):
        try:
            mode = os.lstat(place).st_mode
        except OSError:
            return  # created with the first event
        if not fits(mode) and not (place == layout.runs and os.path.isdir(place)):
            raise StateDamaged(f"{place} is not a {_KINDS[fits]}", hint="move the file or folder away")


ENDS = ("worker_completed", "worker_failed")
"""Names of the events that end a slice."""
COUNTED = ("inputTokens", "outputTokens", "cachedTokens", "totalTokens")
"""Names of the token counts in a usage record, in addition to ``costUsd``.

Cached input is counted only in ``cachedTokens``. ``totalTokens`` is input plus output without cached input. Counts that
an agent does not report are ``None``.
"""
_KINDS = {stat.S_ISDIR: "folder", stat.S_ISREG: "regular file"}


_TOLD = ("worker", "status", "grade", "reason", "decision", "nextStep", "note")
_SERIOUS = ("worker_failed", "needs_human")


def rows(layout: LongTaskLayout) -> Iterator[JsonObject]:
    """Yield the task's events, newest first, as rows for a log view."""
    for event in newest_first(layout):
        level = "CRITICAL" if event.type in _SERIOUS else "IMPORTANT"
        yield {**event.raw, "log": "events", "ts": event.at, "level": level, "message": _said(event.raw)}


def told(line: str) -> tuple[str, str] | None:
    """Return the time and text of a log line, or None for a damaged line."""
    record = _record(line, ("type", "at"))
    return (str(record["at"]), f"{record['type']}  {_said(record)}".rstrip()) if record else None


def _said(record: JsonObject) -> str:
    return "  ".join(f"{name}={record[name]}" for name in _TOLD if record.get(name))


# ---- events kept outside the task, in the state folder of ``kernel/trusted_state.py``

_COURSE = "course.jsonl"
_BEGUN = "course_begun"
_DECIDING = ("worker_started", *ENDS, "progress_recorded", "checkpoint_written")


def _keep(layout: LongTaskLayout, record: JsonObject, task_id: str) -> None:
    from agent_harness.kernel import journal

    kind = record["type"]
    path = layout.outside(_COURSE, make=kind == "worker_started") if kind in _DECIDING else None
    # an agent must not decide whether the task is done
    if path is None or worker_speaks(layout):
        return
    if not any(True for _ in _course(layout, task_id)):
        if kind != "worker_started":
            return
        started, cost = slices(layout, task_id)
        journal.append(path, {"type": _BEGUN, "at": record["at"], "task": task_id, "slices": started, "costUsd": cost})
    known = ("type", "at", "status", "reason", "usage")
    journal.append(path, {"task": task_id, **{name: record[name] for name in known if name in record}})


def begin_anew(layout: LongTaskLayout) -> None:
    """Delete events of an earlier task in this directory, which the state folder still contains."""
    path = layout.outside(_COURSE)
    if path and os.path.lexists(path):
        os.unlink(path)


def _course(layout: LongTaskLayout, task_id: str) -> Iterator[JsonObject]:
    """Yield the task's events from the state folder, newest first."""
    from agent_harness.kernel import journal

    path = layout.outside(_COURSE) or ""
    if os.path.isfile(path):
        found = (_record(line, ("type", "at")) for line in journal.backwards(path))
        yield from (each for each in found if each is not None and each.get("task") == task_id)


def deciding(layout: LongTaskLayout, task_id: str) -> Iterator[LogEvent]:
    """Yield the events that decide whether the task is done, newest first."""
    empty = True
    for record in _course(layout, task_id):
        empty = False
        if record["type"] != _BEGUN:
            yield LogEvent(record)
    # no agent was started: nothing is saved outside the task
    if empty:
        yield from newest_first(layout)


def worker_speaks(layout: LongTaskLayout) -> bool:
    """Return True if an agent of this task, or a criteria command, started this process."""
    from agent_harness.kernel import owner

    root = os.path.realpath(layout.root)
    named = (each.get("LTH_TASK_DIR") for each in owner.environments())
    return any(os.path.realpath(folder) == root for folder in named if folder)


def refuse_workers(layout: LongTaskLayout, command: str) -> None:
    """Raise ``Refused`` if an agent of the task calls ``command``, which only people may use."""
    if worker_speaks(layout):
        from agent_harness.errors import Refused

        raise Refused(
            f"{command} is a decision for the user: workers of the task may not run this command",
            hint="record what the user should decide: lth record TASK_DIR --status needs-human --note TEXT",
        )


# ---- reading it


def newest_first(layout: LongTaskLayout) -> Iterator[LogEvent]:
    """Yield all events. The event that was written last comes first."""
    from agent_harness.kernel import journal  # few readers need it

    for path in reversed(days(layout)):
        found = (_record(line, ("type", "at")) for line in journal.backwards(path))
        yield from (LogEvent(record) for record in found if record is not None)


def slices(layout: LongTaskLayout, task_id: str) -> tuple[int, float]:
    """Return how many times agents started, and the total cost in US dollars."""
    started, cost = 0, 0.0
    for path in days(layout):
        for record in filter(None, (_record(line, ("type",)) for _, line in _numbered(path))):
            started += record["type"] == "worker_started"
            cost += _paid(record)
    kept, kept_cost = 0, 0.0
    for record in _course(layout, task_id):
        kept += int(number_below(record.get("slices"), 1e12) or 0) + (record["type"] == "worker_started")
        kept_cost += (number_below(record.get("costUsd"), 1e12) or 0.0) + _paid(record)
    # an agent can edit the records in the task, so the higher number counts
    return max(started, kept), max(cost, kept_cost)


def _paid(record: JsonObject) -> float:
    used = record.get("usage")
    paid = used.get("costUsd") if isinstance(used, dict) and record["type"] in ENDS else None
    return number_below(paid, 1e12) or 0.0


def total_usage(events: Iterable[LogEvent]) -> JsonObject:
    """Return the sum of the tokens and costs of all agent runs. ``costUsd`` is None if a known run reports no cost."""
    told = [event for event in events if event.type == "worker_started" or event.type in ENDS]
    ended = [event for event in told if event.type in ENDS]
    silent = max(0, len(told) - 2 * len(ended))
    known = [used for event in ended if isinstance(used := event.raw.get("usage"), dict)]
    costs = [dollars(each.get("costUsd")) for each in known]
    sums = {name: sum(token_count(each.get(name)) or 0 for each in known) for name in COUNTED}
    cost = None if not costs or None in costs else round(sum(filter(None, costs)), 6)
    return {"knownRuns": len(known), "unknownRuns": len(ended) - len(known) + silent, **sums, "costUsd": cost}


def days(layout: LongTaskLayout) -> list[str]:
    """Return the paths of the daily logs, oldest first."""
    layout.inside(layout.relative(layout.runs), "runs")
    names = os.listdir(layout.runs) if os.path.isdir(layout.runs) else ()
    return [os.path.join(layout.runs, name) for name in sorted(names) if name.endswith(".jsonl")]


def events(layout: LongTaskLayout) -> tuple[list[LogEvent], int]:
    """Return all valid events by time, and the number of damaged lines."""
    found: list[LogEvent] = []
    skipped = 0
    for path in days(layout):
        read, missed = lines(path, ("type", "at"))
        found += map(LogEvent, read)
        skipped += missed
    found.sort(key=lambda event: event.at)
    return found, skipped


def archived(layout: LongTaskLayout, checkpoint: Checkpoint) -> tuple[list[EvidenceItem], int]:
    """Return the archived evidence items, oldest first, and the number of damaged lines."""
    named = checkpoint.section("evidenceArchive").text("path") or ARCHIVE
    read, skipped = lines(layout.inside(named, "evidenceArchive.path"), ())
    items = [EvidenceItem(line["evidence"]) for line in read if isinstance(line.get("evidence"), dict)]
    found: dict[tuple[str, ...], EvidenceItem] = {}
    for item in items:
        found.setdefault(item.identity, item)
    return list(found.values()), skipped


def lines(path: str, texts: tuple[str, ...]) -> tuple[list[JsonObject], int]:
    """Return the valid records of a JSON Lines file, and the number of damaged lines."""
    found: list[JsonObject] = []
    skipped = 0
    for number, line in _numbered(path):
        record = _record(line, texts)
        if record is None:
            skipped += 1
            warn(f"{path}:{number} is damaged and was skipped")
        else:
            found.append(record)
    return found, skipped


def _numbered(path: str) -> Iterator[tuple[int, bytes]]:
    try:
        with os.fdopen(files.open_regular(path, os.O_RDONLY), "rb") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line
    except FileNotFoundError:
        return
    except OSError as error:
        raise files.refusal(path, "read", error) from None


def _record(line: str | bytes, texts: tuple[str, ...]) -> JsonObject | None:
    try:
        record = jsontext.loads(line, exact=False)
    except ValueError:
        return None
    if not isinstance(record, dict) or not all(isinstance(record.get(name), str) for name in texts):
        return None
    return record


def add_to_archive(layout: LongTaskLayout, task: Contract, items: list[JsonObject], at: str) -> None:
    from agent_harness.kernel import journal

    path = layout.inside(task.archive_path, "evidencePolicy.archivePath")
    for item in items:
        journal.append(path, {"schemaVersion": 1, "taskId": task.id, "archivedAt": at, "evidence": item})
