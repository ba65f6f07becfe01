"""The table of what to do with an interrupted task: every combination has one row."""

from itertools import product

import pytest

from agent_harness.protocols.tasklist.recovery import ROWS, row_for


@pytest.mark.parametrize(
    ("uncommitted", "commits", "checkpoints", "step", "reason"),
    [
        (False, False, False, "fail", "No progress detected"),
        (False, False, True, "resume", "checkpoints are recorded"),
        (False, True, False, "validate", "has commits"),
        (False, True, True, "validate", "has commits"),
        (True, False, False, "validate", "has uncommitted changes"),
        (True, False, True, "validate", "has uncommitted changes"),
        (True, True, False, "validate", "has commits and uncommitted changes"),
        (True, True, True, "validate", "has commits and uncommitted changes"),
    ],
)
def test_a_row(uncommitted: bool, commits: bool, checkpoints: bool, step: str, reason: str) -> None:
    row = row_for(uncommitted=uncommitted, commits=commits, checkpoints=checkpoints)
    assert row.step == step
    assert reason in row.reason


def test_no_two_rows_fit_one_case() -> None:
    for uncommitted, commits, checkpoints in product((False, True), repeat=3):
        fitting = [
            row
            for row in ROWS
            if (row.uncommitted, row.commits) == (uncommitted, commits) and row.checkpoints in (None, checkpoints)
        ]
        assert len(fitting) == 1
