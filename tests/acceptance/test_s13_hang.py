"""S13: an agent that hangs, in a shell command or before it has said anything, is ended, and its work goes on later."""

import pytest

from .calc import CalcProject
from .script import Turn, append, honest, prompt_to, sh, sleep, turn, usage

TIME_LIMIT = "session:\n  timeout_minutes: 0.4\n  timeout_warning_minutes: 0.05\n"


def hangs(calc: CalcProject) -> Turn:
    """Half of the work, then a command that never ends, with a child in the background."""
    pids = calc.base / "pids"
    forever = f"sleep 3600 & echo $! > {pids}; sleep 3600"
    return turn(append("src/calc.py", "\n# half of it\n"), usage(5, 1), sh(forever))


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_the_time_limit_ends_it(calc: CalcProject) -> None:
    """Warned, ended with all it started, a WIP commit, the counters.

    UAH-217, UAH-218, UAH-219, UAH-220, UAH-344, UAH-345, UAH-346, UAH-352, C05, C16
    """
    start = calc.configure(TIME_LIMIT)
    ran = calc.run([hangs(calc)])
    assert ran.code == 0, ran.text
    assert "TIMEOUT: Session exceeded time limit. Stopping now." in ran.text
    assert [text for text in calc.told() if "minutes remaining" in text] == calc.told() != []
    assert (calc.base / "pids").exists(), "it had come to the command that never ends"
    assert calc.processes() == []
    wip = calc.git("log", "-1", "--format=%B").splitlines()
    assert wip[0] == "WIP: Session timeout - Feature #1 (User can add two numbers)"
    assert "# half of it" in calc.git("show", "HEAD:src/calc.py")
    assert calc.git("rev-parse", "HEAD~1") == start == calc.remote()
    assert "SESSION TERMINATED" in calc.progress
    state = calc.state
    assert (state["status"], state["termination_reason"], state["timeout_count"]) == ("partial", "timeout", 1)
    assert (state["stuck_count"], state["next_prompt"]) == (1, "continuation")
    assert calc.passing() == []
    _the_next_session_continues(calc)


def _the_next_session_continues(calc: CalcProject) -> None:
    settings = calc.root / ".harness.yaml"
    settings.write_text(settings.read_text().replace(TIME_LIMIT, ""))
    calc.commit("A person gives it more time")
    told = calc.base / "told.txt"
    ran = calc.run([turn(prompt_to(told), honest(1), usage(1, 1))])
    assert ran.code == 0, ran.text
    assert "Continuing Partial Feature" in told.read_text()
    assert calc.passing() == [1]
    assert (calc.state["stuck_count"], calc.state["timeout_count"]) == (0, 1)
    assert calc.remote() == calc.head


@pytest.mark.exhaustive
def test_b_an_agent_that_never_answers(calc: CalcProject) -> None:
    """UAH-376 C28 C35: nothing is heard of it, one try more, then an error that counts against nobody."""
    start = calc.configure("session:\n  response_seconds: 2\n")
    ran = calc.run([turn(prompt_to(calc.base / "prompts.txt"), sleep(3600), times=9)])
    assert ran.code == 1, ran.text
    assert "showed no activity for 2 s" in ran.text
    assert len(calc.events("agent_started")) == 2
    (again,) = calc.events("provider_retry")
    assert (again["kind"], again["wait_seconds"]) == ("no_response", 0)
    assert calc.events("provider_refused", "CRITICAL")
    assert calc.processes() == []
    state = calc.state
    assert (state["status"], state["termination_reason"]) == ("partial", "error")
    assert (state["stuck_count"], state["timeout_count"]) == (0, 0)
    assert calc.head == start == calc.remote()
    assert calc.events("rollback_completed") == []
