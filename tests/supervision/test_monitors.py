"""The monitors, row by row: events and the requested actions."""

from collections.abc import Iterable, Sequence
from typing import Any

import pytest

from agent_harness.agents.events import Event, Finished, Text, ToolCall, ToolResult, Usage
from agent_harness.supervision.monitors import (
    NO_FACTS,
    Budget,
    BudgetLimit,
    ContextWindow,
    Intervention,
    Monitor,
    ProjectFacts,
    WallClock,
)
from agent_harness.supervision.stalls import RepeatedError, Stall, error_of, is_test_command

Step = Event | float | ProjectFacts | None


def fed(monitor: Monitor[Any], steps: Iterable[Step], facts: ProjectFacts = NO_FACTS) -> list[Intervention]:
    """Return the actions that the monitor requests; a number moves the clock, facts replace the known ones."""
    state, at = monitor.begin(), 0.0
    asked: list[Intervention] = []
    for step in steps:
        if isinstance(step, ProjectFacts):
            facts = step
            continue
        at, event = (step, None) if isinstance(step, float) else (at, step)
        state, more = monitor.step(state, event, facts, at)
        asked.extend(more)
    return asked


def told(monitor: Monitor[Any], steps: Iterable[Step]) -> list[tuple[str, str]]:
    return [(one.kind, one.message) for one in fed(monitor, steps)]


def kinds(monitor: Monitor[Any], steps: Iterable[Step]) -> list[str]:
    return [f"{one.kind}/{one.reason}{'!' if one.final else ''}" for one in fed(monitor, steps)]


# -- wall clock --------------------------------------------------------------------------------------------------------

STOP = ("stop", "TIMEOUT: Session exceeded time limit. Stopping now.")
HOUR = WallClock(timeout_seconds=3600, warning_seconds=3000)
CLOCK: list[tuple[WallClock, list[Step], list[tuple[str, str]]]] = [
    (HOUR, [0.0, 2999.0], []),
    (HOUR, [3000.0], [("steer", "WARNING: 10 minutes remaining.")]),
    (HOUR, [3000.0, 3001.0, 3500.0], [("steer", "WARNING: 10 minutes remaining.")]),
    (HOUR, [3059.0], [("steer", "WARNING: 10 minutes remaining.")]),
    (HOUR, [3060.0], [("steer", "WARNING: 9 minutes remaining.")]),
    (HOUR, [3600.0, 3700.0], [STOP]),
    (HOUR, [3000.0, 3600.0], [("steer", "WARNING: 10 minutes remaining."),
                              STOP]),
    (WallClock(timeout_seconds=10), [9.9], []),
    (WallClock(timeout_seconds=10, warning_seconds=20), [15.0], [STOP]),
    (WallClock(timeout_seconds=30, warning_seconds=20), [20.0], [("steer", "WARNING: 0 minutes remaining.")]),
]  # fmt: skip


@pytest.mark.parametrize(("monitor", "steps", "asked"), CLOCK)
def test_the_clock(monitor: WallClock, steps: list[Step], asked: list[tuple[str, str]]) -> None:
    """UAH-344, UAH-345."""
    assert told(monitor, steps) == asked


def test_the_clock_says_when_it_wants_to_be_asked() -> None:
    assert [HOUR.deadline(state) for state in (0, 1, 2)] == [3000, 3600, None]
    assert WallClock(timeout_seconds=10).deadline(0) == 10


# -- context -----------------------------------------------------------------------------------------------------------


def used(tokens: int) -> Usage:
    return Usage(input_tokens=tokens)


WINDOW = ContextWindow(window_tokens=10_000)
CONTEXT: list[tuple[list[Step], list[str]]] = [
    ([used(7_499)], []),
    ([used(7_500)], ["steer/context_limit"]),
    ([used(7_600), used(7_700), used(8_999)], ["steer/context_limit"]),
    ([used(7_600), used(9_100), used(10_000)], ["steer/context_limit", "wrap_up/context_limit", "stop/context_limit"]),
    ([used(9_000)], ["wrap_up/context_limit"]),
    ([used(50_000)], ["stop/context_limit"]),
    ([used(7_600), used(100), used(7_600)], ["steer/context_limit"]),
    ([used(9_000), used(8_000)], ["wrap_up/context_limit"]),
    ([Usage(context_tokens=7_600)], ["steer/context_limit"]),
    ([Usage(input_tokens=1_000, cached_tokens=6_000, output_tokens=600)], ["steer/context_limit"]),
    ([Text("x" * 100_000), ToolResult(output="x"), 5.0], []),
]


@pytest.mark.parametrize(("steps", "asked"), CONTEXT)
def test_the_window(steps: list[Step], asked: list[str]) -> None:
    """UAH-336, UAH-338, UAH-339, UAH-340, UAH-508."""
    assert kinds(WINDOW, steps) == asked


def test_the_words_of_the_window() -> None:
    """UAH-338, UAH-339."""
    warning, wrap_up, stop = fed(WINDOW, [used(7_600), used(9_100), used(10_000)])
    assert warning.message.startswith("Note: You've used 75% of available context. Start planning to wrap up.")
    assert warning.message.endswith("document your progress clearly so the next session can continue.")
    assert (
        "IMPORTANT: Context is nearly full. You must now:\n1. Stop implementation work immediately" in wrap_up.message
    )
    assert wrap_up.message.count("\n") == 7
    assert "Do NOT try to rush to completion." in wrap_up.message
    assert stop.message == "Context limit reached mid-implementation"
    early = ContextWindow(window_tokens=100, warn_threshold=0.5, force_threshold=0.6)
    assert "You've used 50% of" in fed(early, [used(50)])[0].message


# -- stall -------------------------------------------------------------------------------------------------------------

FIFTH = Stall(check_interval_tokens=2_000)
WITH_WINDOW = Stall(check_interval_tokens=50_000, window_tokens=10_000)
GIVEN = used(500)  # the first call: its prompt is what the session was given
FULL, FULLER, STILL_FULLER, FULLEST = used(2_500), used(4_500), used(6_500), used(8_500)  # an interval more each
LS = ToolCall(name="shell", input={"command": "ls"})
PYTEST = ToolCall(name="shell", input={"command": "poetry run pytest tests/ -v"})
WARN, WRAP = "steer/stuck", "wrap_up/stuck!"
CHANGED, CHANGED_AGAIN = ProjectFacts({"a.py": 1}), ProjectFacts({"a.py": 2})
STALL: list[tuple[Stall, Sequence[Step], list[str]]] = [
    (FIFTH, [GIVEN, FULL], [WARN]),
    (FIFTH, [GIVEN, FULL, FULLER], [WARN, WRAP]),
    (FIFTH, [GIVEN, used(2_499)], []),
    (FIFTH, [GIVEN, used(1_500), FULL], [WARN]),
    (FIFTH, [GIVEN, Usage(cached_tokens=2_000, output_tokens=500)], [WARN]),  # a cache makes no context shorter
    (FIFTH, [GIVEN, Text("I think"), FULL, Text("about it"), FULLER], [WARN, WRAP]),
    # the growth of the context counts, not the prompts that hold it again and again
    (FIFTH, [used(90_000)], []),
    (FIFTH, [used(9_000), used(9_300), used(9_600), used(9_900), used(10_200)], []),
    (FIFTH, [GIVEN, Usage(input_tokens=70_000, context_tokens=600)], []),  # a total, and what the context really holds
    (FIFTH, [GIVEN, FULL, Usage(cost_usd=0.5), used(3_000)], [WARN]),  # what only costs has no context
    # a context that has become shorter: what the model writes
    (FIFTH, [used(9_000), used(1_000), used(2_999)], []),
    (FIFTH, [used(9_000), used(1_000), used(3_000)], [WARN]),
    (FIFTH, [used(9_000), Usage(input_tokens=2_000, output_tokens=1_900), used(3_999)], []),
    (FIFTH, [used(9_000), Usage(input_tokens=2_000, output_tokens=1_900), used(4_000)], [WARN]),
    # progress of each kind prevents it
    (FIFTH, [GIVEN, CHANGED, FULL], []),
    (FIFTH, [GIVEN, CHANGED, FULL, FULLER], [WARN]),
    (FIFTH, [GIVEN, CHANGED, FULL, CHANGED_AGAIN, FULLER], []),
    (FIFTH, [GIVEN, LS, LS, LS, FULL], []),
    (FIFTH, [GIVEN, LS, LS, FULL], [WARN]),
    (FIFTH, [GIVEN, PYTEST, FULL], []),
    (FIFTH, [GIVEN, ToolResult(output="== 1 failed in 0.1s =="), FULL], []),
    (FIFTH, [GIVEN, Text("4 passed in 0.12s"), FULL], []),
    (FIFTH, [GIVEN, Text("[CMD:RUN] a\n[CMD:RUN] b\n[CMD:RUN] c"), FULL], []),
    # a prefix and the tool call it stands for are one command
    (FIFTH, [GIVEN, Text("[CMD:RUN] ls"), LS, Text("[CMD:RUN] ls"), LS, FULL], [WARN]),
    (FIFTH, [GIVEN, *[ToolCall(name="Read", input={"file_path": "a"})] * 9, FULL], [WARN]),
    # progress ends the row; then it may be warned again
    (FIFTH, [GIVEN, FULL, CHANGED, FULLER, STILL_FULLER], [WARN, WARN]),
    (FIFTH, [GIVEN, FULL, LS, LS, LS, FULLER, STILL_FULLER, FULLEST], [WARN, WARN, WRAP]),
    # once at half of the window
    (WITH_WINDOW, [used(5_000)], [WARN]),
    (WITH_WINDOW, [used(5_000), used(6_000)], [WARN]),
    (WITH_WINDOW, [used(4_999)], []),
    (WITH_WINDOW, [LS, LS, LS, used(5_000)], []),
    (WITH_WINDOW, [CHANGED, used(5_000)], []),
    (WITH_WINDOW, [PYTEST, used(5_000)], []),
    (Stall(check_interval_tokens=2_000, window_tokens=10_000), [GIVEN, FULL, used(5_000)], [WARN, WRAP]),
    (Stall(check_interval_tokens=4_000, window_tokens=10_000), [used(1_000), used(5_000), used(9_000)], [WARN, WRAP]),
    (Stall(check_interval_tokens=6_000, window_tokens=20_000), [GIVEN, used(10_000), used(15_999)], [WARN]),
    (Stall(check_interval_tokens=2_000, force_stop_after=3), [GIVEN, FULL, FULLER, STILL_FULLER], [WARN, WRAP]),
]


@pytest.mark.parametrize(("monitor", "steps", "asked"), STALL)
def test_the_stall(monitor: Stall, steps: Sequence[Step], asked: list[str]) -> None:
    """UAH-328, UAH-329, UAH-330, UAH-331, UAH-332, UAH-337, UAH-503, UAH-539, UAH-557, C18."""
    assert kinds(monitor, steps) == asked


def test_the_words_of_the_stall() -> None:
    """UAH-331, UAH-332."""
    warning, wrap_up = (text for _, text in told(FIFTH, [GIVEN, FULL, FULLER]))
    assert warning == "You appear stuck. Consider a different approach."
    assert wrap_up == (
        "Still stuck. Documenting current state and stopping."
        " Please describe what's blocking you in claude-progress.txt."
    )


def test_facts_are_wanted_at_a_check_only() -> None:
    state, _ = FIFTH.step(FIFTH.begin(), GIVEN, NO_FACTS, 0.0)
    wanted = [FIFTH.wants_facts(state, event) for event in (Text("x"), LS, used(2_499), FULL)]
    assert wanted == [False, False, False, True]
    assert WITH_WINDOW.wants_facts(WITH_WINDOW.begin(), used(5_000))


POLL: list[Step] = [
    ToolCall(name="Bash", input={"command": "sed -i s/a/b/ x"}),
    ToolResult(output="ok in 0.3s"),
]
EDITED = ProjectFacts({"x": 1})
LOOPS: list[tuple[list[Step], list[str]]] = [
    (POLL * 19, []),
    (POLL * 39, ["steer/stuck"]),
    (POLL * 40, ["steer/stuck", "wrap_up/stuck!"]),
    ([POLL[0], POLL[1], POLL[0], ToolResult(output="ok in 1.2s")] * 20, ["steer/stuck", "wrap_up/stuck!"]),
    ([POLL[0], ToolResult(output="1 of 9"), POLL[0], ToolResult(output="2 of 9")] * 40, []),
    ([*POLL, LS, ToolResult()] * 40, []),
    ([*POLL * 15, EDITED, *POLL * 14], []),
    ([*POLL * 15, EDITED, *POLL * 35], ["steer/stuck", "wrap_up/stuck!"]),
    ([*POLL * 25, EDITED, *POLL * 20], ["steer/stuck"]),
]


@pytest.mark.parametrize(("steps", "asked"), LOOPS)
def test_the_same_call_again_and_again(steps: list[Step], asked: list[str]) -> None:
    assert kinds(Stall(), steps) == asked


def test_facts_are_wanted_at_some_calls_of_a_loop() -> None:
    state = Stall().begin()
    wanted: list[int] = []
    for number in range(1, 41):
        if Stall().wants_facts(state, POLL[0]):  # type: ignore[arg-type]  # a call
            wanted.append(number)
        for event in POLL:
            state, _ = Stall().step(state, event, NO_FACTS, 0.0)  # type: ignore[arg-type]  # no clock among them
    assert wanted == [10, 20, 40]


COMMANDS = [
    ("pytest", True),
    ("python -m pytest tests/ -v", True),
    ("poetry run pytest x.py", True),
    ("cd src && /venv/bin/pytest -q", True),
    ("PYTHONPATH=src uv run python3 -m pytest", True),
    ("ls; py.test", False),
    ("grep pytest setup.cfg", False),
    ("pip install pytest", False),
    ("echo pytest", False),
    ("ls", False),
    ("", False),
    ("&& | ;", False),
]


@pytest.mark.parametrize(("command", "tests"), COMMANDS)
def test_a_test_run_is_a_command_whose_program_is_pytest(command: str, tests: bool) -> None:
    """C43."""
    assert is_test_command(command) == tests


# -- repeated error ----------------------------------------------------------------------------------------------------

FIVE = RepeatedError(max_repeated=5)
BROKEN = "ModuleNotFoundError: No module named 'calc'"


def failed(output: str = BROKEN) -> ToolResult:
    return ToolResult(output=f"Traceback\n{output}\n", is_error=True)


def in_text(times: int, *, between: Event) -> list[Step]:
    return [event for _ in range(times) for event in (between, Text(f"it says\n{BROKEN}"))]


ERRORS: list[tuple[Sequence[Step], int]] = [
    ([failed()] * 4, 0),
    ([failed()] * 5, 1),
    ([failed()] * 7, 1),
    ([failed()] * 50, 1),
    ([failed(f"{BROKEN}\n" * 9)], 0),  # one command
    ([failed(f"FAILED tests/a.py::test_{n}") for n in range(9)], 0),
    ([failed("exit status 3")] * 5, 1),  # no word of an error, but the command failed
    ([ToolResult(output="all fine")] * 9, 0),
    ([ToolResult(output="", is_error=True)] * 9, 0),
    ([failed(f"OSError: took {n}.5s at 0x{n:x} on line {n}") for n in range(5)], 1),
    (in_text(5, between=LS), 1),
    (in_text(5, between=Text("$ python calc.py")), 1),
    (in_text(5, between=Text("[CMD:RUN] python calc.py")), 1),
    (in_text(5, between=Usage(input_tokens=1)), 1),
    ([Text(BROKEN)] * 9, 0),  # no command in between: one output
    # text and result of the same command
    ([event for _ in range(4) for event in (LS, Text(BROKEN), failed())], 0),
    ([event for _ in range(5) for event in (LS, Text(BROKEN), failed())], 1),
    # a second error of its own is spoken of again
    ([failed()] * 5 + [failed("KeyError: 'x'")] * 5, 2),
    ([Text("I fixed the error."), LS] * 9, 0),
]


@pytest.mark.parametrize(("steps", "times"), ERRORS)
def test_the_same_error_again(steps: Sequence[Step], times: int) -> None:
    """UAH-333, UAH-504, UAH-540, C18."""
    asked = fed(FIVE, steps)
    assert [one.kind for one in asked] == ["steer"] * times
    assert all(
        one.message.startswith("You've hit the same error 5 times. This approach isn't working.") for one in asked
    )


LINES = [
    ("ValueError: no", "ValueError: no"),
    ("E   AssertionError: assert 1 == 2", "E AssertionError: assert 1 == 2"),
    ("error: unknown option", "error: unknown option"),
    ("error[E0382]: use of moved value", "error[E0382]: use of moved value"),
    ("fatal: not a git repository", "fatal: not a git repository"),
    ("FAILED tests/a.py::test_x - boom", "FAILED tests/a.py::test_x - boom"),
    ("sh: 1: foo: command not found", "sh: 1: foo: command not found"),
    ("cat: x: No such file or directory", "cat: x: No such file or directory"),
    ("I will look at the error now", None),
    ("0 errors", None),
    ("def test_error():", None),
    ("Errors: none of them", None),
    ("", None),
]


@pytest.mark.parametrize(("line", "error"), LINES)
def test_the_error_of_a_line(line: str, error: str | None) -> None:
    assert error_of(line) == error


def test_a_flood_of_different_errors_stays_small() -> None:
    state = FIVE.begin()
    for number in range(3_000):
        state, _ = FIVE.step(state, failed(f"ValueError: {number} apples"), NO_FACTS, 0.0)
        state, _ = FIVE.step(state, Text(f"$ x\nValueError: {number} pears"), NO_FACTS, 0.0)
    assert len(state.returned) <= 128
    assert len(state.told) <= 128


def test_it_does_not_speak_for_ever() -> None:
    asked = fed(FIVE, [failed(f"ValueError: {n // 5} apples") for n in range(500)])
    assert len(asked) == 16


# -- budget ------------------------------------------------------------------------------------------------------------

TEN = Budget(limits=(BudgetLimit(name="Session", limit_usd=10.0),), model="claude-sonnet-4")
DOLLARS = Usage(output_tokens=1_000_000)  # 15 of them


def test_the_budget_is_exceeded_by_the_sum() -> None:
    half = Usage(cost_usd=5.0)
    assert told(TEN, [half, half]) == []
    assert told(TEN, [half, half, Usage(cost_usd=0.01)]) == [("stop", "Session cost $10.01 exceeds budget $10.00.")]


def test_the_sample_of_the_scenario() -> None:
    """UAH-398, C27."""
    assert told(TEN, [DOLLARS]) == [("stop", "Session cost $15.00 exceeds budget $10.00.")]


def test_the_first_limit_exceeded_is_named() -> None:
    limits = (
        BudgetLimit(name="Session", limit_usd=10.0),
        BudgetLimit(name="Feature", limit_usd=25.0, spent_usd=24.0),
        BudgetLimit(name="Project", limit_usd=200.0, spent_usd=100.0),
    )
    asked = told(Budget(limits=limits), [Usage(cost_usd=2.0)])
    assert asked == [("stop", "Feature cost $26.00 exceeds budget $25.00.")]


def test_an_unknown_price_counts_at_the_stated_one() -> None:
    ((kind, text),) = told(Budget(limits=TEN.limits, model="who-knows"), [DOLLARS])
    assert kind == "stop"
    assert text.startswith("Session cost $15.00 exceeds budget $10.00. No price is known for 1 calls")
    assert "$3/M in and $15/M out" in text


def test_ten_cents_a_hundred_times_are_ten_dollars() -> None:
    assert told(TEN, [Usage(cost_usd=0.1)] * 100) == []


@pytest.mark.parametrize("event", [Text("x"), LS, failed(), Finished(), None])
def test_other_events_cost_nothing(event: Event | None) -> None:
    assert told(Budget(limits=(BudgetLimit(name="Session", limit_usd=0.0),)), [event]) == []
