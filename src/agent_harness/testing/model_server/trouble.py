"""Scripted errors: the status, headers and kind of error that a provider would send."""

import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from agent_harness.testing.model_server.conversation import Json

__all__ = ["kind_of", "reset_facts", "reset_headers", "status_of"]

KINDS: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    500: "api_error",
    504: "timeout_error",
    529: "overloaded_error",
}


def status_of(error: Mapping[str, Any]) -> int:
    """The HTTP status of a scripted error; 500 when it names none."""
    return int(error.get("status", 500))


def kind_of(error: Mapping[str, Any]) -> str:
    """The word for the kind of error."""
    return str(error.get("type") or KINDS.get(status_of(error), "api_error"))


def reset_facts(error: Mapping[str, Any]) -> Json:
    """``resets_at`` (seconds since 1970) and ``resets_in_seconds``; empty when the error has no ``reset_seconds``."""
    if "reset_seconds" not in error:
        return {}
    seconds = float(error["reset_seconds"])
    return {"resets_at": int(time.time() + seconds), "resets_in_seconds": int(seconds)}


def reset_headers(facts: Mapping[str, Any]) -> dict[str, str]:
    """When the limit ends, in the headers of both providers; empty when it is not known."""
    if not facts:
        return {}
    at, seconds = int(facts["resets_at"]), int(facts["resets_in_seconds"])
    return {
        "retry-after": str(seconds),
        "anthropic-ratelimit-requests-reset": datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "anthropic-ratelimit-unified-reset": str(at),
        "anthropic-ratelimit-unified-status": "rejected",
        "x-ratelimit-reset-requests": f"{seconds}s",
    }
