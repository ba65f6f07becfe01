"""Rollback without loss: take a snapshot, check the result of the work, go back or go on.

* ``take`` remembers the work tree as a git object: every file that is not ignored, byte for byte, what is staged, which
  branch is checked out, which rules ignore files. Nothing that the user sees changes.
* ``candidate`` makes a commit of the work tree as it is, on a private ref: the checks run on it.
* ``tree_of_files`` is the tree of that commit alone, for comparing.
* ``adopt`` moves the branch to an accepted commit, by compare and swap. No file is written.
* ``restore`` brings the snapshot back, after it has saved everything that it removes on a rescue ref.
* ``kept_refs``, ``rescue_base`` and ``contents`` list rescues; ``write_rescued`` writes all files of one into a
  folder, ``write_changes`` writes its changes into the work tree.
* ``newly_ignored`` names the files that only rules younger than the snapshot ignore.

There is no ``reset --hard``, no ``clean`` and no stash. Private refs live below ``refs/harness/``. Source:
``tasklist.md`` 11.2, 11.3; ``features.md`` UAH-463 to 481, C04, C09.

Not in a snapshot: ignored files (they are never touched), the content of submodules and of other repositories inside
the work tree, other branches, empty folders, times, owners, extended attributes.
"""

from agent_harness.kernel.snapshot.candidate import adopt, candidate, newly_ignored, tree_of_files
from agent_harness.kernel.snapshot.operation import Notes, Rescue, Snapshot
from agent_harness.kernel.snapshot.restore import (
    KeptRef,
    contents,
    kept_refs,
    rescue_base,
    restore,
    write_changes,
    write_rescued,
)
from agent_harness.kernel.snapshot.take import take

__all__ = [
    "KeptRef",
    "Notes",
    "Rescue",
    "Snapshot",
    "adopt",
    "candidate",
    "contents",
    "kept_refs",
    "newly_ignored",
    "rescue_base",
    "restore",
    "take",
    "tree_of_files",
    "write_changes",
    "write_rescued",
]
