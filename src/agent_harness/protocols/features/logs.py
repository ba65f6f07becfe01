"""Functions that search and prune the logs, and summarize sessions. A log is read from its end, and reading needs no
lock. Source: features.md UAH-073, UAH-197, UAH-198, UAH-432..435, UAH-522, UAH-523, section W, C44."""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock, files, journal
from agent_harness.kernel.json import JsonObject, jsontext
from agent_harness.kernel.terminal import printable
from agent_harness.protocols.features.layout import FeatureLayout
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import listed
from agent_harness.session import ledger, log_rows
from agent_harness.session.log_rows import LATE, Filter, newest
from agent_harness.session.project_view import PastSession, span

SOURCES: Mapping[str, tuple[str, str]] = {
    # name: (file, default level of its rows)
    "events": ("events.jsonl", "important"),
    "decisions": ("decisions.jsonl", "critical"),
    "actions": ("agent_actions.jsonl", "routine"),
    "usage": ("usage.jsonl", "debug"),
}
"""Log files that ``query`` reads, each with its default level. sessions.jsonl is omitted because it repeats events."""

TOLD_APART = frozenset({"ts", "type", "level", "session", "feature_id", "message", "log"})


def query(layout: FeatureLayout, wanted: Filter, *, sources: tuple[str, ...] = (), limit: int = 50) -> JsonObject:
    return newest([_stream(layout, name, wanted) for name in (sources or tuple(SOURCES))], limit)


def _stream(layout: FeatureLayout, name: str, wanted: Filter) -> Iterator[JsonObject]:
    file, level = SOURCES[name]
    for row in _backwards(layout, file):
        at = clock.parse(row.get("ts"))
        if wanted.since and at and at < wanted.since - LATE:
            return
        known = {"log": name, **row, "level": str(row.get("level") or level).upper()}
        if wanted.fits(known):
            yield known


def _backwards(layout: FeatureLayout, file: str) -> Iterator[JsonObject]:
    for line in journal.backwards(layout.log(file)):
        try:
            row = jsontext.loads(line, exact=False) if line.startswith("{") else None
        except ValueError:
            continue
        if isinstance(row, dict):
            yield row


SENTENCES: Mapping[str, str] = {
    "aborted": "a person ended everything; the state is in {kept_in}",
    "adopted": "the project was adopted: {passing} tests pass",
    "agent_started": "an agent was started",
    "agent_turn": "a turn of the agent took {seconds} s",
    "budget_raised": "a person raised {key} from {before} to {after}",
    "checkpoint_created": "checkpoint {checkpoint_id} was taken: {reason}",
    "checkpoints_pruned": "old checkpoints were dropped: {checkpoints}",
    "cleanup_completed": "the cleanup was accepted as {commit}",
    "cmd_run": "the agent ran {cmd}{what}",
    "git_put_back": "{message}",
    "git_settings_changed": "the turn changed a setting of git: {message}",
    "left_out": "{message}",
    "stays_inside": "{message}",
    "person_said": "the agent got a message from a person: {message}",
    "escalation_answered": "a person answered {answer}",
    "feature_brought_back": "a person restored Feature #{feature_id} with {commit}",
    "feature_claimed": "the agent said that Feature #{feature_id} is done",
    "feature_marked": "a person marked Feature #{feature_id}: passes {passes}",
    "feature_skipped": "Feature #{feature_id} was skipped: {reason}",
    "feature_undone": "a person undid Feature #{feature_id} with {commit}",
    "feature_unskipped": "Feature #{feature_id} is no longer skipped",
    "features_added": "features were added: {features}",
    "file_read": "the agent read {path}{what}",
    "file_write": "the agent wrote {path}{what}",
    "github_synced": "the issues on GitHub were updated",
    "handed_to_person": "a person took over the project",
    "history_rewritten": "the session rewrote history; its commits are in {ref}",
    "index_lock_removed": "a stale lock of git was removed: {path}",
    "initialised": "the project was planned: {features} features",
    "logs_pruned": "{rows} old rows were dropped from the logs",
    "maintenance_check": "maintenance: {passing} tests pass",
    "maintenance_ended": "maintenance ended after {checks} checks",
    "maintenance_started": "maintenance began",
    "migration_complete": "the state was migrated",
    "migration_start": "migration of the state started",
    "paused": "paused: {reason}",
    "pulled": "commits of other people were pulled; the session's commit is now {commit}",
    "pushed": "pushed {commit}",
    "record_not_believed": "the record of an interrupted session was not trusted",
    "record_set_aside": "a record that belongs to no session was moved aside: {path}",
    "resumed": "resumed",
    "rollback_completed": "rolled back to {checkpoint_id}; the removed work is in {rescue_ref}",
    "screenshot_kept": "a screenshot was kept: {kept}",
    "session_ended": "Session {session_id} on Feature #{feature_id} ended: {termination_reason}",
    "state_in_commits": "the session committed files of the harness; the harness replaced the commits, see {ref}",
    "taken_back": "a person handed the project back",
    "token_usage": "a call of the model: {input_tokens} tokens in, {output_tokens} out",
    "verification_passed": "Feature #{feature_id} is proven at {commit}",
    "work_set_aside": "the unfinished work on Feature #{feature_id} is kept in {ref}",
}
"""Sentence patterns by event type, for events without a message. Members that the row lacks are left empty."""


class _Members(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return ""


def sentence(row: Mapping[str, Any]) -> str:
    """Return a log row as text for a person."""
    if told := str(row.get("message") or row.get("text") or ""):
        return told
    shown = {k: ", ".join(map(str, v)) if isinstance(v, list) else str(v) for k, v in row.items() if v is not None}
    if pattern := SENTENCES.get(str(row.get("type"))):
        return pattern.format_map(_Members(shown)).rstrip(" :;")
    return "  ".join(f"{k}={v}" for k, v in shown.items() if k not in TOLD_APART and v)


def line(row: Mapping[str, Any], *, utc: bool = False) -> str:
    return log_rows.line(row, sentence(row), utc=utc)


# -- one summary per session -------------------------------------------------------------------------------------------


def summaries(
    layout: FeatureLayout, sessions: Iterable[PastSession], *, last: int = 5, session: int | None = None
) -> list[JsonObject]:
    """Return summaries of the newest sessions, oldest first."""
    known = [each for each in sessions if each.number is not None and session in (None, each.number)]
    found = known[-(last if session is None else 1) :]
    numbers = {each.number for each in found if each.number is not None}
    rows = {name: _of_sessions(layout, name, numbers) for name in ("events", "decisions", "actions")}
    return [_summary(each, rows) for each in found]


def _of_sessions(layout: FeatureLayout, name: str, numbers: set[int]) -> list[JsonObject]:
    found: list[JsonObject] = []
    for row in _backwards(layout, SOURCES[name][0]):
        number = row.get("session")
        if not isinstance(number, int):
            continue
        if numbers and number < min(numbers) - 1:
            break
        if number in numbers:
            found.append(row)
    return found[::-1]


def _summary(session: PastSession, rows: Mapping[str, list[JsonObject]]) -> JsonObject:
    seconds = session.seconds or 0.0
    mine = {name: [row for row in each if row.get("session") == session.number] for name, each in rows.items()}
    kinds = Counter(str(row.get("type")) for row in mine["actions"])
    written = dict.fromkeys(str(r.get("path")) for r in mine["actions"] if r.get("type") == "file_write")
    return {
        "session": session.number,
        "feature_id": int(session.item) if session.item and session.item.lstrip("-").isdecimal() else session.item,
        "outcome": session.outcome,
        "started_at": session.started,
        "minutes": round(seconds / 60, 1),
        "seconds": seconds,
        "tokens": session.tokens,
        "cost_usd": session.cost_usd,
        "files_written": list(written),
        "commands": kinds["cmd_run"],
        "test_runs": kinds["test_run"],
        "decisions": [str(row.get("text")) for row in mine["decisions"]],
        "problems": [
            ": ".join(str(row[k]) for k in ("type", "message") if row.get(k))
            for row in mine["events"]
            if str(row.get("level")).upper() == "CRITICAL"
        ],
        "commit": next((r.get("commit") for r in mine["events"] if r.get("type") in _COMMITTED), None),
    }


_COMMITTED = ("feature_completed", "cleanup_completed")


def _shortened(problem: str) -> str:
    if len(problem) <= 300:
        return problem
    kept = problem[:300].rpartition(" ")[0] or problem
    return f"{kept} ... and {len(problem.split()) - len(kept.split())} words more"


def summary_lines(found: Mapping[str, Any]) -> list[str]:
    cost = found["cost_usd"]
    spent = f"${cost:.2f}" if isinstance(cost, int | float) else "cost unknown"
    feature = f"Feature #{found['feature_id']}" if found["feature_id"] is not None else "no feature"
    rows = [f"Session {found['session']}: {feature}, {found['outcome']}; {span(found['seconds'])}, {spent}"]
    files = found["files_written"]
    if files:
        rows.append(f"  wrote {listed(files, 8)}")
    if found["commands"] or found["test_runs"]:
        rows.append(f"  ran {found['commands']} command(s), showed {found['test_runs']} test result(s)")
    rows += [f"  decided: {each}" for each in found["decisions"]]
    rows += [f"  problem: {_shortened(each)}" for each in dict.fromkeys(found["problems"])]
    return [printable(row.replace("\n", " ")) for row in rows]


# -- retention of rows -------------------------------------------------------------------------------------------------


KEPT_DAYS = {"routine": 30, "debug": 7}
"""Days for which rows are kept, by level; for "important", ``logging.retention_days`` (C44), for others forever."""

LEVEL_OF_LOG: Mapping[str, str] = {"agent_actions.jsonl": "routine", "usage.jsonl": "routine"}
"""Levels of logs without levels. Rows of decisions.jsonl and sessions.jsonl are never deleted."""

_DAY = timedelta(days=1)


def prune_daily(project: Project) -> None:
    """Delete expired log rows and files, unless this was done in the last 24 hours."""
    mark = project.layout.log(".pruned")
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
    """Delete expired log rows and transcripts, and return how many were deleted."""
    days, at = project.config.logging.retention_days, clock.now()
    dropped = _prune_log(project.layout.log("events.jsonl"), at, days, None)
    for name, level in LEVEL_OF_LOG.items():
        dropped += _prune_log(project.layout.log(name), at, days, level)
    return dropped + _prune_transcripts(project.layout.logs, at, days)


def _prune_log(path: str, at: datetime, retention_days: int, level: str | None) -> int:
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
    if not isinstance(row, dict):
        return False
    days = {**KEPT_DAYS, "important": retention_days}.get(level or str(row.get("level")).lower())
    written = clock.parse(row.get("ts"))  # a row without a readable time never expires
    return days is not None and written is not None and at - written > _span(days)


def _prune_transcripts(folder: str, at: datetime, retention_days: int) -> int:
    dropped = ledger.prune_outputs(os.path.join(folder, "verdicts"), days=retention_days)
    names = os.listdir(folder) if os.path.isdir(folder) and not os.path.islink(folder) else []
    for name in sorted(names):
        path = os.path.join(folder, name)
        is_ours = name.startswith("session-") and name.endswith((".log", ".cassette.jsonl"))
        if not is_ours or os.path.islink(path):
            continue
        if at - clock.moment(os.lstat(path).st_mtime) > _span(retention_days):
            os.unlink(path)
            dropped += 1
    return dropped


def _span(days: int) -> timedelta:
    return min(days, 1_000_000) * _DAY
