"""The word for a check that passed: one row of the table each."""

import pytest

from agent_harness.verification.grade import CHECKED, PROVEN, UNCHANGED, grade_of


@pytest.mark.parametrize(
    ("facts", "word", "basis"),
    [
        (
            {"red_before": "red", "noticed": True, "noticed_of": "3 of 3 expected values changed"},
            PROVEN,
            "failed before the work, and failed as expected with 3 of 3 expected values changed",
        ),
        (
            {"red_before": "red", "noticed": True, "replayed": "0 of 6 calls were replayed"},
            PROVEN,
            "failed as expected with changed values; 0 of 6 calls were replayed",
        ),
        ({"red_before": "red", "noticed": False}, CHECKED, "it failed before the work; it does not notice"),
        ({"red_before": "red"}, CHECKED, "by exit status alone"),
        ({"red_before": "red", "not_asked": "the time was out"}, CHECKED, "the time was out"),
        ({"red_before": "red", "trusted": True}, PROVEN, "trust: fast"),
        ({"red_before": "red", "noticed": False, "trusted": True}, CHECKED, "does not notice"),
        ({"red_before": "green"}, CHECKED, "the check already passed before the work"),
        (
            {"red_before": "green", "noticed": True, "trusted": True},
            CHECKED,
            "the check already passed before the work",
        ),
        ({"red_before": "green", "unchanged": True}, UNCHANGED, "nothing was changed, and the check passed before"),
        ({"red_before": "not_run", "unchanged": True, "noticed": True}, CHECKED, "did not run on the base commit"),
    ],
)
def test_the_word_and_its_reason(facts: dict[str, object], word: str, basis: str) -> None:
    found = grade_of(**facts)  # type: ignore[arg-type]
    assert found.word == word
    assert basis in found.basis
