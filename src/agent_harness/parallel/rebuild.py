"""Reconstruction of a missing or unreadable ledger from the state on disk: ``harness queue rebuild``.

If the project still assigns an item to a job, the job keeps the item. The next run collects the job's result. A job
without a result counts as lost. If commit trailers show that a candidate is already on the branch, its merge is only
completed. A candidate that no job owns gets a rescue ref.

Refs and results do not show which items were rejected, held or parked, the spending, and which commits are not pushed.
These facts come from the readable part of the old ledger. If it has none, they come from the previous run's journal.
``told`` lists the facts that stay unknown. Source: ``scale.md`` 7, SC-14, SC-29."""

import os
import re
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from agent_harness.errors import HarnessError
from agent_harness.kernel import files, process
from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel import ledger as journals
from agent_harness.parallel.items import ACCEPTED, ATTEMPT, JOB, PARKED, RESULT, result_of_job
from agent_harness.parallel.ledger import VERSION, Ledger, project_id, run_held
from agent_harness.parallel.merge_queue import candidates, trailers
from agent_harness.parallel.merge_queue.refs import ProjectRefs
from agent_harness.parallel.plan import LANDED, OPEN, RunPlan, fold
from agent_harness.session import parallel_settings

_NAME = re.compile(r"(?P<run>[0-9A-Za-z]+)\.(?P<name>.+)\.(?P<fence>\d{1,9})")
_SETTINGS = {name: parallel_settings.default(name) for name in ("batch_max", "mends")}  # the next run says its own
SENT_BACK = "sent_back"
"""Reason given for a required fix if the original reason is no longer known."""
UNKNOWN = (
    "how often an item was rejected, and what it had to fix: its next attempt starts from the branch",
    "which candidates you had held back, and their order, except by the time of their proof",
    "the cost of attempts that left no files, and the worker count of `harness scale`",
    "which merge was not pushed yet: the next push includes it",
)


@dataclass(frozen=True, kw_only=True)
class LeftRun:
    """State that a dead run left in the project's own files."""

    workers: int
    branch: str | None  # if it was named
    claims: Mapping[str, str]  # the order of each item that it has
    rejected: Mapping[str, int] = field(default_factory=dict)  # number of rejections of an item, if known


@dataclass(frozen=True, kw_only=True)
class LeftJob:
    """State that a job of a dead run left in the job's folder."""

    id: str
    item: str
    name: str
    fence: int
    slot: str
    base: str
    since: float  # when its result was written, in seconds of the epoch; 0: no result
    commit: str  # of the candidate; empty if it was not accepted


@dataclass(kw_only=True)
class EarlierJournal:
    """Readable part of a journal."""

    plan: RunPlan = field(default_factory=RunPlan)
    lines: int = 0
    # names these lines and the journal
    where: str = ""
    pushes: bool = False  # landings were to be pushed
    pushed: frozenset[str] = frozenset()  # commits that a remote has taken


@dataclass(kw_only=True)
class Rebuilt:
    run: str
    workers: int
    before: EarlierJournal
    jobs: list[LeftJob] = field(default_factory=list)  # that the project shows as such
    landed: list[str] = field(default_factory=list)  # items of these that the branch has
    rescues: list[str] = field(default_factory=list)
    carried: list[JsonObject] = field(default_factory=list)  # known facts of each item
    parked: dict[str, str] = field(default_factory=dict)
    unpushed: str = ""
    kept: str = ""  # path of the old ledger

    def told(self) -> list[str]:
        ready = [each.item for each in self.jobs if each.commit and each.item not in self.landed]
        lost = [each.item for each in self.jobs if not each.since]
        back = [f"{each['item']} ({_times(each)})" for each in self.carried if each["bounces"] or each["mend"]]
        held = [each["item"] for each in self.carried if each["held"]]
        rows = {
            "Proven, and waiting to be merged": ready,
            "Merged to the branch, but not recorded yet": self.landed,
            "Started, but without a result": lost,
            "Without an owner, and kept in a rescue": self.rescues,
            "Sent back": back,
            "Held back until harness queue release": held,
            "Waiting for you": [f"{item} ({why})" for item, why in self.parked.items()],
            "Not pushed, as far as is known; the next run pushes it": [self.unpushed[:10]] * bool(self.unpushed),
            "The old journal is kept in": [self.kept] * bool(self.kept),
        }
        before = self.before
        lines = [f"The journal is rebuilt from refs and results: run {self.run}."]
        lines += [f"All other facts come from {before.where}."] if before.lines else []
        lines += [f"{name}: {', '.join(found)}" for name, found in rows.items() if found]
        since = f" since {before.where}" if before.lines else ""
        return [*lines, f"Unknown{since}:", *(f"  {each}" for each in UNKNOWN)]


def _times(carried: JsonObject) -> str:
    times = f"{carried['bounces']} time{'s' if carried['bounces'] != 1 else ''}"
    return f"{times}, to be fixed" if carried["mend"] else times


def is_missing(folder: str) -> bool:
    """Return True if jobs exist but the ledger has no complete line."""
    # a kill or a full disk can empty the ledger
    with suppress(OSError):
        return bool(os.listdir(os.path.join(folder, "orders"))) and not _has_line(os.path.join(folder, "ledger.jsonl"))
    return False


def _has_line(path: str) -> bool:
    try:
        with os.fdopen(files.open_regular(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            return b"\n" in file.readline(1 << 20)
    except FileNotFoundError:
        return False
    except (OSError, HarnessError):
        return True  # damaged: the user decides


def where_missing(folder: str, git: Git, branch: str, left: LeftRun, *, say: Callable[[str], None]) -> None:
    """Rebuild a missing ledger at the start of a run, and tell the user."""
    # SC-14
    if not is_missing(folder):
        return
    with run_held(folder, hint="wait for it, or end it by Ctrl-C"):
        for line in rebuild(folder, git, branch, left).told() if is_missing(folder) else ():
            say(line)


def rebuild(folder: str, git: Git, branch: str, left: LeftRun) -> Rebuilt:
    """Replace the ledger by a rebuilt ledger, and return a report about it."""
    # a repeated call has the same result, because refs and results do not change
    before = _earlier(folder)
    refs = ProjectRefs(project_id(folder))
    proven = {job: {commit} for job, commit in _accepted(folder).items()}
    candidates.taken_over(
        git, refs, proven, [commit for each in left.claims.values() for commit in proven.get(each, ())]
    )
    known = _jobs(folder, git, refs)
    on_branch = trailers.landed_on(git, branch)
    asked = left.workers if left.claims or not before.plan.asked else before.plan.asked
    found = Rebuilt(run=process.new_run_id()[:8], workers=asked, before=before)
    mine = [each for each in known if left.claims.get(each.item) == each.id and not _is_sent_back(before.plan, each)]
    position = _positions_in_queue(before.plan)
    found.jobs = sorted(mine, key=lambda each: (each.since == 0, position(each.item), each.since, each.item))
    found.landed = [each.item for each in found.jobs if each.commit in on_branch]
    found.carried = _carried(git, known, on_branch, before.plan, left)
    held = {each.commit for each in found.jobs} | {each["commit"] for each in found.carried if each["mend"]}
    found.rescues = candidates.nobodys(git, git.refs_below(refs.work), kept={*on_branch, *held})
    found.unpushed = _unpushed(git, branch, on_branch, before)
    stops = {item: before.plan.work(item) for item in before.plan.in_state(PARKED)}
    later = {each.item for each in known if each.item in stops and each.fence > stops[each.item].fence}
    found.parked = {item: work.why for item, work in stops.items() if item not in {*left.claims, *later}}
    head = str(git.commit_of(branch))
    part = os.path.join(folder, "rebuilt")
    shutil.rmtree(part, ignore_errors=True)
    ledger = Ledger(part)
    identity = {"v": VERSION, "run": found.run, "project": refs.project, "branch": branch, "rebuilt": True}
    kept = {"unpushed": found.unpushed, "spent_usd": 0.0 if before.plan.closed else before.plan.spent_usd}
    ledger.append("run", **identity, **kept, workers=asked, **_SETTINGS, head=head, carried=found.carried)
    if not before.plan.closed and before.plan.workers != before.plan.asked:
        ledger.append("scaled", workers=before.plan.workers)
    for each in found.jobs:
        _write(ledger, each)
    for item, why in found.parked.items():
        ledger.append("parked", item=item, reason=why)
    _write_landing(ledger, git, branch, {each.item: on_branch.get(each.commit, "") for each in found.jobs})
    ledger.folded()
    ledger.close()
    found.kept = _kept(folder)
    journals.renamed(ledger.path, os.path.join(folder, "ledger.jsonl"))
    shutil.rmtree(part, ignore_errors=True)
    return found


# ---- what earlier journals say


def _earlier(folder: str) -> EarlierJournal:
    """Return the readable part of the current journal or of the newest readable old journal."""
    path, runs = os.path.join(folder, "ledger.jsonl"), os.path.join(folder, "runs")
    with suppress(OSError):
        old = [entry for entry in os.scandir(runs) if entry.is_file(follow_symlinks=False)]
        old.sort(key=lambda entry: entry.stat().st_mtime, reverse=True)
        for each in (path, *(entry.path for entry in old)):
            if found := _readable(each, folder):
                return found
    return _readable(path, folder) or EarlierJournal()


def _readable(path: str, folder: str) -> EarlierJournal | None:
    """Return the part of a journal before its first invalid event, or None if this part is empty."""
    events = journals.readable(path, folder)
    plan, lines = RunPlan(), 0
    pushed: set[str] = set()
    with suppress(KeyError, TypeError, AttributeError, ValueError):
        for event in events:
            before = plan.unpushed
            plan.apply(event)
            lines += 1
            if event["type"] == "pushed" and not plan.unpushed:
                pushed.add(before)
    if not lines:
        return None
    name = "the old journal" if os.path.basename(path) == "ledger.jsonl" else f"runs/{os.path.basename(path)}"
    return EarlierJournal(
        plan=fold(events[:lines]),  # the other one may know half of what cannot have happened
        lines=lines,
        where=f"lines 1 to {lines} of {name}",
        pushes=any(event.get("push") for event in events[:lines]),
        pushed=frozenset(pushed),
    )


def _positions_in_queue(plan: RunPlan) -> Callable[[str], int]:
    """Return a function that maps an item to its position in the queue. Items outside the queue come last."""
    order = [item for batch in plan.under_way for item in batch.members] + plan.queue
    return lambda item: order.index(item) if item in order else len(order)


def _unpushed(git: Git, branch: str, on_branch: Mapping[str, str], before: EarlierJournal) -> str:
    """Return the last merged commit if it may still have to be pushed, otherwise ""."""
    if not before.pushes and not before.plan.unpushed:
        return ""
    commits = {*on_branch.values()}
    for line in git.text("log", "--first-parent", "--format=%H %P", branch).splitlines():
        commit, *parents = line.split()
        if commit in commits or commits & {*parents[1:]}:
            return "" if commit in before.pushed else commit
    return ""


def _carried(
    git: Git, known: list[LeftJob], on_branch: Mapping[str, str], plan: RunPlan, left: LeftRun
) -> list[JsonObject]:
    """Return a record of each item, made from its last job and from earlier journals."""
    last = _last(known)
    rows: list[JsonObject] = []
    for item in dict.fromkeys([*last, *plan.works, *left.rejected]):
        work, job = plan.work(item), last.get(item)
        has_landed = work.state == LANDED or work.commit in on_branch or (job and job.commit in on_branch)
        rejections = 0 if has_landed else max(work.rejections, left.rejected.get(item, 0))
        row: JsonObject = {"item": item, "fence": work.fence, "order": work.job, "base": work.proven_on}
        row |= {"commit": work.commit, "bounces": rejections, "mend": None, "ready": False, "since": ""}
        row |= {"held": item in plan.held and not has_landed, "lost": work.lost}
        if work.fix and not has_landed and _is_kept(git, work.proven_on, work.commit):
            row["mend"] = work.fix
        if job and job.fence > work.fence:
            row |= {"fence": job.fence, "order": job.id}
            if job.commit:
                is_back = rejections > work.rejections and left.claims.get(item) != job.id and not has_landed
                row |= {"base": job.base, "commit": job.commit}
                row["mend"] = {"why": SENT_BACK} if is_back and rejections <= plan.mends else None
        rows.append(row)
    return rows


def _is_sent_back(plan: RunPlan, job: LeftJob) -> bool:
    """Return True if ``plan`` shows that the job's candidate was rejected."""
    work = plan.works.get(job.item)
    return work is not None and (work.state, work.job) == (OPEN, job.id) and work.rejections > 0


def _is_kept(git: Git, *commits: str) -> bool:
    return all(each and git.commit_of(each) for each in commits)


# ---- state on disk


def _folders(folder: str) -> dict[str, re.Match[str]]:
    there = os.path.join(folder, "orders")
    names = sorted(os.listdir(there)) if os.path.isdir(there) else []
    return {os.path.join(there, name): match for name in names if (match := _NAME.fullmatch(name))}


def _accepted(folder: str) -> dict[str, str]:
    """Return a mapping from each accepted job to its proven commit."""
    results = ((match, result_of_job(folder, "/".join(match.groups()))) for match in _folders(folder).values())
    found = {"/".join(match.groups()): result for match, result in results if result.get("status") == ACCEPTED}
    return {job: str(result.get("commit")) for job, result in found.items()}


def _jobs(folder: str, git: Git, refs: ProjectRefs) -> list[LeftJob]:
    """Return the attempts whose job file matches the name of the job's folder."""
    found = (_job(path, match, git, refs) for path, match in _folders(folder).items())
    return [each for each in found if each]


def _job(folder: str, match: re.Match[str], git: Git, refs: ProjectRefs) -> LeftJob | None:
    told, result = (files.read_json_if_any(os.path.join(folder, name)) for name in (JOB, RESULT))
    run, name, fence = match["run"], match["name"], int(match["fence"])
    base = str(told.get("base"))
    is_ours = told.get("kind") == ATTEMPT and told.get("id") == f"{run}/{name}/{fence}" and told.get("name") == name
    if not is_ours or git.commit_of(base) is None:
        return None
    commit = str(result.get("commit"))
    is_proven = result.get("status") == ACCEPTED and git.commit_of(refs.candidate(name, fence)) == commit
    return LeftJob(
        id=str(told["id"]),
        item=str(told.get("item")),
        name=name,
        fence=fence,
        slot=os.path.basename(str(told.get("place"))),
        base=base,
        since=os.lstat(os.path.join(folder, RESULT)).st_mtime if result else 0.0,
        commit=commit if is_proven and git.ancestor(base, commit) else "",
    )


def _last(known: list[LeftJob]) -> dict[str, LeftJob]:
    last: dict[str, LeftJob] = {}
    for each in known:
        if each.item not in last or each.fence > last[each.item].fence:
            last[each.item] = each
    return last


def _write(ledger: Ledger, job: LeftJob) -> None:
    known = {"item": job.item, "order": job.id, "fence": job.fence}
    ledger.append("ordered", **known, slot=job.slot, base=job.base, touches=[], reason="as its folder says")


def _write_landing(ledger: Ledger, git: Git, branch: str, landed: Mapping[str, str]) -> None:
    """Record a merge that has already moved the branch."""
    # the next run then carries out the remaining steps
    commits = {sha: item for item, sha in landed.items() if sha}
    if not commits:
        return
    line = [sha for sha in git.text("rev-list", "--reverse", branch).split() if sha in commits]
    plan = ledger.folded()
    for sha in line:
        work = plan.work(commits[sha])
        known = {"item": commits[sha], "order": work.job, "status": ACCEPTED, "reason": "it is on the branch"}
        ledger.append("ended", **known, commit=sha)
    members = [commits[sha] for sha in line]
    head = str(git.commit_of(branch))
    ledger.append("batched", members=members, commits=line, base=str(git.commit_of(f"{line[0]}^1")), vouched=False)
    ledger.append("landing", batch=1, commit=head, count=len(line))


def _kept(folder: str) -> str:
    path, runs = os.path.join(folder, "ledger.jsonl"), os.path.join(folder, "runs")
    if not os.path.lexists(path):
        return ""
    os.makedirs(runs, mode=0o700, exist_ok=True)
    number = 1
    while os.path.lexists(kept := os.path.join(runs, f"damaged-{number}.jsonl")):
        number += 1
    journals.renamed(path, kept)  # a run that finds no ledger rebuilds it by itself
    return kept
