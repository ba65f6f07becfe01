"""Interface of engines, which execute jobs in processes on this machine or on other machines.

An engine only runs workers. It gets a job and the job's folder, and reports when all processes of the job have exited.
Then only ``result.json`` in the folder counts. A job without this file is lost. Engines have no part in planning,
merging, budgets and state.
"""

import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Protocol

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock, files, process
from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel.items import ATTEMPT, JOB, RESULT, Job
from agent_harness.parallel.worker_process import OVER, log_of

LOOK_SECONDS = 0.5
APART_SECONDS = 1.0 / (os.cpu_count() or 1)
"""Minimum time between the starts of two attempts, in seconds.

If two attempts started together, their set-ups, verifications and merges would coincide again and again.
"""
WRAP_UP_SECONDS = 180.0

RUNNING, ENDED, UNKNOWN = "running", "ended", "unknown"
"""States of a job in an engine: running or waiting for a worker; ended with a result; or unknown, so never reported."""


class Engine(Protocol):
    """Interface of an engine, which executes jobs (scale.md 2, 11). ``agent_harness.testing.check_engine`` checks
    implementations."""

    name: str
    """Name of the engine, as shown in the display of a run."""
    is_local: bool
    """True if the engine's agents run as processes of this machine and need its resources."""

    def open(self, ended: "queue.SimpleQueue[str]") -> None:
        """Open the engine, which then puts the id of each finished job into ``ended``."""
        ...

    def submit(self, job: Job, folder: str, environment: Mapping[str, str]) -> None:
        """Start a job and return immediately. Each job runs only once, even if submitted repeatedly."""
        ...

    def recall(self, job_id: str, reason: str) -> None:
        """Tell the job's worker to stop, save its work and report a result."""
        ...

    def known(self, jobs: Sequence[Job]) -> dict[str, str]:
        """Return the state of each job, by job id: ``running``, ``ended`` or ``unknown``."""
        ...

    def heard(self) -> dict[str, JsonObject]:
        """Return the activity that remote workers reported, by job id."""
        ...

    def close(self) -> None:
        """End the engine's processes on this machine. Jobs on other machines continue."""
        ...


class EngineFactory(Protocol):
    """Factory for the engine of a run."""

    def __call__(self, git: Git, folder: str, say: Callable[[str], None], refs: str) -> Engine | None:
        """Return the engine of a project, or None to run jobs on this machine."""
        ...


class LocalEngine:
    """Engine that executes jobs in child processes of this process."""

    name = "local"
    is_local = True

    def __init__(self) -> None:
        self._ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._recalls: dict[str, threading.Event] = {}
        self._idle: dict[str, WorkerProcess] = {}  # by workspace
        self._next_begin = 0.0  # of the monotonic clock

    def open(self, ended: "queue.SimpleQueue[str]") -> None:
        self._ended = ended

    def submit(self, job: Job, folder: str, environment: Mapping[str, str]) -> None:
        if job.id in self._recalls:
            return
        self._recalls[job.id] = threading.Event()
        os.makedirs(folder, mode=0o700, exist_ok=True)
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(folder, RESULT))
        files.write_json(os.path.join(folder, JOB), job.as_record())
        begin = time.monotonic()
        if job.kind == ATTEMPT:
            begin = max(begin, self._next_begin)
            self._next_begin = begin + clock.scaled(APART_SECONDS)
        told = {**os.environ, **environment}
        threading.Thread(target=self._carry_out, args=(job, folder, told, begin), daemon=True).start()

    def _carry_out(self, job: Job, folder: str, environment: dict[str, str], begin: float) -> None:
        self._recalls[job.id].wait(max(0.0, begin - time.monotonic()))
        worker = self._idle.pop(job.workspace, None) or WorkerProcess()
        try:
            worker.execute(job, folder, environment, self._recalls[job.id].is_set)
            self._idle[job.workspace] = worker
        except (HarnessError, OSError) as error:
            worker.close()
            with suppress(HarnessError, OSError), os.fdopen(log_of(folder), "a") as log:
                log.write(f"{error}\n")
        finally:
            self._ended.put(job.id)

    def recall(self, job_id: str, reason: str) -> None:
        if found := self._recalls.get(job_id):
            found.set()

    def known(self, jobs: Sequence[Job]) -> dict[str, str]:
        """Return ``unknown`` for every job, because local jobs end with their process."""
        return {each.id: UNKNOWN for each in jobs}

    def heard(self) -> dict[str, JsonObject]:
        """Return nothing, because local jobs write their activity into the project."""
        return {}

    def close(self) -> None:
        # a worker process that is executing a job ends together with this process
        while self._idle:
            self._idle.popitem()[1].close()


class WorkerProcess:
    """Reusable child process that executes one job at a time."""

    def __init__(self, *, wrap_up_seconds: float = WRAP_UP_SECONDS) -> None:
        self._running: process.Running | None = None
        # for a cancelled job to finish its operation and save its work
        self._wrap_up_seconds = wrap_up_seconds

    def execute(
        self,
        job: Job,
        folder: str,
        environment: Mapping[str, str],
        is_recalled: Callable[[], bool],
        *,
        attempt: int = 1,
    ) -> None:
        """Execute a job, and return after all its processes have exited."""
        running = self._begun(environment)
        told = {"order": job.id, "item": job.item, "name": job.name, "try": attempt}
        files.write_json(f"{job.workspace}.json", {**told, "process": running.record})
        request = {"folder": folder, "hands": job.executor, "environment": dict(environment)}
        running.write(json.dumps(request).encode() + b"\n")
        with os.fdopen(log_of(folder), "ab") as log:
            while not running.at_end:
                line = running.read_line(LOOK_SECONDS)
                if line == OVER:
                    return
                if line is not None:
                    log.write(line + b"\n")
                if is_recalled() and not running.exited:
                    running.stop(clock.scaled(self._wrap_up_seconds))
        self.close()

    def _begun(self, environment: Mapping[str, str]) -> process.Running:
        if self._running is not None:
            self._running.read_line(0)
            if not self._running.exited:
                return self._running
            self.close()
        command = [sys.executable, "-P", "-m", "agent_harness.parallel.worker_process"]
        self._running = process.start(command, cwd=os.getcwd(), env=environment)
        return self._running

    def close(self) -> None:
        if self._running is not None:
            self._running.close()
            self._running = None
