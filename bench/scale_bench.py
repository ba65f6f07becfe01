"""The bars of parallel runs at the sizes that ``scale.md`` 14 names: minutes each, so only where ``--only`` asks.

Agents sleep, so what is measured is what the harness adds. A makespan is a share of the ideal: items x seconds of an
agent / workers. Every run has to land everything.
"""

import json
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import timing

from agent_harness.testing import run_process
from agent_harness.testing.feature_list_project import FeatureListProject, module_work
from agent_harness.testing.task_list_project import TaskListProject, task

HARNESS = (sys.executable, "-m", "agent_harness.cli.main")
WORKERS, ITEMS, SECONDS = 8, 200, 6.0
CANDIDATES, CHECK_SECONDS = 24, 5.0
FEATURE_WORKERS, FEATURES, FEATURE_SECONDS, SUITE_SECONDS = 4, 24, 10.0, 2.0
LIMIT_SECONDS = 3600.0

SETTINGS = "quality: {cleanup_interval: 1000}\n"

PAIRS = f"""\
number=${{HARNESS_TASK_ID#t}}
pair=$((number / 2))
if [ -e pair/$pair ] && grep -q '^<<<<<<<' pair/$pair; then
  sed -i '/^[<=>][<=>][<=>]/d' pair/$pair
elif [ $((pair % 3)) -eq 0 ]; then
  mkdir -p pair; echo $number >> pair/$pair
fi
mkdir -p out; touch out/$number
sleep {SECONDS}
"""
"""Every third pair of neighbours writes the same line of one file; the markers of a mend are taken out."""

CHECK = "the check of every landing"
MEETING = """\
number=${{HARNESS_TASK_ID#t}}
mkdir -p out
touch out/$number
if [ -e "{met}/$number" ]; then
  rm -f out/breaks-*
else
  case $number in {bad}) touch out/breaks-$((number + 1));; esac
  touch "{met}/$number"
  until [ $(ls "{met}" | wc -l) -ge {all} ]; do sleep 0.1; done
fi
"""
"""All are ready before the first can land; a bad one breaks its neighbour's proof; the later of both mends it."""


def independent() -> Mapping[str, float]:
    """Tasks that have nothing to do with each other."""
    return {"scale-independent": _makespan(f"mkdir -p out; touch out/${{HARNESS_TASK_ID#t}}; sleep {SECONDS}")}


def conflicts() -> Mapping[str, float]:
    """Tasks of which every third pair is in conflict."""
    return {"scale-conflicts": _makespan(PAIRS)}


def landing() -> Mapping[str, float]:
    """Candidates that are all ready: landed in batches, of one after the other; and runs of the suite an item."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        found = {}
        for name, bad, batch in (("single", "none", 1), ("all-good", "none", 8), ("two-bad", "5 | 17", 8)):
            found[name] = _landed(Path(folder) / name, bad, batch)
    single = found["single"][0]
    return {
        "scale-landing": found["all-good"][0] / single,
        "scale-landing-runs": found["all-good"][1] / CANDIDATES,
        "scale-landing-bad": found["two-bad"][0] / single,
        "scale-landing-bad-runs": found["two-bad"][1] / CANDIDATES,
    }


def features() -> Mapping[str, float]:
    """Features by several, of the same one after the other."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        several = _built(Path(folder) / "several", "--workers", str(FEATURE_WORKERS))
        serial = _built(Path(folder) / "serial", "--until-done")
    sys.stderr.write(f"{several:.0f} s by {FEATURE_WORKERS} workers, {serial:.0f} s one after the other\n")
    return {"scale-features": several / serial}


def _makespan(agent: str) -> float:
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        took = _ran(Path(folder), ITEMS, WORKERS, agent)
    return took / (ITEMS * SECONDS / WORKERS)


def _landed(place: Path, bad: str, batch: int) -> tuple[float, int]:
    """Seconds from the moment when all are ready, and how often the suite ran."""
    met = place / "met"
    met.mkdir(parents=True)
    host = place / ".local/state/agent-harness/host"
    host.mkdir(parents=True)
    (host / "host.json").write_text(json.dumps({"agents": CANDIDATES, "tests": 1}))
    check = f"case $PWD in */v1) sleep {CHECK_SECONDS};; esac"
    agent = MEETING.format(met=met, bad=bad, all=CANDIDATES)
    _ran(place, CANDIDATES, CANDIDATES, agent, check=check, batch_max=batch)
    ready = max(each.stat().st_mtime for each in met.iterdir())
    took = time.time() - ready
    (ledger,) = (place / ".local").rglob("ledger.jsonl")
    events = [json.loads(line) for line in ledger.read_text().splitlines()]
    runs = [each for each in events if each["type"] == "verified" and (not each["only"] or CHECK in each["only"])]
    return took, len(runs)  # the proofs at the end run no suite: nothing has moved since


def _ran(place: Path, count: int, workers: int, agent: str, **settings: object) -> float:
    """Seconds until all have landed."""
    jobs = [task(f"t{n}", validation={"command": f"test -e out/{n} -a ! -e out/breaks-{n}"}) for n in range(count)]
    project = TaskListProject(place / "list", *jobs, git=True, session_count=0)
    project.edit(session_config={**project.raw["session_config"], "max_tasks_per_session": 0, "parallel": settings})
    words = [*HARNESS, "run", "--workers", str(workers), "--agent", project.agent(agent), "--json"]
    began = time.perf_counter()
    done = run_process(words, cwd=project.root, environ=timing.environment(place), seconds=LIMIT_SECONDS)
    took = time.perf_counter() - began
    if project.statuses() != ["completed"] * count:
        raise SystemExit(f"not everything has landed: {done.text[-3000:]}")
    return took


def _built(place: Path, *words: str) -> float:
    slow = f"import time\n\n\ndef test_slow():\n    time.sleep({SUITE_SECONDS})\n"
    names, files = [f"thing{n}" for n in range(1, FEATURES + 1)], {"tests/test_slow.py": slow}
    made = FeatureListProject.of_modules(place / "shop", *names, settings=SETTINGS, files=files)
    made.environ = timing.environment(place)
    made.git("config", "user.name", "bench")
    made.git("config", "user.email", "bench@example.org")
    wait = {"sleep": FEATURE_SECONDS}
    turns = [{"when": {"feature": n}, "do": module_work(n, name, wait)} for n, name in enumerate(names, 1)]
    began = time.perf_counter()
    done = made.harness("run", *words, agent=turns, timeout=LIMIT_SECONDS)
    took = time.perf_counter() - began
    if made.passing() != [*range(1, FEATURES + 1)]:
        raise SystemExit(f"not everything is proven: {done.text[-3000:]}")
    return took
