"""A task list worked over Temporal while workers, the server and home are killed at random moments.

Whatever dies, every task lands once, and no commit of the branch's first parents fails what has landed by then.
``HARNESS_KILL_SEED`` sets the moments, ``HARNESS_CHAOS_TASKS`` the size.
"""

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import pytest

from agent_harness.testing.task_list_project import task
from agent_harness.testing.temporal_server import TemporalServer

from ..acceptance.test_chaos import every_commit_is_green, left_over, nothing_is_lost_or_twice
from .machines import Fleet, until

SEED = int(os.environ.get("HARNESS_KILL_SEED", "1"))
TASKS = int(os.environ.get("HARNESS_CHAOS_TASKS", "12"))
AGENT = "mkdir -p out; n=${HARNESS_TASK_ID#t-}; sleep 2; echo $n > out/$n.txt"


@pytest.mark.engine
def test_every_task_lands_once_whatever_dies(tmp_path: Path) -> None:
    choose = random.Random(SEED)
    jobs = [
        task(f"t-{n}", validation={"command": f"grep -qx {n} out/{n}.txt", "timeout_seconds": 60}, max_attempts=30)
        for n in range(TASKS)
    ]
    with TemporalServer(tmp_path) as server:
        found = Fleet(tmp_path, server, *jobs)
        found.work.edit(session_config={**found.work.raw["session_config"], "max_tasks_per_session": 0})
        try:
            _work_while_killing(found, choose)
        finally:
            found.close()
        nothing_is_lost_or_twice(found.work, TASKS)
        every_commit_is_green(found.work, tmp_path / "scratch")
        assert found.at_remote() == []
        assert [line for line in left_over(tmp_path) if "agent_harness" in line] == []


def _work_while_killing(found: Fleet, choose: random.Random) -> None:
    names = ["one", "two", "three"]
    workers: dict[str, subprocess.Popen[bytes]] = {name: found.worker("--slots", "2", name=name) for name in names}
    kills = ["worker"] * 3 + ["server"] * 2 + ["home", "frozen"]
    choose.shuffle(kills)
    run = found.begin(AGENT, 5)
    for what in kills:
        time.sleep(choose.uniform(1.0, 4.0))
        name = choose.choice(names)
        if what == "worker":
            workers[name].kill()
            workers[name].wait()
            workers[name] = found.worker("--slots", "2", name=name)
        elif what == "server":
            found.server.kill()
            time.sleep(choose.uniform(0.5, 3.0))
            found.server.start()
        elif what == "home":
            run.kill()
            run.wait()
            run = found.begin(AGENT, 5)
        else:
            workers[name].send_signal(signal.SIGSTOP)
            time.sleep(11.0)  # longer than the heartbeat
            workers[name].send_signal(signal.SIGCONT)
    code = run.wait(timeout=600)
    while code not in (0, 7):
        told = found.work.raw.get("halt") or {}
        assert "attempt_lost" in json.dumps(told), (code, (found.path / "run.log").read_text()[-3000:])
        assert found.work.harness("resume").code == 0
        code = found.begin(AGENT, 5).wait(timeout=600)
    until(lambda: not [ref for ref in found.at_remote() if "/orders/" in ref], 60.0)
