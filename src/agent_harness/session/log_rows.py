"""Filters, order and format of log rows, for every kind of project.

A row is an object with ``ts``, ``level``, ``type`` and ``log``. A row about a session also has ``session``. A row about
an item also has ``feature_id`` or ``task``. Source: features.md UAH-073; ``faces.md`` 3, F-REC-6.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from heapq import merge
from itertools import islice
from typing import Any

from agent_harness.errors import UsageError
from agent_harness.kernel import clock
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.terminal import printable

__all__ = ["LATE", "LEVELS", "Filter", "FollowedLog", "line", "moment", "newest", "wanted_of"]

LEVELS = ("critical", "important", "routine", "debug")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGO = re.compile(r"(\d{1,6})([smhdw])")
LATE = timedelta(minutes=5)  # rows of two writers, or of a clock that was set back, may stand that far out of order


@dataclass(frozen=True, slots=True)
class FollowedLog:
    name: str
    paths: Callable[[], Sequence[str]]  # its files, oldest first; later additions are new
    parse: Callable[[str], "tuple[str, str] | None"]  # a line as (when, what), or nothing


@dataclass(frozen=True, kw_only=True)
class Filter:
    """Conditions that a log row must meet."""

    words: tuple[str, ...] = ()  # each somewhere in the row, in any letter case
    session: int | None = None
    feature: int | None = None
    item: str | None = None  # the id of a feature or task
    level: str | None = None  # this one and what matters more
    types: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None

    def fits(self, row: Mapping[str, Any]) -> bool:
        return self._fits_place(row) and self._fits_time(row) and self._fits_words(row)

    def _fits_place(self, row: Mapping[str, Any]) -> bool:
        feature = row.get("feature_id", row.get("feature"))
        about = {str(row.get(name)) for name in ("feature_id", "feature", "task", "taskId")}
        return (
            (self.item is None or self.item in about)
            and (self.session is None or row.get("session") == self.session)
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
    """Return the time that an age such as ``2h`` or an ISO date describes. Raise ``UsageError`` for other texts."""
    ago = _AGO.fullmatch(text.strip().lower())
    try:
        found = at - timedelta(**{_UNITS[ago[2]]: int(ago[1])}) if ago else clock.parse(text)
    except OverflowError:
        found = None
    if found is None:
        raise UsageError(f"{text!r} is not a time", hint="a span such as 30m, 2h, 3d, or 2026-01-31T09:30")
    return found


def wanted_of(text: str, *, since: str | None = None, until: str | None = None, **fields: Any) -> Filter:
    at = clock.now()
    return Filter(
        words=tuple(text.split()),
        since=moment(since, at) if since else None,
        until=moment(until, at) if until else None,
        **fields,
    )


def newest(streams: Iterable[Iterator[JsonObject]], limit: int) -> JsonObject:
    """Return the newest ``limit`` rows of all streams, oldest first."""
    newest_first = merge(*streams, key=lambda row: str(row.get("ts") or ""), reverse=True)
    found = list(islice(newest_first, limit + 1))
    return {"rows": found[:limit][::-1], "more": len(found) > limit}


def _rank(row: Mapping[str, Any]) -> int:
    level = str(row.get("level")).lower()
    return LEVELS.index(level) if level in LEVELS else 1


def _texts(value: object) -> Iterator[str]:
    # not recursive: agents can write very deep nesting
    waiting = [value]
    while waiting:
        each = waiting.pop()
        if isinstance(each, Mapping):
            waiting += each.values()
        elif isinstance(each, list):
            waiting += each
        else:
            yield str(each)


def line(row: Mapping[str, Any], said: str, *, utc: bool = False) -> str:
    at = clock.parse(row.get("ts"))
    when = (at if utc else at.astimezone()).strftime("%Y-%m-%d %H:%M:%S %Z") if at else "?"
    session = f"S{row['session']}" if row.get("session") is not None else "-"
    what = str(row.get("type") or str(row.get("log")).removesuffix("s"))
    text = f"{when}  {session:<4} {row.get('level')!s:<9} {what}  {said}"
    return printable(text.rstrip().replace("\n", " "))
