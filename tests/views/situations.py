"""The twelve situations in which a person looks at a project, each reached by real runs of scripted agents."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from agent_harness.testing.feature_list_project import FeatureListProject
from agent_harness.testing.task_list_project import TaskListProject, task

from .terminal import HARNESS, until

PROOF = {"command": "test -f done.txt"}
SPENDS = """\
turns:
  - do:
      - usage: {input_tokens: 12000, output_tokens: 900, cost_usd: 0.12}
      - say: "I have found 3 places where the port 8080 is fixed"
      - run: "touch begun; while [ ! -e go ]; do sleep 0.05; done; touch done.txt"
"""
WORKS = """\
turns:
  - do:
      - usage: {input_tokens: 12000, output_tokens: 900, cost_usd: 0.12}
      - run: "touch done.txt"
"""
LIES = """\
turns:
  - when: {round: 0}
    do:
      - usage: {input_tokens: 12000, output_tokens: 900, cost_usd: 0.12}
      - say: "All 14 tests pass, the task is complete!"
  - when: {round: 1}
    do:
      - run: "touch begun; while [ ! -e go ]; do sleep 0.05; done; touch done.txt"
"""
REFUSED = """\
turns:
  - do:
      - rate_limit: {message: "weekly limit", retry_after_seconds: 7200}
      - exit: 1
"""
TITLES = (
    "Visitors of the shop are redirected over HTTP 308 to port 8443 in 250 ms",
    "Visits are counted",
    "Chosen names and the shop serve 1200 visitors a minute, end to end",
)


def shop(root: Path, *titles: str, **members: object) -> TaskListProject:
    """Return a list whose tasks are proven by one command."""
    given = {"validation": PROOF, **members}
    tasks = [task(f"task-{n:03}", title=title, **given) for n, title in enumerate(titles or TITLES, 1)]
    made = TaskListProject(root / "shop", *tasks, git=True)
    made.repo.ignore("begun", "go", "script.yaml", "proving", "agent.sh").commit("Ignore")
    return made


@contextmanager
def running(project: TaskListProject, script: str, begins: str = "begun") -> Iterator["subprocess.Popen[bytes]"]:
    """Start a run whose agent, or whose proof, runs until the block ends."""
    (project.root / "script.yaml").write_text(script)
    with subprocess.Popen(
        [*HARNESS, "run", "--wait", "--max-tasks", "1", "--agent", "scripted:script.yaml"],
        cwd=project.root,
        env=dict(os.environ),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as run:
        try:
            until(lambda: (project.root / begins).exists() or run.poll() is not None)
            assert run.poll() is None, project.harness("status").text
            yield run
        finally:
            (project.root / "go").touch()
            run.kill()


def settled(*words: str) -> None:
    """Wait until the state of the session holds all of these texts and has not changed for a while."""

    def at_rest() -> bool:
        known = [*Path(os.environ["XDG_STATE_HOME"]).rglob("now.json")]
        text = "".join(path.read_text() for path in known)
        return all(word in text for word in words) and all(time.time() - each.stat().st_mtime > 2 for each in known)

    until(at_rest)


def ran(project: TaskListProject, script: str, *words: str) -> None:
    """Run to the end."""
    (project.root / "script.yaml").write_text(script)
    project.harness("run", "--agent", "scripted:script.yaml", *words)


@contextmanager
def fresh(root: Path) -> Iterator[Path]:
    yield shop(root).root


@contextmanager
def at_work(root: Path) -> Iterator[Path]:
    project = shop(root)
    with running(project, SPENDS):
        settled("touch begun")
        yield project.root


@contextmanager
def judging(root: Path) -> Iterator[Path]:
    project = shop(root, validation={"command": "sleep 60"})
    (project.root / "begun").touch()
    with running(project, WORKS):
        until(lambda: "done.txt" in os.listdir(project.root))
        settled("judging")
        yield project.root


@contextmanager
def fix_round(root: Path) -> Iterator[Path]:
    project = shop(root)
    with running(project, LIES):
        settled("touch begun")
        yield project.root


@contextmanager
def question(root: Path) -> Iterator[Path]:
    project = FeatureListProject.made(root / "shop", True, False, False)
    project.put(
        {
            ".harness/session_state.json": json.dumps(
                {
                    "last_session": 4,
                    "stuck_count": 3,
                    "pending_escalation": {
                        "type": "feature_failures",
                        "feature_id": 2,
                        "message": "Feature #2 has failed to complete in 3 sessions",
                        "options": ["split", "skip", "manual", "retry"],
                    },
                }
            )
        }
    )
    yield project.root


@contextmanager
def paused(root: Path) -> Iterator[Path]:
    project = shop(root)
    ran(project, WORKS, "--max-tasks", "1")
    project.harness("pause")
    yield project.root


@contextmanager
def limited(root: Path) -> Iterator[Path]:
    project = shop(root)
    (project.root / "begun").touch()
    with running(project, REFUSED):
        settled("waiting")
        yield project.root


@contextmanager
def killed(root: Path) -> Iterator[Path]:
    project = shop(root)
    with running(project, SPENDS) as run:
        settled("touch begun")
        run.send_signal(signal.SIGKILL)
        run.wait()
        yield project.root


@contextmanager
def damaged(root: Path) -> Iterator[Path]:
    project = shop(root)
    ran(project, WORKS, "--max-tasks", "1")
    path = project.root / "harness-tasks.json"
    path.write_text(path.read_text()[:-40])
    yield project.root


@contextmanager
def done(root: Path) -> Iterator[Path]:
    project = shop(root)
    for n in range(1, 4):
        project.edit(f"task-{n:03}", validation={"command": f"test -f task-{n:03}.txt"})
    ran(project, WORKS.replace("done.txt", "$HARNESS_TASK_ID.txt"))
    yield project.root


@contextmanager
def large(root: Path) -> Iterator[Path]:
    """Return a list of 200 tasks with 300 sessions, of which every third was on a proven task."""
    project = TaskListProject(root / "shop", git=True)
    rows = [
        task(
            f"task-{n:03}",
            title=f"Thing number {n} of 200 answers within {n} ms on port {8000 + n}, day and night",
            status="failed" if n % 7 == 0 else "pending",
            attempts=3 if n % 7 == 0 else 0,
            validation=PROOF,
        )
        for n in range(1, 201)
    ]
    project.edit(tasks=rows, session_count=300)
    used = {"result": "failed", "cost_usd": 12.5, "input_tokens": 1000, "output_tokens": 100, "agent": "codex"}
    costs = [
        {"at": "2026-01-05T09:10:00Z", "session": n, "task_id": f"task-{n % 200 + 1:03}", **used} for n in range(1, 301)
    ]
    folder = project.root / ".harness/sessions"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "costs.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in costs))
    yield project.root


@contextmanager
def not_ascii(root: Path) -> Iterator[Path]:
    titles = (
        "表示する — 訪問者を 308 番で 8443 ポートへ転送し、250 ミリ秒以内に応答する",
        "Größe und Maß: 12 € → 15 € \u00d7 3 … naïve café",
        "e\u0301te\u0301 🚀 \u202eevil\u202c 42",
    )
    project = shop(root, *titles)
    ran(project, WORKS, "--max-tasks", "1")
    yield project.root


SITUATIONS: dict[str, Callable[[Path], AbstractContextManager[Path]]] = {
    "fresh": fresh,
    "running": at_work,
    "judging": judging,
    "fix-round": fix_round,
    "question": question,
    "paused": paused,
    "limited": limited,
    "killed": killed,
    "damaged": damaged,
    "done": done,
    "large": large,
    "not-ascii": not_ascii,
}
