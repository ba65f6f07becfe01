"""Which moves there are, what each of them writes, and that attempts are the attempts that ended."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.errors import LeaseLost, NotOwner
from agent_harness.kernel import clock
from agent_harness.protocols.tasklist import lifecycle
from agent_harness.protocols.tasklist.records import STATUSES, Task
from agent_harness.testing.task_list_project import NOON, after, task


def started(**members: Any) -> Task:
    found = Task(task("a", **members))
    lifecycle.start(
        found, owner="me", token="t1", at=NOON, lease_seconds=60, head="abc", branch="main", base_ref="refs/b"
    )
    return found


ACTS = {
    "start": lambda found: lifecycle.start(found, owner="me", token="t", at=NOON, lease_seconds=60),
    "complete": lambda found: lifecycle.complete(found, NOON),
    "fail": lambda found: lifecycle.fail(found, "TEST_FAIL", "no", NOON),
    "release": lifecycle.release,
}


@pytest.mark.parametrize("move", ACTS)
@pytest.mark.parametrize("status", [*STATUSES, "blocked", "odd"])
def test_only_the_moves_of_the_table_are_made(status: str, move: str) -> None:
    found = Task(task("a", status=status))
    expected = {
        ("pending", "start"): "in_progress",
        ("failed", "start"): "in_progress",
        ("in_progress", "complete"): "completed",
        ("in_progress", "fail"): "failed",
        ("in_progress", "release"): "pending",
    }.get((status, move))
    before = dict(found.raw)
    if expected is None:
        with pytest.raises(NotOwner):
            ACTS[move](found)
        assert found.raw == before
    else:
        ACTS[move](found)
        assert found.status == expected


def test_a_start_writes_claim_lease_and_base() -> None:
    found = started(status="failed", attempts=1, completed_at="2026-01-01T00:00:00Z", own="kept")
    assert found.raw == task("a") | {
        "status": "in_progress",
        "attempts": 1,
        "own": "kept",
        "claimed_by": "me",
        "claimed_at": "2026-03-01T12:00:00Z",
        "lease_expires_at": "2026-03-01T12:01:00Z",
        "lease_seconds": 60,
        "claim_token": "t1",
        "started_at_commit": "abc",
        "started_branch": "main",
        "base_ref": "refs/b",
        "completed_at": None,
    }


@pytest.mark.parametrize(("move", "attempts"), [("complete", 2), ("fail", 2), ("release", 1)])
def test_an_end_forgets_the_claim_but_for_its_token(move: str, attempts: int) -> None:
    found = started(attempts=1)
    found.raw |= {"worktree": "/x", "claimed_session": 4, "claimed_process": {"pid": 1}}
    ACTS[move](found)
    assert not {*found.raw} & {*lifecycle.CLAIM_FIELDS}
    assert (found.attempts, found.last_claim_token, found.raw["last_owner"]) == (attempts, "t1", "me")
    assert found.started_at_commit == "abc"


def test_a_failure_is_noted_with_category_and_time() -> None:
    found = started(error_log=["[TASK_EXEC] first", 5])
    lifecycle.fail(found, "TEST_FAIL", "second", after(0.25))
    assert found.raw["error_log"] == ["[TASK_EXEC] first", 5, "[TEST_FAIL] second"]
    assert found.raw["failed_at"] == "2026-03-01T12:00:00.250Z"
    assert not found.given_up


def test_a_failure_whose_base_is_gone_uses_up_the_attempts() -> None:
    found = started()
    lifecycle.fail(found, "TASK_EXEC", "x", NOON, give_up=True)
    assert (found.attempts, found.given_up) == (3, True)


def test_reaping_says_whose_lease_expired() -> None:
    found = started()
    lifecycle.reap(found, after(100))
    assert found.error_log == ["[SESSION_TIMEOUT] Lease expired (claimed_by=me)"]
    assert (found.status, found.attempts) == ("failed", 1)


def test_a_mark_counts_no_attempt() -> None:
    found = Task(task("a", error_log="broken"))
    lifecycle.mark(found, "Blocked by failed b", NOON)
    assert (found.status, found.attempts, found.error_log) == ("failed", 0, ["[DEPENDENCY] Blocked by failed b"])


# ---- leases --------------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(-100, 100), st.floats(0.1, 5000)), max_size=8))
def test_a_renewal_only_ever_moves_the_end_forward(steps: list[tuple[float, float]]) -> None:
    found, ends = started(), [after(60)]
    for at, seconds in steps:
        try:
            lifecycle.renew(found, after(at), seconds)
        except LeaseLost:
            assert after(at - 30) >= ends[-1]
        ends.append(found.lease_expires_at or NOON)
    assert ends == sorted(ends)


def test_a_claim_whose_lease_is_unreadable_gets_one() -> None:
    found = started()
    found.raw["lease_expires_at"] = "soon"
    lifecycle.renew(found, after(10), 60)
    assert found.lease_expires_at == after(70)


# ---- checkpoints ---------------------------------------------------------------------------------------------------


def test_the_same_step_takes_the_place_of_the_one_before() -> None:
    found = started(checkpoints=[{"step": 1, "attempt": 1, "description": "old", "mine": 1}, "odd"])
    lifecycle.checkpoint(found, 1, 2, "again", after(1))
    lifecycle.checkpoint(found, 2, 2, "further", after(2))
    assert found.raw["checkpoints"] == [
        {**_step(1, "again", 1), "attempt": 1, "mine": 1},
        "odd",
        {**_step(2, "further", 2), "attempt": 1},
    ]


def test_a_step_of_an_earlier_attempt_stays() -> None:
    found = started(attempts=1, checkpoints=[{"step": 1, "attempt": 1, "description": "old"}])
    lifecycle.checkpoint(found, 1, 2, "new", NOON)
    assert [each.record["description"] for each in found.checkpoints] == ["old", "new"]
    assert [each.record["description"] for each in found.checkpoints_of_attempt] == ["new"]


def _step(number: int, text: str, seconds: int) -> dict[str, Any]:
    return {"step": number, "total": 2, "description": text, "timestamp": clock.timestamp(after(seconds))}


# ---- invariants ----------------------------------------------------------------------------------------------------


@given(st.lists(st.sampled_from([*ACTS, "reap"]), max_size=20))
def test_attempts_are_the_attempts_that_ended(moves: list[str]) -> None:
    found, ended = Task(task("a")), 0
    for move in moves:
        before = dict(found.raw)
        try:
            ACTS[move](found) if move != "reap" else lifecycle.reap(found, NOON)
        except NotOwner:
            assert found.raw == before
        else:
            ended += move in ("complete", "fail", "reap")
        assert found.attempts == ended
        assert (found.status == "in_progress") == ("claim_token" in found.raw)
