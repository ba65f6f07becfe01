"""What an item costs in a plain serial run: processor of harness, git and checks, of a bare start of Python.

The agents do next to nothing. The proofs of one list are the shell's alone; those of the other start a Python, so that
what is installed for it is looked at before each of them. The memory is that of the process of `harness run` alone.
"""

import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

import timing

from agent_harness.testing.task_list_project import TaskListProject, task

MEGABYTE = 1_000_000
# `harness` that writes down the most memory it has held: the processes it waits for are not in it (Linux only).
HARNESS = """\
import atexit, sys
from pathlib import Path
from agent_harness.cli.main import process
def note():
    lines = Path("/proc/self/status").read_text().splitlines()
    Path({log!r}).write_text(next(line.split()[1] for line in lines if line.startswith("VmHWM:")))
atexit.register(note)
sys.argv[0] = "harness"
sys.exit(process())
"""
ITEMS = 12
ROUNDS = 3
STARTS = 20
CHECKS = {
    "serial-item": "test -e out/{n}",
    "serial-item-python": f"{sys.executable} -c 'import os, sys; sys.exit(not os.path.exists(\"out/{{n}}\"))'",
}


def measure() -> Mapping[str, float]:
    """The processor seconds of an item, of those of `python -c pass`, and megabytes: medians of rounds in turn."""
    found: dict[str, list[float]] = {name: [] for name in (*CHECKS, "serial-memory")}
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        env = timing.environment(Path(folder))
        for turn in range(ROUNDS):
            began = _processor()
            for _ in range(STARTS):
                subprocess.run([sys.executable, "-c", "pass"], env=env, check=True)
            bare = (_processor() - began) / STARTS
            for name, check in CHECKS.items():
                spent, megabytes = _item(Path(folder) / f"{name}-{turn}", check, env)
                found[name].append(spent / bare)
            found["serial-memory"].append(megabytes)
    return {name: statistics.median(values) for name, values in found.items()}


def _item(place: Path, check: str, env: Mapping[str, str]) -> tuple[float, float]:
    """Processor seconds an item of a run that must prove them all, and the most memory of the harness, in MB."""
    jobs = [task(f"t{n}", validation={"command": check.format(n=n)}) for n in range(ITEMS)]
    project = TaskListProject(place, *jobs, git=True, session_count=0)
    project.edit(session_config={**project.raw["session_config"], "max_tasks_per_session": 0})
    spec = project.agent("mkdir -p out; touch out/${HARNESS_TASK_ID#t}")
    log = place.with_suffix(".peak")
    before = _processor()
    words = [sys.executable, "-c", HARNESS.format(log=str(log)), "run", "--agent", spec]
    done = subprocess.run(words, cwd=project.root, env=dict(env), capture_output=True, text=True, check=False)
    after = _processor()
    if project.statuses() != ["completed"] * ITEMS:
        raise SystemExit(f"harness run: {done.stdout}{done.stderr}")
    return (after - before) / ITEMS, int(log.read_text()) * 1024 / MEGABYTE


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
