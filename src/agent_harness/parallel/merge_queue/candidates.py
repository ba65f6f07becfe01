"""The refs that keep what is proven until nothing asks for it any more: ``refs/harness/work/PROJECT/ITEM/FENCE``.

A candidate is needed while it waits, lands, or is to be fixed. Once its item has landed it is on the branch, and its
refs go. One that is nobody's any more becomes a rescue, which a person prunes. SC-14, SC-29.
"""

import os
from collections.abc import Collection, Iterable, Mapping

from agent_harness.kernel.git import Git
from agent_harness.parallel import workspaces
from agent_harness.parallel.merge_queue.refs import BEFORE, ProjectRefs, is_before
from agent_harness.parallel.merge_queue.trailers import landed_on
from agent_harness.parallel.plan import LANDED, OPEN, WORKING, ItemProgress, RunPlan


def set_aside(git: Git, job: str, commit: str) -> str:
    """Keeps a candidate that is nobody's any more; the ref that has it."""
    return workspaces.kept_as(git, f"{workspaces.RESCUE_REFS}/{job.split('/')[1]}", commit)


def let_go(git: Git, refs: ProjectRefs, works: Iterable[ItemProgress]) -> None:
    """What of these has landed, or is kept otherwise: none of their candidates is kept beside the branch."""
    found = [*works]
    names = {each.job.split("/")[1] for each in found}
    commits = {commit for each in found for commit in (each.commit, *each.before)}
    known = git.refs_below(refs.work).items()
    over = [ref for ref, commit in known if name_of(ref) in names and commit in commits]
    fixed = {refs.fix(each.job.split("/")[1]) for each in found if each.rejections}
    _remove(git, [*over, *(fixed & git.refs_below(refs.fix("")).keys())])


def old_names(git: Git) -> dict[str, str]:
    """The candidates that versions up to 1.2.1 have kept, under names that say nothing of a project."""
    return {ref: commit for ref, commit in git.refs_below(BEFORE.work).items() if is_before(ref)}


def taken_over(
    git: Git, refs: ProjectRefs, proven: Mapping[str, Collection[str]], needed: Collection[str]
) -> list[str]:
    """Gives the candidates of these jobs (``RUN/NAME/FENCE``) that have an old name one of this project.

    ``proven`` are the commits of each job and of the ones before it, ``needed`` those that a run goes on with. An old
    name may be that of another project, which has written over it: the commit alone says whose it is, and what is of
    none of these stays as it is. The answer are such names of the same items.
    """
    old = old_names(git)
    for job, commits in proven.items():
        name, fence = job.split("/")[1:]
        known = {oid: ref.rpartition("/")[2] for ref, oid in old.items() if oid in commits and name_of(ref) == name}
        written_over = [oid for oid in needed if oid in commits and oid not in known and git.commit_of(oid) == oid]
        for oid, number in {**known, **dict.fromkeys(written_over, fence)}.items():
            if oid not in git.refs_below(refs.candidate(name, "")).values():
                git.update_ref(refs.candidate(name, number), oid)
    mine = {commit for commits in proven.values() for commit in commits}
    _remove(git, [ref for ref, oid in old.items() if oid in mine])
    names = {job.split("/")[1] for job in proven}
    return [ref for ref, oid in old.items() if oid not in mine and name_of(ref) in names]


def tidied(git: Git, refs: ProjectRefs, plan: RunPlan) -> list[str]:
    """Removes what the plan has no use for of the items that it knows; the rescues of what is on no branch. SC-14."""
    held = [each for each in plan.works.values() if each.job]
    names = {each.job.split("/")[1] for each in held}
    jobs = {refs.candidate(*each.job.split("/")[1:]) for each in held if each.state == WORKING}
    commits = {each.commit for each in held if each.state not in (OPEN, LANDED) or each.fix}
    known = {ref: commit for ref, commit in git.refs_below(refs.work).items() if name_of(ref) in names}
    over = {ref: commit for ref, commit in known.items() if ref not in jobs and commit not in commits}
    if not over:
        return []
    found = nobodys(git, over, kept=landed_on(git, "--branches"))
    _remove(git, over)
    return found


def nobodys(git: Git, refs: Mapping[str, str], kept: Collection[str]) -> list[str]:
    """Rescues of those of the candidates that are not ``kept``, in a rescue or elsewhere."""
    rescued = {*git.refs_below(f"{workspaces.RESCUE_REFS}/").values(), *kept}
    found: list[str] = []
    for ref, commit in refs.items():
        if commit not in rescued:
            found.append(set_aside(git, f"RUN/{name_of(ref)}", commit))
    return found


def name_of(ref: str) -> str:
    """That of the item: the last part but one."""
    return ref.split("/")[-2]


def _remove(git: Git, refs: Collection[str]) -> None:
    if refs:
        words = b"".join(b"delete " + os.fsencode(ref) + b"\n" for ref in refs)
        git.run("update-ref", "--no-deref", "--stdin", input=words)
