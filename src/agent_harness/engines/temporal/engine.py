"""Coordinator's side of Temporal: each job becomes a workflow, and the job's result returns through the git remote."""

import asyncio
import os
import queue
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

from temporalio.client import Client, WorkflowFailureError, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError, WorkflowAlreadyStartedError
from temporalio.service import RPCError, RPCStatusCode
from temporalio.worker import UnsandboxedWorkflowRunner, Worker

import agent_harness
from agent_harness.engines import exchange, limits
from agent_harness.engines.address import EngineAddress
from agent_harness.engines.git_transport import Bundles, RemoteAway
from agent_harness.engines.temporal import JOB as JOB_WORKFLOW
from agent_harness.engines.temporal import PLAN_QUEUE, REFUSED, work_queue
from agent_harness.engines.temporal.connection import LoopThread, connected
from agent_harness.engines.temporal.workflow import JobWorkflow
from agent_harness.errors import HarnessError, PreflightFailed
from agent_harness.kernel import clock, files
from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject, number_below
from agent_harness.parallel.budget import MOST_USD, SharedBudget
from agent_harness.parallel.engine import ENDED, RUNNING, UNKNOWN
from agent_harness.parallel.items import FAILED, JOB, PARTIAL, RESULT, Job
from agent_harness.parallel.ledger import project_id
from agent_harness.session.parallel_settings import REFS

MINUTES = 24 * 60.0
LOOK_SECONDS = 10.0
AGAIN_SECONDS = 5.0
OFFERS = 4
"""Number of times that the engine offers a refused job to each pool."""


class TemporalEngine:
    """Engine that gives jobs to ``harness worker`` processes. ``parallel/engine.py`` documents its methods."""

    is_local = False

    def __init__(
        self, address: EngineAddress, git: Git, folder: str, say: Callable[[str], None], *, refs: str = REFS
    ) -> None:
        # makes no connection: ``open`` does
        self._refs = REFS if address.exchange else refs
        self.name = str(address)
        self._address = address
        self._top = str(git.top())
        self._folder = folder
        self._say = say
        self._heartbeat = clock.scaled(address.heartbeat)
        self._project = ""
        self._remote = "" if address.exchange else remote_url(git, address.remote)
        self._ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._handles: dict[str, WorkflowHandle[Any, Any]] = {}
        self._recalled: dict[str, str] = {}
        self._unsent: dict[str, asyncio.Future[JsonObject]] = {}  # jobs on their way to the remote
        self._heard: dict[str, JsonObject] = {}
        self._costs: dict[str, dict[str, float]] = {}  # of each try of a job, as its workers said last
        self._money = SharedBudget(folder)
        self._jobs: dict[str, Job] = {}
        self._loop: LoopThread | None = None
        self._client: Client | None = None
        self._worker: Any = None
        self._said = ""

    def _bundles(self) -> Bundles:
        return Bundles(git=Git(self._top), remote=self._remote, project=self._project, refs=self._refs)

    def open(self, ended: "queue.SimpleQueue[str]") -> None:
        self._ended = ended
        self._project = project_id(self._folder)
        if folder := self._address.exchange:
            self._remote = exchange.made(folder, self._project)
        self._loop = LoopThread()
        try:
            self._client = self._loop.do(connected(self._address))
            self._bundles().remote_refs("refs/harness/none")
        except HarnessError as error:
            self.close()
            if isinstance(error, PreflightFailed):
                raise
            name = self._address.exchange or self._address.remote
            told = f"the remote {name} cannot be reached: {error.message}"
            raise PreflightFailed(told, hint=f"git ls-remote {self._remote}") from None
        self._worker = self._loop.begin(self._take_part(self._client))

    async def _take_part(self, client: Client) -> None:
        bare = UnsandboxedWorkflowRunner()
        await Worker(client, task_queue=PLAN_QUEUE, workflows=[JobWorkflow], workflow_runner=bare).run()

    def submit(self, job: Job, folder: str, environment: Mapping[str, str]) -> None:
        assert self._loop is not None
        if job.id in self._jobs:
            return
        os.makedirs(folder, mode=0o700, exist_ok=True)
        if not os.path.exists(os.path.join(folder, JOB)):
            files.write_json(os.path.join(folder, JOB), job.as_record())
        self._jobs[job.id] = job
        self._heard[job.id] = {"phase": "waiting"}
        self._loop.begin(self._follow(job, folder))

    async def _follow(self, job: Job, folder: str) -> None:
        """Wait until the job's ``result.json`` exists or the job is lost."""
        try:
            found = await self._offered(job)
            if found.get("status") == "stopped" and not found.get("ref"):
                told = f"stopped before it started: {found.get('why')}"
                _write(folder, job, status=PARTIAL, reason="recalled", message=told, exit_code=0)
            else:
                await self._patiently(lambda: asyncio.to_thread(self._bundles().receive, job, found, folder))
        except WorkflowFailureError as error:
            if (refusal := _refusal(error)) is not None:
                told = f"the workers refused the job: {refusal}"
                _write(folder, job, status=FAILED, reason="order_refused", message=told, exit_code=4)
            else:
                self._tell(f"{job.id}: {_cause(error)}")
        except (HarnessError, OSError, RPCError) as error:  # no result that counts: the job is lost
            self._tell(f"{job.id}: {error}")
        except Exception as error:  # of a message that makes no sense: not silently
            self._tell(f"{job.id}: {error!r}")
        finally:
            if job.id in self._handles and not asyncio.current_task().cancelling():  # type: ignore[union-attr]
                with suppress(HarnessError, OSError):
                    await asyncio.to_thread(self._collected, job.id)
            self._heard.pop(job.id, None)
            self._ended.put(job.id)

    async def _offered(self, job: Job) -> JsonObject:
        """Offer a job to the pools in order, until a worker accepts it. Return the message that announces the job's
        result."""
        # SC-56
        sending = asyncio.ensure_future(self._patiently(lambda: asyncio.to_thread(self._bundles().send, job)))
        self._unsent[job.id] = sending
        if job.id in self._recalled:
            sending.cancel()
        try:
            bundle = await sending
        except asyncio.CancelledError:
            if job.id not in self._recalled or asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise
            return {"status": "stopped", "why": self._recalled[job.id]}
        finally:
            del self._unsent[job.id]
        offers = self._offers()
        for number, pool in enumerate(offers):
            handle = await self._patiently(lambda at=number, to=pool: self._started(job, bundle, at, to))
            self._handles[job.id] = handle
            if job.id in self._recalled:
                await self._signal(job.id)
            watching = asyncio.ensure_future(self._listen(job.id, handle))
            try:
                found: JsonObject = await self._patiently(handle.result)
                return found
            except WorkflowFailureError as error:
                if _refusal(error) is None or number + 1 == len(offers):
                    raise
                self._tell(f"{job.id}: the pool {pool} refused the job ({_refusal(error)})")
            finally:
                watching.cancel()
        raise AssertionError("an address has a pool")

    def _offers(self) -> list[str]:
        # several times each, because another worker of the pool may accept a job that one refused
        return [pool for pool in self._address.pools for _ in range(OFFERS)]

    def _collected(self, job_id: str) -> None:
        for ref in self._bundles().collect(self._money.note_late, only=job_id):
            self._tell(f"{job_id}: work that does not count was saved in {ref}")

    async def _patiently(self, act: Callable[[], Any]) -> Any:
        """Retry ``act`` while the server or the git remote is unreachable. Return the result of ``act``."""
        while True:
            try:
                return await act()
            except RemoteAway as error:
                self._tell(error.message)
            except RPCError as error:
                if error.status not in (
                    RPCStatusCode.UNAVAILABLE,
                    RPCStatusCode.DEADLINE_EXCEEDED,
                    RPCStatusCode.UNKNOWN,
                ):
                    raise
                self._tell(f"{self._address.target} is unreachable ({error.message})")
            await asyncio.sleep(clock.scaled(AGAIN_SECONDS))

    def _tell(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._say(text)

    async def _started(self, job: Job, bundle: JsonObject, offer: int, pool: str) -> WorkflowHandle[Any, Any]:
        assert self._client is not None
        head = {
            "v": 1,
            "id": job.id,
            "project": self._project,
            "item": job.item[:200],
            "ref": bundle["ref"],
            "sha": bundle["sha"],
            "remote": self._remote,
            "refs": self._refs,
            "queue": work_queue(pool),
            "harness": agent_harness.__version__,
            "minutes": MINUTES,
            "heartbeat_seconds": self._heartbeat,
            "priority": self._address.priority,
            "weight": self._address.weight,
        }
        name = self._workflow_id(job.id, offer)
        try:
            return await self._client.start_workflow(
                JOB_WORKFLOW,
                head,
                id=name,
                task_queue=PLAN_QUEUE,
                id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
                id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
            )
        except WorkflowAlreadyStartedError:  # it has ended; its result is still to be had
            return self._client.get_workflow_handle(name)

    def _workflow_id(self, job_id: str, offer: int) -> str:
        return f"harness/{self._project}/{job_id}{f'~{offer}' if offer else ''}"

    async def _listen(self, job_id: str, handle: WorkflowHandle[Any, Any]) -> None:
        """Store the heartbeats of the job's worker until this coroutine is cancelled."""
        while True:
            with suppress(RPCError, KeyError, IndexError, TypeError, ValueError, AttributeError):  # anybody may beat
                described = await handle.describe()
                for pending in described.raw_description.pending_activities:
                    payloads = pending.heartbeat_details.payloads
                    found = (await described.data_converter.decode(payloads))[0] if payloads else {"phase": "waiting"}
                    limits.take_in(found.pop("limits", None), found.get("host"), of_others=True)
                    costs = self._costs.setdefault(job_id, {})
                    costs[str(pending.attempt)] = number_below(found.get("cost_usd"), MOST_USD) or 0.0
                    self._heard[job_id] = {**found, "tries_usd": dict(costs)}
            await asyncio.sleep(clock.scaled(LOOK_SECONDS))

    def recall(self, job_id: str, reason: str) -> None:
        # a job that is not on the remote yet is then never started
        if self._loop is None or job_id not in self._jobs:
            return
        self._recalled[job_id] = reason
        self._loop.begin(self._signal(job_id))

    async def _signal(self, job_id: str) -> None:
        if sending := self._unsent.get(job_id):
            sending.cancel()
        elif job_id in self._handles:
            with suppress(RPCError):
                await self._handles[job_id].signal("stop", self._recalled[job_id])

    def known(self, jobs: Sequence[Job]) -> dict[str, str]:
        # SC-14: work of jobs that the server does not know becomes rescue refs
        assert self._loop is not None
        found: dict[str, str] = {}
        for each in jobs:
            found[each.id] = self._loop.do(self._patiently(lambda job_id=each.id: self._status(job_id)))
        at_work = frozenset(job_id for job_id, how in found.items() if how != UNKNOWN)
        try:
            for ref in self._bundles().collect(self._money.note_late, at_work):
                self._tell(f"work that does not count was saved in {ref}")
        except HarnessError as error:
            self._tell(error.message)
        return found

    async def _status(self, job_id: str) -> str:
        assert self._client is not None
        found = UNKNOWN
        for number in range(len(self._offers())):
            try:
                described = await self._client.get_workflow_handle(self._workflow_id(job_id, number)).describe()
            except RPCError as error:
                if error.status == RPCStatusCode.NOT_FOUND:
                    break
                raise
            found = RUNNING if described.close_time is None else ENDED
        return found

    def heard(self) -> dict[str, JsonObject]:
        # ``tries_usd`` of a heartbeat is the cost of each try
        return dict(self._heard)

    def close(self) -> None:
        loop, self._loop = self._loop, None
        if loop is None:
            return
        self._client = self._worker = None
        self._handles = {}
        loop.close()


def _cause(error: WorkflowFailureError) -> BaseException:
    cause: BaseException = error.cause
    while not isinstance(cause, ApplicationError) and cause.__cause__ is not None:
        cause = cause.__cause__
    return cause


def _refusal(error: WorkflowFailureError) -> str | None:
    """Return the workers' reason to refuse a job, or None if no worker refused the job."""
    cause = _cause(error)
    return cause.message if isinstance(cause, ApplicationError) and cause.type == REFUSED else None


def remote_url(git: Git, name: str) -> str:
    """Return the remote's URL for the workers. Raise ``PreflightFailed`` if the URL contains a password."""
    url = git.settings().get(f"remote.{name}.url") or ""
    if not url and (":" in name or name.startswith("/")):
        url = name
    if not url:
        told = f"No git remote {name!r}. Remote workers need one to exchange code"
        raise PreflightFailed(told, hint=f"git remote add {name} URL")
    if "://" not in url and ":" not in url.split("/")[0]:
        return os.path.normpath(os.path.join(str(git.top()), os.path.expanduser(url)))
    if "://" in url and urlsplit(url).password:
        told = f"the URL of the remote {name!r} contains a password, which would be sent to the workers"
        raise PreflightFailed(told, hint="use a credential helper or ssh")
    return url


def _write(folder: str, job: Job, **found: object) -> None:
    """Write the result file of a job that no worker has completed."""
    # it does not count as an attempt
    found["uncounted"] = True
    files.write_json(os.path.join(folder, RESULT), {"v": 1, "id": job.id, "fence": job.fence, **found})
