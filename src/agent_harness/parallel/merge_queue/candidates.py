"""Git refs that keep proven work as long as it is needed: ``refs/harness/work/PROJECT/ITEM/FENCE``.

A candidate is needed while it waits in the queue, is being merged, or must be fixed. After the merge, its refs are
deleted. A candidate without a job gets a rescue ref, which the user may delete. (SC-14, SC-29)
"""

import os
from collections.abc import Collection, Iterable, Mapping

from agent_harness.kernel.git import Git
from agent_harness.parallel import workspaces
from agent_harness.parallel.merge_queue.refs import BEFORE, ProjectRefs, is_before
from agent_harness.parallel.merge_queue.trailers import landed_on
from agent_harness.parallel.plan import LANDED, OPEN, WORKING, ItemProgress, RunPlan


def set_aside(git: Git, job: str, commit: str) -> str:
    """Create a rescue ref for a candidate that no job owns, and return this ref."""
    return workspaces.kept_as(git, f"{workspaces.RESCUE_REFS}/{job.split('/')[1]}", commit)


def let_go(git: Git, refs: ProjectRefs, works: Iterable[ItemProgress]) -> None:
    """Delete the candidate refs of ``works``, because the commits are merged or saved elsewhere."""
    found = [*works]
    names = {each.job.split("/")[1] for each in found}
    commits = {commit for each in found for commit in (each.commit, *each.before)}
    known = git.refs_below(refs.work).items()
    over = [ref for ref, commit in known if name_of(ref) in names and commit in commits]
    fixed = {refs.fix(each.job.split("/")[1]) for each in found if each.rejections}
    remove(git, [*over, *(fixed & git.refs_below(refs.fix("")).keys())])


def old_names(git: Git) -> dict[str, str]:
    """Return the candidate refs of versions up to 1.2.1, whose names contain no project id."""
    return {ref: commit for ref, commit in git.refs_below(BEFORE.work).items() if is_before(ref)}


def taken_over(
    git: Git, refs: ProjectRefs, proven: Mapping[str, Collection[str]], needed: Collection[str]
) -> list[str]:
    """Add the project's id to the names of old candidate refs. Return refs that may belong to another project."""
    old = old_names(git)
    for job, commits in proven.items():
        name, fence = job.split("/")[1:]
        known = {oid: ref.rpartition("/")[2] for ref, oid in old.items() if oid in commits and name_of(ref) == name}
        # the run continues from these, but another project has overwritten their old refs
        written_over = [oid for oid in needed if oid in commits and oid not in known and git.commit_of(oid) == oid]
        for oid, number in {**known, **dict.fromkeys(written_over, fence)}.items():
            if oid not in git.refs_below(refs.candidate(name, "")).values():
                git.update_ref(refs.candidate(name, number), oid)
    mine = {commit for commits in proven.values() for commit in commits}
    remove(git, [ref for ref, oid in old.items() if oid in mine])
    names = {job.split("/")[1] for job in proven}
    return [ref for ref, oid in old.items() if oid not in mine and name_of(ref) in names]


def tidied(git: Git, refs: ProjectRefs, plan: RunPlan) -> list[str]:
    """Delete candidate refs that the plan no longer needs. Return the new rescue refs."""
    held = [each for each in plan.works.values() if each.job]
    names = {each.job.split("/")[1] for each in held}
    jobs = {refs.candidate(*each.job.split("/")[1:]) for each in held if each.state == WORKING}
    commits = {each.commit for each in held if each.state not in (OPEN, LANDED) or each.fix}
    known = {ref: commit for ref, commit in git.refs_below(refs.work).items() if name_of(ref) in names}
    over = {ref: commit for ref, commit in known.items() if ref not in jobs and commit not in commits}
    if not over:
        return []
    # SC-14: commits on no branch get rescue refs before the deletion
    found = nobodys(git, over, kept=landed_on(git, "--branches"))
    remove(git, over)
    return found


def nobodys(git: Git, refs: Mapping[str, str], kept: Collection[str]) -> list[str]:
    """Create a rescue ref for each unsaved commit in ``refs``. Return the new rescue refs."""
    rescued = {*git.refs_below(f"{workspaces.RESCUE_REFS}/").values(), *kept}
    found: list[str] = []
    for ref, commit in refs.items():
        if commit not in rescued:
            found.append(set_aside(git, f"RUN/{name_of(ref)}", commit))
    return found


def name_of(ref: str) -> str:
    return ref.split("/")[-2]


def remove(git: Git, refs: Collection[str]) -> None:
    if refs:
        words = b"".join(b"delete " + os.fsencode(ref) + b"\n" for ref in refs)
        git.run("update-ref", "--no-deref", "--stdin", input=words)
