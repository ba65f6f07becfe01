"""Choice of the next task: the rules one by one, and all against a plain reading of the specification."""

import copy
from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.protocols.tasklist import lifecycle, selection
from agent_harness.protocols.tasklist.records import State, Task
from agent_harness.protocols.tasklist.selection import natural_key
from agent_harness.testing.task_list_project import NOON, after, state_of, task

BLOCKED = "[DEPENDENCY] Blocked by failed "
IDS = ["t-1", "t-2", "t-9", "t-10", "t-11"]


def names(state: State) -> list[str]:
    return [each.id for each in selection.eligible(state)]


def settled(*tasks: dict[str, Any]) -> tuple[State, dict[str, str]]:
    state = state_of(*tasks)
    return state, {each.task.id: each.message for each in selection.finalize(state, NOON)}


# ---- passes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "again"),
    [
        ({"attempts": 1}, True),
        ({"attempts": 3}, False),
        ({"attempts": 1, "depends_on": ["open"]}, False),
        ({"attempts": 1, "depends_on": ["nobody"]}, False),
        ({"attempts": 1, "error_log": ["[DEPENDENCY] the other service is down"]}, False),
        ({"attempts": 1, "error_log": ["[DEPENDENCY] Blocked by failed done", "[TEST_FAIL] no"]}, True),
        ({"attempts": 1, "depends_on": 5}, False),
    ],
)
def test_what_is_called_retryable_is_what_is_offered_again(members: dict[str, Any], again: bool) -> None:
    """One rule for the answer of ``fail`` and for the selection (tasklist.md 7.1, 13.3)."""
    state = state_of(task("a", status="failed", **members), task("done", status="completed"), task("open"))
    assert selection.retryable(state, "a") is again
    assert ("a" in [each.id for each in selection.eligible(state)]) is again


def test_pending_tasks_come_by_priority_then_by_id() -> None:
    state = state_of(
        task("t-10", priority="P1"),
        task("t-9", priority="P1"),
        task("x", priority=None),
        task("z", priority="P2"),
        task("t-11", priority="P0"),
        task("y", priority="P9"),
    )
    assert names(state) == ["t-11", "t-9", "t-10", "z", "x", "y"]


def test_failed_tasks_come_after_all_pending_ones_and_the_oldest_failure_first() -> None:
    state = state_of(
        task("a", status="failed", attempts=1, priority="P0", failed_at="2026-03-01T10:00:00.500Z"),
        task("b", status="failed", attempts=1, priority="P0", failed_at="2026-03-01T10:00:00.250Z"),
        task("c", status="failed", attempts=2, priority="P0"),
        task("d", status="failed", attempts=3, priority="P0"),
        task("e", priority="P2"),
    )
    assert names(state) == ["e", "c", "b", "a"]


def test_a_failure_without_a_time_is_as_old_as_the_log_says() -> None:
    told: dict[str, datetime] = {"b": after(10), "a": after(20)}
    state = state_of(*(task(each, status="failed", attempts=1) for each in ("a", "b", "c")))
    assert [each.id for each in selection.eligible(state, told.get)] == ["c", "b", "a"]
    found = selection.next_task(state, told.get)
    assert found and found.id == "c"


@pytest.mark.parametrize(
    ("status", "expected"), [("completed", ["b"]), ("pending", ["a"]), ("in_progress", []), ("failed", ["a"])]
)
def test_a_task_waits_until_what_it_needs_is_completed(status: str, expected: list[str]) -> None:
    assert names(state_of(task("a", status=status), task("b", depends_on=["a"]))) == expected


# ---- circles and what is behind a failure --------------------------------------------------------------------------


def test_every_member_of_a_circle_is_named_from_itself() -> None:
    _, marked = settled(
        task("a", depends_on=["b"]),
        task("b", depends_on=["c"]),
        task("c", depends_on=["a"]),
        task("s", depends_on=["s"]),
        task("out", depends_on=["a"]),
    )
    assert marked == {
        "a": "Circular dependency detected: a -> b -> c -> a",
        "b": "Circular dependency detected: b -> c -> a -> b",
        "c": "Circular dependency detected: c -> a -> b -> c",
        "s": "Circular dependency detected: s -> s",
        "out": "Blocked by failed a",
    }


def test_a_long_chain_is_no_recursion() -> None:
    count = 20_000
    tasks = [task(f"t-{n}", depends_on=[f"t-{n + 1}"]) for n in range(count)]
    state, marked = settled(*tasks, task(f"t-{count}", status="failed", attempts=3))
    assert len(marked) == count
    assert selection.next_task(state) is None
    assert not selection.work_left(state)


def test_what_is_behind_a_failure_for_good_is_blocked_to_the_end_of_the_chain() -> None:
    state, marked = settled(
        task("a", status="failed", attempts=3),
        task("b", depends_on=["a"]),
        task("c", depends_on=["b"]),
        task("d", depends_on=["x"], status="completed"),
        task("x", status="failed", attempts=1),
        task("y", depends_on=["x"]),
    )
    assert marked == {"b": "Blocked by failed a", "c": "Blocked by failed b"}
    assert (state.by_id["b"].attempts, state.by_id["b"].error_log) == (0, [BLOCKED + "a"])
    assert selection.finalize(state, NOON) == []


def test_a_task_that_was_only_blocked_comes_back_with_what_blocked_it() -> None:
    blocked = {"status": "failed", "error_log": [BLOCKED + "a"]}
    state, marked = settled(
        task("a", status="completed"),
        task("b", depends_on=["a"], **blocked),
        task("c", depends_on=["b"]),
        task("d", depends_on=["b"], status="failed", error_log=["[DEPENDENCY] Circular dependency detected: d -> d"]),
    )
    assert marked == {}  # c waits for b, which will be tried again
    assert names(state) == ["b"]
    assert selection.work_left(state)
    lifecycle.start(state.by_id["b"], owner="me", token="t", at=NOON, lease_seconds=60)
    lifecycle.fail(state.by_id["b"], "TEST_FAIL", "no", NOON)
    assert selection.finalize(state, NOON) == []
    assert names(state) == ["b"]


def test_the_second_of_two_tasks_with_one_id_marks_nobody() -> None:
    _, marked = settled(task("a"), task("a", depends_on=["a"]))
    assert marked == {}


# ---- against a plain reading ---------------------------------------------------------------------------------------


@st.composite
def task_lists(draw: st.DrawFn) -> list[dict[str, Any]]:
    times = st.sampled_from([None, "2026-03-01T10:00:00Z", "2026-03-01T10:00:01Z"])
    found = []
    for item in draw(st.permutations(IDS)):
        status = draw(st.sampled_from(["pending", "pending", "failed", "completed", "in_progress"]))
        errors = [BLOCKED + "t-1"] if status == "failed" and draw(st.integers(0, 3)) == 0 else []
        found.append(
            task(
                item,
                status=status,
                priority=draw(st.sampled_from(["P0", "P1", None])),
                attempts=draw(st.integers(0, 3)),
                depends_on=draw(st.lists(st.sampled_from(IDS), max_size=2)),
                failed_at=draw(times),
                error_log=errors,
            )
        )
    return found


def reaches(state: State, start: str, goal: str, seen: frozenset[str] = frozenset()) -> bool:
    """Return True if walking from the needs of ``start``, past everything not completed, meets ``goal``."""
    needs = state.by_id[start].depends_on or [] if state.by_id[start].status != "completed" else []
    return goal in needs or any(
        reaches(state, need, goal, seen | {need})
        for need in needs
        if need not in seen and state.by_id[need].status != "completed"
    )


def naive_settle(state: State) -> dict[str, str]:
    """Return the failed tasks and the kind of failure of each: 7.1, rules 1 and 2, word by word."""
    circles = [each for each in state.tasks if each.status == "pending" and reaches(state, each.id, each.id)]
    kinds = {each.id: "Circular" for each in circles}
    for each in circles:
        lifecycle.mark(each, "Circular dependency detected", NOON)
    lost = {each.id for each in state.tasks if naive_over(state, each)}
    behind = {*lost}
    changed = True
    while changed:
        changed = False
        for each in state.tasks:
            if each.id not in behind and each.status in ("pending", "failed") and behind & {*(each.depends_on or [])}:
                behind.add(each.id)
                changed = True
    return kinds | {item: "Blocked" for item in behind - lost if state.by_id[item].status == "pending"}


def naive_over(state: State, found: Task) -> bool:
    ready = all(state.by_id[need].status == "completed" for need in found.depends_on or [])
    return found.given_up and not (found.blocked_only and ready and found.attempts < found.max_attempts)


def naive_order(state: State) -> list[str]:
    def ready(found: Task) -> bool:
        return all(state.by_id[need].status == "completed" for need in found.depends_on or [])

    fresh = [each for each in state.tasks if each.status == "pending" and ready(each)]
    again = [
        each
        for each in state.tasks
        if each.status == "failed"
        and ready(each)
        and each.attempts < each.max_attempts
        and (not each.given_up or each.blocked_only)
    ]
    fresh.sort(key=lambda each: (each.rank, natural_key(each.id)))
    again.sort(key=lambda each: (each.rank, each.raw["failed_at"] or "", natural_key(each.id)))
    return [each.id for each in [*fresh, *again]]


@given(task_lists())
def test_selection_is_what_the_specification_says(tasks: list[dict[str, Any]]) -> None:
    state, plain = state_of(*copy.deepcopy(tasks)), state_of(*copy.deepcopy(tasks))
    marked = {each.task.id: each.message.split()[0] for each in selection.finalize(state, NOON)}
    assert marked == naive_settle(plain)
    assert all(state.by_id[each].status == "failed" for each in marked)
    assert selection.finalize(state, NOON) == []
    order = names(state)
    assert order == naive_order(state)
    found = selection.next_task(state)
    assert (found.id if found else None) == (order[0] if order else None)
    numbers = selection.stats(state)
    assert numbers["completed"] + numbers["failed"] + numbers["pending"] == numbers["tasks_total"] == len(tasks)
    assert selection.work_left(state) == (bool(selection.in_progress(state)) or can_be_done(state))
    assert not order or selection.work_left(state)


def can_be_done(state: State) -> bool:
    """Return True if an open task can still be reached, by completing its dependencies."""
    open_ones = {each.id for each in state.tasks if each.status != "completed" and not naive_over(state, each)}
    done = {each.id for each in state.tasks if each.status == "completed"}
    changed = True
    while changed:
        dead = {each for each in open_ones if not {*(state.by_id[each].depends_on or [])} <= open_ones | done}
        dead |= {each for each in open_ones if reaches(state, each, each)}
        open_ones -= dead
        changed = bool(dead)
    return bool(open_ones)


# ---- how far things are --------------------------------------------------------------------------------------------


def test_numbers_count_what_is_in_progress_as_pending() -> None:
    state = state_of(
        task("a", status="completed", attempts=2, checkpoints=[{"step": 1}, {"step": 2}, "x"]),
        task("b", status="in_progress"),
        task("c", status="failed", attempts=3, checkpoints=[{"step": 1}]),
        task("d", depends_on=["c"]),
        task("e", depends_on=["d"]),
        "no object",
    )
    assert selection.stats(state) == {
        "tasks_total": 5,
        "completed": 1,
        "failed": 1,
        "pending": 3,
        "blocked": 2,
        "attempts_total": 5,
        "checkpoints": 3,
    }


@pytest.mark.parametrize(
    ("tasks", "left"),
    [
        ([], False),
        ([task("a", status="completed")], False),
        ([task("a", status="failed", attempts=3)], False),
        ([task("a", status="failed", attempts=3), task("b", depends_on=["a"])], False),
        ([task("a", depends_on=["a"])], False),
        ([task("a")], True),
        ([task("a", status="in_progress")], True),
        ([task("a", status="failed", attempts=2)], True),
        ([task("a", depends_on=["nobody"])], True),
        ([task("a", depends_on="x")], True),
    ],
)
def test_work_is_left(tasks: list[dict[str, Any]], left: bool) -> None:
    assert selection.work_left(state_of(*tasks)) is left


def test_progress_changes_the_signature_and_nothing_else_does() -> None:
    state = state_of(task("a", status="in_progress"), task("b"))
    seen = {selection.signature(state)}
    found = state.by_id["a"].raw
    found |= {"lease_expires_at": "2027-01-01T00:00:00Z", "title": "other", "claimed_by": "x"}
    assert {selection.signature(state)} == seen
    for members in ({"status": "failed"}, {"attempts": 1}, {"checkpoints": [{"step": 1, "attempt": 2}]}):
        found |= members
        assert selection.signature(state) not in seen
        seen.add(selection.signature(state))
    found["checkpoints"] = [{"step": n, "attempt": 2} for n in range(50)]
    fifty = selection.signature(state)
    found["checkpoints"].append({"step": 51, "attempt": 2})
    assert selection.signature(state) == fifty
