"""Which feature comes next (UAH-452..456)."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_harness.protocols.features import selection
from agent_harness.protocols.features.records import FeatureList, SessionState


def feature(feature_id: int, **fields: Any) -> dict[str, Any]:
    return {"id": feature_id, "description": f"f{feature_id}", "test_file": "t.py", "passes": False, **fields}


def choose(features: list[dict[str, Any]], state: dict[str, Any] | None = None) -> selection.Choice:
    return selection.next_feature(FeatureList({"features": features}), SessionState(state or {}))


def pick(*features: dict[str, Any], state: dict[str, Any] | None = None) -> int | None:
    chosen = choose(list(features), state).feature
    return chosen.id if chosen else None


def test_the_lowest_id_whose_dependencies_pass() -> None:
    """UAH-452, UAH-453, UAH-454, UAH-455, UAH-456."""
    assert pick(feature(1, passes=True), feature(2, passes=True), feature(4), feature(3, depends_on=[1, 2])) == 3
    assert pick(feature(1, depends_on=[2]), feature(2)) == 2
    assert pick(feature(1, passes=True)) is None


def test_priority_comes_before_the_id() -> None:
    """UAH-106, UAH-454."""
    assert pick(feature(1), feature(2, priority=1), feature(3, priority=0)) == 3


def test_a_partial_feature_is_continued_before_any_selection() -> None:
    """UAH-462."""
    state = {"next_prompt": "continuation", "current_feature": 2}
    assert pick(feature(1), feature(2), state=state) == 2
    assert pick(feature(1), feature(2, passes=True), state=state) == 1


def test_skipped_and_awaiting_features_are_passed_over_and_block_their_dependents() -> None:
    """C13, C53."""
    features = [feature(1, skipped={"reason": "x"}), feature(2, awaiting_manual=True), feature(3, depends_on=[1])]
    choice = choose(features)
    assert choice.feature is None
    assert not choice.all_proven
    assert choice.waiting == (
        "Feature #1 (f1) was skipped: x",
        "Feature #2 (f2) needs a person's verification",
        "Feature #3 (f3) waits for #1",
    )


def test_all_proven_counts_skipped_features_out_but_not_an_empty_list() -> None:
    assert choose([feature(1, passes=True), feature(2, skipped={})]).all_proven
    assert not choose([]).all_proven


@given(st.lists(st.tuples(st.booleans(), st.lists(st.integers(0, 9), max_size=3)), max_size=10))
def test_whatever_is_chosen_is_open_and_ready(rows: list[tuple[bool, list[int]]]) -> None:
    """UAH-452, UAH-453."""
    features = [feature(n, passes=done, depends_on=needs) for n, (done, needs) in enumerate(rows)]
    chosen = choose(features).feature
    proven = {f["id"] for f in features if f["passes"]}
    eligible = [f["id"] for f in features if not f["passes"] and set(f["depends_on"]) <= proven]
    assert (chosen.id if chosen else None) == (min(eligible) if eligible else None)


def test_a_feature_that_was_skipped_after_a_regression_keeps_nobody_waiting() -> None:
    """UAH-402 C53."""
    skipped = {"reason": "x", "unblocks": True}
    assert pick(feature(1, skipped=skipped), feature(2, depends_on=[1])) == 2
    assert pick(feature(1, skipped=skipped | {"unblocks": "yes"}), feature(2, depends_on=[1])) is None


def test_what_a_session_broke_for_good_comes_first() -> None:
    """UAH-458 C10: before ids and priorities, not before an unfinished feature; junk in the state is nothing."""
    features = [feature(1, priority=0), feature(2), feature(3)]
    assert pick(*features, state={"fix_first": [3]}) == 3
    assert pick(*features, state={"fix_first": "3"}) == 1
    continued = {"fix_first": [3], "next_prompt": "continuation", "current_feature": 2}
    assert pick(*features, state=continued) == 2


def test_a_feature_whose_candidate_is_kept_waits_for_the_answer() -> None:
    """It is passed over, keeps its dependents waiting, and is not done; junk in the state is nothing."""
    features = [feature(1), feature(2), feature(3, depends_on=[1])]
    kept = {"kept_candidates": [{"type": "built_already", "feature_id": 1, "options": ["accept-built", "reject"]}]}
    assert pick(*features, state=kept) == 2
    for junk in ("kept", [{"type": "built_already", "feature_id": 1}], [7]):
        assert pick(*features, state={"kept_candidates": junk}) == 1
    choice = choose([features[0], features[2]], kept)
    assert choice.feature is None
    assert not choice.all_proven
    assert choice.waiting == (
        "Feature #1 (f1) waits for your answer: harness resume",
        "Feature #3 (f3) waits for #1",
    )
    for junk in ("1", {"feature_id": 1}, [1, None]):
        assert pick(*features, state={"kept_candidates": junk}) == 1
