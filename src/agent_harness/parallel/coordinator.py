"""Coordinator of a parallel run. It starts jobs, collects results, merges proven work, and is the only writer.

    replay the ledger -> [ get the plan's next steps -> carry them out, each event on disk first -> wait for workers ]*
    -> close

When the coordinator's process ends, the worker processes end, too. The next coordinator replays the ledger. A job with
a result counts. A job without a result is lost, and its item is open again. The next coordinator also completes a merge
that was recorded but not finished.
"""

import os
import queue
import shutil
import time
from collections.abc import Callable, Collection
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import count

from agent_harness.errors import Busy, HarnessError, LimitInForce, NothingEligible, UnsafeTree
from agent_harness.kernel import clock, files, host, owner, process
from agent_harness.kernel.git import Git
from agent_harness.kernel.host import HostSlot
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.process.sandbox import kind_for, settings_from
from agent_harness.kernel.rate_limits import sentence
from agent_harness.kernel.terminal import printable
from agent_harness.parallel import decision, merge_queue, plan, requests, slots, workspace_setup, workspaces
from agent_harness.parallel.budget import CountedCost, SharedBudget, most_of_each
from agent_harness.parallel.engine import UNKNOWN, WRAP_UP_SECONDS, Engine, LocalEngine
from agent_harness.parallel.items import (
    ACCEPTED,
    ATTEMPT,
    JOB,
    NOT_SET_UP,
    PARKED,
    PARTIAL,
    RESULT,
    VERIFY,
    Job,
    ProjectPort,
    job_folder,
    result_of_job,
)
from agent_harness.parallel.ledger import VERSION, Ledger, project_id, run_held
from agent_harness.parallel.merge_queue import candidates
from agent_harness.parallel.merge_queue.merging import BRANCH_GONE, CheckRun, MergeQueue
from agent_harness.parallel.merge_queue.refs import ProjectRefs
from agent_harness.parallel.merge_queue.touched import ChangeWatch
from agent_harness.parallel.people import queue_rows
from agent_harness.parallel.workspace_setup import PortBlocks, SetUp
from agent_harness.parallel.workspaces import Workspace
from agent_harness.session.needs import AGENT_FAILS
from agent_harness.session.parallel_settings import ParallelSettings
from agent_harness.session.run_snapshot import RunSnapshot
from agent_harness.supervision.dispatch import RefusalPolicy
from agent_harness.supervision.interruption import Stop

SUBMODULES = "Submodules are empty folders in workspaces; parallel.setup may fill them: git submodule update --init"
LOOK_FIRST = "harness doctor  # then: harness run"
WORKSPACE_DAMAGED = "place_damaged"
"""Reason recorded for a lost attempt if the agent destroyed the repository of its workspace."""
_HELD = (plan.WORKING, plan.READY, plan.LANDING)
LOOK_SECONDS = 0.5
MAIL_SECONDS = 1.0
PHASES = {"preflight": "setup", "agent": "working", "settling": "saving"}
"""Names under which the phases of a session are displayed."""


@dataclass(frozen=True, kw_only=True)
class RunTerms:
    workers: int
    say: Callable[[str], None]
    stop: Stop
    max_attempts: int | None = None
    max_cost_usd: float | None = None
    settings: ParallelSettings
    sandbox: object = None  # of a set-up, as the project's settings have it
    only_land: bool = False  # only land proven work, and start no attempt
    engine: Engine | None = None  # that executes attempts; None: processes of this machine
    accounts: tuple[str, ...] = ()  # of the agents, in their order: the first that may begin does
    policy: RefusalPolicy = field(default_factory=RefusalPolicy)


@dataclass(kw_only=True)
class _Under:
    job: Job
    recalled: bool = False
    title: str = ""
    since: str = field(default_factory=clock.timestamp)
    checks: CheckRun | None = None
    heard: JsonObject = field(default_factory=dict)  # what its session said last


class Coordinator:
    """Coordinator of one parallel run. The run's ledger is in ``folder``."""

    def __init__(self, port: ProjectPort, git: Git, folder: str, branch: str, terms: RunTerms) -> None:
        self._port = port
        self._git = git
        self._folder = folder
        self._branch = branch
        self._terms = terms
        self._say = terms.say
        self._ended_orders: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._here: Engine = LocalEngine()
        self._engine = terms.engine or self._here
        self._ports = PortBlocks(terms.settings.ports)
        self._lend: tuple[str, ...] = ()
        self._money = SharedBudget(folder)
        self._under: dict[str, _Under] = {}
        self._ordered: list[tuple[_Under, str]] = []  # with the reason; in the ledger, but not started yet
        self._of_host: dict[str, HostSlot] = {}  # what jobs have of this machine
        memory = terms.settings.min_free_mb << 20
        self._run_slots = slots.RunSlots(folder, memory, terms.accounts, terms.policy, terms.say)
        self._memory = slots.MemoryWatch(memory)
        self._put_back: dict[str, str] = {}  # changes of the project, and where the found state is kept
        self._left_changed: dict[str, None] = {}  # changes of it, or outside, that are not reverted
        self._mailbox = requests.Mailbox(folder)
        self._snapshot = RunSnapshot(port.snapshot)
        self._mail_at = 0.0
        self._leave_by = 0.0  # of the monotonic clock, once the run is told to end
        self._began = time.monotonic()
        most = host.limits()[host.TESTS]
        self._test_runs = min(terms.settings.test_runs or most, most)

    # ---- the ledger

    @property
    def _plan(self) -> plan.RunPlan:
        return self._ledger.plan

    def _open(self) -> None:
        self._ledger = Ledger(self._folder)
        self._ledger.folded()
        self._refs = ProjectRefs(project_id(self._folder))
        self._merge_queue = MergeQueue(
            self._port,
            self._git,
            self._folder,
            branch=self._branch,
            ledger=self._ledger,
            refs=self._refs,
            job=self._job_checks,
            say=self._say,
            stop=self._terms.stop,
        )
        if self._plan.branch not in ("", self._branch) and self._plan.in_state(*_HELD):
            name = self._plan.branch.removeprefix("refs/heads/")
            told = (
                f"the work of the previous run must be merged into the branch {name}, which is not the target of "
                "this run"
            )
            raise UnsafeTree(told, hint=f"git switch {name}  # then: harness run --workers N")
        self._take_old_names_over()
        head = self._git.commit_of(self._branch)
        run = self._plan.run
        carried: list[JsonObject] = []
        is_ours = self._plan.branch == self._branch
        unpushed = self._plan.unpushed if is_ours else ""
        is_unaudited = is_ours and self._plan.combined and not self._plan.audited
        if self._plan.closed or not self._plan.run:
            run = process.new_run_id()[:8]
            carried = [each for each in self._plan.carried() if self._is_left(each)]
            self._ledger.put_away()
        self._forget_jobs({each["order"] for each in carried} | {work.job for work in self._plan.works.values()})
        known = {"v": VERSION, "run": run, "branch": self._branch, "workers": self._terms.workers, "carried": carried}
        known["project"] = self._refs.project
        wished = self._terms.settings
        settings = {"batch_max": wished.batch_max, "mends": wished.mends}
        settings["window"] = min(wished.window or 2, self._test_runs)
        known |= {} if self._engine.is_local else {"engine": self._engine.name}
        known |= {"unpushed": unpushed} if unpushed else {}
        known |= {"unaudited": True} if is_unaudited else {}
        self._ledger.note("run", **known, **settings, head=self._plan.head if self._plan.batch else head)
        self._port.adopt([self._plan.work(item).job for item in self._plan.in_state(*_HELD)])
        at_work = [self._plan.work(item).job for item in self._plan.in_state(plan.WORKING)]
        self._money.begin(self._plan.spent_usd, at_work)
        self._take_over()
        if kept := candidates.tidied(self._git, self._refs, self._plan):
            self._say(f"Proven work that belongs to no item was kept in these rescue refs: {', '.join(kept)}")
        self._watch = ChangeWatch(self._git, self._branch, self._aside(), (*self._port.own, *self._port.common))

    def _take_old_names_over(self) -> None:
        """Rename candidate refs of old harness versions. Report refs that may belong to another project."""
        if not candidates.old_names(self._git):
            return
        works = [work for work in self._plan.works.values() if work.job]
        proven = {work.job: {work.commit, *work.before} - {""} for work in works}
        needed = {work.commit for work in works if work.state in (plan.READY, plan.LANDING) or work.fix}
        for work in works:
            result = result_of_job(self._folder, work.job)
            if work.state == plan.WORKING and result.get("status") == ACCEPTED:
                proven[work.job] |= {str(result.get("commit"))}
                needed |= {str(result.get("commit"))}
        if left := candidates.taken_over(self._git, self._refs, proven, needed):
            self._say(
                f"Refs of an older harness version were kept, as another project may need them: {', '.join(left)}"
            )

    def _is_left(self, carried: JsonObject) -> bool:
        """Return True if this run continues the item in ``carried``. Otherwise, save that item's work."""
        if not carried["ready"] or self._port.holds(carried["order"], carried["item"]):
            return True
        # the project no longer assigns this proven work to the run: keep it on a rescue ref
        candidates.set_aside(self._git, carried["order"], carried["commit"])
        known = {name: carried[name] for name in ("order", "commit", "bounces")}
        candidates.let_go(self._git, self._refs, [plan.ItemProgress(**known)])
        return False

    def _forget_jobs(self, kept: set[str]) -> None:
        paths = {job_folder(self._folder, each) for each in kept if each}
        folder = os.path.join(self._folder, "orders")
        with suppress(FileNotFoundError):
            for entry in os.scandir(folder) if not os.path.islink(folder) else ():
                if entry.path not in paths and entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)

    def _take_over(self) -> None:
        """Take over the jobs of a killed coordinator."""
        rescues: dict[str, list[str]] = {}
        for workspace in workspaces.existing(os.path.join(self._folder, "places")):
            record = files.read_json_if_any(workspace.record)
            process.end_orphans(record.get("process") or {})
            if workspace.name.startswith("w") and not workspace.at_rest:
                name = str(record.get("name") or workspace.name)
                rescues[str(record.get("order"))] = self._rescued(workspace, name)
        at_work = self._plan.in_state(plan.WORKING)
        jobs = [found for item in at_work if (found := self._submitted(self._plan.work(item).job))]
        known = self._engine.known(jobs)
        still = {each.id: each for each in jobs if known.get(each.id, UNKNOWN) != UNKNOWN}
        for item in at_work:
            work = self._plan.work(item)
            if files.read_json_if_any(os.path.join(job_folder(self._folder, work.job), RESULT)):
                self._take(item, work.job, work.fence)
            elif job := still.get(work.job):
                self._say(f"{work.slot} {item}: continues ({self._engine.name})")
                self._money.allow(job.id, job.allowance_usd)
                self._begin(_Under(job=job))
            else:
                self._lose(item, work.job, work.fence, rescues.get(work.job, []), with_coordinator=True)
        self._take_collected()

    def _submitted(self, job_id: str) -> Job | None:
        record = files.read_json_if_any(os.path.join(job_folder(self._folder, job_id), JOB))
        return Job.from_record(record) if record.get("id") == job_id else None

    def _rescued(self, workspace: Workspace, name: str) -> list[str]:
        until = time.monotonic() + 30.0
        while True:
            try:
                with workspace.locked():
                    found = workspace.rescue(self._git, name, self._port.own)
                    workspace.at_rest = True
                    return found
            except Busy:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    # ---- the loop

    def run(self) -> JsonObject:
        """Run all jobs. Return the results, the reason for the end and the exit code."""
        os.makedirs(os.path.join(self._folder, "places"), mode=0o700, exist_ok=True)
        with run_held(self._folder, hint="wait for that run, or end it with Ctrl-C"):
            return self._run()

    def _run(self) -> JsonObject:
        try:
            self._ports.variables("w1", self._terms.workers)  # raises before anything has started if there are none
            self._here.open(self._ended_orders)
            self._engine.open(self._ended_orders)
            self._open()
            wished = self._terms.settings
            if not wished.setup and self._git.show(self._branch, ".gitmodules"):
                self._say(SUBMODULES)
            for line in workspace_setup.not_linkable(self._git, wished.copy):
                self._say(line)
            self._lend = workspace_setup.linkable_in(self._git, wished.lent, self._port.own, installed=wished.lend)
            reason = self._loop()
            return self._closed(*reason)
        except KeyboardInterrupt:
            for under in self._under.values():
                self._recall(under, "a person ends the run")
            raise
        finally:
            self._engine.close()
            self._here.close()
            self._ports.close()
            for each in self._of_host.values():
                each.release()

    def _loop(self) -> tuple[int, str, str]:
        while True:
            self._port.keep()
            self._look_around()
            self._snapshot.show(self._view)
            self._ease_memory()
            ending = self._why_not()
            moved = False
            self._run_slots.begin_round()
            is_over = ending is not None and ending[0] in (130, 5)
            steps = decision.decide(self._plan, self._facts(ending is None))
            with self._git.view() if steps else nullcontext():
                for step in steps:
                    if not (is_over and isinstance(step, decision.CombineCandidates)):  # ready items stay in the queue
                        moved = self._do(step) or moved
                self._begin_ordered()
            self._end_needless(is_over)
            if moved:
                continue
            waits = self._merge_queue.is_pushing and not is_over
            if not self._under and not waits and not (self._run_slots.waits and ending is None):
                if ending is None and self._merge_queue.try_last():
                    continue
                return ending or self._all_refused() or self._nothing_left()
            with suppress(queue.Empty):
                self._ended(self._ended_orders.get(timeout=LOOK_SECONDS))
                while True:
                    self._ended(self._ended_orders.get_nowait())

    def _end_needless(self, is_over: bool) -> None:
        """Cancel the checks of abandoned batches and, if the run is over, all attempts."""
        batches = {each.id for each in self._plan.under_way}
        for under in self._under.values():
            if is_over and under.job.kind == ATTEMPT:
                self._recall(under, "the run ends")
            elif under.checks and under.checks.trial and under.checks.batch not in batches:
                self._recall(under, "its batch was cancelled")
        if is_over and self._terms.stop.signalled:
            self._leave_elsewhere()

    def _leave_elsewhere(self) -> None:
        """Raise ``KeyboardInterrupt`` if remote attempts do not end in time after a stop request."""
        now = time.monotonic()
        self._leave_by = self._leave_by or now + clock.scaled(WRAP_UP_SECONDS)
        left = [each.job.id for each in self._under.values()]
        are_elsewhere = not self._engine.is_local and all(each.job.kind == ATTEMPT for each in self._under.values())
        if left and are_elsewhere and now > self._leave_by:
            self._say(f"{', '.join(left)}: no result has arrived yet; the next run collects the results")
            # the remote attempts continue, and the next run collects their results
            raise KeyboardInterrupt

    def _recall(self, under: _Under, why: str) -> None:
        if not under.recalled:
            under.recalled = True
            (self._engine if under.job.kind == ATTEMPT else self._here).recall(under.job.id, why)

    def _facts(self, may_begin: bool) -> decision.Facts:
        attempts = [each for each in self._under.values() if each.job.kind == ATTEMPT]
        checks = [each.checks for each in self._under.values() if each.checks]
        known = self._plan.under_way
        is_due = any(not each.trial or (known and each.batch == known[0].id) for each in checks)
        return decision.Facts(
            items=self._port.items() if may_begin and not self._terms.only_land else [],
            slots=self._plan.workers - len(attempts) - len(self._plan.shut_slots),
            checking=is_due or (self._plan.joined is not None and self._merge_queue.branch.waits),
            test_runs=self._test_runs - len(checks),
            ahead=frozenset(each.batch for each in checks),
            apart=self._merge_queue.apart,
            held_up=self._merge_queue.held_up,
            may_begin=may_begin,
            pushing=self._merge_queue.is_pushing,
            most_attempts=self._terms.max_attempts,
        )

    def _why_not(self) -> tuple[int, str, str] | None:
        """Return exit code, reason and message if no new job may start, otherwise None."""
        stop = self._terms.stop
        if stop.requested():
            code = 130 if stop.signalled else 5
            return code, "user_pause", "Stopped by a person."
        if self._plan.blocked == BRANCH_GONE:
            told = merge_queue.told_gone(self._branch, self._plan.head)
            return 3, BRANCH_GONE, f"{told.message}; proven work waits to be merged. To restore the branch: {told.hint}"
        if self._plan.blocked:
            return 3, self._plan.blocked, self._told_blocked()
        if said := self._port.stopped():
            return said[0], "stopped", said[1]
        if len(self._plan.shut_slots) >= self._plan.workers:
            return 4, NOT_SET_UP, f"No workspace could be set up: {[*self._plan.shut.values()][-1]}"
        return None if self._terms.only_land else self._limit_reached()

    def _told_blocked(self) -> str:
        known, branch = self._plan, self._branch.removeprefix("refs/heads/")
        at, names = known.blocked_at[:10], ", ".join(known.blocked_by[:5]) or "the work to be merged"
        if known.blocked == "head_red" and at:
            told = f"{branch} at {at} fails these checks, so nothing is merged to it: {names}"
            return f"{told}. To see the commit: git show {at}. Fix it, or: git revert {at}; then: harness resume"
        where = f" on {at}" if at else ""
        return (
            f"{known.blocked}: the checks of {names}{where} gave no result twice. Fix the cause, then: harness resume"
        )

    def _told_parked(self, item: str) -> str:
        work = self._plan.work(item)
        if work.why != "landing_failed" or not work.last_fix:
            return f"{item} waits: {work.why}"
        fix = work.last_fix
        what = ", ".join(fix.get("files") or fix.get("failing") or []) or "no details"
        met = f", together with {', '.join(fix['met'])}" if fix.get("met") else ""
        why = str(fix.get("why")).replace("_", " ")
        times = f"proven in its workspace and rejected {work.rejections} times"
        return f"{item} waits: {work.why}; {times}, the last time for {why}: {what}{met}. harness why {item}"

    def _told_broken(self) -> str:
        """Record in the project which items a merge broke, and return a message for the user."""
        head, branch = self._plan.head, self._branch.removeprefix("refs/heads/")
        told = []
        for item, names in self._plan.broken.items():
            own = self._plan.work(item).own
            self._port.broken(names, item, own, head)
            at = f"{branch} at {head[:10]} fails these checks: {', '.join(names[:5])}"
            told.append(f"{at}; the merge of {item} broke them and is not fixed (to undo it: git revert {own[:12]}).")
        return " ".join(told)

    def _limit_reached(self) -> tuple[int, str, str] | None:
        most = self._terms.max_cost_usd
        if most is not None and (self._plan.spent_usd >= most or not (self._under or self._can_pay())):
            return (
                9,
                "budget",
                f"${self._plan.spent_usd:.2f} of ${most:.2f} is spent; the next call may cost more than the rest.",
            )
        if self._plan.barren >= plan.BARREN + self._plan.workers:
            last = self._plan.last_end
            told = f"The last attempts produced nothing to verify: {last.get('message')}"
            return last.get("exit_code") or 1, AGENT_FAILS, told
        return None

    def _can_pay(self) -> bool:
        most = self._terms.max_cost_usd
        return most is None or self._money.left(most) >= -1e-9

    def _all_refused(self) -> tuple[int, str, str] | None:
        refused = self._run_slots.refused
        return (LimitInForce.exit_code, LimitInForce.code, sentence(refused.as_notice())) if refused else None

    def _nothing_left(self) -> tuple[int, str, str]:
        failed, still, asked = self._port.left()
        limit = self._terms.max_attempts
        parked = self._plan.in_state(PARKED)
        held = [item for item in self._plan.in_state(plan.READY) if item in self._plan.held]
        if parked or held:
            told = (
                f"{', '.join(held)}: held back, and not merged. To merge: harness queue release {held[0]}"
                if held
                else ""
            )
            decides = ". ".join(map(self._told_parked, parked[:5]))
            return (3, "parked", decides) if parked else (3, "held", told)
        if self._terms.only_land or not (failed or still or asked):
            return 0, "done", "All work is merged."
        if not (failed or still):
            return 3, "question", f"Nothing is left to do except your decision about {', '.join(asked)}."
        if still and limit is not None and self._plan.attempts >= limit:
            return 9, "max_tasks", f"{self._plan.attempts} attempts of {limit} were made."
        if failed or (self._plan.attempts and not self._plan.landed):
            told = f"{len(failed)} failed for good: {', '.join(failed[:5])}." if failed else "Nothing landed."
            return 1, "failed" if failed else "nothing_landed", told
        told = "Everything that can be merged is merged; " if self._plan.landed else ""
        return 7, "waiting", f"{told}{len(still)} cannot be started now: {', '.join(still[:5])}."

    # ---- display

    def _view(self) -> JsonObject:
        in_the_way = self._merge_queue.in_the_way
        known, attempts = self._plan, [each for each in self._under.values() if each.job.kind == ATTEMPT]
        attempts.sort(key=lambda each: int(each.job.slot[1:]))
        heard = self._port.heard([each.job for each in attempts])
        elsewhere = self._engine.heard()
        for each in attempts:
            if tries := elsewhere.get(each.job.id, {}).get("tries_usd"):
                self._money.hear(each.job.id, tries)
        heard |= {each.job.item: elsewhere[each.job.id] for each in attempts if each.job.id in elsewhere}
        spent, reserved = self._money.standing()
        short = (f"{each.get('host')}: {each['short']}"[:300] for each in elsewhere.values() if each.get("short"))
        return {
            "run": known.run,
            "engine": self._engine.name,
            "owner": owner.current().as_record(),
            "at": clock.timestamp(),
            "workers": [_shown(each, heard.get(each.job.item, {})) for each in attempts],
            "queue": queue_rows(known),
            "landed": len(known.landed),
            "bounced": known.rejections,
            "lost": known.lost,
            "parked": [{"item": item, "reason": known.work(item).why} for item in known.in_state(PARKED)],
            "limits": [*self._run_slots.why, *dict.fromkeys(short)],
            "budget": {"spent": spent, "reserved": reserved, "limit": self._terms.max_cost_usd},
            "hands": {"have": known.workers - len(known.shut_slots), "busy": len(attempts)},
            "blocked": known.blocked or known.push_problem or (in_the_way.message if in_the_way else None),
            "unpushed": known.left_unpushed if known.push_problem or known.push_waits or known.closed else None,
        }

    # ---- what people ask for

    def _look_around(self) -> None:
        """Once a second, answer the user's requests, and cancel attempts at items that the run no longer owns."""
        if time.monotonic() < self._mail_at:
            return
        self._mail_at = time.monotonic() + MAIL_SECONDS
        self._read_mail()
        for under in self._under.values():
            job = under.job
            if job.kind == ATTEMPT and not under.recalled and not self._port.holds(job.id, job.item):
                self._ledger.note("recalled", item=job.item, order=job.id, slot=job.slot, why="taken_back")
                self._say(
                    f"{job.slot} {job.item}: the item no longer belongs to this run; the work on the item is kept"
                )
                self._recall(under, "the project no longer assigns the item to this run")

    def _read_mail(self, *, at_end: bool = False) -> None:
        for request in self._mailbox.taken(self._say):
            try:
                known = (each for each in self._ledger.events if each.get("request") == request["id"])
                event = next(known, None) or self._granted(request, at_end=at_end)
                found: JsonObject = {"ok": True, "event": event}
            except HarnessError as error:
                refusal = {"exit_code": error.exit_code, "message": error.message, "hint": error.hint}
                found = {"ok": False, "error": refusal}
            self._mailbox.answer(request["id"], found)

    def _granted(self, request: JsonObject, *, at_end: bool) -> JsonObject:
        """Carry out a user's request, and return the ledger event about the request."""
        if at_end and request["verb"] not in requests.OF_QUEUE:
            raise NothingEligible("the parallel run has ended", hint="harness status")
        kind, members = requests.granted(self._plan, request["verb"], request["args"])
        if kind == "dropped":
            members["rescue"] = candidates.set_aside(self._git, members["order"], members["commit"])
        # on disk before the request is carried out
        event = self._ledger.note(kind, **members, request=request["id"])
        self._say(f"A person's request: {requests.told(event)}")
        if kind == "dropped":
            given_back = {"status": PARTIAL, "reason": "dropped", "message": "dropped from the queue by a person"}
            self._port.ended(members["order"], members["item"], given_back, [members["rescue"]])
        elif kind == "recalled" and (under := self._under.get(members["order"])):
            self._recall(under, "recalled by a person")
        return event

    def _looks(self) -> list[str]:
        """Return messages about changes that the user must review."""
        if self._aside() is None:
            return []
        seen = "while agents worked without a sandbox"
        branch = self._branch.removeprefix("refs/heads/")
        heads = [str(each["head"])[:10] for each in self._ledger.events if each.get("type") == "head_moved"]
        told = [
            f"{branch} was moved to {each} {seen}, but not by a merge of this run: git show {each}" for each in heads
        ]
        left = [*self._left_changed]
        told += [f"changed {seen}, and not restored: {_some(left)}"] if left else []
        if self._put_back:
            folder = self._aside() if any(map(os.path.isabs, self._put_back.values())) else ""
            kept = f"; the replaced versions are kept in {folder}" if folder else ""
            told.append(f"changed {seen}, and restored: {_some([*self._put_back])}{kept}")
        return told

    def _closed(self, code: int, reason: str, message: str) -> JsonObject:
        self._read_mail(at_end=True)
        for item in self._plan.in_state(PARKED):
            self._port.question(item, self._plan.work(item).why, self._told_parked(item))
        if self._plan.blocked not in ("", BRANCH_GONE):
            self._port.question(None, self._plan.blocked, message)
        found = self._plan
        if found.push_problem and code not in (130, 4):
            code, reason, message = 5, "landing_blocked", found.push_problem
        if broken := self._told_broken():
            code, reason = (3, "parked") if code in (0, 1, 7) else (code, reason)
            message = f"{broken} {message}"
        hint = merge_queue.told_gone(self._branch, found.head).hint if reason == BRANCH_GONE else None
        hint = LOOK_FIRST if reason == AGENT_FAILS else hint
        if (in_the_way := self._merge_queue.in_the_way) and code in (0, 1, 7):
            proven = (
                ", ".join(found.in_state(plan.READY, plan.LANDING))
                or "work that is verified on top of the remote's commits"
            )
            code, reason, message = 5, "landing_blocked", f"{in_the_way.message}; this blocks the merge of {proven}."
            hint = f"{in_the_way.hint}  # or commit it; then: harness run"
        failed, still, _ = self._port.left()
        if found.last_end and not found.landed and code != 130 and reason != AGENT_FAILS:
            last = f"{found.last_end['item']}: {found.last_end.get('message') or found.last_end['status']}"
            message = f"Nothing was merged. The last attempt was at {last.rstrip('.')}. {message}"
        if self._put_back:
            message += (
                f" Files that changed in the project during the run, and were restored: {_some([*self._put_back])}."
            )
        self._ledger.note("closed", reason=reason, exit_code=code)
        self._ledger.close()
        if found.in_state(plan.READY, plan.LANDING, PARKED) or found.unpushed:
            self._snapshot.show(self._view, now=True)
        else:
            self._snapshot.close()
        self._port.close(found.push_problem)
        if (unpushed := found.left_unpushed) and not found.push_problem:
            message = f"{message} {unpushed['message']}"
        self._say(message)
        return {
            "run": found.run,
            "landed": found.landed,
            "failed": failed,
            "parked": [{"item": item, "reason": found.work(item).why} for item in found.in_state(PARKED)],
            "held": [item for item in found.in_state(plan.READY) if item in found.held],
            "open": still,
            "batches": found.batches,
            "bounces": found.rejections,
            "unpushed": unpushed,
            "checks": found.trials,
            "attempts": found.attempts,
            "lost": found.lost,
            "seconds": round(time.monotonic() - self._began, 1),
            "cost_usd": round(found.spent_usd, 4),
            "reason": reason,
            "message": message,
            "hint": hint,
            "looks": self._looks(),
            "exit_code": code,
        }

    # ---- steps

    def _do(self, step: decision.Step) -> bool:
        """Carry out a step of the plan. Return True if the plan has changed."""
        merge_queue, moved = self._merge_queue, True
        match step:
            case decision.StartAttempt():
                moved = self._job(step)
            case decision.CombineCandidates():
                moved = merge_queue.combine_ahead(step.items, step.on) if step.on else merge_queue.combine(step.items)
            case decision.RunChecks():
                moved = (
                    merge_queue.check_head(step.head)
                    if step.trial is None
                    else merge_queue.check(step.batch, step.trial)
                )
            case decision.LandBatch():
                moved = merge_queue.land(step.count)
            case decision.PushLanded():
                moved = merge_queue.push()
                self._watch.fetched()
            case decision.RejectItem():
                moved = merge_queue.reject(step.item)
            case decision.ReleaseBatch():
                self._ledger.note("released", singly=step.singly)
            case decision.AskPerson():
                self._ledger.note("blocked", reason=step.reason)
        return moved

    def _job(self, step: decision.StartAttempt) -> bool:
        if not self._can_pay():
            return False
        item, work, base = step.item, self._plan.work(step.item.id), self._merge_queue.branch.tip
        if not base:
            self._ledger.note("blocked", reason=BRANCH_GONE)
            return True
        is_beside = any(each.job.kind == ATTEMPT for each in self._under.values())
        told = self._of_job(item.id)
        taken_slot = self._run_slots.for_agent(told, is_beside=is_beside) if self._engine.is_local else None
        if self._engine.is_local and taken_slot is None:
            return False
        busy = {each.job.slot for each in self._under.values()} | {*self._plan.shut}
        slot = next(f"w{n}" for n in range(1, self._plan.workers + 1) if f"w{n}" not in busy)
        start, fix = self._merge_queue.begun_on(work, item, base)
        inputs = self._port.inputs(item.id, fix)
        if taken_slot:
            inputs |= taken_slot[1]
        fence = work.fence + 1
        job = self._written(ATTEMPT, item.id, item.name, fence=fence, slot=slot, base=start, inputs=inputs)
        if not self._engine.is_local:
            job = self._with_allowance(job, len(busy))
        known = {"item": item.id, "order": job.id, "fence": fence, "slot": slot, "base": base}
        self._ledger.note("ordered", **known, touches=[*item.touches], reason=step.reason)
        if job.allowance_usd is None:
            self._money.elsewhere(job.id, 0.0)
        if taken_slot:
            self._of_host[job.id] = taken_slot[0]
        self._under[job.id] = under = _Under(job=job, title=item.title)
        self._ordered.append((under, step.reason))
        return True

    def _begin_ordered(self) -> None:
        ordered = [*self._ordered]
        self._ordered.clear()
        # all items in one change of the project's state, before a worker starts
        if ordered:
            self._port.claim([under.job for under, _ in ordered])
        for under, reason in ordered:
            self._begin(under)
            self._say(f"{under.job.slot} {under.job.item}: {under.title} ({reason})")

    def _with_allowance(self, job: Job, busy: int) -> Job:
        """Return the job with a share of the remaining budget."""
        most = self._terms.max_cost_usd
        if most is None:
            return job
        # reserved now, because a remote worker sees only its own spending
        allowance = max(0.0, self._money.left(most)) / max(1, self._plan.workers - busy)
        self._money.allow(job.id, allowance)
        return replace(job, allowance_usd=allowance, elsewhere_usd=most - allowance)

    def _of_job(self, item: str) -> JsonObject:
        return {"project": os.fspath(self._git.top()), "run": self._plan.run, "item": item}

    def _ease_memory(self) -> None:
        """Cancel the newest of several attempts if memory has been short for a minute."""
        # SC-41
        if not self._memory.is_due(slots.free_memory(), time.monotonic() / clock.time_scale()):
            return
        at_work = [each for each in self._under.values() if each.job.kind == ATTEMPT and not each.recalled]
        if len(at_work) > 1 and self._engine.is_local:
            job = at_work[-1].job
            self._ledger.note("recalled", item=job.item, order=job.id, slot=job.slot, why="memory")
            self._say(f"{job.slot} {job.item}: the attempt is cancelled because memory is short; its work is kept")
            self._recall(at_work[-1], "memory is scarce")

    def _written(self, kind: str, item: str, name: str, *, fence: int, slot: str, base: str, inputs: JsonObject) -> Job:
        return Job(
            id=f"{self._plan.run}/{name}/{fence if kind == ATTEMPT else f'v{fence}'}",  # an item may be called "head"
            kind=kind,
            item=item,
            name=name,
            fence=fence,
            project=self._refs.project,
            workspace=os.path.join(self._folder, "places", slot),
            home=os.fspath(self._git.top()),
            base=base,
            branch=self._branch,
            executor=self._port.executor,
            own=self._port.own,
            lend=self._lend,
            fresh=kind == ATTEMPT and self._terms.settings.fresh,
            set_up=SetUp.of(self._terms.settings, self._terms.sandbox).as_record(),
            inputs=inputs,
            input_files=tuple(name for name in self._port.input_files if name in inputs),
            input_folders=tuple(name for name in self._port.input_folders if name in inputs),
        )

    def _job_checks(self, checks: CheckRun) -> None:
        agent_slot = self._run_slots.for_checks(self._of_job(checks.name))
        if agent_slot is None:
            return
        inputs = self._port.check_inputs(checks.checks)
        number = len(self._ledger.events)
        busy = {each.job.slot for each in self._under.values()}
        slot = next(each for n in count(1) if (each := f"v{n}") not in busy)
        base = checks.commit
        job = self._written(VERIFY, "", checks.name, fence=number, slot=slot, base=base, inputs=inputs)
        self._of_host[job.id] = agent_slot
        self._begin(_Under(job=job, checks=checks))

    def _begin(self, under: _Under) -> None:
        told = {**self._ports.variables(under.job.slot, self._plan.workers)}
        told[owner.HOME_REPOSITORY] = os.fspath(self._git.top())
        self._under[under.job.id] = under
        engine = self._engine if under.job.kind == ATTEMPT else self._here
        engine.submit(under.job, job_folder(self._folder, under.job.id), told)

    # ---- results

    def _ended(self, job_id: str) -> None:
        under = self._under.pop(job_id, None)
        if under is None:
            self._take_late(job_id)
            return
        if agent_slot := self._of_host.pop(job_id, None):
            agent_slot.release()
        job = under.job
        if job.kind == VERIFY:
            self._take_checks(under)
            return
        if not files.read_json_if_any(os.path.join(job_folder(self._folder, job_id), RESULT)):
            workspace = Workspace(job.workspace)
            is_damaged = self._engine.is_local and os.path.isdir(job.workspace) and not workspace.is_whole(job.base)
            rescues = self._rescued(workspace, job.name)
            reason = WORKSPACE_DAMAGED if is_damaged else ""
            self._lose(job.item, job_id, job.fence, rescues, with_coordinator=under.recalled, reason=reason)
        else:
            self._take(job.item, job_id, job.fence, recalled=under.recalled)
        self._take_collected()
        self._look_at_project(job)

    def _aside(self) -> str | None:
        """Return the folder for replaced project files, or None if agents cannot write to the project."""
        is_closed = not self._engine.is_local or kind_for(settings_from(self._terms.sandbox)) is not None
        return None if is_closed else os.path.join(self._folder, "put-back")

    def _look_at_project(self, job: Job) -> None:
        """Report changes in the project's folder during an attempt, and restore files where possible."""
        found = self._watch.look(job.name, fetching=self._merge_queue.is_pushing)
        own = self._port.put_back()
        changed, put_back = [*found.changed, *own], {**found.put_back, **own}
        if not changed:
            return
        known = {"item": job.item, "order": job.id, "slot": job.slot, "changed": changed[:100]}
        self._ledger.note("home_touched", **known, put_back=put_back)
        told = f"changed in {self._git.top()} during this attempt: {_some(changed)}"
        if put_back:
            told += f". Restored: {_some(put_back)}"
            kept = [where for where in put_back.values() if where]
            told += f"; the replaced versions are kept in {_some(kept)}" if kept else ""
        told += ". If you did not change this, an agent did"
        self._put_back.update(put_back)
        self._left_changed.update(dict.fromkeys(found.left))
        self._say(f"{job.slot} {job.item}: {told}")
        self._port.note_touched(job.item, told)

    def _take(self, item: str, job: str, fence: int, *, recalled: bool = False) -> None:
        """Record a job's result in the project first, then in the ledger."""
        # a repeated call has no effect
        work = self._plan.work(item)
        if work.job != job:
            self._take_late(job)
            return
        result = result_of_job(self._folder, job)
        status, commit = str(result.get("status")), str(result.get("commit") or "")
        ref = self._refs.candidate(job.split("/")[1], fence)
        if status == ACCEPTED and not (self._git.commit_of(ref) == commit and self._git.ancestor(work.base, commit)):
            result |= {
                "status": PARTIAL,
                "reason": "no_candidate",
                "message": f"{ref} does not point to the commit of the result",
            }
            status = PARTIAL
        files_of_fix = [*(work.fix or {}).get("files", [])]
        tries = most_of_each(self._money.tries(job), _told_cost(result))
        spent = max(sum(tries.values()), self._money.spent(job))
        self._port.ended(job, item, result, result.get("rescues") or [], spent)
        known = {"item": item, "order": job, "fence": fence, "status": status, "commit": commit}
        known |= {name: result.get(name) for name in ("reason", "message", "exit_code", "uncounted")}
        known |= {} if self._engine.is_local else {"elsewhere": True, "tries_usd": tries}
        self._ledger.note("ended", **known, cost_usd=spent, recalled=recalled)
        self._money.finalize(job, spent)
        if result.get("reason") == NOT_SET_UP:
            tail = "; ".join([str(result.get("message")), *(result.get("output") or [])[-3:]])
            self._ledger.note("slot_shut", slot=work.slot, tail=tail)
            self._say(f"{work.slot} is closed because its setup failed: {tail}")
        self._say(f"{work.slot} {item}: {status} ({result.get('message') or result.get('reason') or ''})")
        if status == ACCEPTED and (left := merge_queue.marked(self._git, commit, files_of_fix)):
            self._merge_queue.note_rejected(item, {"why": "conflict_markers", "files": left, "met": []})

    def _take_late(self, job: str) -> None:
        if events := self._ledger.of_job(job):
            told = _told_cost(result_of_job(self._folder, job))
            self._count_late(job, events, CountedCost.of(events).with_more(told))

    def _take_collected(self) -> None:
        """Count each late cost of a finished job once, even if an earlier run started the job."""
        at_work = {self._plan.work(item).job for item in self._plan.in_state(plan.WORKING)}
        for each in self._money.late():
            if each.job in at_work:
                continue
            events = self._ledger.of_job(each.job)
            known = CountedCost.of(events)
            after = known.with_more({each.attempt: each.spent})
            if not events:
                self._say(
                    f"${each.spent:.2f} was spent for {each.job}, but is not in the costs: no journal has this job"
                )
            elif after != known:
                self._count_late(each.job, events, after)
            self._money.forget_late(each)

    def _count_late(self, job: str, events: list[JsonObject], counted: CountedCost) -> None:
        """Record a job's late cost in the project first, then in the ledger."""
        # a repeated call has no effect
        more = counted.spent - CountedCost.of(events).spent
        about = {name: events[0].get(name) for name in ("item", "fence")}
        self._port.costs_more(job, str(about["item"]), counted.spent, more)
        self._ledger.note("late_result", **about, order=job, cost_usd=more, tries_usd=counted.tries)
        self._money.finalize(job, more)
        if more > 0.0:
            self._say(f"{about['item']}: an additional ${more:.2f} was spent for {job}")

    def _lose(
        self, item: str, job: str, fence: int, rescues: list[str], *, with_coordinator: bool, reason: str = ""
    ) -> None:
        spent, tries = self._money.spent(job), self._money.tries(job)
        self._port.ended(job, item, None, rescues, spent)
        known = {"item": item, "order": job, "fence": fence, "with_coordinator": with_coordinator, "reason": reason}
        self._ledger.note("lost", **known, cost_usd=spent, **({"tries_usd": tries} if tries else {}))
        self._money.finalize(job, spent)
        kept = f"; its work is in {', '.join(rescues)}" if rescues else ""
        why = "the repository of its workspace was destroyed" if reason == WORKSPACE_DAMAGED else "no result came back"
        self._say(f"{item}: {why} from {job}{kept}" if not reason else f"{item}: {why} ({job}){kept}")

    def _take_checks(self, under: _Under) -> None:
        folder = job_folder(self._folder, under.job.id)
        found = files.read_json_if_any(os.path.join(folder, RESULT))
        shutil.rmtree(folder, ignore_errors=True)
        if under.checks:
            self._merge_queue.checked(under.checks, found)


def _some(names: Collection[str]) -> str:
    shown = ", ".join(printable(each) for each in [*names][:5])
    return f"{shown}, and {len(names) - 5} more" if len(names) > 5 else shown


def _told_cost(result: JsonObject) -> dict[str, float]:
    """Return a mapping from the number of the try to its cost in US dollars."""
    return {str(result.get("try") or 1): float(result.get("cost_usd") or 0.0)}


def _shown(under: _Under, heard: JsonObject) -> JsonObject:
    """Return the data about a running attempt that status views show."""
    # no activity after earlier activity: the session has ended, and its work is being saved
    under.heard = heard or ({**under.heard, "phase": "settling"} if under.heard else {})
    job, heard = under.job, under.heard
    known = {"slot": job.slot, "host": owner.current().host, "item": job.item, "title": under.title}
    phase = str(heard.get("phase", "setup"))
    known |= {"order": job.id, "phase": PHASES.get(phase, phase), "since": heard.get("since", under.since)}
    return known | {name: heard.get(name) for name in ("tokens", "cost_usd", "last", "can")}
