"""The branch that a run lands on, and what of a person's is in its way. SC-36."""

import time
from collections.abc import Callable

from agent_harness.errors import UnsafeTree
from agent_harness.kernel import clock
from agent_harness.kernel.git import Git
from agent_harness.parallel.merge_queue import objects

AGAIN_SECONDS = 60.0


class TargetBranch:
    """Moved by one process alone; what it could not be moved to is tried again in a minute."""

    def __init__(self, git: Git, name: str, say: Callable[[str], None]) -> None:
        self.name = name
        self.in_the_way: objects.InTheWay | None = None  # what a person has where the branch is to go
        self._git = git
        self._say = say
        self._again_at = 0.0  # of the monotonic clock

    @property
    def waits(self) -> bool:
        """Whether it is not to be tried yet."""
        return time.monotonic() < self._again_at

    @property
    def tip(self) -> str:
        """The commit that it is at; empty where it is gone."""
        return self._git.commit_of(self.name) or ""

    def holds(self, commit: str) -> bool:
        """Whether it has the commit, maybe with more on top."""
        tip = self.tip
        return bool(tip) and self._git.ancestor(commit, tip)

    def bring(self, old: str, new: str) -> bool:
        """Moves it and a work tree that has it from ``old`` to ``new``, unless it holds that.

        False where a person's files are in the way, which is said once. ``UnsafeTree`` where it was moved elsewhere.
        """
        try:
            if not self.holds(new):
                objects.move(self._git, self.name, old, new)
        except objects.InTheWay as error:
            if self.in_the_way is None or error.message != self.in_the_way.message:
                self._say(f"Landing waits: {error.message} ({error.hint})")
            self.in_the_way = error
            self._again_at = time.monotonic() + clock.scaled(AGAIN_SECONDS)
            return False
        except UnsafeTree:
            self._free()
            raise
        self._free()
        return True

    def look_again(self) -> None:
        """What was in the way may be gone: it is tried at once."""
        self._again_at = 0.0

    def _free(self) -> None:
        self.in_the_way, self._again_at = None, 0.0
