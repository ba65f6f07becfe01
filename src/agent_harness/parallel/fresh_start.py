"""Start of a run whose ledger is missing or cannot be read. Source: ``scale.md`` SC-14, SC-29.

The old ledger is set aside, and a new one takes its place. Jobs that still have their items are in the new ledger. As
after a kill, the coordinator collects their results, merges proven work, or gives lost items back. If commit trailers
show that a candidate is already on the branch, its merge is only completed. Candidates without an item become rescues.

Only ledgers contain rejections, held items and commits that are not pushed. These facts come from the readable part of
the old ledger, or else from the ledger of the previous run. The shared budget knows the spending."""

import math
import os
import shutil
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from itertools import count

from agent_harness.errors import StateDamaged
from agent_harness.kernel import files, process
from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel import ledger as journals
from agent_harness.parallel.budget import SharedBudget
from agent_harness.parallel.items import ACCEPTED, JOB, PARKED, RESULT, job_folder, result_of_job
from agent_harness.parallel.ledger import Ledger, NewerLedger
from agent_harness.parallel.merge_queue import candidates, objects, trailers
from agent_harness.parallel.merge_queue.refs import ProjectRefs
from agent_harness.parallel.plan import OPEN, ItemProgress, RunPlan, fold
from agent_harness.parallel.workspaces import RESCUE_REFS
from agent_harness.session import parallel_settings

_SETTINGS = {name: parallel_settings.default(name) for name in ("batch_max", "mends")}  # the next run says its own


def where_unreadable(
    folder: str, git: Git, branch: str, claims: Mapping[str, str], *, say: Callable[[str], None]
) -> None:
    """Replace a missing or unreadable ledger by a new one, and tell the user."""
    # claims: the job of each item that a dead run still has
    if not _what_is_wrong(folder, claims):
        return
    with journals.run_held(folder, hint="wait for it, or end it by Ctrl-C"):
        if wrong := _what_is_wrong(folder, claims):
            _begin_anew(folder, git, branch, claims, wrong=wrong, say=say)


def _what_is_wrong(folder: str, claims: Collection[str]) -> str:
    try:
        ledger = Ledger(folder, only_read=True)
        ledger.folded()
    except NewerLedger:
        raise
    except StateDamaged as error:
        return error.message
    return f"{ledger.path} is missing or empty" if ledger.is_lost or (claims and not ledger.events) else ""


def _begin_anew(
    folder: str, git: Git, branch: str, claims: Mapping[str, str], *, wrong: str, say: Callable[[str], None]
) -> None:
    """Write the new ledger, and tell the user."""
    # each step can be repeated after a kill
    path, part = os.path.join(folder, "ledger.jsonl"), os.path.join(folder, "anew")
    refs, budget = ProjectRefs(journals.project_id(folder)), SharedBudget(folder)
    plan, lines = _known_plan(folder)
    jobs = _jobs(folder, git, refs, plan, claims)
    branches = [*(job["branch"] for job in jobs), plan.branch]  # the dead run may have had another one
    branch = next((each for each in branches if each and git.commit_of(each)), branch)
    _finish_move(git, refs, branch, jobs)
    on_branch = trailers.landed_on(git, branch)
    merged = {on_branch[job["commit"]]: job["item"] for job in jobs if job["commit"] in on_branch}
    # a job whose spending counts already was collected by the dead run
    known = [job for job in jobs if job["commit"] and (budget.is_settled(job["order"]) or job["commit"] in on_branch)]
    carried = _carried(git, plan, branch, {job["item"]: job for job in known})
    own = {refs.candidate(job["order"].split("/")[1], job["fence"]) for job in jobs}
    fixed = {each["commit"] for each in carried if each["mend"]}
    found = git.refs_below(refs.work).items()
    over = {ref: commit for ref, commit in found if ref not in own and commit not in fixed}
    candidates.nobodys(git, over, kept=on_branch)
    rescued = {*over.values()} - on_branch.keys()
    rescues = [ref for ref, commit in git.refs_below(f"{RESCUE_REFS}/").items() if commit in rescued]
    spent = 0.0 if lines and plan.closed else budget.spent_besides([job["order"] for job in jobs if job not in known])
    files.unlink(part)  # a link
    shutil.rmtree(part, ignore_errors=True)
    ledger = Ledger(part)
    facts = {"v": journals.VERSION, "run": process.new_run_id()[:8], "project": refs.project, "branch": branch}
    facts |= {"workers": 1, "head": str(git.commit_of(branch)), "unpushed": plan.unpushed, "spent_usd": spent}
    ledger.append("run", **facts, **_SETTINGS, unaudited=True, carried=carried)
    for job in jobs:
        if job not in known:
            ledger.append("ordered", **job, touches=[], reason="as its folder says")
    taken = {job["item"] for job in jobs}
    parked = [item for item in plan.in_state(PARKED) if item not in taken and not plan.closed]
    for item in parked:
        ledger.append("parked", item=item, reason=plan.work(item).why)
    _record_merge(ledger, git, branch, merged)
    ledger.folded()
    ledger.close()
    said = {
        "Proven, and merged next": [job["item"] for job in jobs if job["commit"]],
        "Waiting for you": [f"{item} ({plan.work(item).why})" for item in parked],
        "Proven work of no item is in rescues (harness rescue list)": rescues,
    }
    kept = _free_name(folder) if os.path.lexists(path) else ""
    say(_told(f"{wrong}; it is moved to {kept}" if kept else wrong, said, lines, spent))
    if kept:
        os.makedirs(os.path.dirname(kept), mode=0o700, exist_ok=True)
        journals.renamed(path, kept)
    journals.renamed(ledger.path, path)
    shutil.rmtree(part, ignore_errors=True)
    candidates.remove(git, over)


def _told(wrong: str, said: Mapping[str, list[str]], lines: int, spent: float) -> str:
    told = f"{wrong}. The run starts anew."
    told += "".join(f" {what}: {', '.join(names)}." for what, names in said.items() if names)
    told += f" The ${spent:.2f} spent so far counts toward the budget." if spent else ""
    since = f" after line {lines}" if lines else ""
    return f"{told} Not known any more{since}: which items were rejected, held or dropped, and what is not pushed."


# ---- what ledgers say


def _known_plan(folder: str) -> tuple[RunPlan, int]:
    """Return the plan by the current ledger or else the last one, and the number of lines of the current ledger."""
    plan, lines = _readable_part(os.path.join(folder, "ledger.jsonl"), folder)
    if lines:
        return plan, lines
    earlier = (_readable_part(path, folder) for path in _finished(folder))
    return next((found for found, readable in earlier if readable), plan), 0


def _readable_part(path: str, folder: str) -> tuple[RunPlan, int]:
    """Return the plan by the events before the first invalid one, and the number of these events."""
    events, plan, lines = journals.readable(path, folder), RunPlan(), 0
    with suppress(KeyError, TypeError, AttributeError, ValueError):
        for event in events:
            plan.apply(event)
            lines += 1
    return fold(events[:lines]), lines  # an invalid event may have changed a part of ``plan``


def _finished(folder: str) -> list[str]:
    """Return the paths of earlier ledgers, the newest first."""
    runs = os.path.join(folder, "runs")
    old = [each for each in os.scandir(runs) if each.is_file(follow_symlinks=False)] if os.path.isdir(runs) else []
    return [each.path for each in sorted(old, key=lambda each: each.stat().st_mtime, reverse=True)]


def _carried(git: Git, plan: RunPlan, branch: str, ready: Mapping[str, JsonObject]) -> list[JsonObject]:
    """Return the record of each known item. The items in ``ready`` wait to be merged."""
    for item in ready:
        plan.work(item)
    rows: list[JsonObject] = []
    for row in plan.carried():
        job = ready.get(row["item"])
        fix: JsonObject = {} if _is_to_be_fixed(git, row, branch) else {"mend": None, "own": "", "breaks": []}
        own = {name: job[name] for name in ("order", "fence", "base", "commit")} | {"mend": None} if job else {}
        rows.append({**row, **fix, **own, "ready": bool(job), "lost": plan.works[row["item"]].lost})
    return rows


def _is_to_be_fixed(git: Git, row: JsonObject, branch: str) -> bool:
    """Return True if work of the item is to be fixed, and no later work of it was merged."""
    # the lost part of the ledger may contain the merge of the fix
    needed = [row["own"]] if row["own"] else [row["base"], row["commit"]] if row["mend"] else [""]
    is_known = all(each and git.commit_of(each) for each in needed)
    return is_known and row["item"] not in trailers.landed_between(git, needed[0], branch)


# ---- what the folders of jobs say


def _jobs(folder: str, git: Git, refs: ProjectRefs, plan: RunPlan, claims: Mapping[str, str]) -> list[JsonObject]:
    """Return the job of each claim whose job file fits, as an ``ordered`` event with the commit of its candidate."""
    results = {job: result_of_job(folder, job) for job in claims.values() if job.count("/") == 2}
    accepted = {job: str(each.get("commit")) for job, each in results.items() if each.get("status") == ACCEPTED}
    if candidates.old_names(git):
        candidates.taken_over(git, refs, {job: {commit} for job, commit in accepted.items()}, accepted.values())
    found: list[JsonObject] = []
    for item, job in sorted(claims.items(), key=lambda each: _proven_at(job_folder(folder, each[1]))):
        told = files.read_json_if_any(os.path.join(job_folder(folder, job), JOB))
        base, branch = str(told.get("base")), str(told.get("branch"))
        work, names = plan.works.get(item, ItemProgress()), job.split("/")
        is_whole = (told.get("id"), told.get("item")) == (job, item) and len(names) == 3 and names[2].isdecimal()
        is_given_back = work.job == job and work.state in (OPEN, PARKED)
        # on another branch, nobody has asked for the work
        if is_whole and not is_given_back and git.commit_of(base) and git.commit_of(branch):
            kept = git.commit_of(refs.candidate(*names[1:]))
            known: JsonObject = {"item": item, "order": job, "fence": int(names[2]), "base": base}
            known |= {"slot": os.path.basename(str(told.get("place"))), "branch": branch}
            found.append({**known, "commit": kept if kept and kept == accepted.get(job) else ""})
    return found


def _proven_at(folder: str) -> float:
    stamp = files.stamp_of(os.path.join(folder, RESULT))
    return stamp[-1] if stamp else math.inf


def _finish_move(git: Git, refs: ProjectRefs, branch: str, jobs: Sequence[JsonObject]) -> None:
    """Complete the move of the branch if a killed run has already written the files of a verified merge."""
    # otherwise, these files count as changes of a person; a rejected candidate has no job here
    old, tip = git.commit_of(branch), git.commit_of(refs.landing)
    if old and tip and git.branch() == branch and git.ancestor(old, tip):
        proven = {job["commit"] for job in jobs}
        for new in git.text("rev-list", "--first-parent", f"{old}..{tip}").split():
            if objects.in_index(git, old, new) and trailers.landed_on(git, f"{old}..{new}").keys() <= proven:
                objects.move(git, branch, old, new)
                return


def _record_merge(ledger: Ledger, git: Git, branch: str, merged: Mapping[str, str]) -> None:
    """Record a merge that has already moved the branch, so that the run completes it."""
    line = [sha for sha in git.text("rev-list", "--reverse", branch).split() if sha in merged] if merged else []
    if line:
        members, base = [merged[sha] for sha in line], str(git.commit_of(f"{line[0]}^1"))
        ledger.append("batched", members=members, commits=line, base=base, vouched=False)
        ledger.append("landing", batch=1, commit=str(git.commit_of(branch)), count=len(line))


def _free_name(folder: str) -> str:
    """Return a path in the folder of finished runs for the old ledger."""
    numbered = (os.path.join(folder, "runs", f"damaged-{number}.jsonl") for number in count(1))
    return next(path for path in numbered if not os.path.lexists(path))
