"""SessionStart, SubagentStop and TeammateIdle, row by row (tasklist.md 4, 5.1, 5.2)."""

from typing import Any

import pytest

from agent_harness.errors import StateDamaged
from agent_harness.hooks import session_start, stop
from agent_harness.hooks.event import Decision, Event
from agent_harness.hooks.stop_limit import Count
from agent_harness.protocols.tasklist.records import State
from hooks.lists import event, state, task

DONE, OPEN = task(1, "completed"), task(2)
HALT = {"category": "ENV_SETUP", "task_id": None, "message": "no\ncompiler", "at": "x"}


def told(found: State, **facts: Any) -> list[str]:
    made = session_start.decide(found, last_log=facts.get("last_log"), other=facts.get("other"))
    assert (made.kind, made.effects) == ("context", ("session",))
    return made.text.split("\n")


def test_a_session_hears_the_counts_by_name_and_what_is_next() -> None:
    found = state(OPEN, DONE, task(3, "failed", attempts=3), {"id": "task-4", "title": "x"}, 5)  # type: ignore[arg-type]
    assert told(found)[0] == "HARNESS: completed=1 failed=1 pending=2 total=4 next=task-002: Thing 2"


def test_a_session_hears_the_last_line_of_the_log_cut() -> None:
    assert told(state(OPEN), last_log="x" * 500)[1] == "last_log=" + "x" * 219 + "…"
    assert not any("last_log" in line for line in told(state(OPEN)))


SAID: list[tuple[str, State, dict[str, Any], str]] = [
    ("interrupted", state(task(1, "in_progress")), {}, "`harness task recover task-001`"),
    ("halt", state(OPEN, halt=HALT), {}, "halted until a person acts: [ENV_SETUP] no compiler"),
    ("sessions", state(OPEN, config={"max_sessions": 1}), {}, "limit of 1 sessions is reached"),
    ("other session", state(OPEN), {"other": {"owner": "b", "expires_at": "2026"}}, "Another session is at work: b"),
    ("finding", state(task(1, depends_on=["nobody"])), {}, "[CONFIG]"),
]


@pytest.mark.parametrize(("row", "found", "facts", "words"), SAID, ids=[row[0] for row in SAID])
def test_a_session_hears_what_is_in_its_way(row: str, found: State, facts: dict[str, Any], words: str) -> None:
    assert words in "\n".join(told(found, **facts))


def test_a_session_is_told_where_to_begin() -> None:
    assert "`harness session start`" in told(state(OPEN))[-1]
    assert "session start" not in told(state(OPEN, halt=HALT))[-1]


def test_the_context_stays_short() -> None:
    many = [task(n, "in_progress", title="t" * 9000) for n in range(99)]
    assert len("\n".join(told(state(*many, *(task(n, "x" * 9000) for n in range(99)))))) <= 8000


def test_a_session_hears_of_damage_and_the_way_out() -> None:
    error = StateDamaged("it is empty")
    text = session_start.decide_damaged(error, backup=True).text
    assert text.startswith("HARNESS: harness-tasks.json: it is empty")
    assert "harness task recover" in text
    assert "Report this to a person and stop" in session_start.decide_damaged(error, backup=False).text


# ---- SubagentStop

W = {"HARNESS_WORKER_ID": "w"}
OWNED = task(1, "in_progress", claimed_by="w")
OTHERS = task(1, "in_progress", claimed_by="other")
NOBODYS = task(1, "in_progress")

SUBAGENT = [
    ("nothing in progress", event(agent_id="a"), state(OPEN), "allow"),
    ("concurrent, no identity", event(agent_id=" "), state(OTHERS, mode="concurrent"), "block"),
    ("concurrent, own by worker", event(W), state(OTHERS, OWNED, mode="concurrent"), "block"),
    ("concurrent, own by agent id", event(agent_id=" w "), state(OWNED, mode="concurrent"), "block"),
    ("concurrent, own by name", event(teammate_name="w"), state(OWNED, mode="concurrent"), "block"),
    ("concurrent, another's", event(W), state(OTHERS, mode="concurrent"), "allow"),
    ("concurrent, nobody's", event(W), state(NOBODYS, mode="concurrent"), "allow"),
    ("exclusive, nobody's", event(agent_id="a"), state(NOBODYS), "block"),
    ("exclusive, own", event(W), state(OWNED), "block"),
    ("exclusive, another's", event(agent_id="a"), state(OTHERS), "allow"),
    ("exclusive, empty owner", event(agent_id="a"), state(task(1, "in_progress", claimed_by="")), "block"),
    ("pending never blocks", event(W), state(OPEN, task(3, "failed", attempts=1)), "allow"),
]


@pytest.mark.parametrize(("row", "called", "found", "kind"), SUBAGENT, ids=[row[0] for row in SUBAGENT])
def test_subagent(row: str, called: Event, found: State, kind: str) -> None:
    assert stop.decide_subagent(called, found).kind == kind


def test_subagent_is_kept_once_and_a_client_s_own_helpers_never() -> None:
    assert stop.subagent_goes_free(event(stop_hook_active=True))
    assert stop.subagent_goes_free(event(agent_type=""))
    assert not stop.subagent_goes_free(event(stop_hook_active="true", agent_type="alice"))


def test_subagent_hears_which_task() -> None:
    assert "task-001: Thing 1" in stop.decide_subagent(event(W), state(OWNED)).text
    assert "HARNESS_WORKER_ID" in stop.decide_subagent(event(), state(OTHERS, mode="concurrent")).text


# ---- TeammateIdle

ALICE = event(teammate_name="alice")
ALICES = task(1, "in_progress", claimed_by="alice")

TEAMMATE = [
    ("2 halt", ALICE, state(OPEN, halt=HALT), "allow"),
    ("2 sessions", ALICE, state(OPEN, config={"max_sessions": 1}), "allow"),
    ("3 own by name", ALICE, state(ALICES), "keep"),
    ("3 own by worker", event({"HARNESS_WORKER_ID": "alice"}), state(ALICES), "keep"),
    ("3 nobody owns nothing", event(teammate_name=""), state(NOBODYS), "allow"),
    ("4 pending", ALICE, state(OTHERS, OPEN), "keep"),
    ("4 retryable", ALICE, state(task(1, "failed", attempts=1)), "keep"),
    ("5 another's", ALICE, state(OTHERS), "allow"),
    ("5 all done", ALICE, state(DONE), "allow"),
]


def idle(called: Event, found: State, count: Count) -> Decision:
    return stop.decide_teammate(called, found, lambda: count)


@pytest.mark.parametrize(("row", "called", "found", "kind"), TEAMMATE, ids=[row[0] for row in TEAMMATE])
def test_teammate(row: str, called: Event, found: State, kind: str) -> None:
    made = idle(called, found, Count(1, 8, reached=False))
    assert made.kind == kind
    assert made.kind == "keep" or not made.text


def test_teammate_is_let_go_by_the_guard() -> None:
    assert idle(ALICE, state(OPEN), Count(9, 8, reached=True)).kind == "allow"
    assert idle(ALICE, state(OPEN), Count(1, 8, reached=False, recorded=False)).kind == "allow"


def test_teammate_hears_the_two_counts_and_the_title_on_a_line_of_its_own() -> None:
    found = state(OPEN, task(3), task(4, "failed", attempts=1, title="no such file"))
    lines = idle(ALICE, found, Count(1, 8, reached=False)).text.split("\n")
    assert "2 pending and 1 to try again" in lines[0]
    assert lines[1] == "task-002: Thing 2"
