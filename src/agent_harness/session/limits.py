"""Limits of one session, enforced by five monitors: time, context window, progress, repeated errors and cost.

The progress monitor gets the paths of the changed files, each with a stamp. The stamp changes when the file changes.
The default limits are those in the settings of a feature project (docs/configuration.md). Source: ``features.md``
sections K, N, Q. (C43)"""

import os
from dataclasses import dataclass, field
from pathlib import Path

from agent_harness.kernel.git import Git
from agent_harness.supervision.monitors import (
    Budget,
    BudgetLimit,
    ContextWindow,
    ProjectFacts,
    WallClock,
    Watch,
)
from agent_harness.supervision.stalls import RepeatedError, Stall

__all__ = ["DEPENDENCIES", "MOST_FILES", "SessionLimits", "changed_in_folder", "changed_in_repository", "watch"]

WINDOW_TOKENS = 200_000  # of the model's context, by default


@dataclass(frozen=True, kw_only=True)
class SessionLimits:
    timeout_seconds: float
    warning_seconds: float | None = None  # by default at 80 % of the time
    budgets: tuple[BudgetLimit, ...]
    model: str | None = None  # whose prices count if an event names none
    context: ContextWindow = field(default_factory=lambda: ContextWindow(window_tokens=WINDOW_TOKENS))
    stall: Stall = field(default_factory=lambda: Stall(window_tokens=WINDOW_TOKENS))
    repeated_error: RepeatedError = field(default_factory=RepeatedError)


def watch(limits: SessionLimits) -> Watch:
    """Return the monitors that enforce the limits of a session."""
    warning = 0.8 * limits.timeout_seconds if limits.warning_seconds is None else limits.warning_seconds
    return Watch(
        (
            WallClock(timeout_seconds=limits.timeout_seconds, warning_seconds=warning),
            limits.context,
            limits.stall,
            limits.repeated_error,
            Budget(limits=limits.budgets, model=limits.model),
        )
    )


# -- the files that it has changed -------------------------------------------------------------------------------------


MOST_FILES = 20_000  # of a folder without git; beyond it nothing is said to have changed or not
DEPENDENCIES = frozenset({".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".tox", "target"})
"""Names of folders whose files do not count as work: git history, installed packages, build results."""


def changed_in_repository(git: Git, root: Path, base: str | None = None) -> ProjectFacts:
    """Return the files with uncommitted changes or with changes since the commit ``base``."""
    paths = {change.path for change in git.status()}
    head = git.head() if base else None
    if base and head and head != base:
        paths |= {path for _, path in git.changed_paths(base, head)}
    return ProjectFacts({path: _stamp(root / path) for path in sorted(paths)})


def changed_in_folder(root: Path) -> ProjectFacts:
    """Return the files in a folder without git, except dependencies and caches."""
    found: dict[str, object] = {}
    for folder, names, files in os.walk(root):
        names[:] = sorted(set(names) - DEPENDENCIES)
        for name in files:
            if len(found) == MOST_FILES:
                return ProjectFacts(found)
            path = Path(folder, name)
            found[str(path)] = _stamp(path)
    return ProjectFacts(found)


def _stamp(path: Path) -> object:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return (found.st_mtime_ns, found.st_size, found.st_ino)
