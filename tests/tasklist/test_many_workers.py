"""Many workers at once, as processes: no task is held by two, none is lost, and every attempt is counted."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from agent_harness.protocols.tasklist import progress, proven
from agent_harness.protocols.tasklist.attempts import verbs
from agent_harness.protocols.tasklist.claims import claim, sessions
from agent_harness.protocols.tasklist.store import TaskListChange, TaskStore
from agent_harness.session import ledger
from agent_harness.testing.task_list_project import TaskListProject, task

LABORER = Path(__file__).with_name("laborer.py")
LONG_AGO = "2020-01-01T00:00:00Z"


class Crew:
    """Workers with names, each in a folder of its own, and what they are to do."""

    def __init__(self, path: Path, *, tasks: int, workers: int, fail_every: int = 7) -> None:
        chains = [[f"task-{number - 10:03d}"] if number % 9 == 0 and number > 10 else [] for number in range(tasks)]
        made = [task(f"task-{n:03d}", depends_on=needs, max_attempts=1000) for n, needs in enumerate(chains)]
        self.project = TaskListProject.at_noon(path / "list", *made, mode="concurrent", session_config=CONFIG)
        self.path = path
        self.fail_every = fail_every
        (path / "held").mkdir()
        self.running = {f"w{number}": self.start(f"w{number}") for number in range(workers)}

    def __enter__(self) -> "Crew":
        return self

    def __exit__(self, *_: object) -> None:
        for each in self.running.values():
            each.kill()
            each.wait()
            if each.stdout:
                each.stdout.close()

    def start(self, name: str) -> "subprocess.Popen[bytes]":
        """A worker of that name."""
        (self.path / name).mkdir(exist_ok=True)
        words = [sys.executable, str(LABORER), self.project.layout.root, str(self.path / name), str(self.fail_every)]
        environment = {**os.environ, "HARNESS_WORKER_ID": name}
        return subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)

    def kill_some(self, kills: int, chance: random.Random) -> None:
        """Kills workers at random moments; what they held is given up, or their successor of the same name has it."""
        for _ in range(kills):
            time.sleep(chance.random() * 0.2)
            name = chance.choice([*self.running])
            self.running[name].kill()
            self.running[name].communicate()
            if chance.random() < 0.5:
                expire(self.project, name)
            self.running[name] = self.start(name)

    def join(self, seconds: float) -> None:
        """Waits until all of them say that nothing is left; each of them ended well."""
        for name, each in self.running.items():
            out, _ = each.communicate(timeout=seconds)
            assert each.returncode == 0, f"{name}: {out.decode()}"

    def check(self) -> None:
        """Everything is done, once, and counted."""
        found = self.project.store.read().tasks
        assert [each.status for each in found] == ["completed"] * len(found)
        assert all(each.attempts == len(each.error_log) + 1 for each in found)
        assert not any("claim_token" in each.raw for each in found)
        sessions.start(self.project.caller("mender"))  # sweeps up after the dead
        assert [*self.project.root.glob("*.tmp.*")] == []
        lines = [progress.parse(line) for line in progress.tail(self.project.layout, 1 << 20)]
        assert all(lines)
        path = proven.ledger(self.project.layout)
        verdicts = list(ledger.newest_first(path))
        assert ledger.check(path).whole
        assert len({each.id for each in verdicts}) == len(verdicts)
        assert {each.item for each in verdicts if each.accepted} == {each.id for each in found}


CONFIG = {"concurrency_mode": "concurrent", "max_tasks_per_session": 0}


def expire(project: TaskListProject, name: str) -> None:
    """As if the lease of a worker had ended long ago."""

    def act(change: TaskListChange) -> None:
        for each in change.state.tasks:
            if each.claimed_by == name:
                each.raw["lease_expires_at"] = LONG_AGO
                change.touch()

    TaskStore(project.layout, lock_timeout_seconds=120).change(act)


def kinds(crew: Crew) -> Counter[tuple[str, str | None]]:
    """Count the lines of each kind in the log, for each task."""
    lines = [progress.parse(line) for line in progress.tail(crew.project.layout, 1 << 20)]
    return Counter((each.kind, each.task) for each in lines if each)


def work(crew: Crew, seconds: float) -> None:
    """Lets them work without a kill; then the log is exact too."""
    crew.join(seconds)
    revision = crew.project.raw["revision"]
    crew.check()
    count = kinds(crew)
    for each in crew.project.store.read().tasks:
        told = [count[kind, each.id] for kind in ("Starting", "Completed", "ERROR")]
        assert told == [each.attempts, 1, each.attempts - 1]
    assert [*crew.project.root.glob("*.tmp.*")] == []
    assert sum(each.attempts for each in crew.project.store.read().tasks) > len(crew.project.raw["tasks"])
    assert revision == 2 * sum(each["attempts"] for each in crew.project.raw["tasks"])


def test_four_workers_share_twenty_four_tasks(tmp_path: Path) -> None:
    with Crew(tmp_path, tasks=24, workers=4, fail_every=4) as crew:
        work(crew, 200)


@pytest.mark.exhaustive
@pytest.mark.scenario
@pytest.mark.kill
def test_workers_that_are_killed_lose_nothing(tmp_path: Path) -> None:
    with Crew(tmp_path, tasks=30, workers=3) as crew:
        while not Path(crew.project.layout.progress).exists():  # they have begun
            time.sleep(0.01)
        crew.kill_some(8, random.Random(4))
        crew.join(200)
        crew.check()


@pytest.mark.slow
def test_sixteen_workers_share_five_hundred_tasks(tmp_path: Path) -> None:
    with Crew(tmp_path, tasks=500, workers=16, fail_every=20) as crew:
        work(crew, 280)


@pytest.mark.slow
@pytest.mark.kill
def test_sixteen_workers_that_are_killed_at_random_moments_lose_nothing(tmp_path: Path) -> None:
    seed = random.randrange(10**9)
    print(f"random.Random({seed})")  # shown with a failure
    with Crew(tmp_path, tasks=500, workers=16, fail_every=20) as crew:
        crew.kill_some(60, random.Random(seed))
        crew.join(280)
        crew.check()


# ---- suspended -------------------------------------------------------------------------------------------------------

SLEEPER = """
import sys
from agent_harness.errors import HarnessError
from agent_harness.protocols.tasklist.api import TaskList
tasks = TaskList.open(sys.argv[1], cwd=sys.argv[2])
tasks.caller.token = tasks.claim()["token"]
print("claimed", flush=True)
sys.stdin.readline()
try:
    tasks.complete("a")
    print("completed", flush=True)
except HarnessError as error:
    print(type(error).__name__, flush=True)
"""


def suspend(process: "subprocess.Popen[str]") -> None:
    """Stops a process, and waits until it stands."""
    process.send_signal(signal.SIGSTOP)
    while psutil.Process(process.pid).status() != psutil.STATUS_STOPPED:
        time.sleep(0.01)


@pytest.mark.parametrize("when", ["before", "while it proves"])
def test_a_worker_that_wakes_after_its_lease_completes_nothing(tmp_path: Path, when: str) -> None:
    command = "touch begun; while [ ! -e go ]; do sleep 0.02; done"
    project = TaskListProject.at_noon(
        tmp_path / "list", task("a", validation={"command": command, "timeout_seconds": 60}), mode="concurrent"
    )
    project.now = None
    for name in ("mine", "other"):
        (tmp_path / name).mkdir()
    words: Sequence[str] = [sys.executable, "-c", SLEEPER, project.layout.root, str(tmp_path / "mine")]
    environment = {**os.environ, "HARNESS_WORKER_ID": "sleeper"}
    with (
        subprocess.Popen(words, env=environment, stdin=-1, stdout=-1, text=True) as sleeper,
        contextlib.ExitStack() as stack,
    ):
        stack.callback(sleeper.kill)
        assert sleeper.stdin and sleeper.stdout
        assert sleeper.stdout.readline() == "claimed\n"
        if when != "before":
            sleeper.stdin.write("\n")
            sleeper.stdin.flush()
            while not [*tmp_path.rglob("begun")]:
                time.sleep(0.01)
        suspend(sleeper)
        expire(project, "sleeper")
        other = project.caller("other", cwd=str(tmp_path / "other"))
        other.token = claim.claim(other)["token"]
        for folder in (tmp_path / "mine", tmp_path / "other", project.root):
            (folder / "go").touch()
        sleeper.send_signal(signal.SIGCONT)
        out, _ = sleeper.communicate("\n" if when == "before" else None, timeout=60)
    assert out == "LeaseLost\n"
    found = project.task("a")
    assert (found.status, found.claimed_by, found.claim_token) == ("in_progress", "other", other.token)
    assert verbs.complete(other, "a")["attempts"] == 2
