"""What attempts have changed, and what did not land together, kept for the choice of what begins beside what. SC-7."""

import os
import time
from collections.abc import Collection, Sequence
from contextlib import suppress

from agent_harness.errors import HarnessError
from agent_harness.kernel import files
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.status import shown
from agent_harness.parallel.overlap import LearnedOverlap

FILE = "learned.json"
SAVE_SECONDS = 10.0


class Lessons:
    """What is learned in one run, on top of what the file in ``folder`` has from those before; ``common`` files that
    every item changes teach nothing."""

    def __init__(self, git: Git, folder: str, common: Collection[str]) -> None:
        self.overlap = learned_in(folder)
        self._git = git
        self._path = os.path.join(folder, FILE)
        self._common = common
        self._save_at = 0.0  # of the monotonic clock

    def changed(self, item: str, base: str, tips: Sequence[str]) -> None:
        """An attempt at the item went from ``base`` to the first of the tips that is there."""
        if tip := next((sha for each in tips if (sha := self._git.commit_of(each))), None):
            paths = map(shown, self._git.differences(base, tip))
            self.overlap.learn(item, (each for each in paths if each not in self._common))
            if time.monotonic() >= self._save_at:
                self.save()

    def save(self) -> None:
        """Writes it down; where that cannot be, nothing is lost but time."""
        self._save_at = time.monotonic() + SAVE_SECONDS
        with suppress(HarnessError, OSError):
            files.write_json(self._path, self.overlap.as_record(), follow=False)


def learned_in(folder: str) -> LearnedOverlap:
    """What earlier runs have learned; the file may be gone, or anybody's."""
    return LearnedOverlap.from_record(files.read_json_if_any(os.path.join(folder, FILE)))
