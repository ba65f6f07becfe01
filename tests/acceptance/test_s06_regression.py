"""S06: a session that breaks an older feature is undone at once."""

import pytest

from .calc import CalcProject
from .script import (
    Step,
    Turn,
    claim,
    commit,
    honest,
    implement,
    name_of,
    proof_path,
    prove,
    sh,
    turn,
    usage,
)
from .seam import each_seam

BREAK_ADD = "sed -i.bak 's/return a + b/return 0/' src/calc.py && rm src/calc.py.bak"


def breaking(feature: int, *more: Step) -> list[Turn]:
    """A session on ``feature`` that breaks add on the way."""
    work = [*implement(feature), *prove(feature), sh(BREAK_ADD), *more, claim(feature)]
    return [turn(work, commit(f"Implement {name_of(feature)}: and more"), usage(500, 50), times=9)]


def test_a_test_that_a_person_has_written_since_counts(calc: CalcProject) -> None:
    calc.accept(1)
    calc.put({"tests/test_ours.py": "import calc\n\n\ndef test_five():\n    assert calc.add(5, 5) == 10\n"})
    calc.commit("A test of ours")
    bent = sh("sed -i.bak 's/return a + b/return a + b if a < 5 else 0/' src/calc.py && rm src/calc.py.bak")
    work = [*implement(2), *prove(2), bent, claim(2)]
    ran = calc.run([turn(work, commit("Implement sub: and more"), times=9)])
    assert ran.code in {1, 3}, ran.text
    assert "tests/test_ours.py::test_five" in ran.text
    assert calc.passing() == [1]
    assert "tests/test_ours.py::test_five" in calc.baseline["passing_tests"]


@pytest.mark.exhaustive
@each_seam
def test_breaking_an_older_feature(calc: CalcProject) -> None:
    """Undone at once, told in a panel, tried again.

    UAH-011, UAH-294, UAH-297, UAH-305, UAH-359, UAH-402, UAH-457, UAH-458, UAH-476, UAH-501, UAH-502, UAH-537, UAH-555,
    UAH-562, UAH-563, C03, C10, S06.
    """
    start = calc.accept(1)
    baseline, progress = calc.baseline, calc.progress
    ran = calc.run(breaking(2))
    assert ran.code in {1, 3}, ran.text
    assert "Regression:" in ran.text
    assert f"{proof_path(1)}::test_add_one" in ran.text
    assert "This blocks: Feature 6" in ran.text
    assert calc.head == start
    assert calc.changes(without=("claude-progress.txt",)) == []
    assert calc.pytest(proof_path(1)) == 0
    assert calc.passing() == [1]
    assert (calc.state["status"], calc.state["stuck_count"], calc.state["last_session"]) == ("failed", 1, 2)
    assert calc.baseline["passing_tests"] == baseline["passing_tests"]
    assert calc.progress.startswith(progress)
    assert calc.costs["cumulative"]["total_tokens"]["input"] == 500, "no turn after the detection"
    assert calc.events("rollback_completed")
    assert calc.events("verification_failed", "CRITICAL") or calc.events(level="CRITICAL")
    assert calc.remote() == start
    panel = ran.out[ran.out.index("REGRESSION DETECTED") :].splitlines()
    assert panel[2:4] == ["Feature 1 (User can add two numbers) now failing.", "This blocks: Feature 6"]
    assert [line[:2] for line in panel[panel.index("Actions taken:") + 1 :][:3]] == ["1.", "2.", "3."]
    assert "1. Rolling back Session 2 changes" in panel
    for line in (
        "1 [R]etry - Run new session to fix regression",
        "2 [I]nvestigate - Human reviews what broke",
        "3 s[K]ip - Mark Feature 1 as skipped, unblock dependents",
    ):
        assert line in panel
    assert calc.state["pending_escalation"]["options"] == ["retry", "investigate", "skip"]
    assert "Feature 1 (User can add two numbers) now failing." in calc.harness("status").out


@pytest.mark.kept("skip")
@pytest.mark.scenario
@pytest.mark.parametrize("chosen", ["r", "2", "skip"])
def test_the_answers_to_a_broken_dependency(calc: CalcProject, chosen: str) -> None:
    """UAH-402 C11 C53: a letter, a number, a word; a skipped dependency keeps nobody waiting."""
    calc.accept(1, 3, 4)
    assert calc.run(breaking(2)).code == 1
    ran = calc.harness("resume", "--choose", chosen)
    assert ran.code == 0, ran.text
    assert calc.state["pending_escalation"] is None
    if chosen == "2":
        assert f"{proof_path(1)}::test_add_one" in ran.out
        assert "git diff HEAD refs/harness/rolled-back/4" in ran.out
    if chosen != "skip":
        assert calc.passing() == [1, 3, 4]
        return
    (skipped,) = [f for f in calc.features["features"] if f.get("skipped")]
    assert (skipped["id"], skipped["passes"], skipped["skipped"]["unblocks"]) == (1, False, True)
    assert calc.changes(without=("claude-progress.txt",)) == []
    assert calc.harness("run", "--dry-run", "--feature", "6").code == 0, "6 needs 1, and does not wait for it"
    assert calc.run(breaking(2)).code == 0, "add counts no more"


@pytest.mark.scenario
def test_what_still_fails_after_the_rollback_is_open_and_comes_first(calc: CalcProject) -> None:
    """UAH-402 UAH-458 C10: the session has taken away something outside of the repository."""
    needed = calc.base / "needed.txt"
    needed.write_text("there\n")
    calc.accept(1, 2, 3)
    proof = calc.root / proof_path(1)
    proof.write_text(f"{proof.read_text()}\n\nassert open({str(needed)!r}).read()\n")
    calc.commit("Add needs a file")
    calc.git("push", "-q")
    ran = calc.run(
        [turn(implement(5), prove(5), sh(f"rm '{needed}'"), claim(5), commit("Implement pow"))], "--feature", "5"
    )
    assert ran.code == 1, ran.text
    assert "2. Marking Feature 1 as passes: false" in ran.out
    assert "3. Next session will fix Feature 1 before continuing" in ran.out
    assert calc.passing() == [2, 3]
    assert calc.changes(without=("claude-progress.txt",)) == []
    document = calc.features
    assert document["features"][0]["passes"] is False
    assert calc.harness("run", "--dry-run", "--json").json["feature_id"] == 1


@pytest.mark.kept("manual")
@pytest.mark.scenario
@pytest.mark.parametrize("chosen", ["1", "manual"])
def test_a_regression_that_blocks_nobody_is_a_question_too(calc: CalcProject, chosen: str) -> None:
    """UAH-394 C11 C12: with the tests by name; the next run needs no answer."""
    calc.accept(2)
    work = [
        implement(1),
        prove(1),
        sh(BREAK_ADD.replace("a + b", "a - b").replace("return 0", "return 99")),
        claim(1),
        commit("Implement add"),
    ]
    ran = calc.run([turn(*work, times=9)])
    assert ran.code == 1, ran.text
    assert "2 previously-passing tests now fail after Session 2." in ran.out
    assert f"Failing: {proof_path(2)}::test_sub_one" in ran.out
    assert calc.state["pending_escalation"]["options"] == ["rollback", "manual", "abort"]
    told = calc.harness("resume", "--choose", chosen)
    assert told.code == 0, told.text
    assert "git diff HEAD refs/harness/rolled-back/2" in told.out
    after = calc.run([turn(honest(1))])
    assert after.code == (0 if chosen == "1" else 5), after.text


@pytest.mark.exhaustive
def test_a_regression_without_a_claim_is_no_progress_either(calc: CalcProject) -> None:
    """UAH-011, C15: The agent breaks add and claims nothing: nothing red reaches the remote."""
    start = calc.accept(1)
    ran = calc.run([turn(sh(BREAK_ADD), commit("Tidy up"), usage(5, 5))])
    assert ran.code in {0, 1}, ran.text
    assert calc.remote() == start
    assert calc.passing() == [1]
    calc.checked = False
    calc.state_parses()


def test_a_flaky_test_is_no_regression(calc: CalcProject) -> None:
    """C62: a newly failing test gets one more try before it counts, and counts where it always passed before."""
    calc.environ["HARNESS_SANDBOX"] = "off"  # it plays somebody from outside
    calc.accept(1)
    flag = calc.base / "flaky"
    calc.put(
        {
            proof_path(1): "import calc, os, pathlib\n\n\ndef test_add_one():\n"
            f"    flag = pathlib.Path({str(flag)!r})\n    times = int(flag.read_text()) if flag.exists() else -1\n"
            "    times < 0 or flag.write_text(str(times + 1))\n"
            "    assert times % 2 and calc.add(2, 3) == 5\n\n\ndef test_add_two():\n    assert calc.add(-1, 1) == 0\n"
        }
    )
    calc.commit("A test that fails every other time, once it has begun to")
    calc.git("push", "-q")
    ran = calc.run(
        [turn(implement(2), prove(2), sh(f"echo 0 > {flag}"), claim(2), commit("Implement sub"), usage(5, 5))]
    )
    assert ran.code == 0, ran.text
    assert calc.events("flaky_test")
    assert calc.passing() == [1, 2]
