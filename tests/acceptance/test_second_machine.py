"""A project goes on wherever its repository is: a clone holds no state, and nothing is planned or proven twice."""

import subprocess

import pytest

from agent_harness.testing import CommandResult

from .begun import Begin, one_session
from .calc import CalcProject
from .script import append, honest, turn, write


@pytest.fixture
def clone(begun: Begin) -> CalcProject:
    return on_a_second_machine(begun(one_session))


def on_a_second_machine(calc: CalcProject) -> CalcProject:
    """The remote's project in another folder, with another home."""
    base = calc.base / "second"
    home = base / "home"
    home.mkdir(parents=True)
    environ = {**calc.environ, "HOME": str(home), "XDG_STATE_HOME": str(base / "state"), "CALC_UP": str(base / "up")}
    (home / ".gitconfig").write_text("[user]\n\tname = Second\n\temail = second@localhost\n")
    origin = calc.base / "origin.git"
    subprocess.run(["git", "clone", "-q", str(origin), str(base / "work")], env=environ, check=True)
    return CalcProject(calc.base, base / "work", environ, checked=calc.checked, seam=calc.seam)


@pytest.mark.exhaustive
def test_a_run_in_a_clone_goes_on(clone: CalcProject) -> None:
    before = clone.git("show", "HEAD:src/calc.py")
    assert not (clone.root / ".harness").exists()
    ran = clone.run([turn(honest(2))])
    assert ran.code == 0, ran.text
    assert "as in a fresh clone" in ran.out
    assert "1 of 6 features are proven" in ran.out
    assert "without a proof" not in ran.out  # one run of the suite told both
    assert clone.passing() == [1, 2]
    assert clone.git("show", "HEAD:src/calc.py").startswith(before)
    assert clone.state["last_session"] == 2  # the story goes on where it was
    assert clone.changes() == []


@pytest.mark.exhaustive
def test_resume_in_a_clone_makes_the_state_and_no_more(clone: CalcProject) -> None:
    head = clone.head
    done = clone.harness("resume")
    assert done.code == 0, done.text
    assert len(clone.baseline["passing_tests"]) == 2
    assert (clone.head, clone.changes()) == (head, [])


@pytest.mark.exhaustive
def test_a_mark_that_does_not_hold_is_not_taken_over(clone: CalcProject) -> None:
    """The work of the first feature is gone, its mark is there."""
    clone.put({"src/calc.py": '"""A calculator."""\n'})
    clone.commit("Start over")
    ran = clone.run([turn(honest(2))])
    assert ran.code == 3, ran.text
    assert "1/6 features marked passing" in ran.err
    assert clone.run([turn(honest(2))]).code == 3


def test_marks_are_not_believed_where_no_test_can_run(clone: CalcProject) -> None:
    clone.put({"pytest.ini": "[pytest]\naddopts = --no-such-option\n"})
    clone.commit("Broken")
    ran = clone.run([turn(honest(2))])
    assert ran.code == 4, ran.text
    assert "could not be run" in ran.err
    assert not (clone.root / ".harness/session_state.json").exists()


@pytest.mark.kept("plan")
@pytest.mark.parametrize("words", [("init", "--spec", "SPEC.md"), ("init", ".")], ids=["plan", "task list"])
def test_nothing_replaces_or_hides_the_plan(clone: CalcProject, words: tuple[str, ...]) -> None:
    clone.put({"SPEC.md": "# Another thing\n"})
    clone.commit("A specification")
    before = clone.fingerprint()
    ran: CommandResult = clone.harness(*words, agent=[turn(write("features.json", "{}"))] if len(words) == 3 else None)
    assert ran.code == 4, ran.text
    assert "harness run" in ran.err or "harness status" in ran.err
    assert clone.fingerprint() == before


@pytest.mark.exhaustive
def test_a_task_list_may_stand_beside_a_project_that_knows_of_it(clone: CalcProject) -> None:
    assert clone.harness("init", ".", "--beside").code == 0
    assert (clone.root / "harness-tasks.json").exists()


@pytest.mark.exhaustive
def test_two_runs_in_a_fresh_clone_make_one_state(calc: CalcProject) -> None:
    one_session(calc)
    clone = on_a_second_machine(calc)
    first = clone.start("run", agent=[turn(append("claude-progress.txt", "\nhere\n"), honest(2))])
    second = clone.start("run", agent=[turn(honest(2))])
    codes = sorted((first.wait(120), second.wait(120)))
    assert codes[0] == 0, clone.started()
    assert "Traceback" not in clone.started()
    assert clone.harness("status").code == 0
    assert clone.changes() == []
