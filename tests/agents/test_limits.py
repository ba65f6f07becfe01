"""A client that gives up because of a limit is recognised; other failures are not."""

import pytest

from agent_harness.agents.command import refusal_from_text

REFUSALS = [
    ("API Error: 429 Too Many Requests, retry after 30s", 30.0, None),
    ("Rate limit reached for requests. Please try again in 1m20.5s.", 80.5, None),
    ("you are rate limited: please wait 2 hours 5 minutes", 7500.0, None),
    ("Usage limit reached|1761234567", None, "2025-10-23T15:49:27Z"),
    ("rate_limit_error, resets at 2026-11-21T10:00:00Z", None, "2026-11-21T10:00:00Z"),
    ("You've hit your usage limit. Resets at 3pm", None, None),
    ("too many requests, retry after 30", None, None),
    ('{"error": {"type": "overloaded_error"}}', None, None),
    ("request failed with status code: 529", None, None),
    ("You've hit your limit · resets 11pm (America/Anchorage)", None, None),
    ("5-hour limit reached ∙ resets 2pm", None, None),
    ("You're out of extra usage · resets Mon 9am (UTC)", None, None),
    ("Premium request quota exceeded. Resets in 3 hours 20 minutes.", 12000.0, None),
]
OTHERS = [
    "tests for the rate limit module pass",
    "429 passed in 3.2s",
    "the list of operators is overloaded",
    "TypeError: 'NoneType' object is not callable",
    "memory limit exceeded",
    "the limit of 3 open files was hit; again in the next test",
    "Credit balance is too low",
    "insufficient_quota",
    "You exceeded your current quota, please check your plan and billing details.",
    "",
]


@pytest.mark.parametrize(("line", "seconds", "moment"), REFUSALS, ids=[row[0][:40] for row in REFUSALS])
def test_a_refusal_is_recognised(line: str, seconds: float | None, moment: str | None) -> None:
    found = refusal_from_text(f"working\n{line}\ngood bye")
    assert found is not None
    assert found.message == line
    assert found.retry_after_seconds == seconds
    assert found.resets_at == moment


@pytest.mark.parametrize("line", OTHERS)
def test_anything_else_is_not(line: str) -> None:
    assert refusal_from_text(line) is None


def test_a_reset_may_stand_in_the_line_below() -> None:
    found = refusal_from_text("You've hit your limit\n  resets in 2 hours\n")
    assert found is not None
    assert found.retry_after_seconds == 7200.0


def test_the_last_refusal_counts() -> None:
    found = refusal_from_text("429 too many requests, retry after 1s\nstill: rate limited, retry after 9s")
    assert found is not None
    assert found.retry_after_seconds == 9.0
