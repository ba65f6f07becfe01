"""A task list worked over Temporal while workers, server and coordinator are killed at random moments.

Whatever dies, every task is merged once by one accepted job. No commit of the branch's first parents fails the checks
of the tasks merged by then, and no process is left. ``HARNESS_KILL_SEED`` sets the moments, ``HARNESS_CHAOS_TASKS`` the
size of the slow test, ``HARNESS_CHAOS_SEEDS`` its number of seeds.
"""

import json
import os
import random
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path

import pytest

from agent_harness.testing.task_list_project import task
from agent_harness.testing.temporal_server import TemporalServer, program

from ..acceptance.test_chaos import every_commit_is_green, left_over, nothing_is_lost_or_twice
from .machines import Fleet, until

SEED = int(os.environ.get("HARNESS_KILL_SEED", "1"))
TASKS = int(os.environ.get("HARNESS_CHAOS_TASKS", "200"))
AGENT = "mkdir -p out; n=${{HARNESS_TASK_ID#t-}}; sleep {seconds}; echo $n > out/$n.txt"
KILLS = {"worker": 3, "server": 2, "home": 1, "frozen": 1}


class Torture:
    """A run with its workers, some of which are killed meanwhile."""

    def __init__(self, found: Fleet, machines: int, slots: int, seconds: float, choose: random.Random) -> None:
        self.found, self.slots, self.choose = found, slots, choose
        self.agent = AGENT.format(seconds=seconds)
        self.agents = machines * slots
        self.workers = {f"machine-{n}": self.worker(f"machine-{n}") for n in range(machines)}
        self.run = found.begin(self.agent, self.agents)

    def worker(self, name: str) -> "subprocess.Popen[bytes]":
        return self.found.worker("--slots", str(self.slots), name=name)

    def kill(self, what: str) -> None:
        name = self.choose.choice([*self.workers])
        if what == "worker":
            self.workers[name].kill()
            self.workers[name].wait()
            self.workers[name] = self.worker(name)
        elif what == "told":
            self.workers[name].terminate()
            assert self.workers[name].wait(timeout=300) in (0, -signal.SIGTERM), self.found.log(name)
            self.workers[name] = self.worker(name)
        elif what == "server":
            self.found.server.kill()
            time.sleep(self.choose.uniform(0.5, 5.0))
            self.found.server.start()
        elif what == "home":
            self.run.kill()
            self.run.wait()
            self.run = self.found.begin(self.agent, self.agents)
        else:
            self.workers[name].send_signal(signal.SIGSTOP)
            time.sleep(11.0)  # longer than the heartbeat
            self.workers[name].send_signal(signal.SIGCONT)

    def to_its_end(self) -> None:
        """Wait for the run's end; an item that was hit three times in a row causes a question, which is answered."""
        code = self.run.wait(timeout=3000)
        while code not in (0, 7):
            told = self.found.work.raw.get("halt") or {}
            assert "attempt_lost" in json.dumps(told), (code, (self.found.path / "run.log").read_text()[-3000:])
            assert self.found.work.harness("resume").code == 0
            code = self.found.begin(self.agent, self.agents).wait(timeout=3000)
        until(lambda: not [ref for ref in self.found.at_remote() if "/orders/" in ref], 180.0)


def torture(
    path: Path, *, size: int, machines: int, slots: int, seconds: float, kills: dict[str, int], apart: float, seed: int
) -> None:
    """Kill parts of the run; ``apart`` is the most seconds between two kills."""
    choose = random.Random(seed)
    jobs = [
        task(f"t-{n}", validation={"command": f"grep -qx {n} out/{n}.txt", "timeout_seconds": 60}, max_attempts=30)
        for n in range(size)
    ]
    with TemporalServer(path) as server:
        found = Fleet(path, server, *jobs)
        config = found.work.raw["session_config"]
        found.work.edit(session_config={**config, "max_tasks_per_session": 0, "max_sessions": 0})
        try:
            work = Torture(found, machines, slots, seconds, choose)
            moments = [what for what, times in kills.items() for _ in range(times)]
            choose.shuffle(moments)
            for what in moments:
                time.sleep(choose.uniform(1.0, apart))
                work.kill(what)
            work.to_its_end()
        finally:
            found.close()
        nothing_is_lost_or_twice(found.work, size)
        every_commit_is_green(found.work, path / "scratch")
        assert found.at_remote() == []
        one_order_of_each_counts(found, size)
    assert left_over(path) == []


def one_order_of_each_counts(found: Fleet, size: int) -> None:
    """Check in all runs' journals that the accepted jobs of a task are one more than its rejections."""
    folders = Path(os.environ["XDG_STATE_HOME"]).glob("agent-harness/projects/*/parallel")
    paths = [path for folder in folders for path in [*folder.glob("runs/*.jsonl"), folder / "ledger.jsonl"]]
    events = [json.loads(line) for path in paths for line in path.read_text().splitlines()]
    accepted = Counter(each["item"] for each in events if (each["type"], each.get("status")) == ("ended", "accepted"))
    bounced = Counter(each["item"] for each in events if each["type"] == "bounced")
    assert accepted - bounced == Counter(f"t-{n}" for n in range(size))


@pytest.mark.engine
def test_every_task_lands_once_whatever_dies(tmp_path: Path) -> None:
    torture(tmp_path, size=12, machines=3, slots=2, seconds=2, kills=KILLS, apart=4.0, seed=SEED)


@pytest.mark.slow
@pytest.mark.kill
@pytest.mark.timeout(7200)
@pytest.mark.skipif(program() is None, reason="make test-engine installs the server")
@pytest.mark.parametrize("seed", range(SEED, SEED + int(os.environ.get("HARNESS_CHAOS_SEEDS", "2"))))
def test_two_hundred_tasks_survive_whatever_dies(tmp_path: Path, seed: int) -> None:
    """E3..E8 at full size: workers, server and coordinator die, one worker stops past its heartbeat."""
    kills = {"worker": 6, "told": 2, "server": 2, "home": 1, "frozen": 1}
    torture(tmp_path, size=TASKS, machines=2, slots=4, seconds=1, kills=kills, apart=10.0, seed=seed)
