"""The refs that keep what is proven until nothing asks for it any more: ``refs/harness/work/ITEM/FENCE``.

A candidate is needed while it waits, lands, or is to be mended. Once its item has landed it is on the branch, and its
refs go. One that is nobody's any more becomes a rescue, which a person prunes. SC-14, SC-29.
"""

import os
from collections.abc import Collection, Iterable

from agent_harness.kernel.git import Git
from agent_harness.parallel import places
from agent_harness.parallel.plan import LANDED, OPEN, WORKING, ItemProgress, RunPlan

MEND_REFS = "refs/harness/mend"
"""Keeps the tree that a mend of the item begins with."""
CANDIDATE_TRAILER = "Harness-Candidate"
"""Names the candidate in the message of the one commit that has brought it to the branch."""


def set_aside(git: Git, order: str, commit: str) -> str:
    """Keeps a candidate that is nobody's any more; the ref that has it."""
    ref = places.free_ref(git, f"{places.RESCUE_REFS}/{order.split('/')[1]}")
    git.update_ref(ref, commit)
    return ref


def landed_on(git: Git, *branches: str) -> dict[str, str]:
    """The candidates that these branches have, by the trailers of their commits, and these commits."""
    trailer = f"%(trailers:key={CANDIDATE_TRAILER},valueonly,separator=%x20)"
    words = ("log", f"--grep=^{CANDIDATE_TRAILER}: ", f"--format=%H {trailer}", *branches)
    rows = (line.split() for line in git.text(*words).splitlines())
    return {row[-1]: row[0] for row in rows if len(row) > 1}


def let_go(git: Git, works: Iterable[ItemProgress]) -> None:
    """What of these has landed, or is kept otherwise: none of their candidates is kept beside the branch.

    What another list of this repository has under the same name of an item stays.
    """
    found = [*works]
    names = {each.order.split("/")[1] for each in found}
    commits = {commit for each in found for commit in (each.commit, *each.before)}
    known = git.refs_below(f"{places.WORK_REFS}/").items()
    over = [ref for ref, commit in known if _name(ref) in names and commit in commits]
    mended = {f"{MEND_REFS}/{each.order.split('/')[1]}" for each in found if each.bounces}
    _remove(git, [*over, *(mended & git.refs_below(f"{MEND_REFS}/").keys())])


def tidied(git: Git, plan: RunPlan) -> list[str]:
    """Removes what the plan has no use for of the items that it knows; the rescues of what is on no branch. SC-14."""
    held = [each for each in plan.works.values() if each.order]
    names = {each.order.split("/")[1] for each in held}
    orders = {f"{places.WORK_REFS}/{each.order.split('/', 1)[1]}" for each in held if each.state == WORKING}
    commits = {each.commit for each in held if each.state not in (OPEN, LANDED) or each.mend}
    known = {ref: commit for ref, commit in git.refs_below(f"{places.WORK_REFS}/").items() if _name(ref) in names}
    over = {ref: commit for ref, commit in known.items() if ref not in orders and commit not in commits}
    if not over:
        return []
    found = nobodys(git, over, kept=landed_on(git, "--branches"))
    _remove(git, over)
    return found


def nobodys(git: Git, refs: dict[str, str], kept: Collection[str]) -> list[str]:
    """Rescues of those of the candidates that are not ``kept``, in a rescue or elsewhere."""
    rescued = {*git.refs_below(f"{places.RESCUE_REFS}/").values(), *kept}
    found: list[str] = []
    for ref, commit in refs.items():
        if commit not in rescued:
            found.append(set_aside(git, f"RUN/{_name(ref)}", commit))
    return found


def _name(ref: str) -> str:
    """That of the item: the fourth part."""
    return ref.split("/")[3]


def _remove(git: Git, refs: Collection[str]) -> None:
    if refs:
        words = b"".join(b"delete " + os.fsencode(ref) + b"\n" for ref in refs)
        git.run("update-ref", "--no-deref", "--stdin", input=words)
