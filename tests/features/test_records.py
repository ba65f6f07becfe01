"""features.json as people and agents write it: every fault has one line that names the feature and the field."""

from typing import Any

import pytest

from agent_harness.protocols.features import records


def feature(feature_id: Any = 1, **fields: Any) -> dict[str, Any]:
    return {"id": feature_id, "description": "d", "test_file": "tests/test_a.py", "passes": False, **fields}


def test_a_valid_file_has_no_problems() -> None:
    assert records.problems({"features": [feature(1), feature(2, depends_on=[1]), feature(3, depends_on=None)]}) == []


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
    assert told in records.problems({"features": features})


def test_many_steps_are_flagged_and_not_refused() -> None:
    document = {"features": [feature(2, verification_steps=["s"] * 9)]}
    assert records.problems(document) == []
    assert records.flags(document, max_steps=7) == ["Feature #2 has 9 verification steps (max recommended: 7)."]


def test_percentages_are_floored_and_zero_of_zero_is_zero() -> None:
    assert records.percent(12, 47) == 25
    assert records.percent(0, 0) == 0


def test_test_files_with_node_ids_are_allowed() -> None:
    assert records.problems({"features": [feature(1, test_file="tests/test_a.py::TestX::test_y[a-b]")]}) == []
