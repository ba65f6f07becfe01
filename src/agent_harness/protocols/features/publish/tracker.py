"""What the mirror asks of a tracker of issues: five calls."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, kw_only=True)
class Issue:
    """One issue as the tracker has it."""

    number: int
    is_open: bool
    marker: str  # the last line of its text
    trusted: bool = True  # written by somebody who may write to the repository, or by a bot


class Tracker(Protocol):
    """Where the issues are; every call raises ``HarnessError`` when it cannot be done."""

    def issues(self) -> list[Issue]:
        """Every issue that carries the label of the harness, open or closed."""
        ...

    def issue(self, number: int) -> Issue | None:
        """One issue; ``None`` when it is gone."""
        ...

    def create(self, title: str, body: str) -> Issue:
        """A new open issue; the one that an unanswered try has made already, where there is one."""
        ...

    def set_open(self, number: int, *, is_open: bool) -> None:
        """Closes or reopens an issue."""
        ...

    def comment(self, number: int, text: str) -> None:
        """Adds a comment."""
        ...
