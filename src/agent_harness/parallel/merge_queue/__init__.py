"""Merge queue: combines proven work as git objects, verifies it in batches, moves the branch, and pushes the branch."""

from agent_harness.kernel.git.joining import Merged, merged
from agent_harness.parallel.merge_queue.objects import (
    ITEM_TRAILER,
    Candidate,
    InTheWay,
    already_there,
    marked,
    move,
    put_on,
    target,
    tip_of,
    told_gone,
)

__all__ = [
    "ITEM_TRAILER",
    "Candidate",
    "InTheWay",
    "Merged",
    "already_there",
    "marked",
    "merged",
    "move",
    "put_on",
    "target",
    "tip_of",
    "told_gone",
]
