"""What it takes to import 1,000 items from five formats of other programs; all of them come in, and come in once."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

import timing

from agent_harness.testing.task_list_project import TaskListProject

HARNESS = (sys.executable, "-m", "agent_harness.cli.main")
ITEMS = 1000


def measure() -> Mapping[str, float]:
    """The longest of the five first imports, and of the five that find everything there already, in seconds."""
    first: list[float] = []
    again: list[float] = []
    for name, text in FILES.items():
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text)
            project = TaskListProject(Path(folder, "list"), git=True)
            first.append(_took(project, file, ITEMS, 0))
            again.append(_took(project, file, 0, ITEMS))
            if len(project.raw["tasks"]) != ITEMS:
                raise SystemExit(f"{name}: {len(project.raw['tasks'])} of {ITEMS} items are there")
    return {"import": max(first), "import-again": max(again)}


def _took(project: TaskListProject, file: Path, imported: int, already: int) -> float:
    began = time.perf_counter()
    done = subprocess.run(
        [*HARNESS, "import", str(file), "--yes", "--json"],
        cwd=project.root,
        env=timing.environment(file.parent),
        capture_output=True,
        text=True,
        check=False,
    )
    took = time.perf_counter() - began
    answer = json.loads(done.stdout)
    if (answer.get("imported"), answer.get("already")) != (imported, already):
        raise SystemExit(f"{file.name}: {done.stdout[:2000]}{done.stderr}")
    return took


NUMBERS = range(1, ITEMS + 1)
TASK_MASTER = [
    {
        "id": n,
        "title": f"Thing {n}",
        "description": "As it says.",
        "status": "pending",
        "dependencies": [n - 1] * (n > 1),
    }
    for n in NUMBERS
]
BEADS = [
    {
        "id": f"bd-{n}",
        "title": f"Thing {n}",
        "priority": n % 5,
        "dependencies": [{"issue_id": f"bd-{n}", "depends_on_id": f"bd-{n - 1}", "type": "blocks"}] * (n > 1),
    }
    for n in NUMBERS
]
STORIES = [{"id": f"US-{n}", "title": f"Thing {n}", "priority": n, "passes": False} for n in NUMBERS]

FILES = {
    "tasks.json": json.dumps({"master": {"tasks": TASK_MASTER}}),
    "issues.jsonl": "".join(f"{json.dumps(each)}\n" for each in BEADS),
    "prd.json": json.dumps({"branchName": "ralph/x", "userStories": STORIES}),
    "specs/001-x/tasks.md": "# Tasks: X\n\n## Phase 1: Setup\n\n"
    + "".join(f"- [ ] T{n:04} Thing {n} in src/thing{n}.py\n" for n in NUMBERS),
    "PLAN.md": "# To do\n\n" + "".join(f"- [ ] Thing {n} (`true`)\n" for n in NUMBERS),
}
