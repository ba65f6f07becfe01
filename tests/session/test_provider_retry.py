"""Failures of the provider: how they differ from the agent's own, and the number and length of waits."""

import re
from pathlib import Path
from typing import Any

import pytest

from agent_harness.agents.events import RateLimited
from agent_harness.agents.usage import Totals
from agent_harness.protocols.features import lifecycle
from agent_harness.protocols.features.sessions import wip
from agent_harness.session import provider_retry
from agent_harness.session.provider_retry import ProviderFailure, provider_failure, wait_before
from agent_harness.supervision.supervisor import Outcome

HOUR = 3600.0


def outcome(**fields: Any) -> Outcome:
    values: dict[str, Any] = {
        "reason": "finished",
        "ok": False,
        "exit_code": 1,
        "message": "",
        "usage": Totals(),
        "steered": (),
        "not_delivered": (),
        "text_tail": "",
        "evidence": None,
        "rate_limit": None,
        "conversation": None,
        "seconds": 1.0,
        "problems": (),
    }
    return Outcome(**values | fields)


@pytest.mark.parametrize(
    ("fields", "kind"),
    [
        ({"reason": "rate_limited", "message": "API error 429 rate_limit_error"}, "rate_limited"),
        ({"reason": "rate_limited", "message": "You've hit your weekly limit"}, "rate_limited"),
        ({"reason": "rate_limited", "message": "API error 529 overloaded_error: Overloaded"}, "overloaded"),
        ({"reason": "no_response", "message": "nothing heard for 120 s"}, "no_response"),
        ({"message": "API error 401 authentication_error: the API key is not valid"}, "auth"),
        ({"message": "Not logged in. Please run /login"}, "auth"),
        ({"message": "exited with status 1: Credit balance is too low"}, "money"),
        ({"message": "exited with status 1", "text_tail": "insufficient_quota\nbye"}, "money"),
        ({"reason": "rate_limited", "message": "API error 429: insufficient_quota"}, "money"),
        ({"message": "connect ECONNREFUSED 127.0.0.1:443"}, "network"),
        ({"message": "Malformed response: Expecting value"}, "malformed"),
        ({"message": "SyntaxError: Unexpected end of JSON input"}, "malformed"),
        ({"message": "the provider was silent for 120 seconds, twice over. m: timed out"}, "no_response"),
        ({"message": "the provider refuses the API key; correct KEY. m: status_code: 401"}, "auth"),
        ({"message": "exited with status 1", "text_tail": 'I begin.\n{"type": "usage", "input'}, "malformed"),
        ({"message": "exited with status 1", "text_tail": 'I begin.\n{"a": 1}'}, None),
        ({"message": "exited with status 3: no entry is left"}, None),
        ({"message": "sh: ./run.sh: Permission denied"}, None),
        ({"message": "3 failed, 2 passed in 0.1s"}, None),
        ({"ok": True, "message": "API error 401"}, None),
        ({"reason": "timeout", "message": "429 Too Many Requests"}, None),
        ({"reason": "context_limit"}, None),
    ],
)
def test_what_the_provider_did_is_told_apart_from_a_failure_of_the_agent(
    fields: dict[str, Any], kind: str | None
) -> None:
    """UAH-374 UAH-375 UAH-376 UAH-377 UAH-378 C28."""
    found = provider_failure(outcome(**fields))
    assert (found.kind if found else None) == kind


def all_waits(kind: str, *, asked: float | None = None, left: float = HOUR) -> list[float]:
    """Return the waits of tries that all fail, until no further one is due or twelve were made."""
    failure = ProviderFailure(kind=kind, message="no", asked_seconds=asked)
    waits: list[float] = []
    while len(waits) < 12:
        wait = wait_before(failure, len(waits) + 1, left)
        if wait is None:
            break
        waits.append(wait)
    return waits


@pytest.mark.parametrize(
    ("kind", "waits"),
    [
        ("rate_limited", [1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]),
        ("overloaded", [30, 30, 30]),
        ("network", [1, 2]),
        ("no_response", [0]),
        ("malformed", [0]),
        ("auth", []),
        ("money", []),
    ],
)
def test_the_waits_of_each_row(kind: str, waits: list[float]) -> None:
    """UAH-374 UAH-375 UAH-376 UAH-377 UAH-378 UAH-388 C28."""
    assert all_waits(kind) == waits


def test_what_the_provider_asks_for_wins_and_the_sessions_time_bounds_it() -> None:
    """UAH-374 C28."""
    assert all_waits("rate_limited", asked=7.5)[:2] == [7.5, 7.5]
    assert all_waits("rate_limited", asked=1000)[:1] == [300]
    assert all_waits("rate_limited", asked=1000, left=999) == []
    assert all_waits("rate_limited", left=5) == [1, 2, 4]
    assert all_waits("overloaded", left=29) == []


def test_a_client_that_has_tried_again_itself_is_not_started_again() -> None:
    """UAH-376 UAH-378 C28: two tries in all."""
    found = provider_failure(outcome(message="the provider's answer is malformed, twice over. m: Expecting value"))
    assert found is not None
    assert (found.kind, wait_before(found, 1, HOUR)) == ("malformed", None)


def test_the_moment_of_a_reset_is_a_wait() -> None:
    """C28."""
    told = RateLimited(message="429", resets_at="2999-01-01T00:00:00Z", retry_after_seconds=3)
    found = provider_failure(outcome(reason="rate_limited", message="429", rate_limit=told))
    assert found is not None
    assert found.asked_seconds is not None
    assert found.asked_seconds > 1e6
    past = RateLimited(message="429", resets_at="2001-01-01T00:00:00Z")
    found = provider_failure(outcome(reason="rate_limited", message="429", rate_limit=past))
    assert found is not None
    assert found.asked_seconds == 0


def test_every_row_ends_in_a_hand_off_that_counts_against_nobody() -> None:
    """C28 C35: the text is there, and the records keep a reason that is not counted."""
    for row in provider_retry.TABLE.values():
        assert row.ends in wip.WORDINGS
        assert wip.recorded(row.ends) in lifecycle.UNCOUNTED_REASONS


def test_the_table_of_the_docstring_is_the_table() -> None:
    text = Path(str(provider_retry.__file__)).read_text().split('"""')[1]
    assert re.findall(r"^    (\w+)  ", text, re.MULTILINE)[1:] == list(provider_retry.TABLE)
