"""Worker on another machine: ``harness worker`` takes jobs from a pool and executes them in its own workspaces.

    DIR/PROJECT/project/           local repository for the project; workspaces share its objects
    DIR/PROJECT/places/w1 ...      workspaces, as on the coordinator's machine
    DIR/PROJECT/orders/ID.TRY/     order.json, inputs and result.json, until all of them are on the remote
    DIR/worker.lock                lock that allows only one worker per folder

Anyone who can submit to the namespace can run code on this machine. Therefore, the worker accepts only jobs whose
remote matches ``--remote`` and whose harness version matches its own. After a worker is killed, the next worker in the
folder pushes the work that is left in the workspaces."""

import asyncio
import logging
import os
import queue
import re
import shutil
import signal
import socket
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, closing, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Any

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.worker import (
    FixedSizeSlotSupplier,
    PollerBehaviorSimpleMaximum,
    UnsandboxedWorkflowRunner,
    Worker,
    WorkerTuner,
)

import agent_harness
from agent_harness.engines import limits
from agent_harness.engines.address import EngineAddress
from agent_harness.engines.exchange import create_repository
from agent_harness.engines.git_transport import JOBS, Bundles, JobRefused, RemoteAway, refs_of
from agent_harness.engines.temporal import CARRY_OUT, PLAN_QUEUE, REFUSED, WORKER_LEFT, slice_queue, work_queue
from agent_harness.engines.temporal.connection import connected
from agent_harness.engines.temporal.room import LOOK_SECONDS, MachineRoom
from agent_harness.engines.temporal.schedules import SliceWorker
from agent_harness.engines.temporal.workflow import JobWorkflow, SliceWorkflow
from agent_harness.errors import Busy, HarnessError
from agent_harness.kernel import clock, files, owner, process, snapshot, trusted_state
from agent_harness.kernel.git import Git, end_transfers
from agent_harness.kernel.json import JsonObject, number_below
from agent_harness.kernel.lock import LockFile
from agent_harness.parallel import workspaces
from agent_harness.parallel.budget import MOST_USD, SharedBudget
from agent_harness.parallel.engine import WorkerProcess
from agent_harness.parallel.items import JOB, RESULT, Job
from agent_harness.parallel.workspace_setup import PortBlocks
from agent_harness.parallel.workspaces import Workspace
from agent_harness.session import now

BEAT_SECONDS = 10.0
SAVE_SECONDS = 300.0
WRAP_UP_SECONDS = 120.0
AGAIN_SECONDS = 10.0
ROOM_BYTES = 512 << 20
"""Number of free bytes that the disk of the workspaces must have before a job begins."""
ROOM_SECONDS = 300.0
PUSH_SECONDS = 30.0
"""Number of seconds allowed for a push after the wrap-up time has ended."""
PORTS = 20
_SAVED = "refs/harness/saved"


@dataclass(frozen=True, kw_only=True)
class WorkerTerms:
    address: EngineAddress
    remotes: tuple[str, ...]  # patterns of the URLs whose jobs are taken
    folder: str
    slots: int
    say: Callable[[str], None]
    min_free_mb: int  # beside a job under way no other one begins with less memory free
    long_tasks: tuple[str, ...] = ()  # folders whose slices are carried out here


class RemoteWorker:
    """The ``harness worker`` process, which runs jobs until a signal arrives."""

    def __init__(self, terms: WorkerTerms) -> None:
        self._terms = terms
        self._say = terms.say
        self._free: queue.SimpleQueue[str] = queue.SimpleQueue()
        for number in range(1, terms.slots + 1):
            self._free.put(f"w{number}")
        self._ports = PortBlocks(PORTS)
        self._leaving = asyncio.Event()
        self._hurried = asyncio.Event()
        self._tries: dict[JobTry, None] = {}  # in the order in which they came
        self._room = MachineRoom(terms.folder, terms.min_free_mb, terms.slots)

    async def run(self) -> int:
        """Run the worker until a signal arrives. Raise ``Busy`` if another worker uses the folder."""
        client = await connected(self._terms.address)
        os.makedirs(self._terms.folder, mode=0o700, exist_ok=True)
        lock = LockFile(os.path.join(self._terms.folder, "worker.lock"))
        if holder := lock.try_take():
            raise Busy(
                f"{self._terms.folder} is in use by another worker, {holder}", hint="use another folder: --places DIR"
            )
        try:
            loop = asyncio.get_running_loop()
            for number in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(number, self._leave)
            await self._put_in_order()
            if self._leaving.is_set():
                self._say("The worker has stopped.")
            else:
                await self._serve(client)
            return 0
        finally:
            self._ports.close()
            lock.release()

    def _leave(self) -> None:
        """Start to shut down the worker. On a second call, save the running jobs immediately."""
        # SC-54
        if self._leaving.is_set():
            self._say(
                "Second stop signal: the worker saves running jobs immediately and does not let the agents finish."
            )
            for each in self._tries:
                threading.Thread(target=each.hurry, daemon=True).start()
            self._hurried.set()
        self._leaving.set()

    async def _serve(self, client: Client) -> None:
        address = self._terms.address
        bare = UnsandboxedWorkflowRunner()  # the code has no effects, and replays of recorded histories keep it so
        known = [JobWorkflow, SliceWorkflow]
        workers = [Worker(client, task_queue=PLAN_QUEUE, workflows=known, workflow_runner=bare)]
        if self._terms.remotes:
            workers.append(self._remote_worker(client))
            self._say(f"{self._terms.slots} workers are waiting for jobs of pool {address.pool} at {address.target}")
        if roots := self._terms.long_tasks:
            slices = SliceWorker(client, roots, self._say)
            queue_name = slice_queue(socket.gethostname())
            workers.append(Worker(client, task_queue=queue_name, activities=[slices.execute]))
            self._say(f"This worker runs the slices of {', '.join(roots)}")
        async with AsyncExitStack() as serving:
            for each in workers:
                await serving.enter_async_context(each)
            watching = [asyncio.ensure_future(each) for each in (self._watch_server(client), self._watch_room())]
            await self._leaving.wait()
            for watch in watching:
                watch.cancel()
            self._say(
                "This worker takes no new jobs. It stops and saves its running jobs, and other workers continue them."
            )
            ending = asyncio.ensure_future(self._end_hanging())
        ending.cancel()
        end_transfers()
        self._say("The worker has stopped.")

    async def _end_hanging(self) -> None:
        """After a stop signal, end the git transfers that take too long."""
        # SC-54
        told = asyncio.ensure_future(self._hurried.wait())
        await asyncio.wait({told}, timeout=clock.scaled(WRAP_UP_SECONDS + PUSH_SECONDS))
        if told.done():
            end_transfers()
            await asyncio.sleep(clock.scaled(PUSH_SECONDS))
        while True:
            end_transfers()
            await asyncio.sleep(LOOK_SECONDS)

    def _remote_worker(self, client: Client) -> Worker:
        usual = FixedSizeSlotSupplier(self._terms.slots)
        tuner = WorkerTuner.create_composite(
            workflow_supplier=usual, activity_supplier=self._room, local_activity_supplier=usual, nexus_supplier=usual
        )
        return Worker(
            client,
            task_queue=work_queue(self._terms.address.pool),
            activities=[self.execute],
            tuner=tuner,
            activity_task_poller_behavior=PollerBehaviorSimpleMaximum(1),  # it looks for room before each job
            max_heartbeat_throttle_interval=timedelta(seconds=clock.scaled(BEAT_SECONDS)),
            default_heartbeat_throttle_interval=timedelta(seconds=clock.scaled(BEAT_SECONDS)),
            graceful_shutdown_timeout=timedelta(seconds=clock.scaled(WRAP_UP_SECONDS) + 60),
            identity=f"{os.getpid()}@{socket.gethostname()}",
        )

    async def _watch_server(self, client: Client) -> None:
        # SC-55
        while True:
            await asyncio.sleep(clock.scaled(60.0))
            try:
                there = await asyncio.wait_for(client.service_client.check_health(), 10.0)
            except Exception:  # whatever the SDK raises: it did not answer
                there = False
            if not there:
                self._say(f"{self._terms.address.target} is unreachable; running jobs continue")

    async def _watch_room(self) -> None:
        """Report a shortage on this machine. If memory is short, return the youngest job to the pool."""
        # SC-41
        while True:
            at_work = [each for each in self._tries if not each.is_leaving]
            if told := self._room.news(len(at_work)):
                self._say(told)
            if self._room.is_scarce() and len(at_work) > 1:
                youngest = at_work[-1]
                self._say(
                    f"{youngest.slot} {youngest.id}: returned this job because memory is short; its work is saved"
                )
                youngest.leave("returned the job because memory is short")
            await asyncio.sleep(LOOK_SECONDS)

    # ---- a job

    @activity.defn(name=CARRY_OUT)
    async def execute(self, head: dict[str, Any]) -> dict[str, Any]:
        """Run one try of a job. Return the message that announces the result."""
        info = activity.info()
        slot = self._free.get_nowait()
        task = JobTry(self._terms, head, info.attempt, slot, room=self._room, tries=self._tries)
        self._tries[task] = None
        working = asyncio.ensure_future(asyncio.to_thread(task.work, self._ports))
        leaving = asyncio.ensure_future(self._leaving.wait())
        try:
            while not working.done():
                activity.heartbeat(task.told())
                try:
                    await asyncio.wait(
                        {working, leaving}, timeout=clock.scaled(BEAT_SECONDS) / 2, return_when="FIRST_COMPLETED"
                    )
                except asyncio.CancelledError:
                    task.recall()  # the coordinator asks for it, or the server has given the job to another worker
                if leaving.done() and not working.done():
                    task.leave("has left")
                    with suppress(asyncio.CancelledError):
                        await asyncio.wait({working}, timeout=clock.scaled(BEAT_SECONDS) / 2)
            return working.result()
        except JobRefused as error:
            self._say(f"{task.id}: the worker refused this job: {error.message}")
            raise ApplicationError(
                f"{socket.gethostname()}: {error.message}", type=REFUSED, non_retryable=True
            ) from None
        except (HarnessError, OSError) as error:
            self._say(f"{task.id}: {error}")
            at_once = timedelta(seconds=clock.scaled(1.0)) if task.is_leaving else None  # others are ready
            kind = WORKER_LEFT if task.is_leaving else "HandsFailed"
            raise ApplicationError(str(error), type=kind, next_retry_delay=at_once) from None
        except Exception as error:
            self._say(f"{task.id}: {error!r}")
            raise
        finally:
            leaving.cancel()
            self._tries.pop(task)
            self._free.put(task.slot)

    # ---- work left by a killed worker

    async def _put_in_order(self) -> None:
        """Clean up this folder after a killed worker."""
        # after a stop signal, the next worker in the folder does the rest
        ending = asyncio.ensure_future(asyncio.to_thread(self._end_orphans))
        told = [asyncio.ensure_future(each.wait()) for each in (self._leaving, self._hurried)]
        await asyncio.wait({ending, told[0]}, return_when="FIRST_COMPLETED")
        await asyncio.wait({ending, told[1]}, timeout=clock.scaled(WRAP_UP_SECONDS), return_when="FIRST_COMPLETED")
        while not ending.done():
            end_transfers()
            await asyncio.wait({ending}, timeout=0.1)
        for each in told:
            each.cancel()
        await ending

    def _end_orphans(self) -> None:
        """End a killed worker's processes, and push the unfinished work in its workspaces."""
        for name in sorted(os.listdir(self._terms.folder)):
            root = os.path.join(self._terms.folder, name)
            told = files.read_json_if_any(os.path.join(root, "remote.json"))
            if not re.fullmatch(r"[0-9a-f]{24}", name) or not told or not os.path.isdir(os.path.join(root, "project")):
                continue
            git = Git(os.path.join(root, "project"))
            bundles = Bundles(git=git, remote=str(told["remote"]), project=name, refs=refs_of(told))
            for workspace in workspaces.existing(os.path.join(root, "places")):
                if self._leaving.is_set():
                    return
                try:
                    self._rescue(git, workspace, tuple(told.get("own") or ()))
                except (HarnessError, OSError) as error:
                    self._say(
                        f"{workspace.folder}: cannot rescue its work: {error}; the next worker here tries to rescue it"
                    )
            for each in sorted(os.listdir(os.path.join(root, "orders"))):
                if self._leaving.is_set():
                    return
                try:
                    self._push_left(git, bundles, os.path.join(root, "orders", each))
                except (HarnessError, OSError) as error:
                    self._say(f"{each}: cannot push its work: {error}; the next worker here tries to push it")

    def _rescue(self, git: Git, workspace: Workspace, own: tuple[str, ...]) -> None:
        record = files.read_json_if_any(workspace.record)
        process.end_orphans(record.get("process") or {})
        if not workspace.at_rest:
            with workspace.locked():
                workspace.rescue(git, str(record.get("name") or workspace.name), own)
                workspace.at_rest = True

    def _push_left(self, git: Git, bundles: Bundles, folder: str) -> None:
        record = files.read_json_if_any(os.path.join(folder, JOB))
        attempt = folder.rpartition(".")[2]
        if record and attempt.isdecimal():
            job = Job.from_record(record)
            refs = git.refs_below(f"{workspaces.RESCUE_REFS}/{job.name}/")
            refs |= git.refs_below(job.refs.candidate(job.name, ""))
            for ref in bundles.leave(job.id, int(attempt), [*refs.values()], _spent(job, folder)):
                self._say(f"{job.id}: unfinished work of an earlier worker was saved in {ref}")
            _forget(git, job, folder, [*refs])
        else:
            shutil.rmtree(folder)


class JobTry:
    """One try of a job by this worker, in its own thread."""

    def __init__(
        self,
        terms: WorkerTerms,
        head: JsonObject,
        attempt: int,
        slot: str,
        *,
        room: MachineRoom,
        tries: Mapping["JobTry", None],
    ) -> None:
        # ``tries``: all running tries of the worker, in the order of their start
        self.id = str(head.get("id"))
        self.slot = slot
        self.is_leaving = False
        self._room = room
        self._tries = tries
        self._waits = False
        self._why = ""  # it leaves
        self._terms = terms
        self._head = head
        self._try = attempt
        self._recalled = False
        self._job: Job | None = None
        self._bundles: Bundles | None = None
        self._saves = 0
        self._saving: threading.Thread | None = None
        self._folder = ""
        self._began = clock.now()
        self._hurried = threading.Event()
        self._leave_by = float("inf")  # of the monotonic clock

    def recall(self) -> None:
        """Tell the job's processes on this machine to wrap up and to report their work."""
        self._recalled = True

    def leave(self, why: str) -> None:
        """Save the job's work, and return the job to the pool for another worker."""
        if not self.is_leaving:
            self._why = why
            self._leave_by = time.monotonic() + clock.scaled(WRAP_UP_SECONDS)
        self.is_leaving = self._recalled = True

    def hurry(self) -> None:
        """End the job's processes immediately, and do not wait for the git remote."""
        self._hurried.set()
        if self._job is not None:
            process.end_orphans(files.read_json_if_any(Workspace(self._job.workspace).record).get("process") or {})

    def told(self) -> JsonObject:
        """Return the state of the try as a small heartbeat message."""
        # with new rate limits, because other workers must observe them
        found: JsonObject = {"phase": "setup", "slot": self.slot, "host": socket.gethostname()}
        for each in _told_by(self._job) if self._job is not None else ():
            last = [str(line)[:100] for line in (each.get("last") or [])[-2:]]
            found |= {name: each.get(name) for name in ("phase", "since", "tokens", "cost_usd")} | {"last": last}
        found |= {"phase": "waiting"} if self._waits else {}
        found |= {"short": short[:150]} if (short := self._room.shortage()) else {}
        return found | {"limits": [each | {"said": ""} for each in limits.news_of(self._began)[:2]]}

    def work(self, ports: PortBlocks) -> JsonObject:
        """Run the try, and return the message that announces the result."""
        # ``JobRefused``: this worker must not run the job; ``HarnessError``: the job goes back to the pool
        self._refuse_foreign()
        project = str(self._head["project"])
        root = os.path.join(self._terms.folder, project)
        if not os.path.isdir(own := os.path.join(root, "project")):
            os.makedirs(root, mode=0o700, exist_ok=True)
            create_repository(own)
        git = Git(own)
        remote, refs = str(self._head["remote"]), refs_of(self._head)
        bundles = self._bundles = Bundles(git=git, remote=remote, project=project, refs=refs)
        self._wait_for_room()
        folder = os.path.join(root, "orders", f"{self.id.replace('/', '.')}.{self._try}")
        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._folder = folder
        job = bundles.take(self._head, folder, os.path.join(root, "places", self.slot))
        told = {"remote": bundles.remote, "refs": bundles.refs, "own": [*job.own]}
        files.write_json(os.path.join(root, "remote.json"), told)
        if self._try > 1 and (saved := bundles.saved(job.id)):
            job = replace(job, inputs={"told": {}, **job.inputs, "seed": git.tree_of(saved)})  # SC-52
        os.makedirs(os.path.dirname(job.workspace), mode=0o700, exist_ok=True)
        files.write_json(os.path.join(folder, JOB), job.as_record())
        self._job = job
        self._terms.say(f"{self.slot} {job.id}: started (try {self._try})")
        told = {**os.environ, **ports.variables(self.slot, self._terms.slots), owner.HOME_REPOSITORY: job.home}
        self._save_at = time.monotonic() + clock.scaled(SAVE_SECONDS)
        with closing(WorkerProcess(wrap_up_seconds=WRAP_UP_SECONDS)) as workers:
            workers.execute(job, folder, told, self._is_over, attempt=self._try)
        if not os.path.exists(os.path.join(folder, RESULT)):
            self._save_left()
            raise HarnessError(f"the processes of {job.id} ended without a result", hint="harness queue")
        proven = ("accepted", "rejected", "parked")
        if self.is_leaving and files.read_json_if_any(os.path.join(folder, RESULT)).get("status") not in proven:
            self._save_left()
            raise HarnessError(f"{socket.gethostname()} {self._why}", hint="harness queue")
        head = self._pushed(lambda: bundles.answer(job, self._try, folder, self._began))
        kept = [str(each) for each in files.read_json_if_any(os.path.join(folder, RESULT)).get("rescues") or []]
        _forget(git, job, folder, [each for each in kept if each.startswith("refs/")])
        self._terms.say(f"{self.slot} {job.id}: {head['status']}")
        return head

    def _wait_for_room(self) -> None:
        """Wait for free disk space. Raise ``HarnessError`` if the job must return to the pool."""
        is_beside = [*self._tries, self][0] is not self
        if is_beside and (short := self._room.shortage()):
            self.leave("")
            raise HarnessError(f"{socket.gethostname()} returned the job: {short}", hint="harness queue")
        until = time.monotonic() + clock.scaled(ROOM_SECONDS)
        while _free(self._terms.folder) < ROOM_BYTES:
            told = f"less than {ROOM_BYTES >> 20} MB are free at {self._terms.folder}"
            if self._recalled or time.monotonic() > until:
                raise HarnessError(f"{socket.gethostname()}: {told}", hint="free disk space on that machine")
            if not self._waits:
                self._terms.say(f"{self.id}: waiting for free disk space: {told}")
            self._waits = True
            time.sleep(clock.scaled(1.0))
        self._waits = False

    def _is_over(self) -> bool:
        """Save the job's work at intervals. Return True if the job must stop."""
        if time.monotonic() > self._save_at and not (self._saving and self._saving.is_alive()):
            self._save_at = time.monotonic() + clock.scaled(SAVE_SECONDS)
            self._save()
        return self._recalled

    def _refuse_foreign(self) -> None:
        url, version = str(self._head.get("remote")), str(self._head.get("harness"))
        if ".." in url.split("/") or not any(url == each or fnmatchcase(url, each) for each in self._terms.remotes):
            told = f"the remote {url} matches no --remote pattern of this worker"
            raise JobRefused(told, hint=f"harness worker --remote '{url}'")
        own = agent_harness.__version__
        if version.split(".")[:2] != own.split(".")[:2]:
            raise JobRefused(f"the job needs agent-harness {version}, but this worker has {own}")
        if not re.fullmatch(r"[0-9a-f]{24}", str(self._head.get("project"))):
            raise JobRefused("the job contains no valid project id")

    def _save(self) -> None:
        """Take a snapshot of the job's work. Push the snapshot in a separate thread."""
        # so that a stop never waits for the remote
        job, bundles = self._job, self._bundles
        assert job is not None and bundles is not None
        self._saves += 1
        number, spent = self._saves, _spent(job, self._folder)
        try:
            workspace, ref = Workspace(job.workspace), f"{_SAVED}-{number}"
            taken = snapshot.take(workspace.git, ref, exclude=job.own, message=f"Work on {job.name}, saved")
            workspaces.fetch_into(workspace.git, Git(job.home), taken.commit, f"{_SAVED}/{job.name}")
            workspace.git.update_ref(ref, None)
        except (HarnessError, OSError) as error:
            self._terms.say(f"{job.id}: cannot save the work of this job: {error}")
            return

        def push() -> None:
            try:
                bundles.save(job.id, self._try, "saved", number, taken.commit, spent=spent)
            except (HarnessError, OSError) as error:
                self._terms.say(f"{job.id}: cannot save the work of this job: {error}")

        self._saving = threading.Thread(target=push, daemon=True)
        self._saving.start()

    def _save_left(self) -> None:
        """Push the remaining work and the cost of the try, after the job's processes have ended."""
        job, bundles = self._job, self._bundles
        assert job is not None and bundles is not None
        home, workspace = Git(job.home), Workspace(job.workspace)
        try:
            with workspace.locked():
                kept = workspace.rescue(home, job.name, job.own) if not workspace.at_rest else []
                workspace.at_rest = True
            result, spent = files.read_json_if_any(os.path.join(self._folder, RESULT)), _spent(job, self._folder)
            kept = kept or [*map(str, result.get("rescues") or [])]
            commits = [sha for ref in kept if ref.startswith("refs/") and (sha := home.commit_of(ref))]
            for number, commit in enumerate(commits, self._saves + 1):
                words = (job.id, self._try, "saved", number, commit)
                self._pushed(lambda words=words: bundles.save(*words, spent=spent))
            if spent and not commits:
                self._pushed(lambda: bundles.leave(job.id, self._try, [], spent))
        except (HarnessError, OSError) as error:
            self._terms.say(f"{job.id}: cannot save the work of this job: {error}")

    def _pushed(self, act: Callable[[], Any]) -> Any:
        """Retry ``act`` while the git remote is unreachable, and return its result. In the end, raise
        ``RemoteAway``."""
        for _ in range(360):
            try:
                return act()
            except RemoteAway as error:
                self._terms.say(f"{self.id}: {error.message}; trying again in {AGAIN_SECONDS:.0f} s")
                last = error
            if self._hurried.wait(clock.scaled(AGAIN_SECONDS)) or time.monotonic() > self._leave_by:
                break
        raise last


def _forget(git: Git, job: Job, folder: str, kept: list[str]) -> None:
    # SC-57: only after its complete result is on the remote
    shutil.rmtree(folder, ignore_errors=True)
    work = job.refs.candidate(job.name, job.fence)
    for ref in {*kept, work, f"{_SAVED}/{job.name}", *git.refs_below(f"{JOBS}/")}:
        if git.commit_of(ref) and (not ref.startswith(JOBS) or ref.endswith(f"/{job.id}")):
            git.update_ref(ref, None)


def _told_by(job: Job) -> list[JsonObject]:
    workspaces_of = (
        job.inputs.get("counts"),
        trusted_state.existing(os.path.join(job.workspace, ".git"), job.workspace),
    )
    return [each for folder in workspaces_of if folder for each in now.told(str(folder)) if each["alive"]]


def _spent(job: Job, folder: str) -> float:
    # the higher of the result's cost and the cost recorded before each model call
    told = files.read_json_if_any(os.path.join(folder, RESULT)).get("cost_usd")
    inputs = job.inputs.get("parallel")
    noted = SharedBudget(str(inputs)).spent(job.id) if inputs else 0.0
    return max(number_below(told, MOST_USD) or 0.0, noted)


def _free(folder: str) -> int:
    disk = os.statvfs(folder)
    return disk.f_bavail * disk.f_frsize


def serve(terms: WorkerTerms) -> int:
    """Run jobs of other machines until a signal arrives. Return the exit code."""
    logging.getLogger(
        "temporalio.activity"
    ).disabled = True  # it would print a traceback for errors that are reported in a line

    async def run() -> int:
        return await RemoteWorker(terms).run()

    return asyncio.run(run())
