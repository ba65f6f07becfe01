"""Reading whatever stands in the file: nothing crashes, and what is wrong is said."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.errors import StateDamaged
from agent_harness.kernel.json import jsontext
from agent_harness.protocols.tasklist import selection
from agent_harness.protocols.tasklist.planning import new_task
from agent_harness.protocols.tasklist.records import State, Task
from agent_harness.protocols.tasklist.selection import natural_key
from agent_harness.testing.task_list_project import NOON, state_of, task

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
MEMBERS = (
    *new_task("x", "x"),
    *("claimed_by", "claimed_at", "lease_expires_at", "lease_seconds", "claim_token", "failed_at", "rescues"),
    *("worktree", "base_ref", "started_branch", "description", "last_claim_token"),
)
TIMES = st.sampled_from(["9999-12-31T23:59:59-23:59", "0001-01-01T00:00:00+23:59", "2026-02-30", "soon", ""])
WHOLE = ("version", "session_config", "session_count", "halt", "session", "revision", "last_session", "created")


@given(
    st.lists(st.dictionaries(st.sampled_from(MEMBERS), ANYTHING | TIMES) | ANYTHING, max_size=4),
    st.dictionaries(st.sampled_from(WHOLE), ANYTHING),
)
def test_no_value_in_the_file_crashes_a_reader(tasks: list[Any], members: dict[str, Any]) -> None:
    state = State({**members, "tasks": tasks})
    for view in (state, *state.tasks):
        for name in dir(type(view)):
            if isinstance(getattr(type(view), name), property):
                getattr(view, name)
    assert len(state.tasks) == sum(isinstance(each, dict) for each in tasks)
    for ask in (selection.counts, selection.stats, selection.eligible, selection.work_left, selection.signature):
        ask(state)
    state.findings()
    selection.finalize(state, NOON)


@pytest.mark.parametrize("tasks", [None, {}, "x", 3])
def test_tasks_that_are_no_list_are_damage(tasks: object) -> None:
    with pytest.raises(StateDamaged):
        State({"tasks": tasks})


@pytest.mark.parametrize(
    ("members", "name", "expected"),
    [
        ({}, "attempts", 0),
        ({"attempts": "2"}, "attempts", 0),
        ({"attempts": True}, "attempts", 0),
        ({"attempts": -1}, "attempts", 0),
        ({"attempts": 2.0}, "attempts", 2),
        ({}, "max_attempts", 3),
        ({"max_attempts": None}, "max_attempts", 3),
        ({"max_attempts": "many"}, "max_attempts", 3),
        ({"max_attempts": jsontext.loads("1e400")}, "max_attempts", 3),
        ({"max_attempts": 1}, "max_attempts", 1),
        ({}, "status", "pending"),
        ({"status": None}, "status", "pending"),
        ({"status": "done"}, "status", "done"),
        ({"status": 5}, "status", "5"),
        ({"status": ["pending"]}, "status", "['pending']"),
        ({}, "depends_on", []),
        ({"depends_on": None}, "depends_on", []),
        ({"depends_on": "task-1"}, "depends_on", None),
        ({"depends_on": {"a": 1}}, "depends_on", None),
        ({"depends_on": ["a", 3]}, "depends_on", ["a", "3"]),
        ({"priority": "P0"}, "rank", 0),
        ({"priority": "P2"}, "rank", 2),
        ({"priority": "P9"}, "rank", 3),
        ({}, "rank", 3),
        ({"title": "a\n b"}, "title", "a b"),
        ({"description": "old name"}, "title", "old name"),
        ({"validation": "pytest"}, "validation_command", None),
        ({"validation": {"command": "  "}}, "validation_command", None),
        ({"validation": {"command": "x", "timeout_seconds": 5}}, "timeout_seconds", 5.0),
        ({"validation": {"command": "x", "timeout_seconds": 0}}, "timeout_seconds", 300.0),
        ({"validation": {"timeout_seconds": 10**400}}, "timeout_seconds", 300.0),
        ({"validation": {"timeout_seconds": jsontext.loads("1e400")}}, "timeout_seconds", 300.0),
        ({"error_log": "x"}, "error_log", []),
        ({"error_log": ["[A] x", 3]}, "error_log", ["[A] x"]),
        ({"lease_expires_at": "9999-12-31T23:59:59-23:59"}, "lease", None),
        ({"status": "failed", "attempts": 3}, "given_up", True),
        ({"status": "failed", "attempts": 1}, "given_up", False),
        ({"status": "failed", "error_log": ["[DEPENDENCY] Blocked by failed a"]}, "given_up", True),
        ({"status": "failed", "error_log": ["[TASK_EXEC] said [DEPENDENCY]"]}, "given_up", False),
        ({"status": "pending", "attempts": 3}, "given_up", False),
    ],
)
def test_a_member_reads_as(members: dict[str, Any], name: str, expected: object) -> None:
    found = getattr(Task(members), name)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.parametrize(
    "text",
    [
        "2026-03-01T12:00:00Z",
        "2026-03-01T12:00:00",
        "2026-03-01T12:00:00.000Z",
        "2026-03-01T14:00:00+02:00",
        " 2026-03-01T06:30:00.000000-05:30 ",
    ],
)
def test_a_time_is_read_with_or_without_an_offset(text: str) -> None:
    """Times are UTC where nothing else is written (tasklist.md 1.1)."""
    assert Task({"failed_at": text}).failed_at == NOON


@pytest.mark.parametrize(
    ("tasks", "field", "said"),
    [
        ([{"title": "x"}], "tasks[0].id", "has no id"),
        ([{"id": 7}], "tasks[0].id", "has no id"),
        ([task("a"), task("a")], "id", "two tasks have the id a"),
        ([task("a", depends_on="b")], "depends_on", "is not a list"),
        ([task("a", depends_on=["b"])], "depends_on", "depends on b, which is not a task"),
        ([task("a", status="done")], "status", "unknown status 'done'"),
        ([task("a", status=5)], "status", "unknown status '5'"),
    ],
)
def test_a_mistake_is_found_and_is_neither_eligible_nor_finished(tasks: list[Any], field: str, said: str) -> None:
    state = state_of(*tasks)
    (found,) = [each for each in state.findings() if each.field == field]
    assert said in found.message
    assert selection.eligible(state) == []
    assert selection.work_left(state)


def test_a_task_that_has_no_findings_is_free_of_what_others_have() -> None:
    state = state_of(task("a", depends_on=["zz"]), task("b"), "text", 5)
    assert [each.id for each in selection.eligible(state)] == ["b"]
    assert [each.task_id for each in state.findings()] == ["a"]


def test_ids_sort_as_a_person_sorts_them() -> None:
    ids = ["task-1000", "task-999", "task-010", "task-9", "a", "task", "task-9b", "10", "9", "task-9a10", "task-9a9"]
    expected = ["9", "10", "a", "task", "task-9", "task-9a9", "task-9a10", "task-9b", "task-010", "task-999"]
    assert sorted(ids, key=natural_key) == [*expected, "task-1000"]


@given(st.lists(st.integers(0, 10**30), min_size=2, max_size=6))
def test_numbers_in_ids_compare_as_numbers(numbers: list[int]) -> None:
    assert sorted((f"t-{each}" for each in numbers), key=natural_key) == [f"t-{each}" for each in sorted(numbers)]


@given(st.lists(st.text(max_size=12), max_size=6))
def test_any_two_ids_can_be_compared(ids: list[str]) -> None:
    sorted(ids, key=natural_key)
