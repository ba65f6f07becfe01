"""The books that sessions leave: named events with their fields, session records, and the command that reads them."""

import json

import pytest

from .begun import Begin, one_session
from .calc import CalcProject
from .script import claim, commit, honest, say, sh, turn, usage

RECORD = {
    "session_id",
    "started_at",
    "ended_at",
    "duration_seconds",
    "termination_reason",
    "feature_id",
    "feature_completed",
    "tokens_used",
    "cost_usd",
    *("agent", "model", "prompt_type", "base", "head", "rescue_ref", "turns", "interventions", "told"),
}


@pytest.mark.exhaustive
def test_a_session_is_told_of_in_every_log(calc: CalcProject) -> None:
    """UAH-083 UAH-089 UAH-090 UAH-091 UAH-124 UAH-437 UAH-467 UAH-520 UAH-521 UAH-522 UAH-523 C41: accepted."""
    head = calc.head
    ran = calc.run([turn(honest(1, decision="Floats stay floats"), usage(1450, 320, cost=0.92))])
    assert ran.code == 0, ran.text

    (row,) = calc.log("sessions.jsonl")
    assert row["model"] is None  # nobody named one, and the agent did not say: the default of the settings is no fact
    assert (row["agent"], row["prompt_type"], row["base"]) == ("scripted", "coding", head)  # F-REC-3
    assert (row["head"], row["turns"], row["interventions"], row["rescue_ref"]) == (calc.head, 1, [], None)
    said = (calc.root / ".harness/logs/run.log").read_text()  # F-REC-6
    assert all(line in said for line in ran.out.splitlines() if line.strip())
    assert set(row) == RECORD | {"ts"}
    assert row["tokens_used"] == {"input": 1450, "output": 320}
    assert (row["termination_reason"], row["feature_completed"], row["cost_usd"]) == ("complete", True, 0.92)
    (ended,) = calc.events("session_ended")
    assert ended.items() >= {key: row[key] for key in RECORD}.items()
    (taken,) = calc.events("checkpoint_created")
    assert {"checkpoint_id", "git_ref", "reason"} <= set(taken)
    assert taken["reason"] == "pre_feature"

    found = calc.harness("log", "query", "floats stay", "--json").json["rows"]
    assert {each["log"] for each in found} == {"decisions", "actions"}
    assert calc.harness("log", "query", "--type", "feature_completed", "--json").json["rows"][0]["feature_id"] == 1
    (summary,) = calc.harness("log", "sessions", "--json").json["sessions"]
    assert (summary["outcome"], summary["commit"], summary["cost_usd"]) == ("verified", calc.head, 0.92)
    assert summary["decisions"] == ["Floats stay floats"]
    assert {"src/calc.py", "tests/e2e/test_add.py"} <= set(summary["files_written"])


@pytest.mark.exhaustive
def test_a_rejected_session_is_told_of_with_all_that_it_did(calc: CalcProject) -> None:
    """UAH-432 UAH-437 UAH-472 UAH-523 C41: what was rolled back, and why, stays findable."""
    before = calc.head
    lie = [sh("echo broken > src/extra.py"), commit("Extra"), claim(1, 2, 3), say("[DECISION] Claim it all")]
    ran = calc.run([turn(lie)])
    assert ran.code == 1, ran.text
    (rolled,) = calc.events("rollback_completed")
    assert {"checkpoint_id", "rolled_back_commits", "restored_to_session"} <= set(rolled)
    assert len(rolled["rolled_back_commits"]) >= 1
    assert calc.head == before
    critical = calc.harness("log", "query", "--level", "critical", "--json").json["rows"]
    assert "multiple_claims" in {each.get("type") for each in critical}
    assert "Claim it all" in {each.get("text") for each in critical}
    (summary,) = calc.harness("log", "sessions", "--json").json["sessions"]
    assert summary["outcome"] == "rejected"
    assert "src/extra.py" in summary["files_written"]
    assert any("Max is 1" in each for each in summary["problems"])


@pytest.mark.exhaustive
def test_reading_the_logs_changes_nothing(begun: Begin) -> None:
    """UAH-003 UAH-073: queries take no lock and write nothing."""
    calc = begun(one_session)
    before = calc.fingerprint()
    for words in (["query", "add"], ["sessions"], ["query", "--level", "debug", "--since", "1d"]):
        assert calc.harness("log", *words).code == 0
    assert calc.fingerprint() == before
    assert json.loads(calc.harness("log", "query", "zzz", "--json").out) == {"ok": True, "rows": [], "more": False}
