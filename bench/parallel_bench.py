"""What several agents at once cost and gain, of the same with one, on task lists whose agents sleep.

The rules alone are measured without a disk; the rest is `harness run` on new lists, in turn.
"""

import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import timing

from agent_harness.kernel import files
from agent_harness.kernel.git import Git
from agent_harness.parallel.merge_queue.refs import ProjectRefs
from agent_harness.parallel.plan import RunPlan
from agent_harness.parallel.workspaces import Workspace
from agent_harness.testing.task_list_project import TaskListProject, task

HARNESS = (sys.executable, "-m", "agent_harness.cli.main")
ITEMS = 8
SECONDS = 3.0  # of each agent
MORE_ITEMS = 32  # of a list that is long beside what the start of the slots costs
WORKERS = 4
CANDIDATES = 6
CHECK_SECONDS = 1.5
EVENTS = 20_000
FILES = 4_000


def measure() -> Mapping[str, float]:
    """The figures of all bars of parallel runs."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        return {**_makespan(Path(folder)), **_landing(Path(folder)), **_reuse(Path(folder)), **_rules(), **_imports()}


def _ran(place: Path, count: int, agent: str, words: Sequence[str], **settings: object) -> tuple[float, float]:
    """Seconds of the clock and of the processor that a run of so many tasks takes, which must land them all."""
    jobs = [task(f"t{n}", validation={"command": f"test -e out/{n}"}) for n in range(count)]
    project = TaskListProject(place / "list", *jobs, git=True, session_count=0)
    project.edit(session_config={**project.raw["session_config"], "max_tasks_per_session": 0, "parallel": settings})
    spec = project.agent(f"mkdir -p out; touch out/${{HARNESS_TASK_ID#t}}; {agent}")
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    done = subprocess.run(
        [*HARNESS, "run", *words, "--agent", spec],
        cwd=project.root,
        env=timing.environment(place),
        capture_output=True,
        text=True,
        check=False,
    )
    took, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    if project.statuses() != ["completed"] * count:
        raise SystemExit(f"harness run {' '.join(words)}: {done.stdout}{done.stderr}")
    return took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _makespan(folder: Path) -> Mapping[str, float]:
    """Four workers and one after the other, on the same tasks."""
    serial, serial_cpu = _ran(folder / "serial", ITEMS, f"sleep {SECONDS}", ())
    several, several_cpu = _ran(folder / "several", ITEMS, f"sleep {SECONDS}", ("--workers", str(WORKERS)))
    _, long_serial = _ran(folder / "long-serial", MORE_ITEMS, "true", ())
    _, long_several = _ran(folder / "long-several", MORE_ITEMS, "true", ("--workers", str(WORKERS)))
    return {
        "parallel-makespan": several / serial,
        "parallel-cpu": several_cpu / serial_cpu,
        "parallel-cpu-long": long_several / long_serial,
    }


def _landing(folder: Path) -> Mapping[str, float]:
    """Candidates that are all ready before the first can land: as batches of one, and together."""
    met = folder / "met"
    met.mkdir()
    meet = f"touch {met}/$PPID.$HARNESS_TASK_ID; until [ $(ls {met} | wc -l) -ge {{}} ]; do sleep 0.05; done"
    check = f"case $PWD in */v1) sleep {CHECK_SECONDS};; esac"
    found: dict[int, float] = {}
    for number, size in enumerate((1, CANDIDATES), 1):
        words = ("--workers", str(CANDIDATES))
        agent = meet.format(number * CANDIDATES)
        found[size], _ = _ran(folder / f"landing-{size}", CANDIDATES, agent, words, check=check, batch_max=size)
    return {"parallel-landing": found[CANDIDATES] / found[1]}


def _reuse(folder: Path) -> Mapping[str, float]:
    """A place that is made ready again, of a new one."""
    project = TaskListProject(folder / "place", task("a"), git=True)
    for n in range(FILES):
        project.repo.write(f"d{n % 40}/f{n}.txt", f"{n}\n")
    project.repo.stage().commit("Many", stage=False)
    home, place = Git(project.root), Workspace(str(folder / "w1"))
    base = str(home.head())
    seconds: list[float] = []
    for _ in range(3):
        began = time.perf_counter()
        place.prepare(home, base, "refs/heads/main", ProjectRefs("0" * 24))
        seconds.append(time.perf_counter() - began)
    return {"parallel-reuse": seconds[-1] / seconds[0]}


def _rules() -> Mapping[str, float]:
    """Microseconds that the plan takes for one event: 5,000 a second are 200."""
    events: list[dict[str, object]] = [
        {"type": "run", "run": "r", "branch": "main", "head": "h", "workers": 8, "batch_max": 8, "mends": 2}
    ]
    for n in range(EVENTS // 2):
        known = {"item": str(n), "order": f"r/{n}/1", "fence": 1}
        events.append({"type": "ordered", **known, "slot": "w1", "base": "h", "touches": []})
        events.append({"type": "ended", **known, "status": "rejected", "commit": "h"})
    plan, began = RunPlan(), time.perf_counter()
    for event in events:
        plan.apply(event)
    return {"parallel-event": (time.perf_counter() - began) * 1e6 / EVENTS}


def _imports() -> Mapping[str, float]:
    """Modules of parallel runs that a plain `harness run` of one task imports."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        project = TaskListProject(place / "list", task("a"), git=True, session_count=0)
        log = place / "modules.json"
        program = (
            "import sys, atexit, json; from agent_harness.cli.main import process; sys.argv[0] = 'harness';"
            f"atexit.register(lambda: json.dump({{'modules': [*sys.modules]}}, open({str(log)!r}, 'w')));"
            "sys.exit(process())"
        )
        words = [sys.executable, "-c", program, "run", "--once", "--agent", project.agent("echo x > x.txt")]
        subprocess.run(words, cwd=project.root, env=timing.environment(place), capture_output=True, check=False)
        names = files.read_json(str(log))["modules"]
    return {"parallel-imports": float(len([name for name in names if ".parallel" in name]))}
