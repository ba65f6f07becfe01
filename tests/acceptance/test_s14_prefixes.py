"""S14: an agent that uses no prefixes, and one that shows no evidence."""

import pytest

from .arranging import with_settings
from .calc import CalcProject
from .script import (
    CODE,
    Step,
    append,
    claim,
    commit,
    evidence,
    honest,
    name_of,
    prompt_to,
    proof_path,
    proof_text,
    say,
    turn,
    write,
)
from .seam import each_seam

FALLBACK = "Agent output not fully structured, using fallback"


def plain(feature: int) -> list[Step]:
    """The whole of an honest session, told in prose."""
    return [
        say("I read the code and add the function."),
        append("src/calc.py", "\n\n" + CODE[name_of(feature)]),
        write(proof_path(feature), proof_text(feature)),
    ]


@pytest.mark.exhaustive
@each_seam
def test_prose_alone_is_accepted_and_tracked_by_other_signs(calc: CalcProject) -> None:
    """UAH-199 UAH-201 UAH-202 UAH-426 UAH-427 UAH-428 UAH-429 UAH-430 UAH-431 UAH-520 C14 C43: the fallback."""
    ran = calc.run([turn(plain(1), evidence(1), claim(1), commit("Implement add"))])
    assert ran.code == 0, ran.text
    assert calc.passing() == [1]
    assert [row["message"] for row in calc.events("unstructured_output")] == [FALLBACK]
    rows = calc.log("agent_actions.jsonl")
    written = {row["path"] for row in rows if row["type"] == "file_write"}
    assert {"src/calc.py", proof_path(1)} <= written
    assert any(row["type"] == "test_run" and "2 passed" in row["result"] for row in rows)
    assert all(row["source"] != "prefix" for row in rows)


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_no_warning_and_no_fallback_where_they_are_switched_off(calc: CalcProject) -> None:
    """UAH-201 UAH-202: `fallback_tracking` and `warn_on_missing_prefixes`."""
    with_settings(calc, "logging:\n  fallback_tracking: false\n  warn_on_missing_prefixes: false\n")
    ran = calc.run([turn(plain(1), evidence(1), claim(1), commit("Implement add"))])
    assert ran.code == 0, ran.text
    assert calc.events("unstructured_output") == []
    assert [row for row in calc.log("agent_actions.jsonl") if row.get("source") == "git"] == []


@pytest.mark.scenario
@pytest.mark.parametrize("prefixes", [False, True])
def test_prefixes_may_be_required(calc: CalcProject, prefixes: bool) -> None:
    """UAH-200 UAH-426: with `require_prefixes` a claim without any is rejected; the same work with them is not."""
    before = with_settings(calc, "logging:\n  require_prefixes: true\n")
    work = honest(1) if prefixes else [*plain(1), evidence(1), claim(1), commit("Implement add")]
    ran = calc.run([turn(work)])
    assert (ran.code, calc.passing()) == ((0, [1]) if prefixes else (1, []))
    if not prefixes:
        assert "require_prefixes" in ran.text
        assert calc.head == before
        written = {row["path"] for row in calc.log("agent_actions.jsonl") if row["type"] == "file_write"}
        assert "src/calc.py" in written


# -- b: correct code, and nothing shown --------------------------------------------------------------------------------

SILENT = (*plain(1), claim(1), commit("Implement add"))


@each_seam
def test_b_without_evidence_the_code_is_kept_and_the_claim_is_not_believed(calc: CalcProject) -> None:
    """UAH-184 UAH-310 UAH-360 UAH-538 C20 S14: asked once; then the work is a WIP commit for the next session."""
    start, asked = calc.head, calc.base / "asked.txt"
    again = turn(prompt_to(asked), say("It works, believe me."), claim(1), times=9)
    ran = calc.run([turn(list(SILENT)), again])
    assert ran.code == 1, ran.text
    assert "evidence" in ran.text
    assert proof_path(1) in asked.read_text()
    assert asked.read_text().count("evidence") >= 1
    assert calc.passing() == []
    assert calc.git("log", "-1", "--format=%s").startswith("WIP:")
    assert "def add" in calc.git("show", "HEAD:src/calc.py")
    assert not calc.events("rollback_completed")
    assert (calc.state["status"], calc.state["next_prompt"]) == ("partial", "continuation")
    assert calc.remote() == start


@pytest.mark.exhaustive
@pytest.mark.scenario
@each_seam
def test_b_shown_when_asked_it_counts(calc: CalcProject) -> None:
    """UAH-310 C20 S14: the evidence may come in the turn that asks for it, and the session is one."""
    ran = calc.run([turn(list(SILENT)), turn(evidence(1), claim(1), round=1)])
    assert ran.code == 0, ran.text
    assert calc.passing() == [1]
    assert len(calc.events("session_ended")) == 1


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_b_where_no_evidence_is_required_the_harness_own_run_is_enough(calc: CalcProject) -> None:
    """UAH-184 C20 S14: `require_evidence: false`."""
    with_settings(calc, "verification:\n  require_evidence: false\n")
    ran = calc.run([turn(list(SILENT))])
    assert ran.code == 0, ran.text
    assert calc.passing() == [1]
    assert calc.remote() == calc.head
