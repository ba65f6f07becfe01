"""Refusals of a provider, recognised in what a client prints when it gives up.

Source: features.md UAH-374..375, C28.
"""

import re

from agent_harness.agents.events import RateLimited
from agent_harness.kernel import clock, retry
from agent_harness.kernel.failures import OVERLOADED, REFUSED

PATTERNS: tuple[str, ...] = (*REFUSED, *OVERLOADED, r"\brate[ _-]?limited\b")
"""What clients print for "not now": one pattern a line, matched without regard to case."""

_REFUSED = re.compile("|".join(f"(?:{pattern})" for pattern in PATTERNS), re.IGNORECASE)
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
    wait = retry.find_wait(line, clock.now())
    known = wait is not None and not wait.vague
    return RateLimited(
        message=line[:300],
        retry_after_seconds=wait.seconds if wait and known else None,
        resets_at=clock.timestamp(wait.moment) if wait and known and wait.moment else None,
    )
