"""Refusals of the provider, as Claude Code tells them: structured where it can, in words otherwise.

Source: features.md UAH-374..375, C28.
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from agent_harness.agents import limits
from agent_harness.agents.events import RateLimited, plain
from agent_harness.kernel import clock

REFUSED = frozenset({429, 529})
_EPOCH = re.compile(r"limit reached\|(\d{9,11})\b", re.IGNORECASE)


def reset_of(event: Mapping[str, Any]) -> str | None:
    """The moment at which the limit ends, by a ``rate_limit_event`` that says that it is reached."""
    told = event.get("rate_limit_info")
    if not isinstance(told, dict) or told.get("status") != "rejected":
        return None
    return moment(told.get("resetsAt"))


def of_error(record: Mapping[str, Any], text: str, reset: str | None) -> RateLimited | None:
    """The refusal that an error of the client states, with the reset that an event has told before it."""
    told = _EPOCH.search(text)
    status = record.get("api_error_status")
    if told is None and status not in REFUSED and record.get("error") != "rate_limit":
        return limits.from_text(text) if record.get("is_error") is True else None
    reset = moment(int(told[1])) if told else reset
    found = limits.from_text(text)
    return RateLimited(
        message=plain(text)[:300],
        retry_after_seconds=None if reset or not found else found.retry_after_seconds,
        resets_at=reset or (found.resets_at if found else None),
    )


def moment(seconds: object) -> str | None:
    """Seconds since 1970 as an ISO moment; ``None`` for what is none."""
    if not isinstance(seconds, int | float) or isinstance(seconds, bool) or not 0 < seconds < 1e11:
        return None
    return clock.timestamp(datetime.fromtimestamp(seconds, UTC))
