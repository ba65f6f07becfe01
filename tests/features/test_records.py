"""features.json as people and agents write it: every fault has one line that names the feature and the field."""

from typing import Any

import pytest

from agent_harness.protocols.features import records
from agent_harness.protocols.features.records import FeatureList


def feature(feature_id: Any = 1, **fields: Any) -> dict[str, Any]:
    return {"id": feature_id, "description": "d", "test_file": "tests/test_a.py", "passes": False, **fields}


def test_a_valid_file_has_no_problems() -> None:
    """UAH-096, UAH-098."""
    assert (
        records.problems(
            FeatureList({"features": [feature(1), feature(2, depends_on=[1]), feature(3, depends_on=None)]})
        )
        == []
    )


@pytest.mark.parametrize(
    ("features", "told"),
    [
        ("x", "features.json: 'features' is not a list"),
        ([1], "features.json: entry 0 of 'features' is not an object"),
        ([feature("1")], "Feature '1': 'id' is not a whole number"),
        ([feature(True)], "Feature #True: 'id' is not a whole number"),
        ([feature(1), feature(1)], "Feature #1: the id is used twice"),
        ([feature(1, description="  ")], "Feature #1: 'description' is missing"),
        ([feature(1, test_file=None)], "Feature #1: 'test_file' is missing; every feature needs one"),
        ([feature(1, test_file="../x.py")], "Feature #1: 'test_file' '../x.py' is not a path inside the project"),
        ([feature(1, test_file="/etc/x.py")], "Feature #1: 'test_file' '/etc/x.py' is not a path inside the project"),
        ([feature(1, test_file="-x")], "Feature #1: 'test_file' '-x' is not a path inside the project"),
        ([feature(1, passes="yes")], "Feature #1: 'passes' is neither true nor false"),
        ([feature(1, depends_on="2")], "Feature #1: 'depends_on' is not a list of feature ids"),
        ([feature(1, depends_on=[99])], "Feature 1 depends on non-existent Feature 99"),
        (
            [feature(20, depends_on=[21]), feature(21, depends_on=[20])],
            "Dependency cycle detected: 20 → 21 → 20",
        ),
        ([feature(1, depends_on=[1])], "Dependency cycle detected: 1 → 1"),
    ],
)
def test_every_fault_is_told(features: Any, told: str) -> None:
    """UAH-097, UAH-459, UAH-460, UAH-461, UAH-551."""
    assert told in records.problems(FeatureList({"features": features}))


def test_many_steps_are_flagged_and_not_refused() -> None:
    """UAH-102, UAH-113, UAH-261, UAH-552."""
    document = {"features": [feature(2, verification_steps=["s"] * 9)]}
    assert records.problems(FeatureList(document)) == []
    assert list(records.flags(FeatureList(document).features, max_steps=7)) == [
        "Feature #2 has 9 verification steps (max recommended: 7)."
    ]


@pytest.mark.parametrize(
    ("size", "steps", "told"),
    [
        ("small", 3, None),
        ("small", 4, "Feature #2 is called small and has 4 verification steps (small: at most 3)."),
        ("medium", 5, None),
        ("medium", 6, "Feature #2 is called medium and has 6 verification steps (medium: at most 5)."),
        ("large", 7, None),
        ("large", 8, "Feature #2 has 8 verification steps (max recommended: 7)."),
        ("xlarge", 1, "Feature #2 has the size xlarge. Split the feature."),
        ("huge", 7, None),
        (None, 7, None),
        (["small"], 7, None),
    ],
)
def test_an_estimate_only_ever_warns(size: Any, steps: int, told: str | None) -> None:
    """UAH-099, UAH-100, UAH-101, C42."""
    document = {"features": [feature(2, verification_steps=["s"] * steps, size_estimate=size)]}
    assert records.problems(FeatureList(document)) == []
    assert list(records.flags(FeatureList(document).features, max_steps=7)) == ([told] if told else [])


def test_percentages_are_floored_and_zero_of_zero_is_zero() -> None:
    """UAH-054, C49."""
    assert records.percent(12, 47) == 25
    assert records.percent(0, 0) == 0


def test_test_files_with_node_ids_are_allowed() -> None:
    """C22."""
    assert (
        records.problems(FeatureList({"features": [feature(1, test_file="tests/test_a.py::TestX::test_y[a-b]")]})) == []
    )


def test_a_state_keeps_what_it_does_not_know_and_where_it_stood() -> None:
    """C56: a newer version's members survive every write."""
    stored = {"status": "failed", "of_a_later_version": {"deep": [1]}, "last_session": 3}
    now = records.SessionState(stored).but(last_session=4)
    assert now.record == {**records.NEW_STATE, **stored, "last_session": 4}
    assert list(now.record) == [*records.NEW_STATE, "of_a_later_version"]
    with pytest.raises(TypeError, match="stuck_counts"):
        now.but(stuck_counts=1)


@pytest.mark.parametrize("odd", ["x", 7, [1], {"a": 1}, None, True])
def test_a_member_of_another_type_is_read_as_if_it_were_not_there(odd: Any) -> None:
    state = records.SessionState(dict.fromkeys(records.NEW_STATE, odd))
    assert isinstance(state.stuck_count, int)
    assert isinstance(state.failures, dict)
    assert state.question is None or state.question.record == odd
    assert all(isinstance(each, str) for each in state.red_tests or ())
    baseline = records.Baseline(dict.fromkeys(records.NEW_BASELINE, odd))
    assert all(isinstance(each, str) for each in baseline.passing)
    assert records.CostRecord({"cumulative": odd, "current_session": odd}).total_usd == 0
    found = records.Feature(dict.fromkeys(("id", "passes", "depends_on", "skipped", "awaiting_manual"), odd))
    assert (found.passes, found.skipped) == (odd is True, isinstance(odd, dict))
