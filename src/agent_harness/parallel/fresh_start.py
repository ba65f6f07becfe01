"""Start of a run whose ledger cannot be read: the ledger is set aside, and its candidates become rescues. SC-14.

Merges that have already moved the branch are recorded first. All other items of the last run are open again.
"""

import os
from collections.abc import Callable, Mapping
from contextlib import suppress

from agent_harness.errors import StateDamaged
from agent_harness.kernel import clock, files
from agent_harness.kernel.git import Git
from agent_harness.parallel.budget import SharedBudget
from agent_harness.parallel.items import ACCEPTED, ATTEMPT, JOB, Job, LandedItem, ProjectPort, result_of_job
from agent_harness.parallel.ledger import Ledger, NewerLedger, is_missing, renamed
from agent_harness.parallel.merge_queue import candidates, trailers
from agent_harness.parallel.merge_queue.refs import ProjectRefs
from agent_harness.parallel.workspaces import RESCUE_REFS


def readable_ledger(
    folder: str, git: Git, branch: str, refs: ProjectRefs, port: ProjectPort, *, say: Callable[[str], None]
) -> Ledger:
    """Return the run's ledger, a new one if it cannot be read. The old one is moved last: each step can be repeated."""
    path = os.path.join(folder, "ledger.jsonl")
    try:
        ledger = Ledger(folder)
        ledger.folded()
        if not is_missing(folder):
            return ledger
        why = f"{path} is missing"
    except NewerLedger:
        raise
    except StateDamaged as error:
        why = error.message
    _let_go(folder, git, branch, refs, port)
    kept = f"; it was moved to {_moved(path)}" if os.path.lexists(path) else ""
    say(f"{why}{kept}. The run starts anew; proven work that was not merged is in rescues: harness rescue list")
    return Ledger(folder)


def _let_go(folder: str, git: Git, branch: str, refs: ProjectRefs, port: ProjectPort) -> None:
    """Record the jobs that the branch already has as merged; rescue the candidates of all others, and count costs."""
    known, landed = git.refs_below(refs.work), trailers.landed_on(git, branch)
    jobs = [job for job in _jobs(folder) if port.claims().get(job.item) == job.id]
    if merged := [found for job in jobs if (found := _landed(folder, job, known, landed, refs))]:
        port.finalize(merged)
    rescues = candidates.nobodys(git, known, kept=landed)
    money = SharedBudget(folder)
    for job in jobs:
        if port.claims().get(job.item) == job.id:
            told = float(result_of_job(folder, job.id).get("cost_usd") or 0.0)
            kept = [ref for ref in rescues if ref.startswith(f"{RESCUE_REFS}/{job.name}/")]
            port.ended(job.id, job.item, None, kept, max(told, money.spent(job.id)))
    candidates.remove(git, [*known, *git.refs_below(refs.fix(""))])


def _landed(
    folder: str, job: Job, known: Mapping[str, str], landed: Mapping[str, str], refs: ProjectRefs
) -> LandedItem | None:
    result = result_of_job(folder, job.id)
    commit = str(result.get("commit"))
    is_proven = result.get("status") == ACCEPTED and known.get(refs.candidate(job.name, job.fence)) == commit
    if not is_proven or commit not in landed:
        return None
    return LandedItem(item=job.item, job=job.id, commit=landed[commit], result=result)


def _jobs(folder: str) -> list[Job]:
    """Return the attempts in the job folders. A malformed job file counts as missing."""
    there, found = os.path.join(folder, "orders"), list[Job]()
    for name in sorted(os.listdir(there)) if os.path.isdir(there) else []:
        with suppress(TypeError, ValueError):
            job = Job.from_record(files.read_json_if_any(os.path.join(there, name, JOB)))
            if job.kind == ATTEMPT and job.id.replace("/", ".") == name:
                found.append(job)
    return found


def _moved(path: str) -> str:
    """Move the ledger, whatever it is, to a dated name beside it; return the new path."""
    kept = f"{path}.damaged-{clock.timestamp(fraction=True).translate({ord(each): None for each in '-:'})}"
    renamed(path, kept)
    return kept
