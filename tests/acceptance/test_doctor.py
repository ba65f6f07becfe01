"""``harness doctor`` on a feature project: what keeps the next session from starting, and the command that mends it."""

from .world import World


def rows(calc: World) -> dict[str, dict[str, str]]:
    found = calc.harness("doctor", "--json", environ={"HARNESS_AGENT": "command:true"}).json["checks"]
    return {each["name"]: each for each in found}


def test_a_project_that_is_well_and_one_that_is_not(calc: World) -> None:
    rooms = (".git/index", ".git/harness")  # git may refresh the one; the other is an empty folder of ours
    before = calc.fingerprint(without=rooms)
    found = rows(calc)
    assert {each["state"] for each in found.values()} <= {"ok", "warning"}
    assert found["features"]["message"] == "0 of 6 are passing"
    assert found["lock"]["message"] == "nobody is at work"
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
