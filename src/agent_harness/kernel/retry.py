"""Waiting times before a retry. They grow with each attempt, or are as long as the provider asks, and are always
bounded. All waits are in seconds and are only computed here. Callers wait with ``clock.sleep``. Sources:
``features.md`` C28, ``longtask.md`` 11 (waits stated in prose)."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, tzinfo

LONGEST_SECONDS = 31 * 86_400.0
"""Longest wait that a provider can request, in seconds."""


def next_delay(
    attempt: int, retry_after: float | None, *, base: float = 1.0, cap: float = 300.0, factor: float = 2.0
) -> float:
    """Return the seconds to wait after the failed attempt with this number, counted from 1."""
    if retry_after is not None:
        return min(max(retry_after, 0.0), cap)
    wait = base
    for _ in range(attempt - 1):
        if wait >= cap:
            break
        wait *= factor
    return min(wait, cap)


def parse_retry_after(text: object, now: datetime) -> float | None:
    """Return the seconds that a ``Retry-After`` header states, or ``None`` for an invalid header."""
    if not isinstance(text, str) or len(text) > 100:
        return None
    text = text.strip()
    is_number = text.isascii() and text.replace(".", "", 1).isdigit()
    seconds = float(text) if is_number else _until(text, now)
    return None if seconds is None else min(seconds, LONGEST_SECONDS)


def _until(text: str, now: datetime) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        at = parsedate_to_datetime(text)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return max((at - now).total_seconds(), 0.0)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


# ---- waits stated in prose, JSON and headers

_UNITS = {"w": 604_800.0, "d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 0.001}
_UNIT = r"(?:w(?:eeks?)?|d(?:ays?)?|h(?:(?:ou)?rs?)?|ms|milliseconds?|m(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?)(?![a-z])"
_NUMBER = r"(?:\d{1,3}(?:,\d{3}){1,9}(?![\d,])|\d+(?:\.\d{1,99})?)"
_JOIN = r"(?:\s{0,4}(?:,|and\b)?\s{0,4})"
_SPAN = rf"{_NUMBER}\s{{0,4}}{_UNIT}(?:{_JOIN}{_NUMBER}\s{{0,4}}{_UNIT}){{0,5}}"
_UP_TO = r"(?:\d{1,9}\s?(?:-|\u2013|to)\s?)?"  # of "5-10 minutes" the longer wait
_BARE = r"(?!\.?\w|\s?[-/\u2013]\s?\d)"
_IS = r"[\"']?\s{0,4}[:=]?\s{0,4}[\"']?"
_LAST_MOMENT = 253_402_300_799.0  # of the year 9999
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]

_AFTER = r"(?:\bretry|(?<![-\w])resets?)[ _-]after"
_STAMP = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?: ?(?:Z|UTC|GMT|[+-]\d\d:?\d\d)\b)?"
_HTTP_DATE = r"[a-z]{3}, \d\d? [a-z]{3} \d{4} \d\d:\d\d:\d\d (?:GMT|UTC|[+-]\d{4})"
_DATE = r"(?P<month>[a-z]{3})[a-z]{0,6} (?P<day>\d{1,2})(?:st|nd|rd|th)?(?:,?(?: (?P<year>\d{4}))?)"
_DAY = rf"{_DATE},?(?: at)? "
_HALF_A_YEAR = timedelta(days=183)
_WEEKDAYS = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
_WEEKDAY = rf"(?P<weekday>{'|'.join(_WEEKDAYS)}|tomorrow)[a-z]{{0,6}},?(?: at)? "
_ZONE = r"[a-z]{1,20}(?:/[a-z_+-]{1,30}){0,2}"
_IN_ZONE = rf"(?: ?\((?P<zone>{_ZONE})\)| (?P<utc>UTC|GMT)\b)?"
_OPENS = "try again|resets?|available"
_ABOUT = "(?:about |around |approximately )?"
_EACH = "seconds|secs?|ms|milliseconds|minutes|hours"
_CLOCK = r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?(?::\d\d)?\s?(?P<half>[ap]\.?m\b)?(?!\w)"

_WAITS: tuple[str, ...] = (
    r"\bresets?_at[\"']?\s{0,4}[:=]\s{0,4}[\"']?(?P<epoch>\d{9,})(?![-\w])",
    r"\blimit reached\|(?P<epoch>\d{10})\b",
    rf"{_AFTER}(?:[ _-]seconds)?{_IS}{_UP_TO}(?P<span>{_SPAN})",
    rf"{_AFTER}{_IS}(?P<date>{_HTTP_DATE})",
    rf"(?:{_AFTER}|\b(?:{_OPENS})(?: again)?[ _-](?:at|on|after)|\buntil|\bresets?){_IS}(?P<moment>{_STAMP})",
    rf"\b(?:resets?_in|retry_in){_IS}{_UP_TO}(?P<span>{_SPAN})",
    rf"(?:{_AFTER}|\b(?:resets?_in|retry_in))(?:[_-](?P<each>{_EACH}))?{_IS}(?P<number>{_NUMBER}){_BARE}",
    rf"\b(?:{_OPENS}|retry|again)\b[^\n]{{0,60}}?\bin {_ABOUT}{_UP_TO}(?P<span>{_SPAN})",
    rf"\b(?:{_OPENS}|retry)(?: again)? in (?P<number>{_NUMBER}){_BARE}",
    rf"\bwait\b[^\n]{{0,30}}?{_UP_TO}(?P<span>{_SPAN})",
    rf"\b(?:{_OPENS}|until)(?: again)?(?: at| on| after| by)?:? (?:at )?(?:{_WEEKDAY}|{_DAY})?{_CLOCK}{_IN_ZONE}",
    rf"\b(?:{_OPENS})(?: again)?(?: at| on| after| by)?:? {_DATE}(?![\w:])",
)
"""Patterns of phrases that state when to retry. At each position in a text, the first matching pattern counts."""

_HEADER_WAIT = rf"\bx-[a-z-]{{0,60}}reset-after(?:-seconds)?{_IS}(?P<number>{_NUMBER}){_BARE}"
"""Pattern of a header that states the length of a rate limit window. It counts only if no other pattern matches."""


class Wait:
    """Waiting time from a text, given as a length or as an end."""

    __slots__ = ("moment", "seconds", "vague")

    def __init__(self, *, seconds: float | None = None, moment: datetime | None = None, vague: bool = False) -> None:
        self.seconds = seconds
        self.moment = moment
        # the unit or the time zone is missing
        self.vague = vague


def seconds_asked(text: str, now: datetime) -> int | None:
    """Return the waiting time that a text states, in whole seconds, or ``None``."""
    seconds = _stated(text, now)
    return None if seconds is None else math.ceil(min(max(seconds, 0.0), LONGEST_SECONDS))


def later_end(text: str, now: datetime) -> datetime | None:
    """Return the end of the waiting time in a text if this time exceeds the maximum, else ``None``."""
    return too_late(_stated(text, now), now)


def too_late(seconds: float | None, now: datetime) -> datetime | None:
    """Return the end of a waiting time that exceeds the maximum, else ``None``."""
    if seconds is None or not LONGEST_SECONDS < seconds < float("inf"):
        return None
    return datetime.fromtimestamp(min(now.timestamp() + seconds, _LAST_MOMENT), UTC)


def _stated(text: str, now: datetime) -> float | None:
    found = find_wait(text, now)
    if found is None:
        return None
    return (found.moment - now).total_seconds() if found.moment else found.seconds or 0.0


def find_wait(text: str, now: datetime) -> Wait | None:
    """Return the last waiting time in a text, or ``None``."""
    for found in reversed(list(_patterns()[0].finditer(text))):
        if wait := _wait(found, now):
            return wait
    header = _patterns()[1].search(text)
    return Wait(seconds=_number(header["number"])) if header else None


def _wait(found: re.Match[str], now: datetime) -> Wait | None:
    parts = {name.rpartition("_")[0]: value for name, value in found.groupdict().items() if value is not None}
    if "epoch" in parts:
        text = parts["epoch"]
        seconds = float(text) / (1000 if len(text) == 13 else 1)
        return Wait(moment=datetime.fromtimestamp(min(seconds, _LAST_MOMENT), UTC))
    if "span" in parts:
        each = re.findall(rf"({_NUMBER})\s{{0,4}}({_UNIT})", parts["span"], re.IGNORECASE)
        return Wait(seconds=sum(_number(number) * _factor(unit) for number, unit in each))
    if "number" in parts:
        unit = parts.get("each", "")
        return Wait(seconds=_number(parts["number"]) * _factor(unit or "s"), vague=not unit)
    if "date" in parts:
        seconds = parse_retry_after(parts["date"].replace("UTC", "GMT"), now)
        return None if seconds is None else Wait(seconds=seconds)
    return _at_moment(parts["moment"]) if "moment" in parts else _at_clock(parts, now)


def _at_moment(text: str) -> Wait | None:
    plain = re.sub(r" ?(?:Z|UTC|GMT)$", "+00:00", text.replace(",", "."), flags=re.IGNORECASE).replace(" +", "+")
    try:
        at = datetime.fromisoformat(plain)
    except ValueError:
        return None
    return Wait(moment=at if at.tzinfo else at.replace(tzinfo=UTC), vague=at.tzinfo is None)


def _at_clock(parts: dict[str, str], now: datetime) -> Wait | None:
    # a time of day without a zone is local
    hour, half = int(parts.get("hour", 0)), parts.get("half", "")[:1].lower()
    if "hour" in parts and not half and "minute" not in parts:
        return None
    if half:
        hour = hour % 12 + 12 * (half == "p") if 1 <= hour <= 12 else 99
    zone = _zone(parts.get("zone") or parts.get("utc"))
    here = now.astimezone(zone)
    try:
        at = here.replace(hour=hour, minute=int(parts.get("minute", 0)), second=0, microsecond=0, tzinfo=zone)
        if "month" in parts:
            at = at.replace(
                year=int(parts.get("year", here.year)),
                month=_MONTHS.index(parts["month"].lower()) + 1,
                day=int(parts["day"]),
            )
            if "year" not in parts and now - at.astimezone(UTC) > _HALF_A_YEAR:  # in January, said in December
                at = at.replace(year=here.year + 1)
        if day := parts.get("weekday", "").lower():
            ahead = 1 if day == "tomorrow" else (_WEEKDAYS.index(day) - here.weekday()) % 7 or 7 * (at <= here)
            at = (at.replace(tzinfo=None) + timedelta(days=ahead)).replace(tzinfo=at.tzinfo)
        at = at.astimezone(UTC)
        if at <= now < at + timedelta(minutes=1):  # at some moment of this very minute
            at += timedelta(minutes=1)
        elif "month" not in parts and at <= now:
            at = (at.astimezone(zone).replace(tzinfo=zone) + timedelta(days=1)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    return Wait(moment=at, vague=True)


def _zone(name: str | None) -> tzinfo | None:
    if name is None:
        return None
    from zoneinfo import ZoneInfo

    try:
        return UTC if name.upper() in ("UTC", "GMT") else ZoneInfo(name)
    except (OSError, ValueError, KeyError):
        return None


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _factor(unit: str) -> float:
    unit = unit.lower()
    return _UNITS["ms" if unit.startswith(("ms", "milli")) else unit[0]]


def _patterns() -> tuple[re.Pattern[str], re.Pattern[str]]:
    if not _COMPILED:
        numbered = (re.sub(r"\(\?P<([a-z]+)>", rf"(?P<\1_{n}>", row) for n, row in enumerate(_WAITS))
        _COMPILED.append(re.compile("|".join(numbered), re.IGNORECASE))
        _COMPILED.append(re.compile(_HEADER_WAIT, re.IGNORECASE))
    return _COMPILED[0], _COMPILED[1]


_COMPILED: list[re.Pattern[str]] = []
