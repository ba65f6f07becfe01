"""The checks before a session, one by one; the git state and the environment have files of their own."""

from pathlib import Path

import pytest

from agent_harness.errors import LimitReached, PreflightFailed
from agent_harness.protocols.features import preflight
from agent_harness.protocols.features.costs import Budgets
from agent_harness.protocols.features.layout import FeatureLayout
from agent_harness.protocols.features.records import CostRecord

FILES = (".harness.yaml", "features.json", "claude-progress.txt", "init.sh", "reset.sh")


@pytest.fixture
def layout(tmp_path: Path) -> FeatureLayout:
    for name in FILES:
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o755)
    return FeatureLayout(tmp_path)


def test_the_folder_is_the_project_and_can_be_written(layout: FeatureLayout, tmp_path: Path) -> None:
    """UAH-221, UAH-267, UAH-278."""
    assert preflight.working_directory(layout).name == "working_directory"
    with pytest.raises(PreflightFailed) as caught:
        preflight.working_directory(FeatureLayout(tmp_path / "gone"))
    assert caught.value.data["check"] == "working_directory"
    assert caught.value.exit_code == 4


@pytest.mark.parametrize("name", FILES)
def test_every_file_of_the_harness_is_there(layout: FeatureLayout, tmp_path: Path, name: str) -> None:
    """UAH-222, UAH-268, UAH-278: the first thing that is missing is named."""
    scripts = ["./init.sh", "./reset.sh"]
    assert preflight.harness_files(layout, scripts).name == "harness_files"
    (tmp_path / name).unlink()
    with pytest.raises(PreflightFailed, match=name) as caught:
        preflight.harness_files(layout, scripts)
    assert caught.value.data["check"] == "harness_files"


@pytest.mark.parametrize("name", ["init.sh", "reset.sh"])
def test_both_scripts_can_be_run(layout: FeatureLayout, tmp_path: Path, name: str) -> None:
    """UAH-081, UAH-082, UAH-268."""
    (tmp_path / name).chmod(0o644)
    with pytest.raises(PreflightFailed, match=f"{name} is not executable"):
        preflight.harness_files(layout, ["./init.sh", "./reset.sh"])


def test_money_is_left_and_both_amounts_are_told() -> None:
    """UAH-226, UAH-276, UAH-419, C27."""
    budgets = Budgets(per_session=10.0, per_feature=25.0, total=200.0)
    found = preflight.budget(CostRecord({"cumulative": {"total_cost_usd": 195.0}}), budgets, 1)
    assert found.note == "$5.00 for this session, $5.00 left of the project's $200.00"


@pytest.mark.parametrize(
    ("spent", "said"),
    [
        ({"total_cost_usd": 200.0}, "a session: $200.00 of $200.00"),
        ({"total_cost_usd": 150.0, "assumed_cost_usd": 50.0}, "a session: $200.00 of $200.00"),
        ({"by_feature": [{"feature_id": 1, "cost_usd": 25.5}]}, "Feature #1: $25.50 of $25.00"),
    ],
)
def test_the_budget_that_is_used_up_is_named(spent: dict[str, object], said: str) -> None:
    """UAH-276, UAH-417, C27, C58."""
    with pytest.raises(LimitReached) as refused:
        preflight.budget(CostRecord({"cumulative": spent}), Budgets(per_session=10.0, per_feature=25.0, total=200.0), 1)
    assert said in refused.value.message
