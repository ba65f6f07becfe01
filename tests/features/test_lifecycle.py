"""Changes of the state at the end of one session, row by row."""

from typing import Any

import pytest

from agent_harness.protocols.features import lifecycle, recovery
from agent_harness.protocols.features.lifecycle import SessionEnding, after_session
from agent_harness.protocols.features.records import SessionState

AT = "2026-01-01T00:00:00Z"


def ending(**fields: Any) -> SessionEnding:
    values: dict[str, Any] = {"session": 4, "feature_id": 2, "status": "partial", "at": AT, **fields}
    return SessionEnding(**values)


def test_an_accepted_session_resets_the_stuck_count_and_asks_for_coding() -> None:
    """UAH-115, UAH-116, UAH-117, UAH-118, UAH-119, UAH-120, UAH-121, UAH-126, UAH-320, UAH-509."""
    state = SessionState({"current_feature": 2, "stuck_count": 2, "future": "kept"})
    now = after_session(state, ending(status="complete", kept_work=True))
    assert (now.record["status"], now.record["stuck_count"], now.record["next_prompt"], now.record["last_session"]) == (
        "complete",
        0,
        "coding",
        4,
    )
    assert (now.record["current_feature"], now.record["timestamp"]) == (2, AT)
    assert now.record["termination_reason"] is None
    assert now.record["partial"] is None
    assert now.record["feature_checkpoint"] is None
    assert now.record["future"] == "kept"


@pytest.mark.parametrize(
    ("status", "reason", "kept", "stuck", "prompt"),
    [
        ("partial", "complete", True, 1, "continuation"),
        ("partial", "complete", False, 1, "coding"),
        ("partial", "context_limit", True, 1, "continuation"),
        ("partial", "timeout", True, 1, "continuation"),
        ("partial", "stuck", True, 1, "continuation"),
        ("partial", "budget_exceeded", True, 1, "continuation"),
        ("partial", "user_pause", True, 0, "continuation"),
        ("partial", "error", True, 0, "continuation"),
        ("failed", "complete", False, 1, "coding"),
    ],
)
def test_every_other_ending(status: str, reason: str, kept: bool, stuck: int, prompt: str) -> None:
    """UAH-116, UAH-118, UAH-119, UAH-122, UAH-127, UAH-320, C05, C07."""
    state = SessionState({"current_feature": 2})
    partial = {"feature_id": 2}
    now = after_session(state, ending(status=status, reason=reason, kept_work=kept, partial=partial))
    assert now.record["stuck_count"] == stuck
    assert now.record["next_prompt"] == prompt
    assert now.record["termination_reason"] == (None if reason == "complete" else reason)
    assert now.record["timeout_count"] == (1 if reason == "timeout" else 0)


def test_work_that_is_kept_for_an_answer_counts_nothing() -> None:
    """C35: neither towards being stuck nor as a rejected claim; what was counted before stays."""
    state = SessionState({"current_feature": 2, "stuck_count": 2, "verification_failures": {"2": 1}})
    now = after_session(state, ending(status="failed", counted=False))
    assert (now.stuck_count, now.failures, now.next_prompt) == (2, {"2": 1}, "coding")
    counted = after_session(state, ending(status="failed"))
    assert (counted.stuck_count, counted.failures) == (3, {"2": 2})


def test_three_failures_in_a_row_are_stuck_and_another_feature_starts_at_one() -> None:
    """UAH-120, UAH-128."""
    state = SessionState({})
    for n in (1, 2, 3):
        state = after_session(state, ending(session=n, status="failed"))
        assert state.record["stuck_count"] == n
    assert lifecycle.is_stuck(state, 3)
    state = after_session(state, ending(session=4, feature_id=3, status="failed"))
    assert state.record["stuck_count"] == 1
    assert not lifecycle.is_stuck(state, 3)


def test_an_interrupted_session_keeps_the_count_of_its_feature() -> None:
    """C35."""
    state = SessionState({"current_feature": 2, "stuck_count": 2})
    assert after_session(state, ending(reason="error")).stuck_count == 2


@pytest.mark.parametrize(
    ("state", "expected"),
    [
        ({}, ("coding", "first session")),
        ({"last_session": 1, "status": "complete"}, ("coding", "previous session completed")),
        ({"last_session": 1, "status": "failed"}, ("coding", "previous session failed and was rolled back")),
        ({"last_session": 1, "status": "partial"}, ("coding", "previous session ended without changes")),
        (
            {"last_session": 1, "next_prompt": "continuation", "partial": {"x": 1}, "current_feature": 7},
            ("continuation", "Feature #7 is partial"),
        ),
        ({"last_session": 1, "next_prompt": "continuation", "partial": None}, ("coding", "previous session completed")),
        ({"last_session": 1, "status": "of a later version"}, ("coding", "previous session ended")),
    ],
)
def test_prompt_types(state: dict[str, Any], expected: tuple[str, str]) -> None:
    """UAH-119, UAH-234, UAH-281, UAH-316."""
    assert lifecycle.prompt_type(SessionState(state)) == expected


def test_every_phase_has_one_recovery_row_and_the_unknown_phase_the_most_careful_one() -> None:
    phases = [row.phase for row in recovery.RECOVERY]
    assert phases == ["preparing", "running", "judging", "settling", "planning", "planned"]
    steps = ["forget", "hand_off", "hand_off", "settle", "take_back", "adopt"]
    assert [recovery.action_for(p).step for p in phases] == steps
    assert recovery.action_for("from the future").step == "hand_off"
