"""What to do with a task that an interrupted session left in progress: one table, by what the work tree shows.

Source: ``tasklist.md`` 12.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["ROWS", "RecoveryRow", "row_for"]


class RecoveryRow:
    """One row: what was found (``None``: either), the step that is taken, and why."""

    __slots__ = ("checkpoints", "commits", "reason", "step", "uncommitted")

    def __init__(self, uncommitted: bool, commits: bool, checkpoints: bool | None, step: str, reason: str) -> None:
        self.uncommitted = uncommitted
        self.commits = commits
        self.checkpoints = checkpoints
        self.step = step  # fail, resume, validate
        self.reason = reason


ROWS: Sequence[RecoveryRow] = (
    RecoveryRow(False, False, False, "fail", "No progress detected"),
    RecoveryRow(
        False, False, True, "resume", "checkpoints are claimed and the files show no change: the agent must compare"
    ),
    RecoveryRow(False, True, None, "validate", "the task has commits"),
    RecoveryRow(True, False, None, "validate", "the task has uncommitted changes"),
    RecoveryRow(True, True, None, "validate", "the task has commits and uncommitted changes"),
)
"""``validate``: a pass completes the task, with what is uncommitted in a commit; anything else rolls back and fails it.

``fail``: failed as SESSION_TIMEOUT. ``resume``: only the agent can judge; it decides ``resume`` or ``fail``.
"""


def row_for(*, uncommitted: bool, commits: bool, checkpoints: bool) -> RecoveryRow:
    """The row of the table that fits."""
    return next(
        row
        for row in ROWS
        if (row.uncommitted, row.commits) == (uncommitted, commits) and row.checkpoints in (None, checkpoints)
    )
