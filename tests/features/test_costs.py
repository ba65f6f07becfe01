"""Costs are counted once, kept exactly, and bound the next session (C27, UAH-133..136)."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from agent_harness.cli import app
from agent_harness.protocols.features import status
from agent_harness.protocols.features.costs import Budgets, Spent, add_session, available, of_feature
from agent_harness.protocols.features.layout import FeatureLayout
from agent_harness.protocols.features.records import CostRecord

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
    """UAH-133, UAH-134, UAH-135, UAH-136, UAH-415, UAH-416."""
    record = add_session(CostRecord({"note": "kept"}), spent(1, 1, 0.5), BUDGETS)
    record = add_session(record, spent(2, 1, 0.25), BUDGETS)
    record = add_session(record, spent(3, 2, 1.0), BUDGETS)
    assert (record.total_usd, record.last_session_usd) == (1.75, 1.0)
    assert of_feature(record, 1) == 0.75
    assert record.record["note"] == "kept"
    assert record.record["cumulative"]["total_sessions"] == 3
    assert record.record["cumulative"]["total_tokens"] == {"input": 4350, "output": 960, "cached": 30}
    assert record.record["cumulative"]["by_feature"][0] == {"feature_id": 1, "cost_usd": 0.75, "sessions": 2}
    assert record.record["cumulative"]["total_cost_usd"] == 1.75
    assert record.record["current_session"] == {
        "session_id": 3,
        "started": "2026-01-01T00:00:00Z",
        "tokens": {"input": 1450, "output": 320, "cached": 10},
        "cost_usd": 1.0,
    }
    assert record.record["budgets"] == {"per_session_usd": 10, "per_feature_usd": 25, "total_project_usd": 200}


def test_an_unknown_price_is_said_and_not_guessed_into_the_sum() -> None:
    record = add_session(CostRecord({}), spent(1, 1, None), BUDGETS)
    assert record.record["current_session"]["cost_usd"] is None
    assert record.record["cumulative"]["total_cost_usd"] == 0
    assert record.record["cumulative"]["sessions_of_unknown_price"] == 1


def test_the_next_session_may_spend_the_least_of_what_is_left() -> None:
    record = add_session(CostRecord({}), spent(1, 1, 24.0), BUDGETS)
    assert available(record, BUDGETS, 1) == 1.0
    assert available(record, BUDGETS, 2) == 10
    record = add_session(record, spent(2, 3, 172.0), BUDGETS)
    assert available(record, BUDGETS, 2) == 4.0
    assert available(CostRecord({}), Budgets(per_session=0, per_feature=1, total=1), 1) == 0


def test_a_damaged_record_counts_as_empty() -> None:
    damaged = CostRecord({"cumulative": [], "current_session": "x"})
    assert (damaged.total_usd, damaged.last_session_usd) == (0.0, 0.0)
    assert add_session(
        CostRecord({"cumulative": {"by_feature": "x", "total_sessions": "y"}}), spent(1, 1, 1.0), BUDGETS
    )


def test_a_call_of_unknown_price_counts_against_the_budget_at_the_assumed_price() -> None:
    unknown = Spent(session=1, started="2026-01-01T00:00:00Z", feature_id=1, cost_usd=None, assumed_usd=4.0)
    record = add_session(CostRecord({}), unknown, BUDGETS)
    assert record.total_usd == 0
    assert of_feature(record, 1) == 4.0
    assert available(record, Budgets(per_session=10, per_feature=5, total=200), 1) == 1.0
    assert available(record, Budgets(per_session=10, per_feature=25, total=6), 2) == 2.0


def test_what_was_written_to_a_cache_has_a_count_of_its_own() -> None:
    record = add_session(CostRecord({}), replace(spent(1, 1, 0.5), cache_write_tokens=7), BUDGETS)
    record = add_session(record, spent(2, 1, 0.5), BUDGETS)
    assert record.record["cumulative"]["total_tokens"] == {"input": 2900, "output": 640, "cached": 20, "cache_write": 7}


def test_the_rows_add_up_to_what_was_spent_also_where_no_session_is_on_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """F-STORY-COSTS: the planning of a project is no session of a feature, and is paid for all the same."""
    record = add_session(add_session(CostRecord({}), spent(0, None, 0.25), BUDGETS), spent(1, 1, 0.5), BUDGETS)
    status_of(tmp_path, record.record, 0)
    (tmp_path / ".harness.yaml").write_text("project:\n  name: calc\n")
    monkeypatch.chdir(tmp_path)
    for by in ("item", "agent", "model", "day"):
        assert app.main(["costs", "--by", by, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert [(row["sessions"], row["spent_usd"]) for row in found["rows"]] == [(2, 0.75)]
        assert (found["sessions"], found["spent_usd"]) == (2, 0.75)
    assert app.main(["costs", "--csv"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 2


def status_of(tmp_path: Path, costs: object, passing: int) -> tuple[dict[str, Any], str]:
    listed = [{"id": n, "description": "x", "test_file": "t.py", "passes": n <= passing} for n in (1, 2, 3)]
    (tmp_path / ".harness").mkdir()
    (tmp_path / ".harness/costs.yaml").write_text(json.dumps(costs))
    (tmp_path / "features.json").write_text(json.dumps({"project": "calc", "features": listed}))
    (tmp_path / ".harness/session_state.json").write_text(json.dumps({"last_session": 3}))
    found = status.read(FeatureLayout(str(tmp_path)))
    return found["costs"], "\n".join(row for row in status.lines(found) if "ost" in row and not row.startswith("cost "))


def test_status_tells_what_a_verified_feature_costs(tmp_path: Path) -> None:
    """UAH-421: all that was paid, for failed sessions too, over the features that are verified."""
    record = CostRecord({})
    for session, (feature, cost) in enumerate([(1, 0.5), (2, 0.25), (2, 0.75)], 1):
        record = add_session(record, spent(session, feature, cost), BUDGETS)
    found, text = status_of(tmp_path, record.record, passing=2)
    assert found["per_verified_usd"] == 0.75
    assert found["by_feature"] == {"1": 0.5, "2": 1.0}
    assert text == "Costs: $1.50 total, $0.75 last session\nCost per verified feature: $0.75 (2 verified features)"


def test_status_says_what_is_not_known(tmp_path: Path) -> None:
    """C58: an unknown cost is neither zero nor guessed."""
    record = add_session(CostRecord({}), spent(1, 1, 0.5), BUDGETS)
    record = add_session(record, replace(spent(2, 2, None), assumed_usd=0.3), BUDGETS)
    found, text = status_of(tmp_path, record.record, passing=1)
    assert (found["last_session_usd"], found["sessions_of_unknown_price"]) == (None, 1)
    assert text.splitlines() == [
        "Costs: $0.50 total, unknown last session",
        "Cost per verified feature: at least $0.50 (1 verified feature)",
        "Cost not reported: 1 session, counted as $0.30 against the budgets",
    ]


def test_status_takes_silence_for_no_price(tmp_path: Path) -> None:
    """An agent that tells nothing of what it used was not free."""
    silent = Spent(session=1, started="2026-01-01T00:00:00Z", feature_id=1)
    record = add_session(CostRecord({}), silent, BUDGETS)
    found, text = status_of(tmp_path, record.record, passing=1)
    assert (found["last_session_usd"], found["nothing_reported"]) == (None, True)
    assert text == "Costs: not reported by the agent"
    record = add_session(add_session(record, spent(2, 2, 0.5), BUDGETS), replace(silent, session=3), BUDGETS)
    (tmp_path / "later").mkdir()
    text = status_of(tmp_path / "later", record.record, passing=1)[1]
    assert text.splitlines()[0] == "Costs: $0.50 total, unknown last session"


@pytest.mark.parametrize("costs", [{}, {"cumulative": {"total_cost_usd": -1, "by_feature": [1]}}, {"cumulative": []}])
def test_status_on_a_damaged_record_counts_nothing(costs: object, tmp_path: Path) -> None:
    found, text = status_of(tmp_path, costs, passing=1)
    assert (found["total_usd"], found["by_feature"]) == (0.0, {})
    assert text == "Costs: $0.00 total, $0.00 last session"
