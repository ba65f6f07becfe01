"""features.json before and after an agent: claims, and everything it may not touch (C21)."""

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.protocols.features.records import FeatureList
from agent_harness.protocols.features.verdict import proven

BEFORE: dict[str, Any] = {
    "project": "calc",
    "last_updated": "2026-01-01T00:00:00Z",
    "instructions": "as told",
    "features": [
        {"id": 1, "description": "add", "test_file": "tests/test_add.py", "passes": True, "extra": {"deep": [1]}},
        {"id": 2, "description": "sub", "test_file": "tests/test_sub.py", "depends_on": [1], "passes": False},
        {"id": 3, "description": "mul", "test_file": "tests/test_mul.py", "passes": False},
    ],
}


def compare(before: dict[str, Any], now: dict[str, Any] | None) -> proven.ClaimedChanges:
    return proven.compare_claims(FeatureList(before), None if now is None else FeatureList(now))


def after() -> dict[str, Any]:
    return copy.deepcopy(BEFORE)


def test_an_untouched_file_claims_nothing() -> None:
    """UAH-303."""
    assert compare(BEFORE, after()) == proven.ClaimedChanges()


def test_one_flip_is_one_claim() -> None:
    """UAH-112, UAH-301, UAH-550."""
    now = after()
    now["features"][1]["passes"] = True
    now["last_updated"] = "2026-02-02T00:00:00Z"
    assert compare(BEFORE, now) == proven.ClaimedChanges(claims=(2,))


def test_several_flips_are_several_claims() -> None:
    """UAH-302, UAH-535."""
    now = after()
    now["features"][1]["passes"] = now["features"][2]["passes"] = True
    assert compare(BEFORE, now).claims == (2, 3)


def test_a_truthy_word_is_no_claim_and_is_a_violation() -> None:
    now = after()
    now["features"][1]["passes"] = "true"
    found = compare(BEFORE, now)
    assert not found.claims
    assert found.violations == ("Feature #2: 'passes' was changed",)


@pytest.mark.parametrize(
    ("edit", "told"),
    [
        (lambda d: d["features"][1].update(description="easier"), "Feature #2: 'description' was changed"),
        (lambda d: d["features"].pop(2), "Feature #3: removed"),
        (lambda d: d["features"].append({"id": 9, "passes": False}), "Feature #9: added"),
        (lambda d: d["features"][1].update(depends_on=[]), "Feature #2: 'depends_on' was changed"),
        (lambda d: d["features"][1].pop("depends_on"), "Feature #2: 'depends_on' was changed"),
        (lambda d: d["features"][1].update(test_file="tests/other.py"), "Feature #2: 'test_file' was changed"),
        (lambda d: d["features"][0].update(passes=False), "Feature #1: 'passes' was changed"),
        (lambda d: d["features"][0]["extra"]["deep"].append(2), "Feature #1: 'extra' was changed"),
        (lambda d: d["features"][2].update(skipped={"reason": "x"}), "Feature #3: 'skipped' was changed"),
        (lambda d: d["features"].reverse(), "features.json: the order of the features was changed"),
        (lambda d: d.update(instructions="do as you like"), "features.json: 'instructions' was changed"),
        (lambda d: d.update(new="member"), "features.json: 'new' was changed"),
        (lambda d: d["features"].append("text"), "features.json: an entry is not an object, has no id, or repeats one"),
        (
            lambda d: d["features"].append(dict(d["features"][0])),
            "features.json: an entry is not an object, has no id, or repeats one",
        ),
    ],
)
def test_every_other_edit_is_a_violation_that_names_feature_and_field(edit: Any, told: str) -> None:
    """UAH-110, UAH-111, UAH-548, UAH-549."""
    now = after()
    edit(now)
    assert told in compare(BEFORE, now).violations


def test_a_file_that_does_not_parse_is_a_violation() -> None:
    assert compare(BEFORE, None).violations


_json = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


@given(_json)
def test_whatever_an_agent_writes_is_answered_and_never_believed(value: Any) -> None:
    now = after()
    now["features"][2] = value
    found = compare(BEFORE, now)
    if json.dumps(value, sort_keys=True) == json.dumps(BEFORE["features"][2], sort_keys=True):
        assert not found.violations
    else:
        assert found.violations or found.claims == (3,)
