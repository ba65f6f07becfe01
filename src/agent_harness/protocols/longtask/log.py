"""The log of events and the archive of evidence: lines that are only ever added to, and read past any damage.

Source: ``longtask.md`` 3.4, 6, 12, 15.
"""

from __future__ import annotations

import os
import stat
import sys

from agent_harness.errors import StateDamaged
from agent_harness.kernel import files
from agent_harness.kernel.json import jsontext
from agent_harness.protocols.longtask import records
from agent_harness.protocols.longtask.layout import ARCHIVE, LongTaskLayout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from agent_harness.protocols.longtask.records import Contract

    Record = dict[str, Any]

__all__ = [
    "add",
    "add_to_archive",
    "archive_of",
    "archive_path",
    "archived",
    "events",
    "lines",
    "newest_first",
    "refuse_elsewhere",
    "warn",
]


def warn(text: str) -> None:
    """One line for a person on stderr; stdout carries the answer alone."""
    from agent_harness.kernel.terminal import one_line

    try:
        sys.stderr.write(f"lth: warning: {one_line(text)}\n")
    except (OSError, ValueError):  # nobody reads it
        return


def add(layout: LongTaskLayout, record: Record) -> bool:
    """Adds one event to the log of its UTC day; false, with a warning, when it does not fit the table of events."""
    misfits = records.event_problems(record)
    at = record.get("at")
    if not misfits and (not isinstance(at, str) or records.moment(at) is None):
        misfits = [f"event.at is no timestamp: {at}"]
    if misfits:
        warn(f"an event was not written: {'; '.join(misfits)}")
        return False
    from agent_harness.kernel import journal  # readers need none

    refuse_elsewhere(layout, str(at))
    journal.append(layout.run_log(str(at)), record)
    return True


def refuse_elsewhere(layout: LongTaskLayout, at: str) -> None:
    """Raises, before anything is written, where the log of a day cannot be kept: no folder, no file, or a way out.

    ``OutsideTask``, or ``StateDamaged`` for what is in its place.
    """
    path = layout.run_log(at)
    layout.inside(layout.relative(path), "runs")
    for place, fits in ((layout.runs, stat.S_ISDIR), (path, stat.S_ISREG)):
        try:
            mode = os.lstat(place).st_mode
        except OSError:
            return  # it is made with the first event
        if not fits(mode) and not (place == layout.runs and os.path.isdir(place)):
            raise StateDamaged(f"{place} is not what it should be, a {_KINDS[fits]}", hint="move it away")


_KINDS = {stat.S_ISDIR: "folder", stat.S_ISREG: "regular file"}


def newest_first(layout: LongTaskLayout) -> Iterator[Record]:
    """Every event, the one written last first, whatever time it bears; damaged lines are passed over silently."""
    from agent_harness.kernel import journal  # few readers need it

    for path in reversed(_logs(layout)):
        found = (_record(line, ("type", "at")) for line in journal.backwards(path))
        yield from (record for record in found if record is not None)


def _logs(layout: LongTaskLayout) -> list[str]:
    """The files of the log, oldest first. ``OutsideTask`` where the folder leads out of the task."""
    layout.inside(layout.relative(layout.runs), "runs")
    names = os.listdir(layout.runs) if os.path.isdir(layout.runs) else ()
    return [os.path.join(layout.runs, name) for name in sorted(names) if name.endswith(".jsonl")]


def events(layout: LongTaskLayout) -> tuple[list[Record], int]:
    """Every event, by time, and how many damaged lines were passed over."""
    found: list[Record] = []
    skipped = 0
    for path in _logs(layout):
        read, missed = lines(path, ("type", "at"))
        found += read
        skipped += missed
    found.sort(key=lambda record: record["at"])
    return found, skipped


def archived(layout: LongTaskLayout, checkpoint: Record) -> tuple[list[Record], int]:
    """The archived evidence items, oldest first, none twice, and how many damaged lines were passed over."""
    path = archive_path(layout, checkpoint)
    read, skipped = lines(path, ())
    items = [line["evidence"] for line in read if isinstance(line.get("evidence"), dict)]
    return without_repetitions(items), skipped


def archive_path(layout: LongTaskLayout, checkpoint: Record) -> str:
    """Where readers find the archive. ``OutsideTask`` when the checkpoint names a place elsewhere."""
    named = checkpoint.get("evidenceArchive")
    path = named.get("path") if isinstance(named, dict) else None
    return layout.inside(path if isinstance(path, str) and path.strip() else ARCHIVE, "evidenceArchive.path")


def lines(path: str, texts: tuple[str, ...]) -> tuple[list[Record], int]:
    """The records of a file, and how many of its lines hold none; each of those gets a warning.

    A record is an object whose members ``texts`` are strings. A missing file has none.
    """
    found: list[Record] = []
    skipped = 0
    for number, line in _numbered(path):
        record = _record(line, texts)
        if record is None:
            skipped += 1
            warn(f"{path}:{number} is damaged and was passed over")
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


def _record(line: str | bytes, texts: tuple[str, ...]) -> Record | None:
    try:
        record = jsontext.loads(line, exact=False)
    except ValueError:
        return None
    if not isinstance(record, dict) or not all(isinstance(record.get(name), str) for name in texts):
        return None
    return record


def add_to_archive(layout: LongTaskLayout, task: Contract, items: list[Record], at: str) -> None:
    """Appends the items that leave the window. ``OutsideTask`` when the contract names a place elsewhere."""
    from agent_harness.kernel import journal

    path = layout.inside(archive_of(task), "evidencePolicy.archivePath")
    for item in items:
        journal.append(path, {"schemaVersion": 1, "taskId": task.id, "archivedAt": at, "evidence": item})


def archive_of(task: Contract) -> str:
    """Where writers put what leaves the window, as records name it."""
    named = task.section("evidencePolicy").get("archivePath")
    return named if isinstance(named, str) and named.strip() else ARCHIVE


def identity(item: Record) -> tuple[str, ...]:
    """What two recordings of the same evidence have in common."""
    members = (
        item.get("type"),
        item.get("path"),
        item.get("manifestPath"),
        item.get("criterionId") or item.get("criterion"),
        item.get("observedAt"),
        item.get("summary") or item.get("note"),
    )
    return tuple(member if isinstance(member, str) else "" for member in members)


def without_repetitions(items: Iterable[Record]) -> list[Record]:
    """The items in their order, the first of each identity."""
    found: dict[tuple[str, ...], Record] = {}
    for item in items:
        found.setdefault(identity(item), item)
    return list(found.values())
