"""Which files a session has changed so far, with a stamp for each, for the monitor that looks for progress.

Source: ``features.md`` C43.
"""

import os
from pathlib import Path

from agent_harness.kernel.git import Git
from agent_harness.supervision.monitors import ProjectFacts

__all__ = ["changed_in_folder", "changed_in_repository"]

MOST_FILES = 20_000  # of a folder without git; beyond it nothing is said to have changed or not
_DEPENDENCIES = frozenset({".git", ".hg", ".svn", ".venv", "venv", "node_modules", "__pycache__", ".tox", "target"})


def changed_in_repository(git: Git, root: Path, base: str | None = None) -> ProjectFacts:
    """Every path that differs from the commit ``base`` or is not committed; its stamp moves when its content may have.

    Without ``base``, every path that is not committed.
    """
    paths = {change.path for change in git.status()}
    head = git.head() if base else None
    if base and head and head != base:
        paths |= {path for _, path in git.changed_paths(base, head)}
    return ProjectFacts({path: _stamp(root / path) for path in sorted(paths)})


def changed_in_folder(root: Path) -> ProjectFacts:
    """Every file below a folder without git, as above; installed dependencies and caches aside."""
    found: dict[str, object] = {}
    for folder, names, files in os.walk(root):
        names[:] = sorted(set(names) - _DEPENDENCIES)
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
