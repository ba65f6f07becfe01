"""The orientation summary: what it says, and that it never grows past its limit (UAH-244..251)."""

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent_harness.protocols.features.prompts import (
    TOKEN_LIMIT,
    OrientationFacts,
    summary,
    tokens,
)
from agent_harness.protocols.features.records import Feature

FEATURE: dict[str, Any] = {
    "id": 13,
    "description": "User can upload a picture",
    "test_file": "tests/e2e/test_avatar.py",
    "depends_on": [1, 12],
    "verification_steps": ["Open the page", "Upload"],
}
FACTS = OrientationFacts(
    session=8,
    project="my-api",
    passing=12,
    total=47,
    health="All baseline tests passing, no lint errors",
    feature=Feature(FEATURE),
    dependencies=((1, True), (12, True)),
    last_session=7,
    last={"completed": "Feature #12 (User can update the profile)", "commits": ["abc1234567890"], "status": "complete"},
    key_files=(("src/api.py", 7), ("src/old.py", None)),
    decisions=((7, "Used S3"), (5, "JWT")),
)


def test_it_says_all_that_the_agent_needs() -> None:
    """UAH-008, UAH-244, UAH-245, UAH-246, UAH-247, UAH-248, UAH-542."""
    text = summary(FACTS)
    for part in (
        "**Session:** 8",
        "**Project:** my-api",
        "**Progress:** 12/47 features passing (25%)",
        "**Health:** All baseline tests passing, no lint errors",
        "## Last Session (Session 7)",
        "- Commits: 1 (abc1234567)",
        "- Status: Complete",
        "**Feature #13:** User can upload a picture",
        "**Test file:** tests/e2e/test_avatar.py",
        "**Verification steps:**\n- Open the page\n- Upload",
        "Features #1, #12 (all passing ✓)",
        "- src/api.py (last modified Session 7)",
        "- Session 7: Used S3",
    ):
        assert part in text


def test_the_first_session_and_an_empty_project_need_no_special_luck() -> None:
    """UAH-251, C49."""
    facts = OrientationFacts(
        session=1, project="p", passing=0, total=0, health="", feature=None, waiting=("Feature #2 waits",)
    )
    text = summary(facts)
    assert "0/0 features passing (0%)" in text
    assert "none yet" in text
    assert "- Feature #2 waits" in text


def test_partial_work_is_told_with_what_is_done_and_left() -> None:
    """UAH-240, UAH-317, UAH-319, UAH-543."""
    partial = {"session": 7, "reason": "context_limit", "done": ["backend"], "left": ["page"], "wip_files": ["a.py"]}
    text = summary(replace(FACTS, partial=partial))
    assert "## Continuing Partial Feature" in text
    assert "PARTIAL (context limit in Session 7)" in text
    assert "- backend" in text
    assert "- page" in text
    assert "DO NOT restart" in text


def test_a_rejection_is_told() -> None:
    assert "Rejected because: Regression: test_add fails" in summary(
        replace(FACTS, failure="Regression:\n test_add fails")
    )


_texts = st.text(max_size=4000)


@given(
    health=_texts,
    failure=_texts,
    description=_texts,
    names=st.lists(_texts, max_size=60),
    decisions=st.lists(st.tuples(st.integers(0, 999), _texts), max_size=40),
)
def test_it_stays_under_its_limit_whatever_is_in_the_files(
    health: str, failure: str, description: str, names: list[str], decisions: list[tuple[int, str]]
) -> None:
    """UAH-249, UAH-544, C49."""
    facts = replace(
        FACTS,
        health=health,
        failure=failure,
        feature=Feature({**FEATURE, "description": description, "verification_steps": names}),
        decisions=tuple(decisions),
        key_files=tuple((n, 1) for n in names),
        partial={"session": 1, "reason": "x", "done": names, "left": names, "wip_files": names},
    )
    assert tokens(summary(facts)) < TOKEN_LIMIT
