"""`harness add-features --spec`: an agent plans more features; a plan that does more than that is taken back."""

import pytest

from .calc import CalcProject
from .script import Step, commit, edit_features, honest, sh, sleep, turn, write

STUB = 'import pytest\n\n\ndef test_mod():\n    pytest.fail("Not implemented")\n'
NEW = (
    "fs.append(dict(id=7, category='core', description='User can take the modulo', test_file='tests/e2e/test_mod.py', "
    "verification_steps=[], size_estimate='small', depends_on=[1], passes=False))"
)


@pytest.fixture
def spec(calc: CalcProject) -> str:
    path = calc.base / "more.md"
    path.write_text("Take the modulo as well.\n")
    return str(path)


def plan(*more: Step) -> dict[str, object]:
    return turn(edit_features(NEW), write("tests/e2e/test_mod.py", STUB), *more, times=2)


def test_a_plan_is_one_commit_and_its_features_can_be_built(calc: CalcProject, spec: str) -> None:
    """UAH-074, UAH-257, UAH-266."""
    head, before = calc.head, calc.features["features"]
    done = calc.harness("add-features", "--spec", spec, agent=[plan()])
    assert done.code == 0, done.text
    assert "Added Feature #7: User can take the modulo" in done.out
    assert calc.features["features"][:6] == before
    assert calc.git("rev-parse", "HEAD~1") == head
    assert calc.changes() == []
    assert calc.git("for-each-ref", "refs/harness/candidates") == ""
    calc.git("push", "-q")
    assert calc.run([turn(honest(1))]).code == 0


@pytest.mark.kept("wrong3")
@pytest.mark.parametrize(
    "wrong",
    [
        write("src/calc.py", "x = 1\n"),
        edit_features("fs[0].update(passes=True)"),
        edit_features("fs[1].update(description='other')"),
        edit_features("fs[-1].update(depends_on=[99])"),
        write(".harness.yaml", "project: {name: other}\n"),
        write(".harness/session_state.json", "{}"),
    ],
)
def test_a_plan_that_does_more_is_taken_back(calc: CalcProject, spec: str, wrong: Step) -> None:
    """UAH-074, UAH-110, UAH-111, C21, C31."""
    head, state = calc.head, calc.state
    ran = calc.harness("add-features", "--spec", spec, agent=[plan(wrong, commit("Plan"))])
    assert ran.code == 1, ran.text
    assert "The agent's plan is not valid" in ran.err
    assert "git show refs/harness/rolled-back/plan-" in ran.err
    assert calc.head == head
    assert calc.changes() == []
    assert calc.state == state
    assert len(calc.features["features"]) == 6


def test_a_killed_harness_leaves_no_half_plan(calc: CalcProject, spec: str) -> None:
    """UAH-003, UAH-074, C31, C56: the next command ends the agent, takes all back, and keeps what was taken."""
    head, state = calc.head, calc.state
    ready = calc.base / "ready"
    work = plan(write("src/calc.py", "x = 1\n"), write(".harness/session_state.json", "{}"), commit("Plan"))
    steps = [*work["do"], sh(f"touch {ready}"), sleep(600)]  # type: ignore[misc]
    process = calc.start("add-features", "--spec", spec, agent=[{**work, "do": steps}])
    calc.wait_until(ready.exists, "the agent at work")
    assert "plans more features" in calc.harness("status").out
    process.kill()
    process.wait()
    resumed = calc.harness("resume")
    assert resumed.code == 0, resumed.text
    assert "Planning more features was interrupted; recovering." in resumed.text
    assert calc.head == head
    assert calc.changes() == []
    assert len(calc.features["features"]) == 6
    assert {name: calc.state[name] for name in state} == state
    (ref,) = calc.git("for-each-ref", "--format=%(refname)", "refs/harness/rolled-back").splitlines()
    assert calc.git("show", f"{ref}:src/calc.py") == "x = 1"
    assert calc.harness("status").out.count("Now:") == 0
