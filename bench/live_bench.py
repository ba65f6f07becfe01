"""What a running harness takes while its agent sleeps, and while its agent floods it with output. Linux only."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psutil
import timing

import project
from agent_harness.testing.task_list_project import TaskListProject, task

WORKERS = 8
SETTLE_SECONDS = 3.0
WATCH_SECONDS = 10.0
FLOOD_BYTES = 1_000_000_000
MEGABYTE = 1_000_000

SLEEPER = """\
import pathlib, time
pathlib.Path(__file__).with_name("reached").touch()
time.sleep(600)
"""
FLOODER = f"""\
import pathlib, sys
block = b"".join(b"%060d the same line again and again\\n" % n for n in range(10_000))
left = {FLOOD_BYTES}
while left > 0:
    left -= sys.stdout.buffer.write(block[:left])
pathlib.Path(__file__).with_name("reached").touch()
"""


def idle() -> Mapping[str, float]:
    """Largest memory in MB, and per cent of one core over some seconds, of a harness whose agent sleeps."""
    with session(SLEEPER) as (harness, cwd):
        wait_for(cwd.with_name("reached"), harness)
        time.sleep(SETTLE_SECONDS)
        before, began = processor_seconds(harness.pid), time.monotonic()
        time.sleep(WATCH_SECONDS)
        spent, took = processor_seconds(harness.pid) - before, time.monotonic() - began
        return {"idle-memory": largest_megabytes(harness.pid), "idle-processor": 100 * spent / took}


def several() -> Mapping[str, float]:
    """A coordinator while eight agents sleep: its memory in MB, and per cent of one core; the largest of its workers.

    And the median start of `harness status` meanwhile, of that of bare Python.
    """
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        place = Path(folder)
        jobs = [task(f"t{n}", validation={"command": "true"}) for n in range(WORKERS)]
        made = TaskListProject(place / "list", *jobs, git=True, session_count=0)
        spec, env = made.agent(f"touch {place}/reached.$HARNESS_TASK_ID; sleep 600"), timing.environment(place)
        command = [project.HARNESS, "run", "--workers", str(WORKERS), "--agent", spec]
        with (place / "output").open("wb") as output:
            run = subprocess.Popen(
                command, cwd=made.root, env=env, stdout=output, stderr=output, stdin=subprocess.DEVNULL
            )
        try:
            for n in range(WORKERS):
                wait_for(place / f"reached.t{n}", run)
            time.sleep(SETTLE_SECONDS)
            before, began = processor_seconds(run.pid), time.monotonic()
            time.sleep(WATCH_SECONDS)
            spent, took = processor_seconds(run.pid) - before, time.monotonic() - began
            known = psutil.Process(run.pid).children(recursive=True)
            workers = [each.pid for each in known if "agent_harness.parallel.worker_process" in each.cmdline()]
            commands = {"status": (project.HARNESS, "status"), "python": (sys.executable, "-c", "pass")}
            seconds = timing.medians(commands, cwd=made.root, env=env, rounds=7)
            return {
                "several-memory": largest_megabytes(run.pid),
                "several-processor": 100 * spent / took,
                "several-worker-memory": max(map(largest_megabytes, workers)),
                "several-status": seconds["status"] / seconds["python"],
            }
        finally:
            end(run)


def flood() -> Mapping[str, float]:
    """Largest memory in MB of a harness whose agent prints 1 GB, and the MB that its log folder takes afterwards."""
    with session(FLOODER) as (harness, cwd):
        largest = 0.0
        while harness.poll() is None:
            largest = max(largest, largest_megabytes(harness.pid))
            time.sleep(0.05)
        if not cwd.with_name("reached").exists():
            raise SystemExit("the agent was ended before it had printed everything")
        logs = [path.stat().st_size for path in (cwd / ".harness").rglob("*") if path.is_file()]
        return {"flood-memory": largest, "flood-log": sum(logs) / MEGABYTE}


@contextmanager
def session(agent: str) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """`harness run` in a new project, with a Python program as its agent; interrupted at the end if it still runs."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        env = timing.environment(Path(folder))
        cwd = project.planned(Path(folder) / "project", env)
        program = Path(folder) / "agent.py"
        program.write_text(agent)
        command = [project.HARNESS, "run", "--agent", f"command:{sys.executable} {program}"]
        with (Path(folder) / "output").open("wb") as output:
            harness = subprocess.Popen(
                command, cwd=cwd, env=env, stdout=output, stderr=output, stdin=subprocess.DEVNULL
            )
            try:
                yield harness, cwd
            finally:
                end(harness)


def end(harness: subprocess.Popen[bytes]) -> None:
    """Interrupts the harness as a person would, and waits."""
    if harness.poll() is None:
        harness.send_signal(signal.SIGINT)
    harness.wait(60)


def wait_for(path: Path, harness: subprocess.Popen[bytes]) -> None:
    """Returns when the file is there; ends the measurement when the harness ends before."""
    while not path.exists():
        if harness.poll() is not None:
            raise SystemExit(f"harness run ended with {harness.returncode} before its agent started")
        time.sleep(0.05)


def processor_seconds(pid: int) -> float:
    """User and system time of one process."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def largest_megabytes(pid: int) -> float:
    """The most memory that one process has held so far; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    return next((int(line.split()[1]) * 1024 / MEGABYTE for line in lines if line.startswith("VmHWM:")), 0.0)
