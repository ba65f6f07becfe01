"""What a worker's output says about its failure: a class, who refused, and how long to wait.

The phrases are rows of ``kernel.failures`` and the waits are those of ``kernel.retry``, which every protocol reads.
Source: ``longtask.md`` 11.
"""

from __future__ import annotations

import re
from datetime import timedelta

from agent_harness.kernel import clock, failures, retry
from agent_harness.kernel.redact import redact

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    Record = dict[str, Any]

__all__ = ["CLASSES", "ENDED_BY", "NEXT_STEPS", "classify", "of_monitor", "source_of"]

CLASSES: dict[str, tuple[str, float]] = {
    "rate_limit": ("blocked", 0.9),
    "auth_error": ("needs-human", 0.82),
    "test_failure": ("paused", 0.74),
    "missing_context": ("needs-human", 0.7),
    "success": ("paused", 0.6),
    "unknown": ("needs-human", 0.2),
}
"""Class → the status that it suggests, and how sure the classifier is."""

ENDED_BY: dict[str, tuple[str, str]] = {
    "stuck": ("needs-human", "Human review needed: the worker made no progress; say in the next step how to go on."),
    "budget_exceeded": (
        "needs-human",
        "Decide whether to spend more: raise --max-cost or workerPolicy.maxCostUsd, or make the next step smaller.",
    ),
    "context_limit": ("paused", "Continue the same slice where the files and the evidence show that it stopped."),
    "no_response": ("paused", "Resume the same slice; the worker gave no sign any more."),
}
"""What ended a worker that did not end by itself → the status, and what the checkpoint says next."""

NO_TIME_CONFIDENCE = 0.78
"""Of a rate limit that does not say when it ends."""

NEXT_STEPS: dict[str, str] = {
    "rate_limit": "Resume the same slice after the rate-limit window reopens.",
    "auth_error": "Fix the worker's credentials or permissions, rerun `lth health`, then resume the same slice.",
    "test_failure": "Inspect the failing test and fix the smallest slice that makes it pass.",
    "missing_context": "Supply the missing file, path or context, then resume the same slice.",
    "success": "Review the output and decide the next bounded step.",
    "unknown": "Human review needed: read the worker output and decide how to go on.",
}
"""What the checkpoint says next when the worker did not say it."""

_ROWS: tuple[failures.Row, ...] = (
    *failures.rows(
        {
            "DISK_FULL": "unknown",  # "disk quota exceeded" is no provider's quota
            "RATE_LIMIT": "rate_limit",
            "TEST_FAIL": "test_failure",
            "AUTH": "auth_error",
            "MISSING_CONTEXT": "missing_context",
        }
    ),
    ("missing_context", failures.NOT_FOUND),
)

_SOURCES: tuple[tuple[str, str], ...] = (
    ("codex-cli", r"\bcodex\b"),
    ("kimi-cli", r"\bkimi\b"),
    ("openclaw-provider", r"\b(?:openclaw|minimax)\b"),
    ("scheduler", r"\b(?:cron|scheduler)\b"),
    ("external-api", r"\b(?:external api|api request|http request|rest api|graphql)\b"),
)
"""Who refused, by the first row whose words occur as whole words."""

LONGEST_TEXT = 262_144
_LONGEST_SUMMARY = 300


def classify(
    text: str,
    *,
    exit_code: int | None = None,
    source: str | None = None,
    fallback_wait_seconds: int = 14_400,
    now: datetime,
) -> Record:
    """What the end of a text says: the members of the answer of ``lth classify``, in its order.

    ``exit_code`` 0 is a success whatever the text says. ``source`` wins over what the text names.
    """
    end = text[-LONGEST_TEXT:]
    found = None if exit_code == 0 else failures.first_match(end, _ROWS)
    name = "success" if exit_code == 0 else found[0] if found else "unknown"
    status, confidence = CLASSES[name]
    wait = retry.seconds_asked(end, now) if name == "rate_limit" else None
    until = _after(now, fallback_wait_seconds if wait is None else wait) if name == "rate_limit" else None
    return {
        "class": name,
        "source": source or source_of(end),
        "statusSuggestion": status,
        "blockedUntil": until,
        "retryAfterSeconds": wait,
        **({"fallbackWaitSeconds": fallback_wait_seconds} if name == "rate_limit" else {}),
        "confidence": NO_TIME_CONFIDENCE if name == "rate_limit" and wait is None else confidence,
        "summary": _summary(end, found[1] if found else None, name),
    }


def of_monitor(ended_by: str, message: str, source: str | None) -> Record:
    """The same members for a worker that the harness itself has ended; what it printed says nothing about that."""
    return {
        "class": "unknown",
        "source": source or "manual",
        "statusSuggestion": ENDED_BY[ended_by][0],
        "blockedUntil": None,
        "retryAfterSeconds": None,
        "confidence": 1.0,
        "summary": _summary(message.partition("\n")[0], None, ended_by),
    }


def source_of(text: str) -> str:
    """Who the text is about; ``manual`` when it names nobody."""
    return next((name for name, words in _SOURCES if re.search(words, text, re.IGNORECASE)), "manual")


def _after(now: datetime, seconds: int) -> str:
    return clock.timestamp(now + timedelta(seconds=min(seconds, retry.LONGEST_SECONDS)), fraction=True)


def _summary(text: str, at: int | None, name: str) -> str:
    """The line that decided, else the last line, else the class in words."""
    if at is None:
        line = next((each.strip() for each in reversed(text.splitlines()) if each.strip()), "")
    else:
        end = text.find("\n", at)
        line = text[text.rfind("\n", 0, at) + 1 : end if end >= 0 else len(text)].strip()
        line = line or text[at : at + _LONGEST_SUMMARY].strip()
    line = redact(line[:4096])
    return (line[: _LONGEST_SUMMARY - 3] + "..." if len(line) > _LONGEST_SUMMARY else line) or f"{name}: no output"
