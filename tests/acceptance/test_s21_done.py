"""S21: a project that is complete: the last look, maintenance mode, and its end."""

import os
import pty
import subprocess
from collections.abc import Sequence
from typing import Any

import pytest

from .calc import CalcProject
from .script import Turn, honest, turn


@pytest.fixture
def done(calc: CalcProject) -> CalcProject:
    """All six features built, the maintenance interval short."""
    settings = (calc.root / ".harness.yaml").read_text()
    calc.put({".harness.yaml": settings + "maintenance:\n  interval_minutes: 0.01\n"})
    calc.commit("Look often")
    calc.accept(1, 2, 3, 4, 5, 6)
    return calc


def at_a_terminal(calc: CalcProject, *args: str, agent: Sequence[Turn] | None = None) -> tuple[Any, int]:
    """The harness on a terminal of its own; the process, and the person's end of the terminal."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        calc.command(*args, agent=agent or [turn(honest(1))]),
        cwd=calc.root,
        env=calc.environ,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    return process, ours


def read_until(terminal: int, words: str, seen: str = "") -> str:
    """Everything printed until these words."""
    while words not in seen:
        try:
            more = os.read(terminal, 4096)
        except OSError:
            more = b""
        assert more, f"never: {words}\n{seen}"
        seen += more.decode("utf-8", "replace")
    return seen


@pytest.mark.exhaustive
def test_complete_without_a_terminal_ends_with_the_last_look(done: CalcProject) -> None:
    """UAH-482, UAH-483, UAH-484, UAH-487, UAH-488."""
    head, costs = done.head, done.costs
    ran = done.run([turn(honest(1))])
    assert ran.code == 0, ran.text
    for line in ("All 6 features are passing!", "Full suite: 12 passed.", "Lint: 0 errors, 0 warnings"):
        assert line in ran.out
    assert "Project complete. Options: [M]aintenance, [A]dd features, [E]xit" in ran.out
    assert done.head == head
    assert done.costs == costs
    assert not done.events("agent_started")


def test_maintenance_looks_again_and_ends_on_stop(done: CalcProject) -> None:
    """UAH-072, UAH-485, C51."""
    process, terminal = at_a_terminal(done, "run")
    read_until(terminal, "Choose")
    os.write(terminal, b"m\n")
    seen = read_until(terminal, "Health check: 12 tests pass.")
    assert "Entering maintenance mode..." in seen
    assert "Harness will run periodic health checks." in seen
    stopped = done.harness("stop")
    assert stopped.code == 0, stopped.text
    assert "Maintenance mode stopped." in stopped.out
    read_until(terminal, "Maintenance mode ended.")
    assert process.wait(60) == 0
    os.close(terminal)
    assert "not on" in done.harness("stop").out


def test_maintenance_ends_with_the_question_when_a_test_breaks(done: CalcProject) -> None:
    """UAH-489, C51."""
    process, terminal = at_a_terminal(done, "run")
    read_until(terminal, "Choose")
    os.write(terminal, b"m\n")
    read_until(terminal, "Health check: 12 tests pass.")
    text = (done.root / "src/calc.py").read_text()
    (done.root / "src/calc.py").write_text(text.replace("return a - b", "return 0"))
    done.commit("Oops")
    read_until(terminal, "6/6 features marked passing but the suite has")
    assert process.wait(60) == 3
    os.close(terminal)
    assert done.state["pending_escalation"]["features"] == [2]
    assert done.passing() == [1, 2, 3, 4, 5, 6]
    assert done.harness("resume", "--choose", "reset").code == 0
    assert done.passing() == [1, 3, 4, 5, 6]


def test_the_other_answers(done: CalcProject) -> None:
    """UAH-486, UAH-487."""
    for answer, told in ((b"a\n", "harness add-feature"), (b"\n", "")):
        process, terminal = at_a_terminal(done, "run")
        read_until(terminal, "Choose")
        os.write(terminal, answer)
        if told:
            read_until(terminal, told)
        assert process.wait(60) == 0
        os.close(terminal)
