"""S14: an agent that uses no prefixes, and one that shows no evidence."""

import pytest

from .script import (
    CODE,
    Step,
    append,
    claim,
    commit,
    evidence,
    honest,
    name_of,
    proof_path,
    proof_text,
    say,
    turn,
    write,
)
from .world import World

FALLBACK = "Agent output not fully structured, using fallback"


def plain(feature: int) -> list[Step]:
    """The whole of an honest session, told in prose."""
    return [
        say("I read the code and add the function."),
        append("src/calc.py", "\n\n" + CODE[name_of(feature)]),
        write(proof_path(feature), proof_text(feature)),
    ]


def test_prose_alone_is_accepted_and_tracked_by_other_signs(calc: World) -> None:
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


def test_no_warning_and_no_fallback_where_they_are_switched_off(calc: World) -> None:
    """UAH-201 UAH-202: `fallback_tracking` and `warn_on_missing_prefixes`."""
    with (calc.root / ".harness.yaml").open("a") as file:
        file.write("logging:\n  fallback_tracking: false\n  warn_on_missing_prefixes: false\n")
    calc.commit("Settings")
    calc.git("push", "-q")
    ran = calc.run([turn(plain(1), evidence(1), claim(1), commit("Implement add"))])
    assert ran.code == 0, ran.text
    assert calc.events("unstructured_output") == []
    assert [row for row in calc.log("agent_actions.jsonl") if row.get("source") == "git"] == []


@pytest.mark.parametrize("prefixes", [False, True])
def test_prefixes_may_be_required(calc: World, prefixes: bool) -> None:
    """UAH-200 UAH-426: with `require_prefixes` a claim without any is rejected; the same work with them is not."""
    with (calc.root / ".harness.yaml").open("a") as file:
        file.write("logging:\n  require_prefixes: true\n")
    calc.commit("Settings")
    calc.git("push", "-q")
    before = calc.head
    work = honest(1) if prefixes else [*plain(1), evidence(1), claim(1), commit("Implement add")]
    ran = calc.run([turn(work)])
    assert (ran.code, calc.passing()) == ((0, [1]) if prefixes else (1, []))
    if not prefixes:
        assert "require_prefixes" in ran.text
        assert calc.head == before
        written = {row["path"] for row in calc.log("agent_actions.jsonl") if row["type"] == "file_write"}
        assert "src/calc.py" in written
