"""The choice of an agent that may start, and the output and signals of a wait for one."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from agent_harness.agents import registry
from agent_harness.agents.base import Agent
from agent_harness.errors import ConfigurationError, HarnessError, LimitInForce, StartsUsedUp, ToolMissing, UsageError
from agent_harness.kernel import clock, journal
from agent_harness.kernel.rate_limits import LimitClock
from agent_harness.supervision.dispatch import Dispatcher, RefusalPolicy, spoken, startable
from agent_harness.supervision.starts import ITEMS_WORTH, StartCount, go_on

ONE, TWO = registry.from_spec("command:true one"), registry.from_spec("command:true two")


def dispatcher(*agents: Agent, **patience: object) -> tuple[Dispatcher, list[str]]:
    said: list[str] = []
    return Dispatcher(agents, RefusalPolicy(**patience), said.append), said  # type: ignore[arg-type]


def test_the_first_agent_that_is_not_refused_is_chosen() -> None:
    """C28: another allowed agent takes over until the time of the refusal is over."""
    both, said = dispatcher(ONE, TWO)
    assert both.choose() is ONE
    LimitClock().note(ONE.account, said="weekly limit", retry_after_seconds=7200)
    assert both.choose() is TWO
    assert "weekly" not in said[0] and TWO.account in said[0] and "is refused until" in said[0]
    LimitClock().note(TWO.account, said="HTTP 429", retry_after_seconds=90)
    with pytest.raises(LimitInForce) as refused:
        both.choose()
    error = refused.value
    assert (error.exit_code, error.code, error.data["account"]) == (5, "rate_limited", TWO.account)
    until = clock.parse(error.data["until"])
    assert until is not None and until - datetime.now(UTC) < timedelta(seconds=91)
    assert f"harness limits clear {TWO.account}" in str(error.hint)
    LimitClock().forget(ONE.account)
    assert both.choose() is ONE


def test_now_ignores_the_clock_once() -> None:
    LimitClock().note(ONE.account, said="x", retry_after_seconds=7200)
    once, _ = dispatcher(ONE, ignore_once=True)
    assert once.choose() is ONE
    with pytest.raises(LimitInForce):
        once.choose()


def test_a_wait_ends_with_the_limit_or_with_a_stop() -> None:
    shown: list[str] = []
    one, said = dispatcher(ONE, wait=True, countdown=shown.append)
    LimitClock().note(ONE.account, said="HTTP 429", retry_after_seconds=7200)
    with pytest.raises(LimitInForce) as refused:
        one.choose()
    assert one.wait(refused.value, lambda: "user_pause" if shown else None) is False
    assert shown[0].startswith(f"{ONE.account}: 2 h 00 min left")
    assert shown[-1] == ""
    assert one.wait(refused.value, lambda: LimitClock().forget(ONE.account) and None) is True
    assert said[0] == refused.value.message


SPANS = [
    (0.0, "0 s"),
    (0.2, "1 s"),
    (59.5, "1 min 00 s"),
    (249.0, "4 min 09 s"),
    (7500.0, "2 h 05 min"),
    (2e5, "2 d 7 h"),
]


@pytest.mark.parametrize(("seconds", "said"), SPANS)
def test_spans_for_people(seconds: float, said: str) -> None:
    assert spoken(seconds) == said


def test_who_cannot_be_started_cannot_take_over() -> None:
    missing = registry.from_spec("command:no-such-program-here")
    said: list[str] = []
    assert startable([ONE, missing], said.append, "hint", Path.cwd()) == (ONE,)
    assert "cannot take over" in said[0]
    with pytest.raises(ToolMissing):
        startable([missing, ONE], said.append, "hint", Path.cwd())


def test_agents_are_named_by_flags_or_by_the_settings() -> None:
    settings = {
        "kind": "command",
        "command": ["true"],
        "fallback": ["command:false", {"kind": "command", "command": "x"}],
    }
    found = registry.resolve_all([], configured=settings, environ={})
    assert [getattr(each, "words", None) for each in found] == [("true",), ("false",), ("x",)]
    flags = registry.resolve_all(["command:a", "command:b"], configured=settings, environ={})
    assert [getattr(each, "words", None) for each in flags] == [("a",), ("b",)]
    one = registry.resolve_all([], configured={**settings, "fallback": "command:false"}, environ={})
    assert len(one) == 2
    with pytest.raises(ConfigurationError):
        registry.resolve_all([], configured={**settings, "fallback": [5]}, environ={})
    with pytest.raises(UsageError):
        registry.resolve_all(["command:"], configured=None, environ={})


def test_accounts_tell_programs_apart_and_hold_no_word_of_theirs() -> None:
    secret = registry.from_spec("command:agent --key sk-secret")
    assert "secret" not in secret.account
    assert len({secret.account, ONE.account, TWO.account}) == 3
    assert ONE.account == registry.from_spec("command:true one").account


# ---- how often -------------------------------------------------------------------------------------------------------


def test_starts_are_bounded_until_a_person_agrees(tmp_path: Path) -> None:
    """Only a person's decision resets the count: neither another process nor another item does."""
    for run in ("a", "b", "c"):
        StartCount(f"{tmp_path}", "task-1", most=3).begin(run)
    count = StartCount(f"{tmp_path}", "task-1", most=3)
    with pytest.raises(StartsUsedUp, match="started 3 times for task-1") as refused:
        count.begin("d")
    assert (refused.value.exit_code, refused.value.hint) == (3, "harness resume")
    assert count.used_up() is not None
    assert StartCount(f"{tmp_path}", "task-2", most=3).used_up() is None
    assert [line["run"] for line in journal.read(tmp_path / "starts.jsonl")] == ["a", "b", "c"]
    go_on(f"{tmp_path}")
    go_on(f"{tmp_path}")
    count.begin("e")
    assert len(list(journal.read(tmp_path / "starts.jsonl"))) == 5, "one word is one line"


def test_a_bound_that_an_agent_raises_waits_for_a_person(tmp_path: Path) -> None:
    StartCount(f"{tmp_path}", "task-1", most=2).begin("a")
    raised = StartCount(f"{tmp_path}", "task-1", most=1000)
    raised.begin("b")
    assert raised.used_up()
    go_on(f"{tmp_path}")
    assert raised.used_up() is None
    for run in ("c", "d", "e"):
        raised.begin(run)
    assert StartCount(f"{tmp_path}", "task-1", most=3).used_up(), "a lower one counts at once"


def test_items_without_end_are_bounded_together(tmp_path: Path) -> None:
    """The agent renames its task, or adds one after the other."""
    for number in range(ITEMS_WORTH):
        StartCount(f"{tmp_path}", f"task-{number}", most=1).begin(None)
    with pytest.raises(StartsUsedUp, match=f"started {ITEMS_WORTH} times since you last allowed more starts"):
        StartCount(f"{tmp_path}", "one-more", most=1000).begin(None)


def test_what_cannot_be_counted_is_not_started(tmp_path: Path) -> None:
    (tmp_path / "starts.jsonl").mkdir()
    with pytest.raises(HarnessError):
        StartCount(f"{tmp_path}", "task-1").begin("a")


def test_a_torn_line_loses_no_start_but_its_own(tmp_path: Path) -> None:
    count = StartCount(f"{tmp_path}", "task-1", most=2)
    count.begin("a")
    with (tmp_path / "starts.jsonl").open("a") as file:
        file.write('{"at":"2026-01-')
    count.begin("b")
    assert count.used_up()
