"""``harness doctor`` on a feature project: what keeps the next session from starting, and the command that mends it."""

import json

from .calc import CalcProject


def rows(calc: CalcProject) -> dict[str, dict[str, str]]:
    found = calc.harness("doctor", "--json", environ={"HARNESS_AGENT": "command:true"}).json["checks"]
    return {each["name"]: each for each in found}


def test_a_project_that_is_well_and_one_that_is_not(calc: CalcProject) -> None:
    rooms = (".git/index", ".git/harness")  # git may refresh the one; the other is an empty folder of ours
    before = calc.fingerprint(without=rooms)
    found = rows(calc)
    assert {each["state"] for each in found.values()} <= {"ok", "warning"}
    assert found["features"]["message"] == "0 of 6 are passing"
    assert found["lock"]["message"] == "no harness is running"
    assert calc.fingerprint(without=rooms) == before
    assert calc.harness("pause", "a look").code == 0
    assert rows(calc)["pause"]["mend"] == "harness resume"
    (calc.root / "init.sh").chmod(0o644)
    assert rows(calc)["files"]["state"] == "wrong"
    (calc.root / "init.sh").chmod(0o755)
    (calc.root / ".harness/session_state.json").write_text("{")
    damaged = calc.harness("doctor", "--json", environ={"HARNESS_AGENT": "command:true"})
    assert damaged.code == 4
    assert any("session_state.json" in each["message"] for each in damaged.json["checks"] if each["state"] == "wrong")
    calc.checked = False


def test_older_state_and_a_state_that_git_sees_are_repaired(calc: CalcProject) -> None:
    """With a copy of the older state beside it, as `harness migrate` makes one."""
    ignored = calc.root / ".gitignore"
    ignored.write_text(ignored.read_text().replace(".harness/\n", ""))
    calc.git("commit", "-q", "-m", "Ignore less", ".gitignore")
    state = calc.root / ".harness/session_state.json"
    older = json.loads(state.read_text())
    state.write_text(json.dumps({**older, "schema_version": 1}))
    found = rows(calc)
    assert (found["schema"]["safe"], found["ignored"]["safe"]) == (True, True)
    fixed = calc.harness("doctor", "--fix", "--json", environ={"HARNESS_AGENT": "command:true"})
    assert fixed.code == 0, fixed.text
    assert {each["name"] for each in fixed.json["repaired"] if each["done"]} == {"schema", "ignored"}
    assert "schema" not in {each["name"] for each in fixed.json["checks"]}
    assert list(calc.root.glob(".harness.backup.*"))
    assert calc.git("status", "--short").strip() == ""
