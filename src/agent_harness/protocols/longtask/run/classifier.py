"""Classification of an agent's failure from its output. The result contains the failure class, the source of the
refusal, and the time to wait.

This module also implements `lth classify`. The phrases come from ``kernel.failures`` and the waits from
``kernel.retry``, which all protocols use. Source: ``longtask.md`` 11."""

from __future__ import annotations

import os
import re
import sys
from datetime import timedelta

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock, failures, retry
from agent_harness.kernel.redact import redact
from agent_harness.protocols.longtask.run import outcome
from agent_harness.protocols.longtask.run.outcome import Classification
from agent_harness.protocols.longtask.store import LongTaskStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.options import ClassifyOptions
    from agent_harness.protocols.longtask.store import CheckpointChange


CLASSES: dict[str, tuple[str, float]] = {
    "rate_limit": ("blocked", 0.9),
    "auth_error": ("needs-human", 0.82),
    "test_failure": ("paused", 0.74),
    "missing_context": ("needs-human", 0.7),
    "success": ("paused", 0.6),
    "unknown": ("needs-human", 0.2),
}
"""Status to write to the checkpoint file and the classifier's confidence (0 to 1), by failure class."""

ENDED_BY: dict[str, tuple[str, str]] = {
    "permission_denied": (
        "needs-human",
        (
            'Set "claudeWorker": {"permissionMode": "acceptEdits"} in task.json, or name tools in its extraArgs: '
            '["--allowedTools", "Bash,Edit,Write"]; then: lth record DIR --status active --note TEXT'
        ),
    ),
    "stuck": (
        "needs-human",
        "Human review needed: the worker made no progress; write in the next step how to continue.",
    ),
    "budget_exceeded": (
        "needs-human",
        "Decide whether to spend more: raise --max-cost or workerPolicy.maxCostUsd, or make the next step smaller.",
    ),
    "context_limit": ("paused", "Continue the same slice where the files and the evidence show that it stopped."),
    "no_response": ("paused", "Resume the same slice; the worker stopped responding."),
    "over_limit": (
        "paused",
        "Resume the same slice; the worker exceeded the limits of workerPolicy.sandbox.",
    ),
}
"""Status and next step to write to the checkpoint file, by the monitor that ended the agent."""

NO_TIME_CONFIDENCE = 0.78
"""Confidence of the classifier (0 to 1) in a rate limit without a known end."""

_ROWS: tuple[failures.Row, ...] = (
    *failures.rows(
        {
            "DISK_FULL": "unknown",  # "disk quota exceeded" is not a quota of a provider
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
"""Sources of a refusal, each with a pattern. The first row whose pattern matches the text decides."""

LONGEST_TEXT = 262_144
_LONGEST_SUMMARY = 300


def classify(
    text: str,
    *,
    exit_code: int | None = None,
    source: str | None = None,
    fallback_wait_seconds: int = 14_400,
    now: datetime,
) -> Classification:
    """Return the class of failure that an agent's output shows."""
    end = text[-LONGEST_TEXT:]
    found = None if exit_code == 0 else failures.first_match(end, _ROWS)
    name = "success" if exit_code == 0 else found[0] if found else "unknown"
    status, confidence = CLASSES[name]
    made = Classification(name, source or source_of(end), status, confidence, _summary(end, found and found[1], name))
    if made.limited:
        wait = made.retry_after_seconds = retry.seconds_asked(end, now)
        seconds = fallback_wait_seconds if wait is None else wait
        until = now + timedelta(seconds=min(seconds, retry.LONGEST_SECONDS))
        made.blocked_until = clock.timestamp(until, fraction=True)
        made.fallback_wait_seconds = fallback_wait_seconds
        told = retry.later_end(end, now)
        made.told_until = clock.timestamp(told, fraction=True) if told else None
        made.confidence = NO_TIME_CONFIDENCE if wait is None else confidence
    return made


def of_monitor(ended_by: str, message: str, source: str | None) -> Classification:
    """Return the class of failure for an agent that a monitor stopped."""
    summary = _summary(message.partition("\n")[0], None, ended_by)
    return Classification("unknown", source or "manual", ENDED_BY[ended_by][0], 1.0, summary)


def source_of(text: str) -> str:
    return next((name for name, words in _SOURCES if re.search(words, text, re.IGNORECASE)), "manual")


def _summary(text: str, at: int | None, name: str) -> str:
    if at is None:
        line = next((each.strip() for each in reversed(text.splitlines()) if each.strip()), "")
    else:
        end = text.find("\n", at)
        line = text[text.rfind("\n", 0, at) + 1 : end if end >= 0 else len(text)].strip()
        line = line or text[at : at + _LONGEST_SUMMARY].strip()
    line = redact(line[:4096])
    return (line[: _LONGEST_SUMMARY - 3] + "..." if len(line) > _LONGEST_SUMMARY else line) or f"{name}: no output"


# ---- the command `lth classify`


def classify_command(layout: LongTaskLayout, options: ClassifyOptions) -> tuple[JsonObject, int]:
    store = LongTaskStore(layout)
    task, _ = store.load()
    text = _given_text(options)
    found = classify(
        text,
        exit_code=options.exit_code,
        source=options.source,
        fallback_wait_seconds=task.fallback_wait_seconds,
        now=clock.now(),
    )
    if options.record:
        store.change(lambda change: _record(change, found, text, options.codex_session_path))
    return found.as_record(), 0


def _given_text(options: ClassifyOptions) -> str:
    path = options.file
    if options.text is not None:
        return options.text
    if path is None:
        raise HarnessError("classify requires --text or --file.")
    try:
        if path == "-":
            return sys.stdin.buffer.read().decode("utf-8", "replace")
        with open(os.path.expanduser(path), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - 4 * LONGEST_TEXT))
            return file.read().decode("utf-8", "replace")
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise HarnessError(f"cannot read {path}: {reason}") from None


def _record(change: CheckpointChange, found: Classification, text: str, session_path: str | None) -> None:
    limited = found.source == "codex-cli" and found.limited
    base = change.layout.root
    items = outcome.session_evidence(change.task, session_path, text, base, change.at) if limited else []
    outcome.apply_class(change, found, items, before=None, worker=None, text=text)
