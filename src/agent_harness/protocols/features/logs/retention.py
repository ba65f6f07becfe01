"""How long logs and checkpoints are kept.

Once a day, at the start of a run, what is older than its level allows is dropped from the logs, whole file by whole
file and line by line; what matters is kept for ever. Of the checkpoints there stay

    for ever        the newest of each completed feature
    while it lasts  what unfinished work, or a session under way, goes back to
    always          the newest ``checkpoints.keep_per_feature`` of each unfinished feature
    for a time      every other, until it is older than ``checkpoints.max_age_days``

A checkpoint goes with its private ref, which kept its commits alive; a ref whose folder is gone has its time as well.
Source: features.md UAH-197, UAH-198, UAH-432..435, UAH-477..479, C34, C44.
"""

import os
import shutil
from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Any

from agent_harness.errors import HarnessError, StateDamaged
from agent_harness.kernel import clock, files, journal
from agent_harness.kernel.json import JsonObject, jsontext
from agent_harness.protocols.features import records
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import FeatureList

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


# -- checkpoints -------------------------------------------------------------------------------------------------------

REFS = "refs/harness/checkpoints/"


def prune_checkpoints(project: Project) -> list[str]:
    """Removes the checkpoints that have had their time; their ids. One that cannot be removed stays."""
    found = _found(project)
    settings = project.config.checkpoints
    kept = needed(found, project.store.features(), keep=settings.keep_per_feature) | _referenced(project)
    old = clock.now() - timedelta(days=min(settings.max_age_days, 1_000_000))
    gone = [name for name in expired(found, kept, old) if _remove(project, found[name])]
    if gone:
        project.store.event("checkpoints_pruned", "routine", checkpoints=gone)
    return gone


def needed(found: Mapping[str, JsonObject], document: FeatureList, *, keep: int) -> set[str]:
    """The checkpoints that stay whatever their age is."""
    kept: set[str] = set()
    for feature in document.features:
        own = [name for name, record in found.items() if record.get("feature_id") == feature.id]
        own.sort(key=lambda name: (records.number(found[name].get("session")), str(found[name].get("timestamp"))))
        most = 1 if feature.passes else keep
        kept.update(own[len(own) - most :] if most < len(own) else own)
    return kept


def expired(found: Mapping[str, JsonObject], kept: Iterable[str], old: datetime) -> list[str]:
    """Those that nothing needs and that were taken before a moment; one without a readable time stays."""
    spared = set(kept)
    taken = {name: clock.parse(record.get("timestamp")) for name, record in found.items() if name not in spared}
    return [name for name, moment in taken.items() if moment is not None and moment < old]


def _found(project: Project) -> dict[str, JsonObject]:
    """Every checkpoint by its id: from its folder, or else from its ref."""
    found: dict[str, JsonObject] = {}
    listed = project.git.text("for-each-ref", "--format=%(refname) %(creatordate:iso-strict)", REFS)
    for line in listed.splitlines():
        ref, _, taken = line.partition(" ")
        found[ref.removeprefix(REFS)] = {"timestamp": taken, "snapshot": {"ref": ref}}
    place = project.layout.checkpoints
    for name in os.listdir(place) if os.path.isdir(place) and not os.path.islink(place) else ():
        try:
            record = files.read_json(os.path.join(place, name, "checkpoint.json"))
        except (OSError, StateDamaged):
            continue
        if record.get("id") == name:
            found[name] = {**record, "folder": os.path.join(place, name)}
    return found


def _referenced(project: Project) -> set[str]:
    """What unfinished work, or a session under way, goes back to."""
    state, session = project.store.state(), project.store.open_session() or {}
    named = [state.feature_checkpoint, *(session.get(key) for key in ("checkpoint", "base", "rollback"))]
    return {str(record.get("id")) for record in named if isinstance(record, Mapping)}


def _remove(project: Project, record: JsonObject) -> bool:
    """The ref first: a folder without it is found again, a ref without its folder has to grow old."""
    snapshot = record.get("snapshot")
    ref = str(snapshot.get("ref")) if isinstance(snapshot, Mapping) else ""
    try:
        if ref.startswith(REFS) and project.git.commit_of(ref):
            project.git.update_ref(ref, None)
    except HarnessError:
        return False
    if folder := record.get("folder"):
        shutil.rmtree(folder, ignore_errors=True)
    return True
