"""Record of the paths that each item changed and of the items that conflicted. The record helps to select concurrent
items. SC-7.
"""

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
    """File overlaps and conflicts that a run has learned, together with those stored in ``folder``.

    ``common`` files, which every item changes, are ignored.
    """

    def __init__(self, git: Git, folder: str, common: Collection[str]) -> None:
        self.overlap = learned_in(folder)
        self._git = git
        self._path = os.path.join(folder, FILE)
        self._common = common
        self._save_at = 0.0  # of the monotonic clock

    def changed(self, item: str, base: str, tips: Sequence[str]) -> None:
        """Record the paths that an attempt changed between ``base`` and the first of the commits ``tips`` that
        exists.
        """
        if tip := next((sha for each in tips if (sha := self._git.commit_of(each))), None):
            paths = map(shown, self._git.differences(base, tip))
            self.overlap.learn(item, (each for each in paths if each not in self._common))
            if time.monotonic() >= self._save_at:
                self.save()

    def save(self) -> None:
        """Write the learned overlaps and conflicts to a file. Errors are ignored, because this data only saves time."""
        self._save_at = time.monotonic() + SAVE_SECONDS
        with suppress(HarnessError, OSError):
            files.write_json(self._path, self.overlap.as_record(), follow=False)


def learned_in(folder: str) -> LearnedOverlap:
    """Return the overlaps and conflicts that earlier runs learned. The file may be missing or invalid."""
    return LearnedOverlap.from_record(files.read_json_if_any(os.path.join(folder, FILE)))
