"""Target branch of a run, and files of the user that prevent a move of this branch. (SC-36)"""

import time
from collections.abc import Callable

from agent_harness.errors import UnsafeTree
from agent_harness.kernel import clock
from agent_harness.kernel.git import Git
from agent_harness.parallel.merge_queue import objects

AGAIN_SECONDS = 60.0


class TargetBranch:
    """Target branch of a run. Only one process moves the branch."""

    def __init__(self, git: Git, name: str, say: Callable[[str], None]) -> None:
        self.name = name
        self.in_the_way: objects.InTheWay | None = None  # files of a person on the way of the branch
        self._git = git
        self._say = say
        self._again_at = 0.0  # of the monotonic clock

    @property
    def waits(self) -> bool:
        """True while the harness waits before it retries a blocked move of the branch."""
        return time.monotonic() < self._again_at

    @property
    def tip(self) -> str:
        return self._git.commit_of(self.name) or ""

    def holds(self, commit: str) -> bool:
        tip = self.tip
        return bool(tip) and self._git.ancestor(commit, tip)

    def bring(self, old: str, new: str) -> bool:
        """Move the branch to ``new``. Return False if the user's files block the move."""
        try:
            if not self.holds(new):
                objects.move(self._git, self.name, old, new)
        except objects.InTheWay as error:
            if self.in_the_way is None or error.message != self.in_the_way.message:
                self._say(f"Merging waits: {error.message} ({error.hint})")
            self.in_the_way = error
            self._again_at = time.monotonic() + clock.scaled(AGAIN_SECONDS)
            return False
        except UnsafeTree:
            self._free()
            raise
        self._free()
        return True

    def look_again(self) -> None:
        """Allow an immediate retry of a move that the user's files prevented."""
        self._again_at = 0.0

    def _free(self) -> None:
        self.in_the_way, self._again_at = None, 0.0
