"""Recognition of merged work by the trailers of commits on a branch. (SC-39) This module imports no code that runs
agents. Commands that only read can therefore use it."""

import os
import re
from collections.abc import Iterable

from agent_harness.kernel.git import Git
from agent_harness.parallel.merge_queue.objects import ITEM_TRAILER

CANDIDATE_TRAILER = "Harness-Candidate"
"""Commit trailer that contains a candidate's commit id. It is in the one commit that merges the candidate to the
branch.
"""
_CANDIDATE = f"%(trailers:key={CANDIDATE_TRAILER},valueonly,separator=%x20)"
_WHOLE_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def landed_on(git: Git, *branches: str) -> dict[str, str]:
    words = ("log", f"--grep=^{CANDIDATE_TRAILER}: ", f"--format=%H {_CANDIDATE}", *branches)
    rows = (line.split() for line in git.text(*words).splitlines())
    return {row[-1]: row[0] for row in rows if len(row) > 1}


def moved(git: Git, head: str, commits: Iterable[str]) -> dict[str, str]:
    """Return a mapping from the old id of each rewritten commit to its new id in ``head``."""
    # SC-39
    asked = {each for each in commits if _WHOLE_ID.fullmatch(each)}
    if not asked:
        return {}
    words = os.fsencode("\n".join([*sorted(asked), f"^{head}", ""]))
    listed = os.fsdecode(git.run("rev-list", "--ignore-missing", "--stdin", input=words)).split()
    gone = sorted(asked.intersection(listed))
    if not gone:
        return {}
    rows = git.text("log", "--no-walk", "--no-show-signature", f"--format=%H {_CANDIDATE}", *gone).splitlines()
    there = landed_on(git, head)
    return {row[0]: there[row[-1]] for line in rows if len(row := line.split()) > 1 and row[-1] in there}


def landed_between(git: Git, old: str, new: str) -> set[str]:
    trailer = f"--format=%(trailers:key={ITEM_TRAILER},valueonly)"
    return {*git.text("log", "--no-show-signature", trailer, f"{old}..{new}").splitlines()} - {""}


def before(git: Git, commit: str, item: str) -> str | None:
    """Return the parent of ``commit`` if this commit merged the item, otherwise None."""
    trailer = f"--format=%(trailers:key={ITEM_TRAILER},valueonly)"
    landed = git.text("log", "-1", "--no-show-signature", trailer, commit).strip()
    return git.commit_of(f"{commit}^1") if landed == item else None
