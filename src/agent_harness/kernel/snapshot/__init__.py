"""Rollback without loss: take a snapshot, check the work, then adopt or restore.

* ``take`` stores the work tree as a git object: every file that is not ignored, byte for byte, the staged files, the
  checked-out branch and the ignore rules. Nothing that the user sees changes.
* ``candidate`` makes a commit of the current work tree on a private ref; the checks run on this commit.
* ``tree_of_files`` returns only the tree of that commit, for comparisons.
* ``adopt`` moves the branch to an accepted commit, by compare and swap. No file is written.
* ``restore`` first saves, on a rescue ref, everything that it will remove. Then it restores the snapshot.
* ``kept_refs``, ``rescue_base`` and ``contents`` list rescues.
* ``write_rescued`` writes all files of a rescue into a folder. ``write_changes`` writes its changes to the work tree.

``reset --hard``, ``clean`` and stash are never used. Private refs are below ``refs/harness/``. Source: ``tasklist.md``
11.2, 11.3; ``features.md`` UAH-463 to 481, C04, C09.

A snapshot does not contain ignored files, which are never touched. It also lacks the content of submodules and nested
repositories, other branches, times, owners, and extended attributes."""

from agent_harness.kernel.snapshot.candidate import adopt, candidate, tree_of_files
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
    "rescue_base",
    "restore",
    "take",
    "tree_of_files",
    "write_changes",
    "write_rescued",
]
