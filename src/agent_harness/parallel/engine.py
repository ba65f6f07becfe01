"""What carries jobs out: processes of this machine, or, behind the same port, those of others.

An engine only runs workers. It is given a job and the folder of it, and reports when nothing of the job runs any
more; ``result.json`` in that folder is all that counts then, and a job without one is lost. Planning, landing,
budgets and state are never in an engine.
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
"""Between two attempts that begin: what begins at once is made ready, judged and landed at once, again and again."""
WRAP_UP_SECONDS = 180.0

RUNNING, ENDED, UNKNOWN = "running", "ended", "unknown"
"""What an engine knows of a job: it goes on or waits for workers; its result is there; nobody will report it."""


class Engine(Protocol):
    """Runs workers. ``scale.md`` 2 and 11; ``agent_harness.testing.check_engine`` is its conformance suite."""

    name: str
    """What the run is shown to work with."""
    is_local: bool
    """Whether its agents are processes of this machine, which has to have room for them."""

    def open(self, ended: "queue.SimpleQueue[str]") -> None:
        """From now on the id of each job goes there once it is over. ``HarnessError`` where nobody can work."""
        ...

    def submit(self, job: Job, folder: str, environment: Mapping[str, str]) -> None:
        """Begins with a job, or goes on to watch it where it was submitted before; returns at once.

        One id is carried out once, however often and by whomever it is submitted.
        """
        ...

    def recall(self, job_id: str, reason: str) -> None:
        """The workers end the attempt after its current operation, keep its work, and still report."""
        ...

    def known(self, jobs: Sequence[Job]) -> dict[str, str]:
        """What it knows of jobs that an earlier process has submitted, by their ids."""
        ...

    def heard(self) -> dict[str, JsonObject]:
        """What jobs elsewhere say that they do, by their ids; nothing of those that can be looked at here."""
        ...

    def close(self) -> None:
        """Lets go of everything: no process of the engine's is left here. Jobs elsewhere go on."""
        ...


class EngineFactory(Protocol):
    """Makes the engine of a run; ``None`` for the processes of this machine."""

    def __call__(self, git: Git, folder: str, say: Callable[[str], None], refs: str) -> Engine | None:
        """``folder`` is that of the project's parallel runs; ``refs`` where jobs lie at a remote."""
        ...


class LocalEngine:
    """Carries jobs out in processes of this machine, which end with this one."""

    name = "local"
    is_local = True

    def __init__(self) -> None:
        self._ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._recalls: dict[str, threading.Event] = {}
        self._idle: dict[str, WorkerProcess] = {}  # by workspace
        self._next_begin = 0.0  # of the monotonic clock

    def open(self, ended: "queue.SimpleQueue[str]") -> None:
        """Nothing has to be there."""
        self._ended = ended

    def submit(self, job: Job, folder: str, environment: Mapping[str, str]) -> None:
        """Begins with it in a process of its own."""
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
        """Its process is told to end."""
        if found := self._recalls.get(job_id):
            found.set()

    def known(self, jobs: Sequence[Job]) -> dict[str, str]:
        """Nothing: they have ended with the process that had submitted them."""
        return {each.id: UNKNOWN for each in jobs}

    def heard(self) -> dict[str, JsonObject]:
        """Nothing: they write it down where the project looks."""
        return {}

    def close(self) -> None:
        """Ends those that wait for a job; what carries one out ends with this process."""
        while self._idle:
            self._idle.popitem()[1].close()


class WorkerProcess:
    """A process on a lifeline of this one that carries jobs out, one at a time; begun when there is a job.

    One that has ended, by whatever, is begun anew for the next job.
    """

    def __init__(self, *, wrap_up_seconds: float = WRAP_UP_SECONDS) -> None:
        """``wrap_up_seconds``: how long a job that is recalled has to end its operation and keep its work."""
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
        """Carries out the job whose folder this is; returns when nothing of it runs any more."""
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
        """Ends the process at once."""
        if self._running is not None:
            self._running.close()
            self._running = None
