"""Contract of an engine, as a list of checks that tests can run with any engine.

    @pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
    def test_my_engine(check, tmp_path):
        check(MyEngineUnderTest(tmp_path))

An ``EngineUnderTest`` creates engines for one project. It also causes failures, for example by killing a worker. If it
cannot cause a failure, it raises ``NotImplementedError``, and the caller skips the check. Source: ``scale.md`` 11."""

import json
import queue
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import psutil

from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel.engine import UNKNOWN, Engine
from agent_harness.parallel.items import ATTEMPT, RESULT, Job
from agent_harness.parallel.ledger import project_id

__all__ = ["CHECKS", "EngineUnderTest", "check_engine"]

EXECUTOR = "agent_harness.testing.engine_hands:carry_out"
PATIENCE_SECONDS = 120.0
WORKSPACES = 8
"""Number of workspaces for many jobs; in each workspace, the jobs run sequentially."""


class EngineUnderTest(Protocol):
    folder: Path
    """Folder for the checks. Its subfolder ``project`` is a repository with one commit."""

    def engine(self) -> Engine:
        """Return a new engine for the same project, as a second coordinator would create."""
        ...

    def kill_worker(self) -> None: ...

    def many(self) -> int:
        """Return the number of jobs for the check that runs many empty jobs."""
        ...


class _Bench:
    def __init__(self, under: EngineUnderTest, engine: Engine) -> None:
        self.folder = under.folder
        self.engine = engine
        self.ended: queue.SimpleQueue[str] = queue.SimpleQueue()
        self.git = Git(under.folder / "project")
        self.begun = under.folder / "begun"
        engine.open(self.ended)

    def job(self, name: str, fence: int = 1, *, workspace: str | None = None, **inputs: object) -> Job:
        return Job(
            id=f"run/{name}/{fence}",
            kind=ATTEMPT,
            item=name,
            name=name,
            fence=fence,
            project=project_id(str(self.folder / "parallel")),
            workspace=str(self.folder / "parallel/places" / (workspace or f"w{abs(hash(name)) % 10_000}")),
            home=str(self.git.top()),
            base=str(self.git.head()),
            branch="refs/heads/main",
            executor=EXECUTOR,
            own=(),
            set_up={"sandbox": None, "command": None, "key": [], "minutes": 1.0, "teardown": None},
            inputs={"append": str(self.begun), "file": f"{name}.txt", "content": name, **inputs},
        )

    def at(self, job: Job) -> str:
        return str(self.folder / "parallel/orders" / job.id.replace("/", "."))

    def submit(self, *jobs: Job) -> None:
        (self.folder / "parallel" / "places").mkdir(parents=True, exist_ok=True)
        for job in jobs:
            self.engine.submit(job, self.at(job), {})

    def wait(self, *jobs: Job) -> list[JsonObject]:
        left = {job.id for job in jobs}
        until = time.monotonic() + PATIENCE_SECONDS + len(jobs)
        while left and time.monotonic() < until:
            try:
                left.remove(self.ended.get(timeout=1.0))
            except queue.Empty:
                continue
        assert not left, f"never reported: {sorted(left)[:5]}"
        return [self.result(job) for job in jobs]

    def result(self, job: Job) -> JsonObject:
        path = Path(self.at(job), RESULT)
        return json.loads(path.read_text()) if path.exists() else {}

    def begun_times(self, job: Job) -> int:
        return self.begun.read_text().splitlines().count(job.id) if self.begun.exists() else 0

    def until_begun(self, *jobs: Job) -> None:
        until = time.monotonic() + PATIENCE_SECONDS
        while not all(map(self.begun_times, jobs)):
            assert time.monotonic() < until, "it never began"
            time.sleep(0.05)


@contextmanager
def _open(under: EngineUnderTest) -> Iterator[_Bench]:
    engine = under.engine()
    try:
        bench = _Bench(under, engine)
        assert bench.engine.known([]) == {}
        yield bench
    finally:
        engine.close()


def e1_submitted_twice_is_carried_out_once(under: EngineUnderTest) -> None:
    """A job that is submitted twice runs once and is reported once (E1)."""
    with _open(under) as bench:
        job = bench.job("one", seconds=1.0)
        bench.submit(job, job)
        (result,) = bench.wait(job)
        assert (result["status"], result["id"], result["fence"]) == ("accepted", job.id, 1), result
        assert bench.begun_times(job) == 1
        assert bench.git.show(str(result["commit"]), "one.txt") == b"one"
        assert bench.git.commit_of(job.refs.candidate("one", 1)) == result["commit"]
        assert bench.ended.empty()


def e2_a_new_coordinator_finds_its_job(under: EngineUnderTest) -> None:
    """A new engine reports a closed engine's jobs, or returns them as unknown (E2)."""
    with _open(under) as bench:
        job = bench.job("two", seconds=3.0)
        bench.submit(job)
        bench.until_begun(job)
        if bench.engine.is_local:
            bench.wait(job)
    with _open(under) as bench:
        if bench.engine.known([job]) == {job.id: UNKNOWN}:
            assert bench.engine.is_local, "jobs elsewhere continue without their coordinator"
            assert bench.result(job)["status"] == "accepted"
            return
        bench.submit(job)
        (result,) = bench.wait(job)
        assert result["status"] == "accepted"
        assert bench.begun_times(job) == 1


def e3_a_killed_worker_is_noticed(under: EngineUnderTest) -> None:
    """The job of a killed worker is either restarted or reported without a result (E3)."""
    with _open(under) as bench:
        job = bench.job("three", seconds=4.0)
        bench.submit(job)
        bench.until_begun(job)
        under.kill_worker()
        (result,) = bench.wait(job)
        assert result == {} if bench.engine.is_local else result["status"] == "accepted", result
        assert bench.begun_times(job) == (1 if bench.engine.is_local else 2)


def e5_a_cancelled_job_ends_and_reports(under: EngineUnderTest) -> None:
    """A cancelled job ends early, and its changes are in the project's rescues (E5)."""
    with _open(under) as bench:
        job = bench.job("five", seconds=600.0)
        bench.submit(job)
        bench.until_begun(job)
        bench.engine.recall(job.id, "a person wants it")
        (result,) = bench.wait(job)
        assert result.get("status") != "accepted"


def e9_many_empty_jobs_end_once_each(under: EngineUnderTest) -> None:
    """Each of many empty jobs is reported once and has a result (E9)."""
    with _open(under) as bench:
        jobs = [bench.job(f"n{n}", workspace=f"w{n % WORKSPACES}") for n in range(under.many())]
        for at in range(0, len(jobs), WORKSPACES):
            some = jobs[at : at + WORKSPACES]
            bench.submit(*some)
            assert [each.get("status") for each in bench.wait(*some)] == ["accepted"] * len(some)
        assert bench.ended.empty()
        assert sorted(bench.begun.read_text().split()) == sorted(job.id for job in jobs)


def e11_long_logs_come_home(under: EngineUnderTest) -> None:
    """A job's log of 20 MiB reaches the coordinator completely (E11)."""
    with _open(under) as bench:
        job = bench.job("eleven", log_bytes=20 << 20)
        bench.submit(job)
        (result,) = bench.wait(job)
        log = Path(str(result["logs"]), "long.txt")
        assert log.is_relative_to(bench.at(job))
        assert log.stat().st_size == 20 << 20


def e14_closing_leaves_no_process(under: EngineUnderTest) -> None:
    """Closing an engine leaves no child process (E14)."""
    before = {each.pid for each in psutil.Process().children(recursive=True)}
    with _open(under) as bench:
        job = bench.job("fourteen")
        bench.submit(job)
        bench.wait(job)
    until = time.monotonic() + 10.0
    while extra := {each.pid for each in psutil.Process().children(recursive=True)} - before:
        assert time.monotonic() < until, extra
        time.sleep(0.1)


CHECKS: tuple[Callable[[EngineUnderTest], None], ...] = (
    e1_submitted_twice_is_carried_out_once,
    e2_a_new_coordinator_finds_its_job,
    e3_a_killed_worker_is_noticed,
    e5_a_cancelled_job_ends_and_reports,
    e9_many_empty_jobs_end_once_each,
    e11_long_logs_come_home,
    e14_closing_leaves_no_process,
)
"""Checks that every engine must pass. The tests of each engine add checks of server failures."""


def check_engine(make: Callable[[], EngineUnderTest]) -> None:
    """Run all checks one after another, each in a new environment."""
    for check in CHECKS:
        check(make())
