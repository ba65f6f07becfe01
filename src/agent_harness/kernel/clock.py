"""Time functions: aware UTC datetimes, their ISO text, and a scale factor for all waiting times."""

import os
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import UTC, datetime, timedelta
else:
    try:  # up to Python 3.11 `datetime` loads the same types once more, written in Python: a tenth of a short command
        from _datetime import UTC, datetime, timedelta
    except ImportError:
        from datetime import UTC, datetime, timedelta

__all__ = [
    "UTC",
    "datetime",
    "local",
    "moment",
    "now",
    "parse",
    "scaled",
    "sleep",
    "time_scale",
    "timedelta",
    "timestamp",
]


def now() -> datetime:
    return datetime.now(UTC)


def moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def timestamp(at: datetime | None = None, *, fraction: bool = False) -> str:
    """Return ``at`` (default: now) as UTC text, such as ``2026-01-31T09:30:00Z``."""
    text = (at or now()).astimezone(UTC).isoformat(timespec="milliseconds" if fraction else "seconds")
    return text.replace("+00:00", "Z")


def local(at: datetime) -> str:
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def parse(text: object) -> datetime | None:
    """Return the UTC time in an ISO 8601 text, or ``None`` for any other value."""
    if not isinstance(text, str):
        return None
    try:
        at = datetime.fromisoformat(text.strip())
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def time_scale() -> float:
    """Return ``HARNESS_TIME_SCALE``, the factor for all waiting times (default 1.0)."""
    try:
        scale = float(os.environ.get("HARNESS_TIME_SCALE", "1"))
    except ValueError:
        return 1.0
    return scale if 0 < scale < float("inf") else 1.0


def scaled(seconds: float) -> float:
    return seconds * time_scale()


def sleep(seconds: float) -> None:
    time.sleep(max(0.0, scaled(seconds)))
