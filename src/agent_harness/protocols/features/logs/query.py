"""What happened, and why: rows of every log of a project, filtered, in the order of time; and one summary a session.

Reads the logs alone, from their ends, without a lock and without the settings, so that it answers while a session
runs and when a setting is broken. Source: features.md UAH-073, UAH-522, UAH-523, section W.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import merge
from itertools import islice
from typing import Any

from agent_harness.errors import UsageError
from agent_harness.kernel import clock, journal
from agent_harness.kernel.json import JsonObject, jsontext
from agent_harness.kernel.terminal import printable
from agent_harness.protocols.features import records
from agent_harness.protocols.features.layout import FeatureLayout
from agent_harness.protocols.features.store import LEVELS

SOURCES: Mapping[str, tuple[str, str]] = {
    # name: (file, level of its rows where they say none)
    "events": ("events.jsonl", "important"),
    "decisions": ("decisions.jsonl", "critical"),
    "actions": ("agent_actions.jsonl", "routine"),
    "usage": ("usage.jsonl", "debug"),
}
"""Every log that ``query`` reads; sessions.jsonl repeats what the event ``session_ended`` says."""

TOLD_APART = frozenset({"ts", "type", "level", "session", "feature_id", "message", "log"})
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"(\d{1,6})([smhdw])")
_LATE = timedelta(minutes=5)  # rows of two writers, or of a clock that was set back, may stand that far out of order


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Which rows are wanted; every field that is set must fit."""

    words: tuple[str, ...] = ()  # each somewhere in the row, in any letter case
    session: int | None = None
    feature: int | None = None
    level: str | None = None  # this one and what matters more
    types: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None

    def fits(self, row: Mapping[str, Any]) -> bool:
        """Whether this row is wanted."""
        return self._fits_place(row) and self._fits_time(row) and self._fits_words(row)

    def _fits_place(self, row: Mapping[str, Any]) -> bool:
        feature = row.get("feature_id", row.get("feature"))
        return (
            (self.session is None or row.get("session") == self.session)
            and (self.feature is None or feature == self.feature)
            and (not self.types or row.get("type") in self.types)
            and (self.level is None or _rank(row) <= LEVELS.index(self.level))
        )

    def _fits_time(self, row: Mapping[str, Any]) -> bool:
        if self.since is None and self.until is None:
            return True
        at = clock.parse(row.get("ts"))
        return at is not None and (self.since or at) <= at <= (self.until or at)

    def _fits_words(self, row: Mapping[str, Any]) -> bool:
        if not self.words:
            return True
        text = " ".join(_texts(row)).lower()
        return all(word.lower() in text for word in self.words)


def moment(text: str, at: datetime) -> datetime:
    """The moment that ``2h``, ``3d`` (ago) or an ISO date or time names; ``UsageError`` for anything else."""
    ago = _AGO.fullmatch(text.strip().lower())
    try:
        found = at - timedelta(**{_UNITS[ago[2]]: int(ago[1])}) if ago else clock.parse(text)
    except OverflowError:
        found = None
    if found is None:
        raise UsageError(f"{text!r} is no time", hint="a span such as 30m, 2h, 3d, or 2026-01-31T09:30")
    return found


def query(layout: FeatureLayout, wanted: Filter, *, sources: tuple[str, ...] = (), limit: int = 50) -> JsonObject:
    """The newest ``limit`` rows that fit, oldest first; ``more`` says that older ones fit as well."""
    streams = [_stream(layout, name, wanted) for name in (sources or tuple(SOURCES))]
    newest_first = merge(*streams, key=lambda row: str(row.get("ts") or ""), reverse=True)
    found = list(islice(newest_first, limit + 1))
    return {"rows": found[:limit][::-1], "more": len(found) > limit}


def _stream(layout: FeatureLayout, name: str, wanted: Filter) -> Iterator[JsonObject]:
    """The rows of one log that fit, newest first, read as far back as they can fit."""
    file, level = SOURCES[name]
    for row in _backwards(layout, file):
        at = clock.parse(row.get("ts"))
        if wanted.since and at and at < wanted.since - _LATE:
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


def _rank(row: Mapping[str, Any]) -> int:
    level = str(row.get("level")).lower()
    return LEVELS.index(level) if level in LEVELS else 1


def _texts(value: object) -> Iterator[str]:
    """Every value in a row, however deep: an agent can write to the logs."""
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
        else:
            yield str(each)


def line(row: Mapping[str, Any]) -> str:
    """One row for a person: when, in which session, how much it matters, what, and the rest of its members."""
    at = str(row.get("ts") or "?")[:19].replace("T", " ")
    session = f"S{row['session']}" if row.get("session") is not None else "-"
    what = str(row.get("type") or str(row.get("log")).removesuffix("s"))
    told = str(row.get("message") or "")
    rest = "" if told else _rest(row)
    text = f"{at}  {session:<4} {row.get('level')!s:<9} {what}  {told or rest}"
    return printable(text.rstrip().replace("\n", " "))


def _rest(row: Mapping[str, Any]) -> str:
    return "  ".join(f"{k}={v}" for k, v in row.items() if k not in TOLD_APART and v not in (None, "", [], {}))


# -- one summary a session ---------------------------------------------------------------------------------------------


def summaries(layout: FeatureLayout, *, last: int = 5, session: int | None = None) -> list[JsonObject]:
    """The last sessions, or one, each with its end, cost, decisions, files, runs and problems; oldest first."""
    found: list[JsonObject] = []
    for row in _backwards(layout, "sessions.jsonl"):
        number = row.get("session_id")
        if isinstance(number, int) and session in (None, number):
            found.append(row)
        if len(found) == (last if session is None else 1):
            break
    numbers = {records.number(row.get("session_id")) for row in found}
    rows = {name: _of_sessions(layout, name, numbers) for name in ("events", "decisions", "actions")}
    return [_summary(row, rows) for row in reversed(found)]


def _of_sessions(layout: FeatureLayout, name: str, numbers: set[int]) -> list[JsonObject]:
    """The rows of these sessions, oldest first; reading ends at the first row of an older one."""
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


def _summary(record: Mapping[str, Any], rows: Mapping[str, list[JsonObject]]) -> JsonObject:
    number = record.get("session_id")
    mine = {name: [row for row in each if row.get("session") == number] for name, each in rows.items()}
    kinds = Counter(str(row.get("type")) for row in mine["actions"])
    written = dict.fromkeys(str(r.get("path")) for r in mine["actions"] if r.get("type") == "file_write")
    return {
        "session": number,
        "feature_id": record.get("feature_id"),
        "outcome": _outcome(record),
        "started_at": record.get("started_at"),
        "minutes": round(_seconds(record) / 60, 1),
        "tokens": record.get("tokens_used"),
        "cost_usd": record.get("cost_usd"),
        "files_written": list(written),
        "commands": kinds["cmd_run"],
        "test_runs": kinds["test_run"],
        "decisions": [str(row.get("text")) for row in mine["decisions"]],
        "problems": [_problem(row) for row in mine["events"] if str(row.get("level")).upper() == "CRITICAL"],
        "commit": next((r.get("commit") for r in mine["events"] if r.get("type") in _COMMITTED), None),
    }


_COMMITTED = ("feature_completed", "cleanup_completed")


def _outcome(record: Mapping[str, Any]) -> str:
    if record.get("feature_completed") is True:
        return "verified"
    if record.get("rejected"):
        return "rejected"
    reason = str(record.get("termination_reason") or "ended")
    return "ended without a claim" if reason == "complete" else f"handed off ({reason.replace('_', ' ')})"


def _seconds(record: Mapping[str, Any]) -> float:
    found = record.get("duration_seconds")
    return float(found) if isinstance(found, int | float) else 0.0


def _problem(row: Mapping[str, Any]) -> str:
    return f"{row.get('type')}: {row.get('message')}" if row.get("message") else str(row.get("type"))


def summary_lines(found: Mapping[str, Any]) -> list[str]:
    """One summary for a person."""
    cost = found["cost_usd"]
    spent = f"${cost:.2f}" if isinstance(cost, int | float) else "cost unknown"
    feature = f"Feature #{found['feature_id']}" if found["feature_id"] is not None else "no feature"
    rows = [f"Session {found['session']}: {feature}, {found['outcome']}; {found['minutes']:g} min, {spent}"]
    files = found["files_written"]
    if files:
        more = f" and {len(files) - 8} more" if len(files) > 8 else ""
        rows.append(f"  wrote {', '.join(files[:8])}{more}")
    if found["commands"] or found["test_runs"]:
        rows.append(f"  ran {found['commands']} command(s), showed {found['test_runs']} test result(s)")
    rows += [f"  decided: {each}" for each in found["decisions"]]
    rows += [f"  problem: {each[:300]}" for each in found["problems"]]
    return [printable(row.replace("\n", " ")) for row in rows]
