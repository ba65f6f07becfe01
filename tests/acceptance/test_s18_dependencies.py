"""S18: dependencies decide what comes next, and what is impossible is said before an agent is started."""

from typing import Any

import pytest

from .arranging import refused, with_features
from .calc import CalcProject, feature_record
from .script import honest, turn

Features = list[dict[str, Any]]


def circle(features: Features) -> None:
    """20 needs 21, which needs 20."""
    for one, other in ((20, 21), (21, 20)):
        features.append({**feature_record(1), "id": one, "depends_on": [other]})


@pytest.mark.exhaustive
def test_a_circle_is_named_and_can_be_skipped(calc: CalcProject) -> None:
    """UAH-266 UAH-399 UAH-459 UAH-461 UAH-532 C24 S18: both ids, the options, no agent."""
    with_features(calc, circle)
    refused(calc, "Dependency cycle detected: 20 → 21 → 20", "edit # or skip, abort", code=3)
    assert calc.harness("resume").code == 2, "the circle is a question as well"
    told = calc.harness("resume").err
    assert "Feature #20 depends on #21 which depends on #20." in told
    assert calc.harness("resume", "--choose", "2").code == 0
    assert calc.harness("run", "--dry-run", "--json").json["feature_id"] == 1
    assert {f["id"] for f in calc.features["features"] if f.get("skipped")} == {20, 21}


def test_a_circle_is_a_question_until_features_json_has_none(calc: CalcProject) -> None:
    """UAH-399 C12: the run keeps and prints it, status repeats it, and a repair by hand ends it."""
    assert calc.harness("status", "--json").json["escalation"] is None
    with_features(calc, circle)
    told = "Feature #20 depends on #21 which depends on #20."
    assert told in calc.harness("status").out, "said before any run, since features.json says it"
    ran = refused(calc, told, "edit # or skip, abort", code=3)
    assert told in ran.out
    assert calc.state["pending_escalation"]["type"] == "dependency_cycle"
    shown = calc.harness("status")
    assert f"Needs your answer: {told}" in shown.out
    assert "harness resume --choose edit  # or skip, abort" in shown.out
    assert "Ready for Feature" not in shown.out
    refused(calc, told, code=3)
    assert len([row for row in calc.events() if row.get("message") == told]) == 1, "asked once"

    def mend(features: Features) -> None:
        features[-1]["depends_on"] = list[int]()

    with_features(calc, mend)
    assert calc.harness("status", "--json").json["escalation"] is None
    assert calc.run([turn(honest(1))]).code == 0
    assert calc.state["pending_escalation"] is None


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_feature_that_does_not_exist_is_named(calc: CalcProject) -> None:
    """UAH-460 S18."""

    def edit(features: Features) -> None:
        features[1]["depends_on"] = [99]

    with_features(calc, edit)
    refused(calc, "Feature 2 depends on non-existent Feature 99", code=3)


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_the_order_is_by_id_among_what_is_ready(calc: CalcProject) -> None:
    """UAH-452 UAH-453 UAH-454 UAH-455 UAH-456 S18: 3 was done already; 6 comes only after 1 and 4."""

    def following() -> int:
        return int(calc.harness("run", "--dry-run", "--json").json["feature_id"])

    calc.accept(3)
    order = []
    for _ in range(5):
        order.append(following())
        calc.accept(order[-1])
    assert order == [1, 2, 4, 5, 6]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_six_waits_for_both(calc: CalcProject) -> None:
    """UAH-453 S18: with 1 alone it is not ready, and asking for it says what it waits for."""
    calc.accept(1)
    ran = calc.harness("run", "--dry-run", "--feature", "6")
    assert ran.code == 7, ran.text
    assert "waits for #4" in ran.err


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_a_skipped_feature_blocks_is_listed(calc: CalcProject) -> None:
    """UAH-059 C49 C53 S18: no agent, the blockers by name, and not "all features passing"."""
    calc.accept(1, 2)
    assert calc.harness("skip", "--feature", "3").code == 0
    ran = calc.run([turn(honest(4))])
    assert ran.code == 7, ran.text
    for line in ("#3 (User can mul two numbers) was skipped", "waits for #3", "waits for #4"):
        assert line in ran.out
    assert "features are passing!" not in ran.text
    assert not calc.events("agent_started")
