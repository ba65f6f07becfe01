"""What looking at a project costs: all of it at first, what is new later, and its memory; 200 items, 300 sessions.

The first look is a multiple of bare `json.loads` over the same files, a further one with nothing new a share of the
first. The slowest of the three kinds of project counts; milliseconds go to stderr.
"""

import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from agent_harness.kernel import trusted_state
from agent_harness.session.ledger import ClaimVerdict, VerdictStep
from agent_harness.session.project_view import ProjectReader

ITEMS, SESSIONS, ROUNDS = 200, 300, 9
AT = "2026-01-05T09:00:00Z"
LATER = "2026-01-05T09:10:00Z"


def measure() -> Mapping[str, float]:
    """The worst of three kinds; each in a process of its own, so that the memory is that of one."""
    found = [_in_a_process(kind) for kind in KINDS]
    return {name: max(each[name] for each in found) for name in found[0]}


def _in_a_process(kind: str) -> Mapping[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        env = {**os.environ, "XDG_STATE_HOME": f"{folder}/state"}
        done = subprocess.run([sys.executable, __file__, kind, folder], env=env, stdout=subprocess.PIPE, check=True)
    return dict(json.loads(done.stdout))


def measured(kind: str, folder: Path) -> Mapping[str, float]:
    """The figures of one kind of project, made in this folder."""
    open_reader, place = KINDS[kind](folder / "project")
    write_claims(folder / "project", place)
    open_reader().load()  # what is imported on first use
    first = _fastest(lambda: open_reader().load())
    reader = open_reader()
    view = reader.load()
    assert (len(view.sessions), len(view.claims), view.gaps) == (SESSIONS, SESSIONS, ()), view.gaps
    again = _fastest(reader.load)
    assert reader.load() is view
    paths = [path for path in folder.rglob("*.json*") if path.is_file()]
    bare = _fastest(lambda: [_bare(path) for path in paths])
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    said = (
        f"{kind}: first {first * 1000:.1f} ms, again {again * 1000:.2f} ms, bare {bare * 1000:.1f} ms, {memory:.0f} MB"
    )
    print(said, file=sys.stderr)
    return {"look-first": first / bare, "look-again": again / first * 100, "look-memory": memory}


def write_claims(root: Path, place: Path) -> None:
    """A verdict for each session, where they are kept."""
    home, _ = trusted_state.make(str(place), str(root))
    assert home is not None
    _write(Path(home, "verdicts.jsonl"), (_claim(n) for n in range(1, SESSIONS + 1)))


def _bare(path: Path) -> object:
    text = path.read_text()
    return [json.loads(line) for line in text.splitlines()] if path.suffix == ".jsonl" else json.loads(text)


def _fastest(act: Callable[[], object]) -> float:
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        act()
        times.append(time.process_time() - began)
    return min(times)


def _features(root: Path) -> tuple[Callable[[], ProjectReader], Path]:
    from agent_harness.protocols.features import api

    features = [
        {"id": n, "description": f"Thing {n} works", "test_file": f"tests/test_{n}.py", "passes": n <= ITEMS // 2}
        for n in range(1, ITEMS + 1)
    ]
    (root / ".git").mkdir(parents=True)
    (root / ".harness/logs").mkdir(parents=True)
    (root / ".harness.yaml").write_text("project:\n  name: measured\n")
    _dump(root / "features.json", {"project": "measured", "features": features})
    _dump(root / ".harness/session_state.json", {"last_session": SESSIONS})
    rows = ({**_session(n), "feature_id": _item(n), "termination_reason": "complete"} for n in range(1, SESSIONS + 1))
    _write(root / ".harness/logs/sessions.jsonl", rows)
    return lambda: api.reader(api.layout_of(root)), root / ".git"


def task_list(root: Path) -> tuple[Callable[[], ProjectReader], Path]:
    """A list in this folder: how it is read, and the file that its state folder is named after."""
    from agent_harness.protocols.tasklist import api

    tasks = [
        {"id": f"task-{n:03}", "title": f"Thing {n}", "status": "pending", "validation": {"command": "true"}}
        for n in range(1, ITEMS + 1)
    ]
    (root / ".harness/sessions").mkdir(parents=True)
    _dump(root / "harness-tasks.json", {"version": 2, "tasks": tasks})
    rows = (
        {"at": LATER, "session": n, "task_id": f"task-{_item(n):03}", "result": "failed", "cost_usd": 0.5, "agent": "x"}
        for n in range(1, SESSIONS + 1)
    )
    _write(root / ".harness/sessions/costs.jsonl", rows)
    return lambda: api.reader(str(root)), root / "harness-tasks.json"


def _long_task(root: Path) -> tuple[Callable[[], ProjectReader], Path]:
    from agent_harness.protocols.longtask import api

    (root / "runs").mkdir(parents=True)
    _dump(root / "task.json", {"schemaVersion": 1, "id": "long", "title": "A long task"})
    _dump(root / "checkpoint.json", {"schemaVersion": 1, "taskId": "long", "status": "active", "nextStep": "go on"})
    usage = {"inputTokens": 1000, "outputTokens": 100, "costUsd": 0.5}
    rows = (
        {"type": kind, "at": AT, "worker": "codex-cli", "status": "paused", "reason": "exit 0", "usage": usage}
        for _ in range(SESSIONS)
        for kind in ("worker_prompt_generated", "worker_started", "worker_completed", "checkpoint_written")
    )
    _write(root / "runs/2026-01-05.jsonl", rows)
    return lambda: api.reader(str(root)), root / "task.json"


def _item(session: int) -> int:
    return session % ITEMS + 1


def _session(number: int) -> Mapping[str, object]:
    used = {"tokens_used": {"input": 100_000, "output": 5_000}, "cost_usd": 0.5, "agent": "claude-code", "model": "m"}
    return {"session_id": number, "started_at": AT, "ended_at": LATER, "duration_seconds": 600.0, **used}


def _claim(number: int) -> Mapping[str, Any]:
    steps = [
        VerdictStep(step=name, result="passed", command=f"pytest {name}", exit=0, passed=40, failed=0, seconds=1.5)
        for name in ("guard", "proof", "suite", "red", "lint")
    ]
    claim = ClaimVerdict(
        item=str(_item(number)),
        verdict="accepted",
        id=f"{number:032x}",
        n=number,
        at=LATER,
        session=number,
        agent="claude-code",
        model="m",
        base="a" * 40,
        candidate="b" * 40,
        steps=tuple(steps),
        prev="c" * 64,
    )
    return claim.as_record()


def _dump(path: Path, value: Mapping[str, object]) -> None:
    path.write_text(json.dumps(value, indent=2))


def _write(path: Path, rows: Iterable[Mapping[str, object]]) -> None:
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))


KINDS: Mapping[str, Callable[[Path], tuple[Callable[[], ProjectReader], Path]]] = {
    "features": _features,
    "tasklist": task_list,
    "longtask": _long_task,
}


if __name__ == "__main__":
    print(json.dumps(measured(sys.argv[1], Path(sys.argv[2]))))
