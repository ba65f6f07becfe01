"""S03: a claim without working code is not believed; the agent may mend it three times, then it never happened."""

import pytest

from .arranging import with_settings
from .calc import CalcProject
from .script import (
    CODE,
    Turn,
    append,
    claim,
    commit,
    evidence,
    forge,
    honest,
    implement,
    progress,
    prompt_to,
    proof_path,
    prove,
    say,
    sh,
    turn,
    usage,
    write,
)
from .seam import each_seam

WRONG = "def add(a, b):\n    return a - b\n"


def lie(calc: CalcProject) -> Turn:
    """Wrong code, real tests, a forged result, a claim, and a file that nobody asked for."""
    return turn(
        prompt_to(calc.base / "prompt-1.txt"),
        implement(1, WRONG),
        write("scratch.txt", "left behind\n"),
        forge(1),
        claim(1),
        progress("FEATURE: #1\n\nWHAT I DID:\n- everything, honestly"),
        commit("Implement add: done"),
        usage(100, 10),
    )


@each_seam
def test_a_a_claim_without_code(calc: CalcProject) -> None:
    """UAH-010, UAH-304, UAH-358, UAH-498, UAH-536, UAH-554, UAH-560."""
    start = calc.head
    ran = calc.run([turn(say("All tests pass."), claim(1), times=9)])
    assert ran.code == 1, ran.text
    assert "Feature test failed when harness ran it." in ran.text or "evidence" in ran.text.lower()
    assert calc.passing() == []
    assert "Implement" not in calc.git("log", "--format=%s")
    assert calc.remote() == start
    assert calc.state["stuck_count"] == 1
    assert calc.events("verification_failed", "CRITICAL")


@pytest.mark.exhaustive
@each_seam
def test_b_told_of_the_failure_it_mends_the_code(calc: CalcProject) -> None:
    """UAH-347, UAH-358, UAH-387, UAH-475, C03, C29."""
    told = calc.base / "prompt-2.txt"
    mend = turn(
        prompt_to(told),
        write("src/calc.py", '"""A calculator."""\n\n\n' + CODE["add"]),
        prove(1),
        claim(1),
        commit("Mend add"),
        usage(100, 10),
    )
    ran = calc.run([lie(calc), mend])
    assert ran.code == 0, ran.text
    assert calc.passing() == [1]
    failure = told.read_text()
    assert "test_add" in failure
    assert "assert" in failure.lower() or "failed" in failure.lower()
    assert calc.state["last_session"] == 1
    assert calc.remote() == calc.head
    assert len(calc.events("session_ended")) == 1
    assert calc.costs["cumulative"]["total_tokens"]["input"] == 200
    assert calc.costs["cumulative"]["total_sessions"] == 1


@each_seam
def test_c_never_mended_it_is_rolled_back(calc: CalcProject) -> None:
    """UAH-297, UAH-358, UAH-387, UAH-389, UAH-393, UAH-475, UAH-502, UAH-554, C03, C08, C09, C12."""
    start, before = calc.head, calc.progress
    again = turn(prompt_to(calc.base / "again.txt"), forge(1), claim(1), usage(100, 10), times=9)
    ran = calc.run([lie(calc), again])
    assert ran.code == 1, ran.text
    assert calc.costs["cumulative"]["total_tokens"]["input"] == 400, "the first turn and three fix rounds"
    assert calc.head == start
    assert calc.changes(without=("claude-progress.txt",)) == []
    assert not (calc.root / "scratch.txt").exists()
    assert calc.git("show", "HEAD:features.json") == (calc.root / "features.json").read_text().rstrip("\n")
    (event,) = calc.events("rollback_completed")
    assert "restored_to_session" in event
    assert event["rolled_back_commits"]
    wanted = {"status": "failed", "stuck_count": 1, "last_session": 1, "next_prompt": "coding"}
    assert {key: calc.state[key] for key in wanted} == wanted
    assert calc.progress.startswith(before)
    assert len(calc.progress) > len(before)
    assert "everything, honestly" not in calc.progress
    assert calc.remote() == start
    asked = calc.state["pending_escalation"]
    assert asked["message"] == "Agent claimed Feature #1 complete, but harness verification failed."
    assert asked["options"] == ["retry", "manual", "skip", "abort"]
    for shown in (ran.out, calc.harness("status").out):
        assert asked["message"] in shown
    assert calc.run([turn(honest(1))]).code == 0, "the next run needs no answer: it tries again"
    assert calc.state["pending_escalation"] is None


@pytest.mark.kept("skip")
@pytest.mark.scenario
@pytest.mark.parametrize("chosen", ["1", "m", "skip", "Abort"])
def test_c_the_answers_to_a_claim_that_was_not_believed(calc: CalcProject, chosen: str) -> None:
    """UAH-393 C11 C12 S03: a number, a letter, a word; answered when somebody is there."""
    with_settings(calc, "verification:\n  fix_rounds: 0\n")
    assert calc.run([lie(calc)]).code == 1
    ran = calc.harness("resume", "--choose", chosen)
    assert ran.code == 0, ran.text
    told = {
        "1": "Feature #1 queued.",
        "m": "harness manual-verify --feature 1",
        "skip": "Skipped Feature #1.",
        "Abort": "Harness stopped.",
    }
    assert told[chosen] in ran.out
    if chosen == "m":
        assert "git diff HEAD refs/harness/rolled-back/1" in ran.out
        assert calc.run([turn(honest(1))]).code == 5, "in a person's hands"
    if chosen == "skip":
        assert calc.harness("run", "--dry-run", "--json").json["feature_id"] == 2
    calc.checked = chosen != "Abort"


@pytest.mark.exhaustive
def test_c_what_was_rolled_back_can_be_found_again(calc: CalcProject) -> None:
    """UAH-003, C09: Undoing loses nothing: the agent's commits and its untracked file stay reachable."""
    calc.run([lie(calc), turn(say("I give up."), claim(1), times=9)])
    refs = calc.git("for-each-ref", "--format=%(refname)", "refs/harness").splitlines()
    held = "\n".join(calc.git("ls-tree", "-r", "--name-only", ref) for ref in refs)
    assert "scratch.txt" in held
    subjects = "\n".join(calc.git("log", "--format=%s", ref) for ref in refs)
    assert "Implement add: done" in subjects


@pytest.mark.exhaustive
def test_c_the_next_session_starts_clean_and_can_succeed(calc: CalcProject) -> None:
    """UAH-356, C08, C29."""
    calc.run([lie(calc), turn(claim(1), times=9)])
    entry = calc.progress
    second = calc.base / "second.txt"
    ran = calc.run([turn(prompt_to(second), honest(1), usage(1, 1))])
    assert ran.code == 0, ran.text
    assert calc.passing() == [1]
    assert calc.state["stuck_count"] == 0
    assert calc.progress.startswith(entry), "the entry of the harness about the failed session is kept"
    assert "failed" in second.read_text().lower()
    assert calc.git("stash", "list") == ""


def test_a_claim_for_another_feature_is_a_false_claim(calc: CalcProject) -> None:
    """C14."""
    ran = calc.run([turn(implement(2), evidence(2), claim(2), times=9)])
    assert ran.code == 1, ran.text
    assert calc.passing() == []
    assert calc.remote() == calc.head


@pytest.mark.exhaustive
def test_a_proof_that_needs_no_change_proves_nothing(calc: CalcProject) -> None:
    """The feature's own tests must fail before the session and pass after it."""
    calc.put({"src/calc.py": '"""A calculator."""\n\n\n' + CODE["add"]})
    calc.commit("Somebody wrote add already")
    calc.git("push", "-q")
    same = turn(append(proof_path(1), "\n# nothing new\n"), sh("true"), claim(1), times=9)
    assert calc.run([same]).code == 1
    assert calc.passing() == []


@pytest.mark.scenario
def test_where_the_harness_is_not_to_run_them_the_agents_own_run_counts(calc: CalcProject) -> None:
    """UAH-185: `verification.harness_verify: false` is a person's word; it is said each time that it counts."""
    calc.configure("verification:\n  harness_verify: false\n")
    ran = calc.run([lie(calc)])
    assert ran.code == 0, ran.text
    assert "verification.harness_verify is off" in ran.out
    assert calc.passing() == [1]
    calc.checked = False  # a feature passes whose tests do not: that is what was asked for
    calc.state_parses()
