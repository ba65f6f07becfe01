"""Words that a person reads and types: at the terminal, the way out that each names, the answer in JSON."""

import contextlib
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from .calc import CalcProject
from .script import claim, commit, honest, implement, prove, sh, turn, usage
from .test_s06_regression import breaking


def test_what_was_rolled_back_is_listed_shown_and_brought_back(calc: CalcProject) -> None:
    """D10 C09: of feature projects too, in words for a person; nothing that changed since is overwritten."""
    calc.accept(1)
    assert calc.harness("rescue", "list", "--text").out.splitlines()[0] == "rescues: none"
    calc.environ["HARNESS_REPORT__AFTER_RUN"] = "true"
    rejected = calc.run(breaking(2))
    assert rejected.code == 1, rejected.text
    assert "To restore it: harness rescue list" in rejected.out
    proven, claims, cost, kept, needs, report, following = rejected.out.splitlines()[-7:]  # F-RUN-2, F-REP-10
    assert report == f"report     {calc.root / '.harness/report.html'}"
    assert "1 of 6 features are proven" in (calc.root / ".harness/report.html").read_text()
    assert (proven, claims) == ("proven     none in this run; 1 of 6 in all", "claims     1, 1 rejected: #2")
    assert (cost.split()[0], kept) == ("cost", "kept       1 rolled back: harness diff 2")
    assert needs.startswith("needs you  Feature 1 (User can add two numbers) now failing. (harness resume ")
    assert following == "next: harness run"
    first, following = calc.harness("rescue", "list", "--text").out.splitlines()
    assert first.startswith("rolled-back/2 ")
    assert first.endswith("rolled back with Session 2")
    assert following == "next: harness rescue show rolled-back/2"
    (row,) = calc.harness("rescue", "list").json["rescues"]
    assert (row["ref"], row["kind"]) == ("refs/harness/rolled-back/2", "rolled-back")

    shown = calc.harness("rescue", "show", "rolled-back/2").json
    assert {"status": "M", "path": "src/calc.py"} in shown["files"]
    assert any("Implement sub" in each["subject"] for each in shown["commits"])
    assert "  M src/calc.py" in calc.harness("rescue", "show", "rolled-back/2", "--text").out.splitlines()

    whole = calc.harness("rescue", "restore", "rolled-back/2", "--to", str(calc.base / "whole"))
    assert whole.code == 0, whole.text
    taken = (calc.base / "whole/src/calc.py").read_text()
    assert "def sub" in taken

    code = calc.root / "src/calc.py"
    before = code.read_text()
    code.write_text(before + "# mine\n")
    refused = calc.harness("rescue", "restore", "rolled-back/2")
    assert (refused.code, refused.json["error"]["code"]) == (4, "unsafe_tree"), refused.text
    assert code.read_text() == before + "# mine\n"
    code.write_text(before)
    head = calc.head
    again = calc.harness("rescue", "restore", "rolled-back/2")
    assert again.code == 0, again.text
    assert (code.read_text(), calc.head) == (taken, head)
    assert calc.passing() == [1], "a claim that was rejected does not come back"
    assert calc.harness("rescue", "show", "rolled-back/9").json["error"]["code"] == "usage"
    calc.git("checkout", "-q", "--", ".")
    calc.git("clean", "-q", "-f", "-d")
    assert calc.harness("rescue", "prune", "--older-than", "0").json["pruned"] == ["refs/harness/rolled-back/2"]
    assert calc.harness("rescue", "list").json["rescues"] == []


@pytest.mark.exhaustive
def test_what_a_rejected_claim_printed_is_kept_masked_and_named(calc: CalcProject) -> None:
    """FIX-4 C03: the output of the step that failed, for each claim, where nobody outside can be written to."""
    outside = calc.base / "outside"
    outside.mkdir()
    (calc.root / ".harness/logs").mkdir(exist_ok=True)
    (calc.root / ".harness/logs/verdicts").symlink_to(outside)
    wrong = 'def add(a, b):\n    print("password=correct-horse-battery")\n    return a - b\n'
    ran = calc.run([turn(implement(1, wrong), prove(1), claim(1), commit("Implement add"), times=9)])
    assert ran.code == 1, ran.text
    rejected = calc.events("verification_failed")
    names = [row["output_file"] for row in rejected]
    assert names[0] == ".harness/logs/verdicts/1-proof.txt"
    assert len(set(names)) == len(names) > 1
    assert all(f"Output: {name}" in ran.out for name in names)
    kept = (calc.root / names[0]).read_text()
    assert kept.startswith("$ python -m pytest tests/")
    assert "test_add_one" in kept
    assert "[exit 1, " in kept
    assert "correct-horse" not in kept
    assert "***" in kept
    assert list(outside.iterdir()) == []
    assert calc.changes(without=("claude-progress.txt",)) == []


def test_a_complete_project_says_that_nothing_is_left(calc: CalcProject) -> None:
    """FIX-10 FIX-20: no next prompt, no session that would run, no feature that waits."""
    calc.accept(1, 2, 3, 4, 5, 6)
    status = calc.harness("status").out
    assert "all features are passing" in status
    assert "Next prompt" not in status
    assert "Stuck count" not in status
    left = "Nothing left: 6 of 6 proven."
    assert left in calc.harness("resume").out
    assert left in calc.harness("run", "--dry-run").out


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("typed", "meant"), [("logs", "log"), ("stauts", "status"), ("ls", "status"), ("stop-now", "pause")]
)
def test_what_was_probably_meant_is_named(calc: CalcProject, typed: str, meant: str) -> None:
    """FIX-12: from the names of the commands, and from the words of other programs."""
    refused = calc.here(typed)
    assert refused.code == 2
    assert refused.err == f"harness: No such command '{typed}'. Did you mean '{meant}'?\nnext: harness {meant} --help\n"
    assert "Did you mean" not in calc.here("qqqqqq").err


@pytest.mark.exhaustive
def test_a_dry_run_says_what_the_rest_will_cost(calc: CalcProject) -> None:
    """By the project's own history, else that it is not known; nothing is changed."""
    first = calc.harness("run", "--dry-run")
    assert "Estimate for 6 open features: unknown: no session yet" in first.out
    for feature, cost in ((1, 0.2), (2, 0.4)):
        ran = calc.run([turn(honest(feature), usage(1000, 100, cost=cost), feature=feature)])
        assert ran.code == 0, ran.text
    before = calc.fingerprint()
    told = calc.harness("run", "--dry-run")
    assert "Estimate for 4 open features: $1.00 to $1.40 (based on 2 proven at $0.25 to $0.35 each" in told.out
    assert "Budget left: $199.40 of the project" in told.out
    estimate = calc.harness("run", "--dry-run", "--json").json["estimate"]
    assert (estimate["total_usd"], estimate["budget_left_usd"]) == ([1.0, 1.4], 199.4)
    assert calc.fingerprint() == before


def test_what_the_project_waits_for_is_said_before_a_missing_agent(calc: CalcProject) -> None:
    """FIX-11: a damaged plan, a stored question, nothing left; each with its own way out."""
    nobody = {"HARNESS_AGENT": "command:no-such-program-here"}
    assert "cannot be started" in calc.harness("run", environ=nobody).err
    plan = calc.root / "features.json"
    whole = plan.read_text()
    plan.write_text("{")
    damaged = calc.harness("run", environ=nobody)
    assert (damaged.code, "features.json" in damaged.err) == (6, True), damaged.text
    plan.write_text(whole)
    state = calc.root / ".harness/session_state.json"
    calm = state.read_text()
    question = {"kind": "stuck", "message": "Feature #1 is stuck", "options": ["retry", "skip"]}
    state.write_text(json.dumps({**json.loads(calm), "pending_escalation": question}))
    asked = calc.harness("run", environ=nobody)
    assert (asked.code, "cannot be started" in asked.err) == (3, False), asked.text
    state.write_text(calm)
    calc.accept(1, 2, 3, 4, 5, 6)
    done = calc.harness("run", environ=nobody)
    assert (done.code, "6 of 6 proven" in done.err) == (7, True), done.text


@pytest.mark.exhaustive
def test_status_says_what_a_session_does_and_what_it_has_cost(calc: CalcProject) -> None:
    """FIX-10 F-REC-4: while it runs, from another terminal; the prompt of the next session is not what matters then."""
    go = calc.base / "go"
    wait = sh(f"while [ ! -e {go} ]; do sleep 0.05; done")
    process = calc.start("run", agent=[turn(usage(12000, 900, cost=0.12), wait, honest(1), feature=1)])
    try:
        calc.wait_until(
            lambda: any(each["cost_usd"] for each in calc.harness("status", "--json").json["now"]),
            "a record with costs",
        )
        shown = calc.harness("status").out
        assert "Now: Session 1 on Feature #1 is running" in shown
        assert "  Feature #1 (scripted): agent 0:" in shown
        assert ", 12.0k in 900 out, $0.12 of $" in shown
    finally:
        go.touch()
        process.wait(200)
    assert process.returncode == 0, calc.started()
    after = calc.harness("status", "--json").json
    assert (after["now"], after["open_session"]) == ([], None)


@pytest.mark.exhaustive
def test_a_session_says_what_it_does_at_each_step(calc: CalcProject) -> None:
    """F-REC-4: turns, the steps of the judging and what is left of each budget, while it runs and no longer."""
    seen: dict[tuple[str, str | None], dict[str, Any]] = {}
    over = threading.Event()
    homes = Path(calc.environ["XDG_STATE_HOME"], "agent-harness/projects")

    def look() -> None:
        while not over.is_set():
            for path in homes.glob("*/now.json"):
                with contextlib.suppress(OSError, ValueError):
                    record = json.loads(path.read_text())
                    seen[record["phase"], record["step"]] = record
            time.sleep(0.002)

    watching = threading.Thread(target=look)
    watching.start()
    try:
        ran = calc.run([turn(sh("sleep 0.2"), usage(500, 50), honest(1))])
    finally:
        over.set()
        watching.join()
    assert ran.code == 0, ran.text
    assert {("judging", "proof"), ("judging", "suite")} <= seen.keys(), seen.keys()
    judged = seen["judging", "suite"]
    assert (judged["item"], judged["session"], judged["turn"], judged["until"]) == ("Feature #1", 1, 1, None)
    assert judged["title"] == "User can add two numbers"
    assert judged["tokens"]["input"] == 500
    assert judged["cost_unknown"] is (judged["cost_usd"] is None)
    assert set(judged["budget"]) == {"session_left", "item_left", "project_left"}
    assert judged["budget"]["item_left"] <= 25 <= judged["budget"]["project_left"] <= 200
    assert not [*homes.glob("*/now.json")]
