"""Size of a merge batch, and search for the change that makes the batch fail. The functions are pure.

The checks first run on a whole batch. If checks fail, only these checks run on prefixes of the batch, by bisection. The
last member of the smallest failing prefix is the failing change. All checks then run on the prefix before this change,
and this prefix is merged. For a failing batch of k members, at most ``2 + ceil(log2 k)`` runs are needed. If the
machine breaks a run, no member is blamed, and the run is repeated once. (SC-34, SC-35)
"""

from dataclasses import dataclass, replace

from agent_harness.parallel.items import BROKEN, GREEN, RED


@dataclass(frozen=True, kw_only=True)
class Trial:
    """One run of checks on the commit with the first ``prefix`` members of a batch."""

    prefix: int
    # the names of the checks; empty: all checks
    only: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Search:
    size: int
    low: int = 0  # the largest prefix on which the checks that failed pass
    high: int = 0  # the smallest known one on which they fail; 0: none
    failing: tuple[str, ...] = ()
    green: int = 0  # the prefix that was verified whole and may land
    broken: int = 0  # runs in a row that came to nothing
    contradicts: bool = False  # the checks fail now here, now there

    @property
    def failing_change(self) -> int | None:
        """Position of the batch member that makes the checks fail, counted from 1, or None if unknown."""
        return self.high if self.high and self.high == self.low + 1 and not self.contradicts else None

    def next_trial(self) -> Trial | None:
        """Return the next run of checks, or None if the search is complete."""
        if self.contradicts or self.broken > 1 or self.green:
            return None
        if not self.high:
            return Trial(prefix=self.size)
        if self.failing_change is None:
            return Trial(prefix=(self.low + self.high) // 2, only=self.failing)
        return Trial(prefix=self.low) if self.low else None

    def after(self, trial: Trial, result: str, failing: tuple[str, ...]) -> "Search":
        """Return the search, updated with the result and the failed checks of ``trial``."""
        if result == BROKEN:
            return replace(self, broken=self.broken + 1)
        if result == GREEN:
            if not trial.only:
                return replace(self, green=trial.prefix, broken=0)
            return replace(self, low=max(self.low, trial.prefix), broken=0)
        if trial.only:
            return replace(self, high=trial.prefix, failing=failing or self.failing, broken=0)
        if self.high:  # a prefix on which the known checks pass is red by others
            return replace(self, contradicts=True)
        return replace(self, high=trial.prefix, failing=failing, broken=0)


def next_size(size: int, most: int, result: str) -> int:
    """Return the maximum size of the next batch, given the result of the last batch."""
    if result == RED:
        return max(1, size // 2)
    return min(most, size + 1) if result == GREEN else size
