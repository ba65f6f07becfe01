"""S20: tokens are spent and nothing moves; the same error again and again; a feature that never gets done.

An agent of the command seam cannot be spoken to while it works: what it should have been told is in the session's log.
"""

import pytest

from .arranging import with_settings
from .calc import CalcProject
from .script import Step, Turn, append, honest, say, sh, turn, usage
from .seam import each_seam

WARNING = "You appear stuck. Consider a different approach."
LAST_WORD = "Still stuck. Documenting current state and stopping."
SMALL = "context:\n  window_tokens: 10000\nprogress:\n  check_interval_tokens: 2000\n"
ERROR = "fatal: cannot open the database"


def filled(tokens: int) -> Step:
    """A call after which the context holds so much; no cache has given any of it."""
    return usage(tokens - 100, 100)


def idle(calls: int = 4) -> list[Turn]:
    """Text, a context that is longer by an interval after every call, and nothing else."""
    return [turn([step for n in range(calls) for step in (say("I think about it."), filled(500 + 2000 * n))], times=9)]


def slow_but_working() -> list[Turn]:
    """One file in the first interval, three commands in each of the others."""
    intervals = [[append("notes.md", "found\n")], *[[sh("true")] * 3 for _ in range(2)]]
    steps = [step for n, done in enumerate(intervals) for step in [*done, filled(2500 + 2000 * n)]]
    return [turn(filled(500), steps, honest(1))]


def failing(times: int) -> list[Turn]:
    """The same error, command after command."""
    return [turn([sh(f"echo '{ERROR}' >&2; exit 1") for _ in range(times)], honest(1))]


def session_log(calc: CalcProject, number: int = 1) -> str:
    return (calc.root / f".harness/logs/session-{number}.log").read_text()


@pytest.mark.exhaustive
@each_seam
def test_a_a_session_that_does_nothing_is_ended(calc: CalcProject) -> None:
    """UAH-175 UAH-176 UAH-177 UAH-328 UAH-330 UAH-331 UAH-332 UAH-334 UAH-353 UAH-362 S20.

    UAH-503 UAH-539 UAH-557 C18: an agent that cannot be steered is not told, and ended at the second check.
    """
    with_settings(calc, SMALL)
    ran = calc.run(idle())
    assert ran.code == 0, ran.text
    assert (calc.state["termination_reason"], calc.state["stuck_count"]) == ("stuck", 1)
    assert [row["reason"] for row in calc.events("stuck")] == ["stuck"]
    told = session_log(calc)
    assert told.index(WARNING) < told.index(LAST_WORD)
    how = "to the agent" if calc.seam.steers else "not delivered"
    assert (told.count(f"{how}: {WARNING}"), told.count(f"{how}: {LAST_WORD}")) == (1, 1)
    assert "No progress for too long" in calc.progress


@pytest.mark.scenario
def test_a_one_file_or_three_commands_in_each_interval_are_progress(calc: CalcProject) -> None:
    """UAH-329 UAH-330 C18 C43 S20."""
    with_settings(calc, SMALL)
    ran = calc.run(slow_but_working())
    assert ran.code == 0, ran.text
    assert calc.passing() == [1]
    assert WARNING not in session_log(calc)


READING = {
    "one file a call": [31_000, 33_000, 35_000, 37_000],
    "the same conversation again and again": [60_000, 60_400, 60_800, 61_200, 61_600, 62_000],
}


@pytest.mark.exhaustive
@each_seam
@pytest.mark.parametrize("contexts", READING.values(), ids=READING)
def test_a_who_reads_a_long_conversation_again_at_every_call_is_not_stuck(
    calc: CalcProject, contexts: list[int]
) -> None:
    """UAH-328 UAH-330 C18: the growth of the context counts, not whole prompts that no cache has given."""
    ran = calc.run([turn([step for n in contexts for step in (sh("cat src/calc.py"), filled(n))], honest(1))])
    assert ran.code == 0, ran.text
    assert calc.passing() == [1]
    assert WARNING not in session_log(calc)


@pytest.mark.exhaustive
@pytest.mark.scenario
@each_seam
def test_b_the_same_error_is_spoken_of_once(calc: CalcProject) -> None:
    """UAH-178 UAH-333 UAH-363 UAH-504 UAH-540 C18 S20: seven times the same; nothing is stopped for it."""
    ran = calc.run(failing(7))
    assert ran.code == 0, ran.text
    assert session_log(calc).count("You've hit the same error 5 times.") == 1
    assert calc.passing() == [1]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_b_four_times_are_not_enough(calc: CalcProject) -> None:
    """UAH-333 S20."""
    assert calc.run(failing(4)).code == 0
    assert "same error" not in session_log(calc)


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_c_three_such_sessions_ask_a_person(calc: CalcProject) -> None:
    """UAH-189 UAH-318 UAH-335 UAH-364 UAH-392 UAH-505 UAH-541 C12 C35 S20: and the fourth starts nothing."""
    with_settings(calc, SMALL)
    for number in (1, 2, 3):
        ran = calc.run(idle())
        assert calc.state["stuck_count"] == number
    assert ran.code == 3, ran.text
    message = "Feature #1 has failed to complete in 3 sessions."
    for words in (message, "[S]plit", "[M]anual", "s[K]ip", "[A]bort"):
        assert words in ran.text
    assert message in calc.harness("status").out
    fourth = calc.run(idle())
    assert (fourth.code, len(calc.events("agent_started"))) == (3, 3)
    assert message in fourth.text
    skipped = calc.harness("resume", "--choose", "skip")
    assert skipped.code == 0, skipped.text
    assert calc.harness("run", "--dry-run", "--json").json["feature_id"] == 2
