"""Git calls that are safe in any repository: the repository can neither run code nor hide a change from the harness."""

from agent_harness.kernel.git.client import Git
from agent_harness.kernel.git.isolated import INSTALL_GIT, OLDEST_GIT, GitFailed, end_transfers
from agent_harness.kernel.git.locate import DETACHED, Commit, Head, PathChange, Pushed, Upstream

__all__ = [
    "DETACHED",
    "INSTALL_GIT",
    "OLDEST_GIT",
    "Commit",
    "Git",
    "GitFailed",
    "Head",
    "PathChange",
    "Pushed",
    "Upstream",
    "end_transfers",
]
