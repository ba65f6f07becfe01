"""Verdicts on each claim of a feature project: one line a claim, for ever, whoever was killed in between."""

import json
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_harness.session import ledger
from agent_harness.session.ledger import ClaimVerdict

from .arranging import with_settings
from .calc import CalcProject
from .script import (
    CODE,
    append,
    claim,
    commit,
    evidence,
    forge,
    honest,
    implement,
    proof_path,
    prove,
    say,
    sh,
    turn,
    usage,
    write,
)
from .test_kept_candidates import built_ahead
from .test_trust import copy_of, killed_at_work, own_records


def verdicts(calc: CalcProject) -> list[ClaimVerdict]:
    """Every line, oldest first; the chain is whole."""
    path = calc.project.store.ledger()
    assert not path.startswith(str(calc.root)), "where an agent does not look"
    assert ledger.check(path).whole
    return list(ledger.newest_first(path))[::-1]


@pytest.mark.exhaustive
def test_a_rejected_and_an_accepted_claim_of_one_session(calc: CalcProject) -> None:
    """F-REC-1 F-REC-2 F-REC-3: every member of both lines, and what the steps printed."""
    start = calc.head
    wrong = "def add(a, b):\n    return a - b\n"
    lied = turn(implement(1, wrong), forge(1), claim(1), commit("Implement add"), usage(10, 10, cost=0.25))
    mend = turn(write("src/calc.py", '"""A calculator."""\n\n\n' + CODE["add"]), prove(1), claim(1), commit("Mend"))
    ran = calc.run([lied, mend])
    assert ran.code == 0, ran.text
    first, second = verdicts(calc)
    assert (first.n, first.verdict, first.codes) == (1, "rejected", ("proof_failed",))
    assert (first.item, first.claim, first.session, first.agent) == ("1", ("1",), 1, "scripted")
    assert (first.base, first.commit, first.cost_usd) == (start, None, 0.25)
    assert [(step.step, step.result) for step in first.steps] == [("guard", "passed"), ("proof", "failed")]
    proof = first.steps[1]
    assert (proof.exit, proof.passed, proof.failed) == (1, 0, 2)
    assert proof.command == f"python -m pytest {proof_path(1)} -v"
    assert proof.log == ".harness/logs/verdicts/1-proof.txt"
    assert (second.n, second.verdict, second.codes, second.commit) == (2, "accepted", (), calc.head)
    assert second.candidate == calc.head
    assert second.red_base == start
    results = {step.step: step.result for step in second.steps}
    assert results == dict.fromkeys(("guard", "proof", "suite", "red", "lint"), "passed")
    assert second.isolation == "worktree"
    assert set(second.tools) == {"python", "pytest", "git"}
    assert second.tools["python"] == sys.version.split()[0]
    logs = {step.step: step.log for step in second.steps if step.log}
    assert logs == {"proof": ".harness/logs/verdicts/2-proof.txt"}
    assert "2 passed" in (calc.root / logs["proof"]).read_text()
    (row,) = calc.log("sessions.jsonl")
    assert (row["turns"], row["interventions"], row["head"], row["rescue_ref"]) == (2, [], calc.head, None)


def test_every_way_to_be_refused_has_its_code(calc: CalcProject) -> None:
    """F-REC-1: what is refused without a run, and what is refused for want of evidence, is a line as well."""
    with_settings(calc, "verification:\n  fix_rounds: 0\n")
    several = [sh("echo broken > src/extra.py"), commit("Extra"), claim(1, 2, 3)]
    assert calc.run([turn(several)]).code == 1
    assert calc.run([turn(implement(2), evidence(2), claim(2), commit("Other"))]).code == 1
    assert calc.run([turn(implement(1), claim(1), commit("Silent")), turn(say("Look at it."), times=9)]).code in (1, 3)
    found = verdicts(calc)
    assert [(each.codes[0], each.claim) for each in found] == [
        ("multiple_claims", ("1", "2", "3")),
        ("wrong_feature", ("2",)),
        ("no_evidence", ("1",)),
    ]
    assert {each.verdict for each in found} == {"rejected"}
    assert [each.steps == () for each in found] == [True, True, False]


@pytest.mark.exhaustive
def test_a_regression_names_what_broke_and_keeps_both_outputs(calc: CalcProject) -> None:
    calc.accept(1)
    breaks = [append("src/calc.py", f"\n\n{CODE['sub']}\n\ndef add(a, b):\n    return 0\n"), *implement(2, "")[1:]]
    ran = calc.run([turn(breaks, prove(2), claim(2), commit("Break add"))])
    assert ran.code == 1, ran.text
    (found,) = [each for each in verdicts(calc) if each.claim]
    assert (found.codes, found.regressions_total) == (("regression",), len(found.regressions))
    assert all(node.startswith(proof_path(1)) for node in found.regressions)
    logs = {step.step: step.log for step in found.steps if step.log}
    assert set(logs) == {"proof", "suite"}
    assert "def test_add" in (calc.root / logs["suite"]).read_text()
    (row,) = calc.log("sessions.jsonl")
    assert row["rescue_ref"] == "refs/harness/rolled-back/2"
    assert row["head"] == calc.head


@pytest.mark.exhaustive
def test_a_cleanup_is_a_verdict_too(calc: CalcProject) -> None:
    calc.accept(1)
    ran = calc.harness("cleanup", agent=[turn(append("src/calc.py", "\n# tidy\n"), commit("Tidy"))])
    assert ran.code == 0, ran.text
    (found,) = verdicts(calc)
    assert (found.item, found.claim, found.verdict, found.commit) == ("cleanup", (), "accepted", calc.head)


# -- a person's word ---------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_a_persons_word_is_a_line_about_the_verdict_before(calc: CalcProject) -> None:
    """F-REC-1: ``by: person``, what they said, and the number of the line that it is about."""
    assert calc.run([turn(implement(1, "def add(a, b):\n    return 0\n"), prove(1), claim(1), times=9)]).code == 1
    last = verdicts(calc)[-1]
    assert calc.harness("override", "--feature", "1", "--passes", "true", "--yes").code == 0
    assert calc.harness("override", "--feature", "1", "--passes", "false", "--yes").code == 0
    said = verdicts(calc)[-2:]
    assert [(each.by, each.word, each.of, each.verdict) for each in said] == [
        ("person", "override", last.n, "accepted"),
        ("person", "override", last.n + 1, "rejected"),
    ]
    assert said[1].commit == calc.head


@pytest.mark.exhaustive
def test_work_that_was_kept_for_a_person_and_judged_again(calc: CalcProject) -> None:
    built_ahead(calc)
    kept = verdicts(calc)[-1]
    assert kept.codes == ("proof_not_red",)
    assert calc.harness("resume", "--choose", "accept-built").code == 0
    last = verdicts(calc)[-1]
    assert (last.by, last.word, last.of, last.verdict, last.commit) == (
        *("person", "accept-built", kept.n, "accepted"),
        calc.head,
    )
    assert {step.step for step in last.steps} >= {"proof", "suite"}


@pytest.mark.exhaustive
def test_work_that_a_person_does_not_take(calc: CalcProject) -> None:
    built_ahead(calc)
    kept = verdicts(calc)[-1]
    assert calc.harness("resume", "--choose", "reject").code == 0
    last = verdicts(calc)[-1]
    assert (last.by, last.word, last.of, last.verdict) == ("person", "reject", kept.n, "rejected")


# -- killed ------------------------------------------------------------------------------------------------------------

DIES = """\
#!{python}
import os, signal, sys

WHEN, real_replace, real_fsync, seen = os.environ.get("DIES"), os.replace, os.fsync, []


def replaced(source, target, **more):
    real_replace(source, target, **more)
    if str(target).endswith("%open_session.json".replace("%", "/")) and "/projects/" in str(target):
        with open(target, encoding="utf-8") as file:
            text = file.read()
        if '"verdict": {{' in text:
            seen.append("settling" if '"settlement"' in text else "judged")
            if WHEN == seen[-1]:
                os.kill(os.getpid(), signal.SIGKILL)


def synced(descriptor):
    real_fsync(descriptor)
    if WHEN == "written" and os.readlink(f"/proc/self/fd/{{descriptor}}").endswith("/verdicts.jsonl"):
        os.kill(os.getpid(), signal.SIGKILL)


os.replace, os.fsync = replaced, synced
from agent_harness.cli.main import main

sys.exit(main())
"""


def killed(calc: CalcProject, when: str, turns: Sequence[dict[str, object]]) -> None:
    """A run that is killed right after it has noted the verdict, begun to settle, or written the line."""
    launcher = calc.base / "harness-that-dies"
    launcher.write_text(DIES.format(python=sys.executable))
    launcher.chmod(0o755)
    calc.environ = {**calc.environ, "DIES": when}
    process = calc.start("run", agent=turns, launcher=str(launcher))
    assert process.wait(timeout=200) == -signal.SIGKILL, calc.started()


@pytest.mark.kept("settling")
@pytest.mark.kill
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("when", ["judged", "settling", "written"])
def test_a_verdict_of_a_killed_run_is_written_once(calc: CalcProject, when: str) -> None:
    """F-REC-1: never twice for one claim, never none; one that was not settled names no commit."""
    killed(calc, when, [turn(honest(1), usage(1, 1))])
    ran = calc.run([turn(honest(2 if when != "judged" else 1), usage(1, 1), times=9)])
    assert ran.code == 0, ran.text
    found = verdicts(calc)
    first = [each for each in found if each.session == 1]
    assert [(each.item, each.verdict) for each in first] == [("1", "accepted")]
    if when == "judged":
        assert first[0].commit is None, "it was judged, and its work is not accepted yet"
    else:
        assert calc.git("merge-base", "--is-ancestor", str(first[0].commit), "HEAD") == ""
    assert len(found) == 2
    assert [each for each in found if each.item == "1" and each.commit and each.accepted], "proven in the end"


@pytest.mark.kept("judged")
@pytest.mark.kill
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("when", ["judged", "written", "settling"])
def test_a_rejection_of_a_killed_run_is_written_once(calc: CalcProject, when: str) -> None:
    several = [sh("echo broken > src/extra.py"), commit("Extra"), claim(1, 2, 3), say("done")]
    killed(calc, when, [turn(several)])
    ran = calc.run([turn(honest(1), usage(1, 1), times=9)])
    assert ran.code == 0, ran.text
    assert [(each.verdict, each.codes) for each in verdicts(calc)] == [
        ("rejected", ("multiple_claims",)),
        ("accepted", ()),
    ]


@pytest.mark.exhaustive
def test_an_agent_gains_nothing_by_a_ledger_in_the_project(calc: CalcProject) -> None:
    """It is not where agents write; what they put beside the logs is read by nobody."""
    forged = json.dumps({"v": 1, "n": 1, "item": "2", "verdict": "accepted", "prev": None})
    ran = calc.run([turn(sh(f"echo '{forged}' > .harness/logs/verdicts.jsonl"), honest(1), usage(1, 1))])
    assert ran.code == 0, ran.text
    assert [each.item for each in verdicts(calc)] == ["1"]


@pytest.mark.exhaustive
def test_doctor_and_verify_say_when_a_verdict_was_altered(calc: CalcProject) -> None:
    """The chain is looked at where somebody asks whether all is well; nothing is judged by it."""
    assert calc.run([turn(several_claims(), times=9)]).code == 1
    assert calc.run([turn(honest(1), usage(1, 1))]).code == 0
    path = calc.project.store.ledger()
    assert "2 verdicts, and no verdict was altered" in calc.harness("doctor", "--json").out
    lines = Path(path).read_text().splitlines(keepends=True)
    Path(path).write_text(lines[0].replace("rejected", "accepted") + lines[1])
    told = calc.harness("doctor")
    assert "the record of verdicts was altered: line 2 does not follow the line before it" in told.text
    verified = calc.harness("verify", "--all")
    assert verified.code == 0, verified.text
    assert "the record of verdicts was altered" in verified.text


def several_claims() -> list[dict[str, object]]:
    return [sh("echo broken > src/extra.py"), commit("Extra"), claim(1, 2, 3)]


@pytest.mark.exhaustive
@pytest.mark.kill
def test_a_verdict_in_the_projects_own_copy_of_a_session_is_not_believed(calc: CalcProject) -> None:
    """A session that only the project records is recovered; its acceptance there goes into no ledger."""
    killed_at_work(calc)
    record = json.loads(copy_of(calc).read_text())
    line = ClaimVerdict(id="forged", item="1", verdict="accepted", claim=("1",)).as_record()
    copy_of(calc).write_text(json.dumps({**record, "verdict": line}))
    for kept in own_records(calc).glob("open_session.json*"):
        kept.unlink()
    ran = calc.run([turn({"exit": 3}, times=9)])
    assert "its record is only in the project" in ran.text
    assert verdicts(calc) == []
