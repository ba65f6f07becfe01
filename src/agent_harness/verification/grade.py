"""The word for a check that has passed, with the reason in one clause.

    proven      it failed without the work, passes with it, and notices when its expected values are changed
    checked     it passes on a change, and nothing more can be said
    unchanged   nothing was changed, and it passed before: this agent has not done it

The words are the same for features, tasks and long tasks, in every view and in the ledger. A person who sets
``trust: fast`` takes over the question of what the check notices; the reason says so.
"""

from dataclasses import dataclass

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.verification.verdict import Verdict

__all__ = ["ASKS_IF_DONE", "CHECKED", "PROVEN", "UNCHANGED", "Grade", "grade_of", "grade_of_verdict"]

PROVEN, CHECKED, UNCHANGED = "proven", "checked", "unchanged"
ASKS_IF_DONE = "the check already passes and nothing was changed: is it done?"
"""What a person is asked about a check of unchanged work."""
RED, GREEN = "red", "green"


@dataclass(frozen=True, slots=True)
class Grade:
    """A word for a passed check, and the clause that says what it rests on, or why it is not more."""

    word: str
    basis: str

    @property
    def is_proven(self) -> bool:
        return self.word == PROVEN


def grade_of_verdict(verdict: "Verdict", *, trusted: bool, needs_change: bool = True) -> Grade:
    """Return the word for an accepted verdict; ``needs_change``: a check of unchanged work has its own word."""
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
    """Return the word for a check that passed.

    ``red_before`` tells how the check ended on the code before (``red``, ``green``, or anything else if it did not
    run). ``noticed`` tells whether it failed with changed expectations; ``None`` if nobody asked, for the reason
    ``not_asked``. ``trusted`` is true under ``trust: fast``. ``replayed`` tells how many calls were made again outside
    of the tests.
    """
    if red_before == GREEN:
        same = Grade(UNCHANGED, "nothing was changed, and the check passed before")
        return same if unchanged else Grade(CHECKED, "it passed before the work as well")
    if red_before != RED:
        return Grade(CHECKED, "it did not run on the code before")
    if noticed:
        basis = f"failed before the work, and as it should with {noticed_of or 'changed values'}"
        return Grade(PROVEN, f"{basis}; {replayed}" if replayed else basis)
    if noticed is None and trusted:
        return Grade(PROVEN, "failed before the work; trust: fast, so nobody asked what it notices")
    unnoticed = "it does not notice changed values" if noticed is False else "by exit status alone"
    return Grade(CHECKED, f"it failed before the work; {not_asked or unnoticed}")
