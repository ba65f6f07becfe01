"""Refusals of the provider, as Codex tells them: error kinds and the windows of the account, else in words.

Source: features.md UAH-374..375, C28.
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from agent_harness.agents import limits
from agent_harness.agents.events import RateLimited, plain
from agent_harness.kernel import clock, retry

KINDS = frozenset({"usageLimitExceeded", "rateLimitExceeded", "serverOverloaded", "policyCapacityUnavailable"})
STATUSES = frozenset({429, 529})
_USED_UP = 100  # percent


def of_error(error: Mapping[str, Any], windows: Mapping[str, Any]) -> RateLimited | None:
    """The refusal that the error of a turn states; ``windows`` is what was told last of the account's limits."""
    message = plain(str(error.get("message") or ""))
    told = error.get("codexErrorInfo")
    kind = told if isinstance(told, str) else None
    if kind not in KINDS and _status(told) not in STATUSES:
        return limits.from_text(message) if told in (None, "other") else None
    reset = reset_of(windows) if kind != "serverOverloaded" else None
    return RateLimited(message=message[:300], resets_at=reset or _told(message))


def _told(message: str) -> str | None:
    """The moment that a message names; a bare time of day is this machine's own."""
    wait = retry.find_wait(message, clock.now())
    if wait is None:
        return None
    if wait.moment is not None:
        return clock.timestamp(wait.moment)
    return None if wait.seconds is None else clock.timestamp(clock.now() + timedelta(seconds=wait.seconds))


def reset_of(windows: Mapping[str, Any]) -> str | None:
    """When the last of the windows that are used up begins anew."""
    known = [windows.get(name) for name in ("primary", "secondary")]
    used_up = [each for each in known if isinstance(each, dict) and _amount(each.get("usedPercent")) >= _USED_UP]
    moments = [_amount(each.get("resetsAt")) for each in used_up]
    latest = max(moments, default=0.0)
    return clock.timestamp(datetime.fromtimestamp(latest, UTC)) if 0 < latest < 1e11 else None


def _status(kind: object) -> int | None:
    for detail in kind.values() if isinstance(kind, dict) else ():
        status = detail.get("httpStatusCode") if isinstance(detail, dict) else None
        if isinstance(status, int):
            return status
    return None


def _amount(value: object) -> float:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else 0.0
