"""Stop, row by row of its table (tasklist.md 6.1)."""

from typing import Any

import pytest

from agent_harness.errors import StateDamaged
from agent_harness.hooks import stop
from agent_harness.hooks.event import Decision, Event
from agent_harness.hooks.stop_limit import Count
from agent_harness.protocols.tasklist.records import State
from hooks.lists import NOW, event, lease, state, task

DONE, OPEN, MINE = task(1, "completed"), task(2), task(2, "in_progress")
COUNTED = Count(1, 7, reached=False)


def decide(called: Event, found: State, *, outcomes: int = 0, count: Count = COUNTED) -> Decision:
    return stop.decide(called, found, stop.StopFacts(NOW, outcomes=lambda: outcomes, count=lambda: count))


def never() -> Any:
    raise AssertionError("this row must not count the call")


HALT = {"category": "CONFIG", "task_id": "task-002", "message": "no command", "at": "x"}
LAST = {"max_sessions": 3}
TWO = {"max_tasks_per_session": 2}

ALLOWED = [
    ("4 halt", event(), state(OPEN, halt=HALT), 0, "halt"),
    ("5 sessions", event(), state(OPEN, config=LAST, session_count=3), 0, "max_sessions"),
    ("6 tasks", event(), state(OPEN, config=TWO), 2, "max_tasks_per_session"),
    ("7 plan", event(permission_mode="plan"), state(OPEN), 0, "plan mode"),
    ("7 background", event(background_tasks=[{"id": 1}]), state(OPEN), 0, "background tasks"),
    ("8 nothing here", event(), state(task(2, depends_on=["nobody"])), 0, "nothing for this worker"),
    ("8 all done", event(), state(DONE), 0, "all done"),
    ("8 no tasks", event(), state(), 0, "no tasks yet"),
]
BLOCKED = [
    ("5 one left", event(), state(OPEN, config=LAST, session_count=2), 0),
    ("5 off", event(), state(OPEN, config={"max_sessions": 0}, session_count=99), 0),
    ("6 one left", event(), state(OPEN, config=TWO), 1),
    ("6 off", event(), state(OPEN, config={"max_tasks_per_session": 0}), 99),
    ("6 no session", event(), state(OPEN, config=TWO, session_count=0), 99),
    ("6 concurrent", event(), state(OPEN, config=TWO, mode="concurrent"), 99),
    ("7 other mode", event(permission_mode="acceptEdits", background_tasks=[]), state(OPEN), 0),
    ("7 wrong types", event(permission_mode=["plan"], background_tasks="x"), state(OPEN), 0),
    ("10 pending", event(stop_hook_active=True), state(DONE, OPEN), 0),
    ("10 retryable", event(), state(task(1, "failed", attempts=1)), 0),
    ("10 in progress", event(), state(DONE, MINE), 0),
]


@pytest.mark.parametrize(("row", "called", "found", "outcomes", "why"), ALLOWED, ids=[row[0] for row in ALLOWED])
def test_rows_that_let_go(row: str, called: Event, found: State, outcomes: int, why: str) -> None:
    facts = stop.StopFacts(NOW, outcomes=lambda: outcomes, count=never)
    made = stop.decide(called, found, facts)
    assert (made.kind, made.why) == ("allow", why)


@pytest.mark.parametrize(("row", "called", "found", "outcomes"), BLOCKED, ids=[row[0] for row in BLOCKED])
def test_rows_that_keep_the_agent_going(row: str, called: Event, found: State, outcomes: int) -> None:
    assert decide(called, found, outcomes=outcomes).kind == "block"


def test_row_3_damage_is_said_to_the_agent_once_and_then_to_the_person() -> None:
    error = StateDamaged("harness-tasks.json is damaged: no JSON value at line 1 column 1")
    first = stop.decide_damaged(event(stop_hook_active=False), error, backup=True, told=False)
    assert (first.kind, first.effects) == ("block", ("damage",))
    assert "harness task recover" in first.text
    assert "Report this to a person and stop" in stop.decide_damaged(event(), error, backup=False, told=False).text
    for again in (
        stop.decide_damaged(event(stop_hook_active=True), error, backup=True, told=False),
        stop.decide_damaged(event(), error, backup=True, told=True),
    ):
        assert (again.kind, again.effects) == ("allow", ())
        assert "line 1 column 1" in again.text


def test_row_5_and_6_forget_the_count_and_keep_the_marker_while_work_is_left() -> None:
    assert decide(event(), state(OPEN, config=LAST, session_count=3)).effects == ("forget",)
    assert decide(event(), state(OPEN, config=TWO), outcomes=2).effects == ("forget",)
    assert decide(event(), state(DONE, config=LAST, session_count=3)).effects == ("finish",)


def test_row_9_the_guard_lets_go_and_says_so() -> None:
    reached = decide(event(), state(OPEN), count=Count(8, 7, reached=True))
    assert (reached.kind, reached.why) == ("allow", "no progress")
    assert "the agent may stop after 7 stops" in reached.text
    assert "tasks_total=1" in reached.text
    lost = decide(event(), state(OPEN), count=Count(1, 7, reached=False, recorded=False))
    assert lost.kind == "allow"
    assert "stops.json" in lost.text


def test_row_10_says_where_things_stand_and_the_next_verb() -> None:
    lines = decide(event(), state(DONE, OPEN, task(3, "failed", attempts=3))).text.split("\n")
    assert "not met" in lines[0]
    assert lines[1] == "HARNESS: completed=1 failed=1 in_progress=0 pending=1 total=3 next=task-002: Thing 2"
    assert "`harness task claim`" in lines[2]


def test_row_10_names_the_task_in_progress() -> None:
    text = decide(event(), state(DONE, MINE)).text
    assert "task-002: Thing 2" in text
    assert "`harness task complete task-002`" in text
    assert "`harness task recover task-002`" in text


@pytest.mark.parametrize("title", ["x" * 9000, "a\nb\x00", "no such file; can't open", "\ud800"])
def test_the_reason_stays_short_whatever_the_title(title: str) -> None:
    odd = task(2, title=title, id="task-002\n`rm -rf`" + "y" * 5000)
    for status in ("pending", "in_progress"):
        assert len(decide(event(), state({**odd, "status": status})).text) <= 2000


WHOSE = [
    ("exclusive", "", {"claimed_by": "other", "lease_expires_at": lease(9)}, True),
    ("exclusive", "w", {"claimed_by": "other", "lease_expires_at": lease(9)}, True),
    ("concurrent", "", {"claimed_by": "other", "lease_expires_at": lease(9)}, True),
    ("concurrent", "w", {"claimed_by": "w", "lease_expires_at": lease(9)}, True),
    ("concurrent", "w", {"lease_expires_at": lease(9)}, True),
    ("concurrent", "w", {"claimed_by": "other", "lease_expires_at": lease(9)}, False),
    ("concurrent", "w", {"claimed_by": "other", "lease_expires_at": lease(-9)}, True),
    ("concurrent", "w", {"claimed_by": "other", "claimed_at": lease(-9), "lease_expires_at": "?"}, False),
    ("concurrent", "w", {"claimed_by": "other", "claimed_at": lease(-99), "lease_expires_at": 7}, True),
]


@pytest.mark.parametrize(("mode", "worker", "members", "mine"), WHOSE)
def test_whose_task_in_progress_it_is(mode: str, worker: str, members: dict[str, Any], mine: bool) -> None:
    found = state(task(1, "in_progress", **members), mode=mode)
    assert stop.is_mine(found.tasks[0], found, worker, NOW) is mine


def test_the_marker_stays_while_another_worker_is_at_work() -> None:
    found = state(task(1, "in_progress", claimed_by="other", lease_expires_at=lease(9)), mode="concurrent")
    made = decide(event({"HARNESS_WORKER_ID": "w"}), found)
    assert (made.kind, made.effects) == ("allow", ())


KEPT = [
    state(task(1, depends_on=["nobody"])),
    state(task(1, depends_on="task-002"), task(2, "completed")),
    state(task(1), task(1)),
]


@pytest.mark.parametrize("found", KEPT, ids=["unknown id", "malformed", "one id twice"])
def test_the_marker_stays_while_pending_work_waits_for_a_person(found: State) -> None:
    assert "finish" not in decide(event(), found).effects


def test_the_marker_goes_when_all_is_over_and_the_person_hears_the_numbers() -> None:
    found = state(DONE, task(2, "failed", attempts=3), task(3, depends_on=["task-002"]))
    made = decide(event(), found)
    assert (made.kind, made.effects) == ("allow", ("finish",))
    assert "completed=1 failed=1" in made.text
    again = decide(event(), state(DONE, config={"reflect_iterations": 1}))
    assert again.effects == ("finish", "reflect")


def test_an_expired_lease_of_another_worker_keeps_this_one_going() -> None:
    found = state(task(1, "in_progress", claimed_by="other", lease_expires_at=lease(-60)), mode="concurrent")
    assert decide(event({"HARNESS_WORKER_ID": "w"}), found).kind == "block"
