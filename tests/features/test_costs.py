"""Costs are counted once, kept exactly, and bound the next session (C27, UAH-133..136)."""

from agent_harness.protocols.features.costs import Budgets, Spent, add_session, available, of_feature, totals

BUDGETS = Budgets(per_session=10, per_feature=25, total=200)


def spent(session: int, feature_id: int | None, cost: float | None) -> Spent:
    return Spent(
        session=session,
        started="2026-01-01T00:00:00Z",
        feature_id=feature_id,
        input_tokens=1450,
        output_tokens=320,
        cached_tokens=10,
        cost_usd=cost,
    )


def test_sessions_add_up_by_feature_and_in_total() -> None:
    record = add_session({"note": "kept"}, spent(1, 1, 0.5), BUDGETS)
    record = add_session(record, spent(2, 1, 0.25), BUDGETS)
    record = add_session(record, spent(3, 2, 1.0), BUDGETS)
    assert totals(record) == (1.75, 1.0)
    assert of_feature(record, 1) == 0.75
    assert record["note"] == "kept"
    assert record["cumulative"]["total_sessions"] == 3
    assert record["cumulative"]["total_tokens"] == {"input": 4350, "output": 960, "cached": 30}
    assert record["cumulative"]["by_feature"][0] == {"feature_id": 1, "cost_usd": 0.75, "sessions": 2}
    assert record["current_session"]["tokens"] == {"input": 1450, "output": 320, "cached": 10}
    assert record["budgets"] == {"per_session_usd": 10, "per_feature_usd": 25, "total_project_usd": 200}


def test_an_unknown_price_is_said_and_not_guessed_into_the_sum() -> None:
    record = add_session({}, spent(1, 1, None), BUDGETS)
    assert record["current_session"]["cost_usd"] is None
    assert record["cumulative"]["total_cost_usd"] == 0
    assert record["cumulative"]["sessions_of_unknown_price"] == 1


def test_the_next_session_may_spend_the_least_of_what_is_left() -> None:
    record = add_session({}, spent(1, 1, 24.0), BUDGETS)
    assert available(record, BUDGETS, 1) == 1.0
    assert available(record, BUDGETS, 2) == 10
    record = add_session(record, spent(2, 3, 172.0), BUDGETS)
    assert available(record, BUDGETS, 2) == 4.0
    assert available({}, Budgets(per_session=0, per_feature=1, total=1), 1) == 0


def test_a_damaged_record_counts_as_empty() -> None:
    assert totals({"cumulative": [], "current_session": "x"}) == (0.0, 0.0)
    assert add_session({"cumulative": {"by_feature": "x", "total_sessions": "y"}}, spent(1, 1, 1.0), BUDGETS)


def test_a_call_of_unknown_price_counts_against_the_budget_at_the_assumed_price() -> None:
    unknown = Spent(session=1, started="2026-01-01T00:00:00Z", feature_id=1, cost_usd=None, assumed_usd=4.0)
    record = add_session({}, unknown, BUDGETS)
    assert totals(record)[0] == 0
    assert of_feature(record, 1) == 4.0
    assert available(record, Budgets(per_session=10, per_feature=5, total=200), 1) == 1.0
