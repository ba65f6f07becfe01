"""Execution of jobs: by processes of this machine or, behind the same port, of other machines.

An engine only runs workers. It gets a job and its folder, and reports when no process of the job runs any more; then
only ``result.json`` in that folder counts, and a job without one is lost. Planning, landing, budgets and state are
never in an engine.
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
"""Seconds between the starts of two attempts: attempts that start together are set up, verified and landed together
again and again.
"""
WRAP_UP_SECONDS = 180.0

RUNNING, ENDED, UNKNOWN = "running", "ended", "unknown"
"""State of a job in an engine: it runs or waits for workers; its result exists; nobody will report it."""


class Engine(Protocol):
    """Port that runs workers. ``scale.md`` 2 and 11; ``agent_harness.testing.check_engine`` is its conformance
    suite.
    """

    name: str
    """Name of the engine in the display of a run."""
    is_local: bool
    """True if its agents are processes of this machine, which needs room for them."""

    def open(self, ended: "queue.SimpleQueue[str]") -> None:
        """From now on, put the id of each finished job into ``ended``. Raise ``HarnessError`` if no worker can run."""
        ...

    def submit(self, job: Job, folder: str, environment: Mapping[str, str]) -> None:
        """Start a job, or watch one that was submitted before. Return at once.

        One id is executed once, no matter how often and by whom it is submitted.
        """
        ...

    def recall(self, job_id: str, reason: str) -> None:
        """Tell the workers to end the attempt after its current operation, keep its work, and still report."""
        ...

    def known(self, jobs: Sequence[Job]) -> dict[str, str]:
        """Return the state of jobs that an earlier process has submitted, by id."""
        ...

    def heard(self) -> dict[str, JsonObject]:
        """Return the reported activity of remote jobs, by id. Jobs of this machine are left out."""
        ...

    def close(self) -> None:
        """Release everything: no process of the engine is left here. Remote jobs go on."""
        ...


class EngineFactory(Protocol):
    """Factory for the engine of a run; None stands for processes of this machine."""

    def __call__(self, git: Git, folder: str, say: Callable[[str], None], refs: str) -> Engine | None:
        """Build the engine. ``folder`` holds the project's parallel runs; ``refs`` is the folder of jobs at a
        remote.
        """
        ...


class LocalEngine:
    """Engine that executes jobs in processes of this machine, which end with this one."""

    name = "local"
    is_local = True

    def __init__(self) -> None:
        self._ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._recalls: dict[str, threading.Event] = {}
        self._idle: dict[str, WorkerProcess] = {}  # by workspace
        self._next_begin = 0.0  # of the monotonic clock

    def open(self, ended: "queue.SimpleQueue[str]") -> None:
        """Keep the queue; there is nothing to connect to."""
        self._ended = ended

    def submit(self, job: Job, folder: str, environment: Mapping[str, str]) -> None:
        """Start the job in a separate process."""
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
        """Tell its process to end."""
        if found := self._recalls.get(job_id):
            found.set()

    def known(self, jobs: Sequence[Job]) -> dict[str, str]:
        """Return ``unknown`` for every job: they ended with the process that submitted them."""
        return {each.id: UNKNOWN for each in jobs}

    def heard(self) -> dict[str, JsonObject]:
        """Return nothing: local jobs write their activity into the project."""
        return {}

    def close(self) -> None:
        """End idle workers. A worker with a job ends with this process."""
        while self._idle:
            self._idle.popitem()[1].close()


class WorkerProcess:
    """Process on a lifeline of this one that executes jobs, one at a time; started with the first job.

    After it has ended, for any reason, the next job starts a new one.
    """

    def __init__(self, *, wrap_up_seconds: float = WRAP_UP_SECONDS) -> None:
        """Set ``wrap_up_seconds``: the time in which a recalled job has to end its operation and keep its work."""
        self._running: process.Running | None = None
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
        """Execute the job of this folder. Return when no process of it runs any more."""
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
        """End the process at once."""
        if self._running is not None:
            self._running.close()
            self._running = None
