"""S25: features that tests alone cannot prove wait for a person; they never count as stuck."""

import json

import pytest

from .calc import CalcProject
from .script import claim, commit, honest, implement, say, turn


def types(calc: CalcProject, **kinds: str) -> None:
    """Sets the verification types of features by id and commits."""
    document = calc.features
    for feature in document["features"]:
        if f"f{feature['id']}" in kinds:
            feature["verification_type"] = kinds[f"f{feature['id']}"]
            feature["manual_checks"] = ["It looks right"]
    (calc.root / "features.json").write_text(json.dumps(document, indent=2) + "\n")
    calc.commit("Types")
    calc.git("push", "-q")


def test_hybrid_and_manual_features_wait_and_the_others_go_on(calc: CalcProject) -> None:
    """UAH-092, UAH-108, UAH-403, UAH-424, UAH-448, UAH-449, UAH-450, UAH-451, C13."""
    types(calc, f1="hybrid", f2="manual")
    image = calc.root / ".harness/screenshots/a.png"
    image.parent.mkdir()
    image.write_bytes(b"an image")
    seen = [say("[VISUAL:SCREENSHOT] .harness/screenshots/a.png"), say("[VISUAL:VERIFY] the button is blue")]
    hybrid = calc.run([turn(seen, honest(1))])
    assert hybrid.code == 0, hybrid.text
    assert "Verifying: running tests/e2e/test_add.py... PASSED" in hybrid.out
    assert "harness manual-verify --feature 1" in hybrid.out
    assert "It looks right" in hybrid.out
    assert calc.passing() == []
    assert calc.remote() == calc.head
    assert calc.changes() == []
    assert len(calc.baseline["passing_tests"]) == 2
    kinds = {row["type"] for row in calc.log("agent_actions.jsonl")}
    assert {"visual_screenshot", "visual_verify"} <= kinds, kinds
    (kept,) = calc.events("screenshot_kept")
    assert (kept["session"], kept["feature_id"], kept["path"]) == (1, 1, ".harness/screenshots/a.png")
    assert (calc.root / kept["kept"]).read_bytes() == b"an image"
    assert f"Screenshot: {kept['kept']}" in hybrid.out

    manual = calc.run([turn(implement(2), claim(2), commit("Implement sub"))])
    assert manual.code == 0, manual.text
    assert "Agent working on Feature #2" in manual.out
    assert "Feature #2 needs your verification (manual)." in manual.out
    status = calc.harness("status")
    assert "You must verify: Feature #1, Feature #2" in status.out
    assert calc.state["stuck_count"] == 0

    assert calc.run([turn(honest(3))]).code == 0
    assert calc.passing() == [3]
    blocked = calc.run([turn(honest(6))], "--feature", "6")
    assert (blocked.code, "#1" in blocked.err) == (7, True), blocked.text
    asked = calc.harness("manual-verify", "--feature", "1")
    assert asked.code == 1, "nobody there means no"
    assert f"Screenshot: {kept['kept']}" in asked.out
    for feature in (1, 2):
        assert calc.harness("manual-verify", "--feature", str(feature), "--yes").code == 0
    assert calc.passing() == [1, 2, 3]
    assert all("awaiting_manual" not in f for f in calc.features["features"])
    assert calc.run([turn(honest(4))]).code == 0
    assert calc.passing() == [1, 2, 3, 4]


def test_when_only_waiting_features_are_left_a_person_is_needed(calc: CalcProject) -> None:
    """C13, UAH-402."""
    calc.accept(2, 3, 4, 5)
    types(calc, f1="hybrid")
    ran = calc.run([turn(honest(1)), turn(honest(6))], "--until-done")
    assert ran.code == 3, ran.text
    assert "Feature #1 awaits your verification" in ran.text
    assert "harness manual-verify --feature 1" in ran.err


@pytest.mark.exhaustive
def test_a_broken_test_rejects_a_manual_feature_too(calc: CalcProject) -> None:
    """UAH-305, UAH-451."""
    calc.accept(1)
    types(calc, f2="manual")
    head = calc.head
    from .script import sh

    breaking = sh("sed -i.bak 's/return a + b/return 0/' src/calc.py && rm src/calc.py.bak")
    ran = calc.run([turn(implement(2), breaking, claim(2), commit("Implement sub"), times=9)])
    assert ran.code == 1, ran.text
    assert "Regression:" in ran.text
    assert calc.head == head
