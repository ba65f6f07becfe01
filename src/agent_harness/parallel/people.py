"""Queries and requests of the user about a project's parallel runs, workspaces and merge queue. The user's command
executes this code in its own process, not in the process of the coordinator."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent_harness.errors import Busy, HarnessError, NothingEligible, StateDamaged, UnsafeTree, UsageError
from agent_harness.kernel import clock, files, owner
from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.owner import Owner
from agent_harness.parallel import requests, workspace_setup, workspaces
from agent_harness.parallel.items import result_of_job
from agent_harness.parallel.ledger import ANEW, BEGIN, RUN_LOCK, Ledger, project_id, run_held
from agent_harness.parallel.merge_queue import candidates, told_gone
from agent_harness.parallel.merge_queue.refs import BEFORE, ProjectRefs
from agent_harness.parallel.plan import LANDING, READY, WORKING, RunPlan
from agent_harness.parallel.workspaces import Workspace
from agent_harness.session import run_snapshot

ANSWER_SECONDS = 10.0
"""Maximum time to wait for the coordinator's answer to a request, in seconds."""
_COMMANDS = {requests.RECALL: "cancel"}
"""Command names of those requests whose name on disk differs from the command."""
_REFUSALS: dict[int, type[HarnessError]] = {each.exit_code: each for each in (UsageError, Busy, NothingEligible)}


@dataclass(frozen=True, kw_only=True)
class ParallelRuns:
    """User's queries and requests about the parallel runs of one project."""

    root: str
    folder: str
    git: Git | None
    own: Sequence[str]  # patterns of the harness's own files
    snapshot: str | None = None  # path of the snapshot of a run

    def coordinator(self) -> Owner | None:
        return _holder(os.path.join(self.folder, RUN_LOCK))

    def plan(self) -> RunPlan:
        """Return the plan of the last run. Raise ``NothingEligible`` if there was no run."""
        ledger = Ledger(self.folder, only_read=True)
        if ledger.is_lost:
            raise StateDamaged(f"{ledger.path} is missing, although it had recorded attempts", hint=ANEW)
        if not ledger.events:
            raise NothingEligible("No parallel run in this project", hint=BEGIN)
        return ledger.folded()

    def unpushed_here(self) -> int:
        """Return the worker count of the last run if it has unpushed merges on the checked-out branch, otherwise 0."""
        with suppress(HarnessError):
            plan = self.plan()
            is_here = self.git is not None and self.git.branch() == plan.branch
            return plan.workers if plan.unpushed and is_here else 0
        return 0

    # ---- workspaces

    def _existing(self) -> dict[str, Workspace]:
        return {each.name: each for each in workspaces.existing(os.path.join(self.folder, "places"))}

    def workspace_list(self) -> JsonObject:
        found = [_shown(each) for each in self._existing().values()]
        follows = "harness workspace prune" if self.coordinator() is None else "harness status"
        return {"places": found, "set_aside": self._set_aside(), "next": follows if found else BEGIN}

    def _set_aside(self) -> list[str]:
        there = os.path.join(self.folder, "places")
        folders = [entry.path for entry in os.scandir(there) if entry.is_dir()] if os.path.isdir(there) else []
        return sorted(path for path in folders if os.path.basename(path) not in self._existing())

    def workspace_path(self, name: str) -> JsonObject:
        """Return the folder of a workspace. Raise ``UsageError`` for an unknown name."""
        known = self._existing()
        if name not in known:
            told = f"There is no workspace {name}" + (f"; the workspaces are: {', '.join(known)}" if known else "")
            raise UsageError(told, hint="harness workspace list" if known else BEGIN)
        return {"place": name, "path": known[name].folder, "next": "harness workspace list"}

    def prune(self) -> JsonObject:
        """Remove unused workspaces, after saving their work on rescue refs."""
        # SC-13
        owner.refuse_agents(self.root, "harness workspace prune")
        known = self._existing()
        if not known:
            return {"removed": [], "kept": [], "next": "harness status"}
        if self.git is None:
            raise UnsafeTree("There is no git repository here any more, so nothing can be rescued")
        with run_held(self.folder, hint="wait for the run to end, or: harness pause"):
            ledger = Ledger(self.folder, only_read=True)
            plan = ledger.folded()
            needed = {plan.work(item).slot: item for item in plan.in_state(WORKING)}
            removed: list[JsonObject] = []
            kept: list[JsonObject] = []
            for name, workspace in known.items():
                if name in needed:
                    why = f"{needed[name]} was worked on there when the run ended; the next run continues it"
                    kept.append({"place": name, "why": why})
                    continue
                try:
                    removed.append({"place": name, "rescues": self._removed(workspace, self.git)})
                except Busy as error:
                    kept.append({"place": name, "why": error.message})
        rescued = any(each["rescues"] for each in removed)
        follows = "harness rescue list" if rescued else BEGIN if needed else "harness workspace list"
        return {"removed": removed, "kept": kept, "next": follows}

    def _removed(self, workspace: Workspace, git: Git) -> list[str]:
        with workspace.locked():
            found = workspace.rescue(git, str(_record(workspace).get("name") or workspace.name), self.own)
            workspace_setup.tear_down(workspace.folder)
            workspace.clear()
            files.unlink(workspace.record)
            workspace.at_rest = False
            for refs in (BEFORE, ProjectRefs(project_id(self.folder))):
                git.update_ref(refs.workspace(workspace.name), None)
        return found

    # ---- requests

    def ask(self, verb: str, **args: object) -> JsonObject:
        """Send a request to the coordinator. Return the event about the request, and the user's next command."""
        command = f"harness {'queue ' if verb in requests.OF_QUEUE else ''}{_COMMANDS.get(verb, verb)}"
        for workspace in [self.root, *(each.folder for each in self._existing().values())]:
            owner.refuse_agents(workspace, command)
        event = self._asked(verb, args) if self.coordinator() else None
        is_asked = event is not None
        if event is None:
            if verb not in requests.OF_QUEUE:
                raise NothingEligible("No parallel run is running here", hint=BEGIN)
            event = self._done_here(verb, args)
        follows = "harness queue" if verb in requests.OF_QUEUE else "harness status"
        follows = follows if is_asked else self.queue()["next"]
        return {"event": event, "said": requests.told(event), "next": follows}

    def _asked(self, verb: str, args: JsonObject) -> JsonObject | None:
        """Send a request. Return the event about the request, or None if the run ended without an answer."""
        mailbox = requests.Mailbox(self.folder)
        request = mailbox.post(verb, args)
        try:
            until = time.monotonic() + ANSWER_SECONDS
            while (found := mailbox.answered(request)) is None and time.monotonic() < until:
                if self.coordinator() is None:
                    break
                time.sleep(0.05)
            is_taken = found is None and not mailbox.withdraw(request)
            found = found or mailbox.answered(request)
        finally:
            mailbox.forget(request)
        if found and found.get("ok"):
            return dict(found["event"])
        if found:
            error = found["error"]
            raise _REFUSALS.get(error["exit_code"], HarnessError)(error["message"], hint=error["hint"])
        events = Ledger(self.folder, only_read=True).events
        if event := next((each for each in events if each.get("request") == request), None):
            return event
        if holder := self.coordinator():
            what = "it may still act on the request" if is_taken else "nothing was changed"
            told = f"the parallel run ({holder}) has not answered in {ANSWER_SECONDS:.0f} s; {what}"
            raise Busy(told, hint="harness queue" if is_taken else "the same command again")
        return None

    def _done_here(self, verb: str, args: JsonObject) -> JsonObject:
        self.plan()
        with run_held(self.folder, hint="the same command again", told="a parallel run has just started here"):
            ledger = Ledger(self.folder)
            kind, members = requests.granted(ledger.folded(), verb, args)
            if kind == "dropped" and self.git is not None:
                members["rescue"] = candidates.set_aside(self.git, members["order"], members["commit"])
            event = ledger.append(kind, **members)
            ledger.close()
            run_snapshot.change(self.snapshot, queue=queue_rows(ledger.folded()))
            return event

    # ---- the queue

    def queue(self) -> JsonObject:
        """Return the merge queue of the last run, in order."""
        plan = self.plan()
        rows = queue_rows(plan)
        is_alive = self.coordinator() is not None
        unpushed = plan.left_unpushed if plan.push_problem or plan.push_waits or not is_alive else None
        follows = "harness run" if not rows else f"harness run --workers {plan.workers}"
        follows = follows if (rows or unpushed) and not is_alive else "harness status"
        if rows and all(each["state"] == "held" for each in rows):  # a run would land none of them
            follows = f"harness queue release {rows[0]['item']}"
        return {"run": plan.run, "alive": is_alive, "queue": rows, "unpushed": unpushed, "next": follows}


@dataclass(frozen=True, kw_only=True)
class PreviewedRun:
    plan: RunPlan
    unsure: tuple[str, ...] = ()  # items that other workers were given: whether these go on only their engine knows


def read_preview(folder: str, workers: int, *, elsewhere: bool = False) -> PreviewedRun:
    """Return the state from which the next run would start."""
    known = Ledger(folder, only_read=True).folded()
    if _holder(os.path.join(folder, RUN_LOCK)):
        return PreviewedRun(plan=known)
    unsure: list[str] = []
    for item in known.in_state(WORKING):
        work = known.work(item)
        result = result_of_job(folder, work.job)
        # the attempt may still be running on another machine
        if elsewhere and known.engine and not result.get("status"):
            unsure.append(item)
            continue
        told = {name: result.get(name) for name in ("status", "commit", "reason", "cost_usd")}
        event = {"type": "ended", **told} if told["status"] else {"type": "lost", "with_coordinator": True}
        known.apply({"item": item, "order": work.job, "fence": work.fence, **event})
    if known.closed or not known.run:
        carried, known = known.carried(), RunPlan()
        begun = {"type": "run", "run": "", "branch": "", "head": "", "workers": workers, "batch_max": 8, "mends": 2}
        known.apply(begun | {"carried": carried})
    return PreviewedRun(plan=known, unsure=tuple(unsure))


def refuse_gone(git: Git, folder: str, named: str | None) -> None:
    """Raise ``UnsafeTree`` if the target branch of the next run was deleted after the previous run."""
    branch = f"refs/heads/{named}" if named else git.branch()
    if branch is None or git.commit_of(branch):
        return
    known = RunPlan()
    with suppress(HarnessError):
        known = Ledger(folder, only_read=True).folded()
    if known.branch == branch and known.head:
        raise told_gone(branch, known.head)


def _holder(lock: str) -> Owner | None:
    """Return the live process that holds a lock file, without taking the lock."""
    try:
        found = Owner.from_record(files.read_json(lock))
    except (OSError, HarnessError):
        return None
    return found if found and owner.state(found) != "dead" else None


def queue_rows(plan: RunPlan) -> list[JsonObject]:
    rows = [
        _queued(plan, item, batch.id)
        for batch in plan.under_way
        for item in batch.members
        if plan.work(item).state == LANDING
    ]
    return rows + [_queued(plan, item, None) for item in plan.queue if plan.work(item).state == READY]


def _queued(plan: RunPlan, item: str, batch: int | None) -> JsonObject:
    work = plan.work(item)
    state = "held" if work.state == READY and item in plan.held else work.state
    return {"item": item, "fence": work.fence, "since": work.since, "batch": batch, "state": state}


def _record(workspace: Workspace) -> JsonObject:
    try:
        return files.read_json(workspace.record)
    except (OSError, HarnessError):
        return {}


def _shown(workspace: Workspace) -> JsonObject:
    record = _record(workspace)
    is_used = _holder(f"{workspace.folder}.lock") is not None
    try:
        at = os.lstat(workspace.record).st_mtime
    except OSError:
        at = os.lstat(workspace.folder).st_mtime
    state = "in use" if is_used else "left" if workspace.name.startswith("w") and not workspace.at_rest else "free"
    return {
        "place": workspace.name,
        "item": record.get("item") or record.get("name"),
        "bytes": _size(workspace.folder),
        "at": clock.timestamp(clock.moment(at)),
        "age_seconds": max(0, round(time.time() - at)),
        "state": state,
    }


def _size(folder: str) -> int:
    total = 0
    for where, _, names in os.walk(folder):
        for name in names:
            try:
                total += Path(where, name).lstat().st_size
            except OSError:
                continue
    return total
