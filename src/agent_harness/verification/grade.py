"""Grades of a passed check, each with its reason. Features, tasks and long tasks use the same grades. ``proven``: the
check failed without the work, passes with the work, and fails when its expected values are changed. ``checked``: the
check passes with a change, and nothing more is known. ``unchanged``: nothing was changed, and the check passed before.
With ``trust: fast``, the check does not run with changed expected values, and the reason says so."""

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.verification.verdict import Verdict

__all__ = ["ASKS_IF_DONE", "CHECKED", "PROVEN", "UNCHANGED", "Grade", "grade_of", "grade_of_verdict"]

PROVEN, CHECKED, UNCHANGED = "proven", "checked", "unchanged"
ASKS_IF_DONE = "the check already passes and nothing was changed: was the item already done?"
RED, GREEN = "red", "green"


@dataclass(frozen=True, slots=True)
class Grade:
    """Grade of a passed check. ``basis`` gives the reason for the grade."""

    word: str
    basis: str

    @property
    def is_proven(self) -> bool:
        return self.word == PROVEN


def grade_of_verdict(verdict: "Verdict", *, trusted: bool, needs_change: bool = True) -> Grade:
    return grade_of(
        red_before=verdict.red_before,
        unchanged=verdict.unchanged and needs_change,
        noticed=verdict.noticed,
        noticed_of=verdict.noticed_of,
        not_asked=verdict.not_asked,
        trusted=trusted,
        replayed=verdict.replayed.share if verdict.replayed and verdict.replayed.calls else "",
    )


def grade_of(
    *,
    red_before: str,
    unchanged: bool = False,
    noticed: bool | None = None,
    noticed_of: str = "",
    not_asked: str = "",
    trusted: bool = False,
    replayed: str = "",
) -> Grade:
    """Return the grade of a passed check. ``noticed`` is None if no changed values were tried."""
    if red_before == GREEN:
        same = Grade(UNCHANGED, "nothing was changed, and the check passed before")
        return same if unchanged else Grade(CHECKED, "the check already passed before the work")
    if red_before != RED:
        return Grade(CHECKED, "the check did not run on the base commit")
    if noticed:
        basis = f"failed before the work, and failed as expected with {noticed_of or 'changed values'}"
        return Grade(PROVEN, f"{basis}; {replayed}" if replayed else basis)
    if noticed is None and trusted:
        return Grade(PROVEN, "failed before the work; trust: fast, so it was not run with changed values")
    unnoticed = "it does not notice changed values" if noticed is False else "by exit status alone"
    return Grade(CHECKED, f"it failed before the work; {not_asked or unnoticed}")
