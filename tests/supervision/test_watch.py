"""With any events in any order, a threshold is reported once, and a stop is final."""

from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_harness.agents.events import Event, Text, ToolCall, ToolResult, Usage
from agent_harness.supervision.monitors import (
    Budget,
    BudgetLimit,
    ContextWindow,
    Intervention,
    Monitor,
    ProjectFacts,
    WallClock,
    Watch,
)
from agent_harness.supervision.stalls import RepeatedError, Stall

SECONDS = 100.0
EVENTS: st.SearchStrategy[Event | None] = st.one_of(
    st.none(),
    st.builds(Text, st.sampled_from(["x", "$ ls", "KeyError: 'a'", "[CMD:RUN] ls", "1 passed in 0.1s"])),
    st.just(ToolCall(name="shell", input={"command": "ls"})),
    st.builds(ToolResult, output=st.sampled_from(["fine", "KeyError: 'a'", "OSError: b"]), is_error=st.booleans()),
    st.builds(
        Usage,
        input_tokens=st.integers(0, 3_000),
        output_tokens=st.integers(0, 500),
        cached_tokens=st.integers(0, 9_000),
        cost_usd=st.none() | st.floats(0, 3),
    ),
)
STEPS = st.lists(st.tuples(EVENTS, st.floats(0, 9), st.integers(0, 3)), max_size=40)


def monitors() -> list[Monitor[Any]]:
    return [
        WallClock(timeout_seconds=SECONDS, warning_seconds=80),
        ContextWindow(window_tokens=10_000),
        Stall(check_interval_tokens=2_000, window_tokens=10_000),
        RepeatedError(),
        Budget(limits=(BudgetLimit(name="Session", limit_usd=10.0),)),
    ]


def watched(steps: list[tuple[Event | None, float, int]]) -> list[list[Intervention]]:
    watch, at = Watch(monitors()), 0.0
    asked: list[list[Intervention]] = []
    for event, seconds, files in steps:
        at += seconds
        asked.append(list(watch.step(event, at, ProjectFacts({"a": files}))))
    return asked


@given(STEPS)
def test_a_stop_is_final_and_alone(steps: list[tuple[Event | None, float, int]]) -> None:
    asked = watched(steps)
    for index, now in enumerate(asked):
        if any(one.kind == "stop" for one in now):
            assert len(now) == 1
            assert not any(asked[index + 1 :])


@given(STEPS)
def test_a_final_wrap_up_is_alone_and_followed_by_a_stop_only(steps: list[tuple[Event | None, float, int]]) -> None:
    asked = watched(steps)
    for index, now in enumerate(asked):
        if any(one.final for one in now):
            assert len(now) == 1
            assert all(one.kind == "stop" for later in asked[index + 1 :] for one in later)


@given(STEPS)
def test_a_threshold_speaks_once(steps: list[tuple[Event | None, float, int]]) -> None:
    said = Counter(one.message for now in watched(steps) for one in now if one.reason in ("context_limit", "timeout"))
    assert max(said.values(), default=1) == 1


@given(STEPS)
def test_the_state_is_a_value(steps: list[tuple[Event | None, float, int]]) -> None:
    """The same steps from the same state return the same answers: there is no other state."""
    assert watched(steps) == watched(steps)


@given(STEPS)
def test_a_monitor_that_is_not_told_of_facts_it_did_not_want_answers_the_same(
    steps: list[tuple[Event | None, float, int]],
) -> None:
    full, lazy, known, at = Watch(monitors()), Watch(monitors()), ProjectFacts(), 0.0
    for event, seconds, files in steps:
        at += seconds
        facts = ProjectFacts({"a": files})
        if lazy.wants_facts(event):
            known = facts
        assert full.step(event, at, facts) == lazy.step(event, at, known)


def test_the_earliest_deadline_counts() -> None:
    watch = Watch([WallClock(timeout_seconds=50), WallClock(timeout_seconds=90, warning_seconds=10), RepeatedError()])
    assert watch.deadline() == 10
    watch.step(None, 10.0)
    assert watch.deadline() == 50
    watch.step(None, 50.0)
    assert watch.deadline() is None
    assert Watch([]).deadline() is None
