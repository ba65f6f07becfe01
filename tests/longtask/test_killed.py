"""SIGKILL of `lth run` at any moment: the task loads, the lease is taken again, and nothing that was recorded is lost.

``HARNESS_KILLS`` sets the number of kills, ``HARNESS_KILL_SEED`` the moments.
"""

import json
import os
import random
import shlex
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent_harness.kernel import owner
from agent_harness.testing.long_task_project import LongTaskProject, argv, book, program

pytestmark = pytest.mark.kill

KILLS = int(os.environ.get("HARNESS_KILLS", "6"))
MANY = 200
SEED = int(os.environ.get("HARNESS_KILL_SEED", "1"))
LTH = shlex.join([sys.executable, "-m", "agent_harness.cli.lth"])
WORK = (
    "echo $$ > worker; n=$(cat /proc/sys/kernel/random/uuid 2>/dev/null || date +%s%N); "
    f'{LTH} evidence "$LTH_TASK_DIR" --type test --summary "$n" >/dev/null && echo "$n" >> artifacts/acknowledged; '
    "sleep 0.05; echo worked"
)


def prepared(tmp_path: Path) -> tuple[LongTaskProject, dict[str, str]]:
    """A task whose Codex is always rate-limited for no time at all, so that the local command takes over."""
    env = program(tmp_path / "bin", "codex", "echo codex: HTTP 429, retry after 0; exit 1")
    project = LongTaskProject.of_book(tmp_path / "task")
    project.task = book(
        workerPolicy={"preferred": "local", "fallbackOnRateLimit": "local", "maxSlices": 10 * MANY},
        context={"repoPath": "."},
        localWorker={"command": WORK},
        evidencePolicy={"checkpointWindow": 5},
    )
    return project, {**os.environ, **env}


def killed(project: LongTaskProject, worker: str, env: dict[str, str], after: float) -> bool:
    """Kills a run so many seconds after its start; whether it was still running."""
    line = argv("run", str(project.root), "--worker", worker, "--lock-ttl-seconds", "1")
    running = subprocess.Popen(line, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        running.wait(timeout=after)
    except subprocess.TimeoutExpired:
        running.kill()
    running.communicate(timeout=60)
    return running.returncode == -9


def recorded(project: LongTaskProject) -> list[dict[str, Any]]:
    """Every evidence item, archived or not."""
    archive = project.root / "evidence/checkpoint-evidence-archive.jsonl"
    lines = archive.read_text().splitlines() if archive.exists() else []
    return [*(json.loads(line)["evidence"] for line in lines if line.strip()), *project.checkpoint["evidence"]]


def whole(project: LongTaskProject, seen: list[str]) -> None:
    """Check after a kill: the task loads, no event and no acknowledged evidence is lost."""
    project.loads()
    acknowledged = project.root / "artifacts/acknowledged"
    named = {item.get("summary") for item in recorded(project)}
    assert set(acknowledged.read_text().split() if acknowledged.exists() else []) <= named
    for item in recorded(project):
        place = str(item.get("path") or item.get("manifestPath"))
        assert (project.root / place).stat().st_size > 0
    log = [line for each in sorted((project.root / "runs").glob("*")) for line in each.read_text().splitlines()]
    assert log[: len(seen)] == seen
    seen[:] = [line for line in log if line.endswith("}")] if all(map(str.strip, log)) else seen


def worker_is_gone(project: LongTaskProject) -> None:
    """The worker dies with the harness."""
    path = project.root / "worker"
    until = time.monotonic() + 10
    while path.exists() and path.read_text().strip() and owner.exists(int(path.read_text())):
        assert time.monotonic() < until, "the worker outlives the run"
        time.sleep(0.01)


def lease_is_over(project: LongTaskProject) -> None:
    """Waits for the end of a lease that was left behind."""
    while project.lock.exists():
        left = datetime.fromisoformat(json.loads(project.lock.read_text())["expiresAt"]) - datetime.now(UTC)
        if left.total_seconds() <= 0:
            return
        time.sleep(min(0.1, left.total_seconds()))


def kill_many(tmp_path: Path, kills: int) -> None:
    """So many kills at random moments, then a run that nobody disturbs."""
    moments = random.Random(SEED)
    project, env = prepared(tmp_path)
    began = time.monotonic()
    project.lth("run", "--worker", "codex", env=env, code=0)
    longest = time.monotonic() - began
    seen: list[str] = []
    done = 0
    for number in range(kills * 4):
        began = time.monotonic()
        hit = killed(project, ("local", "codex")[number % 2], env, moments.uniform(0, longest))
        longest = longest * 1.02 if hit else time.monotonic() - began  # the machine may be busy, or free again
        done += hit
        whole(project, seen)
        worker_is_gone(project)
        lease_is_over(project)
        if done == kills:
            break
    assert done == kills
    answer = project.lth("run", "--worker", "codex", env=env, code=0).json
    assert (answer["decision"], answer["status"]) == ("run", "paused")
    whole(project, seen)
    left = [each.name for each in project.root.rglob("*") if ".lth.lock" in each.name or ".tmp." in each.name]
    assert left == []


def test_a_run_that_is_killed_at_any_moment(tmp_path: Path) -> None:
    kill_many(tmp_path, KILLS)


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_a_run_that_is_killed_at_two_hundred_moments(tmp_path: Path) -> None:
    kill_many(tmp_path, MANY)
