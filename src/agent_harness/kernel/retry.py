"""How long to wait before the next try: longer each time, as long as the other side asks, never without end.

All waits are in seconds and computed only; whoever waits uses ``clock.sleep``. Sources: ``features.md`` C28,
``dependencies.md`` 2.6.
"""

from __future__ import annotations

from datetime import UTC, datetime

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["LONGEST_SECONDS", "delays", "next_delay", "parse_retry_after"]

LONGEST_SECONDS = 31 * 86_400.0
"""What another side asks for is never taken to be longer."""


def delays(attempts: int, base: float = 1.0, cap: float = 300.0, factor: float = 2.0) -> Iterator[float]:
    """The waits between so many attempts: ``base``, then ``factor`` times as long each time, up to ``cap``."""
    for attempt in range(1, attempts):
        yield next_delay(attempt, None, base=base, cap=cap, factor=factor)


def next_delay(
    attempt: int, retry_after: float | None, *, base: float = 1.0, cap: float = 300.0, factor: float = 2.0
) -> float:
    """The wait after attempt number ``attempt`` (from 1): what the other side asks for, else the growing wait.

    Both end at ``cap``.
    """
    if retry_after is not None:
        return min(max(retry_after, 0.0), cap)
    wait = base
    for _ in range(attempt - 1):
        if wait >= cap:
            break
        wait *= factor
    return min(wait, cap)


def parse_retry_after(text: object, now: datetime) -> float | None:
    """Seconds to wait by a ``Retry-After`` header, a number or an HTTP date, at most 31 days; junk is ``None``.

    A date that has passed is 0; a negative number is junk.
    """
    if not isinstance(text, str) or len(text) > 100:
        return None
    text = text.strip()
    seconds = float(text) if _is_number(text) else _until(text, now)
    return None if seconds is None else min(seconds, LONGEST_SECONDS)


def _is_number(text: str) -> bool:
    return text.isascii() and text.replace(".", "", 1).isdigit()


def _until(text: str, now: datetime) -> float | None:
    from email.utils import parsedate_to_datetime

    try:
        at = parsedate_to_datetime(text)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return max((at - now).total_seconds(), 0.0)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
