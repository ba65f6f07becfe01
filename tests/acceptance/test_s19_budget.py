"""S19: money ends a session, or keeps it from starting; what was spent is on record to the cent."""

import pytest

from .arranging import refused, with_costs
from .calc import CalcProject
from .script import Turn, append, sh, sleep, turn, usage

ONE_TURN = 15.0


def spender(calc: CalcProject) -> list[Turn]:
    """Half a feature, one dear call, and then nothing that anybody waits for."""
    after = sh(f": >'{calc.base}/after'")
    return [turn(append("src/calc.py", "\n\nHALF = 1\n"), usage(1000, 100, cost=ONE_TURN), sleep(600), after)]


def test_a_no_session_starts_without_money_for_the_project(calc: CalcProject) -> None:
    """UAH-163 UAH-226 UAH-276 UAH-280 UAH-417 UAH-419 S19."""
    with_costs(calc, total_cost_usd=200.0)
    refused(calc, "The budget is used up", "$200.00 of $200.00", code=9)


@pytest.mark.scenario
def test_b_a_session_that_is_too_dear_is_ended(calc: CalcProject) -> None:
    """UAH-161 UAH-276 UAH-398 UAH-415 UAH-416 UAH-419 C27 S19: at once, its work kept, a person is asked."""
    ran = calc.run(spender(calc))
    assert ran.code == 3, ran.text
    assert "Session cost $15.00 exceeds budget $10.00." in ran.text
    assert "$10.00 for this session" in ran.out
    assert "$200.00" in ran.out
    assert not (calc.base / "after").exists(), "the agent was ended"
    assert calc.git("log", "-1", "--format=%s").startswith("WIP: Budget exceeded")
    assert calc.state["termination_reason"] == "budget_exceeded"
    assert calc.costs["cumulative"]["total_cost_usd"] == ONE_TURN
    assert calc.costs["cumulative"]["by_feature"] == [{"feature_id": 1, "cost_usd": ONE_TURN, "sessions": 1}]
    asked = calc.state["pending_escalation"]
    assert (asked["type"], asked["options"]) == ("budget_exceeded", ["increase", "pause", "abort"])
    again = calc.run(spender(calc))
    assert (again.code, len(calc.events("agent_started"))) == (3, 1), again.text
    raised = calc.harness("resume", "--choose", "i", "--budget", "40")
    assert raised.code == 0, raised.text
    assert "per_session_usd: 40" in (calc.root / ".harness.yaml").read_text()
    assert calc.changes() == []


@pytest.mark.scenario
def test_b_pause_is_an_answer(calc: CalcProject) -> None:
    """UAH-398 UAH-075 C11 S19."""
    assert calc.run(spender(calc)).code == 3
    assert calc.harness("resume", "--choose", "P").code == 0
    assert calc.run(spender(calc)).code == 5
    assert calc.harness("resume").code == 0


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_c_no_session_starts_without_money_for_the_feature(calc: CalcProject) -> None:
    """UAH-162 UAH-417 S19: the project has money left, this feature has none."""
    with_costs(calc, total_cost_usd=25.0, by_feature=[{"feature_id": 1, "cost_usd": 25.0, "sessions": 2}])
    refused(calc, "The budget is used up", "Feature #1", "$25.00 of $25.00", code=9)
