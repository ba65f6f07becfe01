"""Refusals of a provider, recognised in what a client prints when it gives up.

Source: features.md UAH-374..375, C28.
"""

import re
from datetime import UTC, datetime

from agent_harness.agents.events import RateLimited
from agent_harness.kernel import clock

PATTERNS: tuple[str, ...] = (
    r"\b429\b.{0,40}\btoo many requests|\btoo many requests\b",
    r"\b(?:http|status|code|error)\W{0,4}(?:code\W{0,4})?(?:429|529)\b",
    r"\brate[ _-]?limit(?:ed|_error|_exceeded| exceeded| reached| hit)\b",
    r"\b(?:usage|session|weekly|daily) limit (?:reached|exceeded|hit)\b",
    r"\bhit your (?:usage|session|weekly|daily|rate) limit\b",
    r"\boverloaded_error\b|\b(?:model|server|api) is (?:currently )?overloaded\b",
    r"\b(?:insufficient_quota|quota (?:exceeded|exhausted))\b",
)
"""What clients print for "not now": one pattern a line, matched without regard to case."""

_REFUSED = re.compile("|".join(f"(?:{pattern})" for pattern in PATTERNS), re.IGNORECASE)
_WAIT = re.compile(r"\b(?:retry|again|resets?|wait)\b(.{0,60})", re.IGNORECASE)
_SPAN = re.compile(
    r"(\d{1,7}(?:\.\d{1,6})?) ?(?:(h)(?:(?:ou)?rs?)?|(m)(?:in(?:ute)?s?)?|s(?:ec(?:ond)?s?)?)(?![a-z])", re.IGNORECASE
)
_MOMENT = re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,6})?)?(?:Z|[+-]\d\d:?\d\d)")
_EPOCH = re.compile(r"\|(\d{10})\b")
_LONGEST = 2000  # characters of a line that are looked at


def from_text(text: str) -> RateLimited | None:
    """The refusal that the last matching line of a failed client's output states, or ``None``.

    The wait and the moment of the reset are filled in where the line gives them with a unit or a time zone; a bare
    time of day is not guessed at.
    """
    for line in reversed(text.split("\n")):
        if _REFUSED.search(line[:_LONGEST]):
            return _refusal(line.strip()[:_LONGEST])
    return None


def _refusal(line: str) -> RateLimited:
    epoch, moment = _EPOCH.search(line), _MOMENT.search(line)
    at = datetime.fromtimestamp(int(epoch[1]), UTC) if epoch else clock.parse(moment[0]) if moment else None
    return RateLimited(
        message=line[:300],
        retry_after_seconds=_seconds(line) if at is None else None,
        resets_at=clock.timestamp(at) if at else None,
    )


def _seconds(line: str) -> float | None:
    found = _WAIT.search(line)
    spans = _SPAN.findall(found[1]) if found else []
    return sum(float(n) * (3600 if hours else 60 if minutes else 1) for n, hours, minutes in spans) if spans else None
