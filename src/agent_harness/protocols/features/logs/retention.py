"""How long logs are kept, and which events are kept at all: one row a level.

Once a day, at the start of a run, what is older than its level allows is dropped, whole file by whole file and line by
line; what matters is kept for ever. Source: features.md UAH-432..435, UAH-197, UAH-198, C44.
"""

import os
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock, files, journal
from agent_harness.kernel.json import jsontext
from agent_harness.protocols.features.project import Project

KEPT_DAYS: Mapping[str, int | None] = {"critical": None, "important": 90, "routine": 30, "debug": 7}
"""By level; ``logging.retention_days`` takes the place of the second row (C44)."""

LEVEL_OF_LOG: Mapping[str, str] = {"agent_actions.jsonl": "routine", "usage.jsonl": "routine"}
"""Logs without levels; decisions.jsonl and sessions.jsonl are kept for ever, and are not named here."""

PRUNED = ".pruned"
_DAY = timedelta(days=1)


def days_of(level: str, retention_days: int) -> int | None:
    """Days that a row of this level is kept; ``None`` is for ever, also for a level that nobody knows."""
    return retention_days if level == "important" else KEPT_DAYS.get(level)


def is_expired(row: Mapping[str, Any], at: datetime, retention_days: int, level: str | None = None) -> bool:
    """Whether a row has had its time; one without a readable time is kept."""
    days = days_of(level or str(row.get("level")).lower(), retention_days)
    written = clock.parse(row.get("ts"))
    return days is not None and written is not None and at - written > _span(days)


def prune_daily(project: Project) -> None:
    """Drops what is too old, once a day; a log that cannot be pruned is left as it is."""
    mark = project.layout.log(PRUNED)
    try:
        age = clock.now() - clock.moment(os.lstat(mark).st_mtime)
        if timedelta(0) <= age < _DAY:
            return
    except FileNotFoundError:
        pass
    try:
        dropped = prune(project)
        files.replace(mark, b"")
    except (OSError, HarnessError):
        return
    if dropped:
        project.store.event("logs_pruned", "routine", rows=dropped)


def prune(project: Project) -> int:
    """Drops every row that has had its time, and what sessions said when important rows have; how many there were."""
    days, at = project.config.logging.retention_days, clock.now()
    dropped = _prune_log(project.layout.log("events.jsonl"), at, days, None)
    for name, level in LEVEL_OF_LOG.items():
        dropped += _prune_log(project.layout.log(name), at, days, level)
    return dropped + _prune_transcripts(project.layout.logs, at, days)


def _prune_log(path: str, at: datetime, retention_days: int, level: str | None) -> int:
    """Rewrites a log without its expired rows, in one step; lines that are no record stay as they are."""
    if os.path.islink(path) or not os.path.isfile(path):
        return 0
    lines = files.read_bytes(path).splitlines(keepends=True)
    kept = [line for line in lines if not _is_expired_line(line, at, retention_days, level)]
    if len(kept) < len(lines):
        files.replace(path, b"".join(kept))
    return len(lines) - len(kept)


def _is_expired_line(line: bytes, at: datetime, retention_days: int, level: str | None) -> bool:
    if len(line) > journal.MAX_LINE_BYTES:
        return False
    try:
        row = jsontext.loads(line, exact=False)
    except ValueError:
        return False
    return isinstance(row, dict) and is_expired(row, at, retention_days, level)


def _prune_transcripts(folder: str, at: datetime, retention_days: int) -> int:
    dropped = 0
    for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        path = os.path.join(folder, name)
        ours = name.startswith("session-") and name.endswith((".log", ".cassette.jsonl")) and not os.path.islink(path)
        if ours and at - clock.moment(os.lstat(path).st_mtime) > _span(retention_days):
            os.unlink(path)
            dropped += 1
    return dropped


def _span(days: int) -> timedelta:
    return min(days, 1_000_000) * _DAY
