"""A task list worked in parallel while workers and the coordinator are killed at random moments.

Whatever dies, every task lands once, no commit of the branch's first parents fails what has landed by then, and no
process goes on. ``HARNESS_KILL_SEED`` sets the moments.
"""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from agent_harness.testing.task_list_project import TaskListProject, task

SEED = int(os.environ.get("HARNESS_KILL_SEED", "1"))


def chaos_project(path: Path, size: int) -> TaskListProject:
    """Tasks of which every third one adds a line where its neighbours do, so that they conflict."""
    jobs = [
        task(
            f"t-{n}",
            validation={"command": f"grep -qx {n} out/{n}.txt", "timeout_seconds": 60},
            max_attempts=30,
            depends_on=[f"t-{n - 5}"] if n % 5 == 4 and n > 5 else [],
        )
        for n in range(size)
    ]
    found = TaskListProject(path / "list", *jobs, git=True, session_count=0)
    found.edit(session_config={**found.raw["session_config"], "max_tasks_per_session": 0, "max_sessions": 0})
    return found


AGENT = """\
echo "$HARNESS_TASK_ID" >> "{starts}"
mkdir -p out
n=${{HARNESS_TASK_ID#t-}}
sleep {seconds}
echo $n > out/$n.txt
"""


def hands_of(pid: int) -> list[psutil.Process]:
    """The processes that carry jobs out for a coordinator, at this moment."""
    found = []
    for each in psutil.Process(pid).children(recursive=True):
        try:
            if "agent_harness.parallel.worker_process" in each.cmdline():
                found.append(each)
        except psutil.Error:
            continue
    return found


def left_over(path: Path) -> list[str]:
    """Return the command lines of processes that still run in the folder of a test."""
    found = []
    for each in psutil.process_iter():
        try:
            if each.pid != os.getpid() and any(str(path) in word for word in [each.cwd(), *each.cmdline()]):
                found.append(" ".join(each.cmdline()))
        except psutil.Error:
            continue
    return found


def work_while_killing(
    project: TaskListProject, agent: str, *, workers: int, processes: int, coordinators: int, choose: random.Random
) -> list[int]:
    """Repeats the run until it ends by itself; its exit codes.

    So many workers and coordinators are killed meanwhile.
    """
    words = [
        sys.executable,
        "-m",
        "agent_harness.cli.main",
        "run",
        "--workers",
        str(workers),
        "--agent",
        agent,
        "--json",
    ]
    kills = ["process"] * processes + ["coordinator"] * coordinators
    choose.shuffle(kills)
    codes: list[int] = []
    while True:
        log = (project.root.parent / "run.log").open("ab")
        environment = {**os.environ, "HARNESS_TIME_SCALE": "0.1"}
        process = subprocess.Popen(words, cwd=project.root, stdout=log, stderr=log, env=environment)
        killed = False
        while kills and process.poll() is None:
            time.sleep(choose.uniform(0.1, 1.5))
            if kills[0] == "coordinator":
                process.kill()
                killed = True
                kills.pop(0)
                break
            try:
                found = hands_of(process.pid)
                if found:
                    choose.choice(found).kill()
                    kills.pop(0)
            except psutil.Error:
                continue
        codes.append(process.wait(timeout=3000))
        log.close()
        if codes[-1] == 3 and "attempt_lost" in project.raw["halt"]["message"]:  # one item was hit three times in a row
            assert project.harness("resume").code == 0
        elif not killed:
            return codes


def landings(project: TaskListProject) -> list[str]:
    """The items whose commits the branch holds, in the order of history."""
    return [
        line for line in project.repo.git("log", "--format=%(trailers:key=Harness-Item,valueonly)").splitlines() if line
    ]


def nothing_is_lost_or_twice(project: TaskListProject, size: int) -> None:
    assert project.statuses() == ["completed"] * size
    found = landings(project)
    assert sorted(found) == sorted(f"t-{n}" for n in range(size)), sorted(found)
    log = project.log()
    completed = [line.split("[")[2].split("]")[0] for line in log if "] Completed [" in line]
    assert len(completed) == len({*completed})
    assert project.status() == []


def every_commit_is_green(project: TaskListProject, scratch: Path) -> None:
    """At each commit of the first parents, what has landed by then passes."""
    repo = project.repo
    repo.git("worktree", "add", "--detach", str(scratch), "HEAD")
    for commit in repo.git("rev-list", "--first-parent", "--reverse", "HEAD").split():
        subprocess.run(["git", "checkout", "-q", commit], cwd=scratch, check=True)
        landed = subprocess.run(
            ["git", "log", "--format=%(trailers:key=Harness-Item,valueonly)"],
            cwd=scratch,
            check=True,
            capture_output=True,
            text=True,
        ).stdout.split()
        for item in landed:
            number = item.removeprefix("t-")
            assert (scratch / f"out/{number}.txt").read_text() == f"{number}\n", (commit, item)


def torture(
    path: Path, *, size: int, workers: int, processes: int, coordinators: int, seconds: float, seed: int
) -> None:
    project = chaos_project(path, size)
    starts = path / "starts"
    agent = project.agent(AGENT.format(starts=starts, seconds=seconds))
    choose = random.Random(seed)
    codes = work_while_killing(
        project, agent, workers=workers, processes=processes, coordinators=coordinators, choose=choose
    )
    said = (path / "run.log").read_text()[-6000:]
    assert codes[-1] == 0, f"seed {seed}: {codes}\n{said}"
    nothing_is_lost_or_twice(project, size)
    every_commit_is_green(project, path / "scratch")
    begun = len(starts.read_text().splitlines())
    assert begun <= size + processes + coordinators * workers, f"{begun} starts"
    assert left_over(path) == []


def test_a_small_list_survives_the_death_of_hands_and_coordinator(tmp_path: Path) -> None:
    """SC-5, SC-11..15, SC-29: twelve tasks, two workers' deaths and two of the coordinator."""
    torture(tmp_path, size=12, workers=3, processes=2, coordinators=2, seconds=0.3, seed=SEED)


@pytest.mark.slow
@pytest.mark.kill
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("seed", range(SEED, SEED + int(os.environ.get("HARNESS_CHAOS_SEEDS", "5"))))
def test_two_hundred_tasks_survive_twelve_and_four_deaths(tmp_path: Path, seed: int) -> None:
    torture(tmp_path, size=200, workers=8, processes=12, coordinators=4, seconds=0.3, seed=seed)
