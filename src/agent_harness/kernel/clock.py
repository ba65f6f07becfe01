"""Times: aware UTC datetimes, their ISO text, and one factor on every wait."""

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
    """Return the present moment, aware, in UTC."""
    return datetime.now(UTC)


def moment(seconds: float) -> datetime:
    """Return the moment ``seconds`` after the start of 1970, as in file times; aware, in UTC."""
    return datetime.fromtimestamp(seconds, UTC)


def timestamp(at: datetime | None = None, *, fraction: bool = False) -> str:
    """Return ISO 8601 text in UTC with a final ``Z``: ``2026-01-31T09:30:00Z``; milliseconds on request."""
    text = (at or now()).astimezone(UTC).isoformat(timespec="milliseconds" if fraction else "seconds")
    return text.replace("+00:00", "Z")


def local(at: datetime) -> str:
    """Return the moment in local time: ``2026-01-31 10:30:00 CET``."""
    return at.astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def parse(text: object) -> datetime | None:
    """Return the moment of an ISO text; ``None`` for anything else. A value without an offset is in UTC."""
    if not isinstance(text, str):
        return None
    try:
        at = datetime.fromisoformat(text.strip())
        return at.replace(tzinfo=UTC) if at.tzinfo is None else at.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def time_scale() -> float:
    """Return the ``HARNESS_TIME_SCALE`` factor on every wait; 1.0 if it is absent or not a positive number."""
    try:
        scale = float(os.environ.get("HARNESS_TIME_SCALE", "1"))
    except ValueError:
        return 1.0
    return scale if 0 < scale < float("inf") else 1.0


def scaled(seconds: float) -> float:
    """Return ``seconds`` times ``HARNESS_TIME_SCALE``."""
    return seconds * time_scale()


def sleep(seconds: float) -> None:
    """Wait ``seconds`` times ``HARNESS_TIME_SCALE``."""
    time.sleep(max(0.0, scaled(seconds)))
