"""What a Temporal development server and a worker add to a run, on this machine and on loopback.

An empty job is one whose workers write one line. It is carried out by processes of this machine, and over the server:
what is more then is parcels, server and worker. Times of a worker that goes are from the signal until the workers
of another one have begun.
"""

import queue
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import psutil
import timing

from agent_harness.kernel.git import Git
from agent_harness.parallel.engine import Engine, LocalEngine
from agent_harness.parallel.items import ATTEMPT, RESULT, Job
from agent_harness.testing.repo import Repo
from agent_harness.testing.temporal_server import TemporalServer, program

HEARTBEAT = 30  # the least, so that this does not take minutes
JOBS = 300
AT_ONCE = 8
ALONE = 10


def missing() -> str | None:
    """Why nothing can be measured here."""
    if find_spec("temporalio") is None:
        return "the extra 'temporal' is not installed: make setup"
    return None if program() else "no Temporal server is installed: make test-engine installs one"


def measure() -> Mapping[str, float]:
    """The figures of all bars of the engine."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder, ExitStack() as ending:
        return _Machines(Path(folder), ending).measured()


class _Machines:
    """A server, a project with a remote, and workers."""

    def __init__(self, folder: Path, ending: ExitStack) -> None:
        from agent_harness.engines import engine_for

        self.folder = folder
        self.server = ending.enter_context(TemporalServer(folder))
        self.repo = Repo.with_files(folder / "project", {"a.txt": "a\n"})
        subprocess.run(["git", "init", "-q", "--bare", str(folder / "remote.git")], check=True)
        self.repo.git("remote", "add", "origin", str(folder / "remote.git"))
        self.git = Git(folder / "project")
        found = engine_for(
            f"{self.server.url}?heartbeat={HEARTBEAT}", self.git, str(folder / "parallel"), lambda _: None
        )
        assert found is not None
        self.engine: Engine = found
        self.ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.engine.open(self.ended)
        ending.callback(self.engine.close)
        self.begun = folder / "begun"
        self._ending = ending
        self._workers = 0

    def worker(self) -> "subprocess.Popen[bytes]":
        self._workers += 1
        home = self.folder / f"machine-{self._workers}"
        home.mkdir()
        words = [sys.executable, "-m", "agent_harness.cli.main", "worker", "--engine", self.server.url]
        words += ["--remote", str(self.folder / "remote.git"), "--slots", str(AT_ONCE)]
        with (home / "log").open("wb") as log:
            found = subprocess.Popen(words, cwd=home, env=timing.environment(home), stdout=log, stderr=log)
        self._ending.callback(found.wait)
        self._ending.callback(found.kill)
        _until(lambda: "workers wait" in (home / "log").read_text())
        return found

    def job(self, name: str, **inputs: object) -> Job:
        return Job(
            id=f"run/{name}/1",
            kind=ATTEMPT,
            item=name,
            name=name,
            fence=1,
            workspace=str(self.folder / "parallel/places/w1"),
            home=str(self.git.top()),
            base=str(self.git.head()),
            branch="refs/heads/main",
            executor="agent_harness.testing.engine_hands:carry_out",
            own=(),
            set_up={"sandbox": None, "command": None, "key": [], "minutes": 1.0, "teardown": None},
            inputs={"append": str(self.begun), "file": f"{name}.txt", "content": name, **inputs},
        )

    def at(self, job: Job) -> str:
        return str(self.folder / "parallel/orders" / job.id.replace("/", "."))

    def submit(self, name: str, **inputs: object) -> Job:
        job = self.job(name, **inputs)
        self.engine.submit(job, self.at(job), {})
        return job

    def begun_times(self, job: Job) -> int:
        return self.begun.read_text().splitlines().count(job.id) if self.begun.exists() else 0

    def measured(self) -> Mapping[str, float]:
        first = self.worker()
        over, here = self._seconds(self.engine, "over"), self._seconds(self._local(), "here")
        self._all_end_once()
        sizes = {
            "engine-worker-memory": _memory(psutil.Process(first.pid)),
            "engine-server-memory": _memory(self._server()),
        }
        second = self.worker()
        left = self._begun_elsewhere("left", first, signal.SIGTERM)
        self.worker()
        killed = self._begun_elsewhere("killed", second, signal.SIGKILL)
        told = f"an empty job: {over:.2f} s over the server, {here:.2f} s by a process of this machine"
        print(told, file=sys.stderr, flush=True)
        return {"engine-job": over / here, **sizes, "engine-left": left, "engine-killed": killed}

    def _local(self) -> Engine:
        (self.folder / "parallel/places").mkdir()
        found = LocalEngine()
        found.open(self.ended)
        return found

    def _seconds(self, engine: Engine, name: str) -> float:
        """The median of empty jobs, one after the other; the first is not counted."""
        found: list[float] = []
        for n in range(ALONE + 1):
            job = self.job(f"{name}{n}")
            began = time.perf_counter()
            engine.submit(job, self.at(job), {})
            self.ended.get()
            found.append(time.perf_counter() - began)
            if not Path(self.at(job), RESULT).exists():
                raise SystemExit(f"{job.id} ended without a result")
        return statistics.median(found[1:])

    def _all_end_once(self) -> None:
        """E9: so many jobs, each of which is carried out and reported once."""
        left = [f"n{n}" for n in range(JOBS)]
        under: set[str] = set()
        wanted = sorted(f"run/{name}/1" for name in left)
        while left or under:
            while left and len(under) < AT_ONCE:
                under.add(self.submit(left.pop()).id)
            under.remove(self.ended.get())
        begun = sorted(line for line in self.begun.read_text().split() if line.startswith("run/n"))
        ended = [job for job in wanted if Path(self.at(self.job(job.split("/")[1])), RESULT).exists()]
        if begun != wanted or ended != wanted or not self.ended.empty():
            raise SystemExit(f"of {JOBS} jobs {len(begun)} began, and {len(ended)} have a result")

    def _server(self) -> psutil.Process:
        return next(each for each in psutil.Process().children() if str(self.server.port) in each.cmdline()[:9])

    def _begun_elsewhere(self, name: str, worker: "subprocess.Popen[bytes]", by: signal.Signals) -> float:
        """Seconds from the signal until the job has begun a second time, by another worker."""
        while True:  # until one of its jobs is at the worker that is to go
            job = self.submit(f"{name}{time.monotonic_ns()}", seconds=600.0)
            _until(lambda told=job: self.begun_times(told))
            if any("parallel.worker_process" in " ".join(each.cmdline()) for each in _below(worker.pid)):
                break
            self.engine.recall(job.id, "the wrong worker has it")
            self.ended.get()
        began = time.monotonic()
        worker.send_signal(by)
        _until(lambda: self.begun_times(job) > 1)
        took = time.monotonic() - began
        self.engine.recall(job.id, "enough")
        self.ended.get()
        return took


def _below(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def _memory(process: psutil.Process) -> float:
    return process.memory_info().rss / 2**20


def _until(found: Callable[[], object]) -> None:
    end = time.monotonic() + 300
    while not found():
        if time.monotonic() > end:
            raise SystemExit("nothing happened for five minutes")
        time.sleep(0.05)
