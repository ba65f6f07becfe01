"""Real clients as workers of `lth run`: a slice, a rate limit with its pause, and the slice after it."""

import json
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agent_harness.kernel import process
from agent_harness.testing.repo import Repo

from .client import LIMIT_SECONDS, Client, Codex

pytestmark = pytest.mark.client

Record = dict[str, Any]
SLICE = "Continue exactly one bounded slice"
WORKERS = {"codex": "codex-cli", "claude-code": "claude-code"}
CONTRACT: Record = {
    "schemaVersion": 1,
    "id": "book",
    "title": "A book",
    "domain": "writing",
    "objective": "Write a book. It says how rate limiting works.",
    "successCriteria": [{"id": "second", "description": "d", "metric": "output_contains", "target": "The second part"}],
}
STATE: Record = {
    "schemaVersion": 1,
    "taskId": "book",
    "status": "active",
    "nextStep": "Write the second part.",
    "updatedAt": "2026-01-01T00:00:00.000Z",
}


class Task:
    """A long task whose worker is a real client beside its model server."""

    def __init__(self, root: Path, client: Client, project: Repo, **members: object) -> None:
        self.root, self.client = root, client
        if isinstance(client, Codex):
            client.configure(project.path)
        root.mkdir()
        policy = {"workerPolicy": {"preferred": WORKERS[client.name]}, "context": {"repoPath": str(project.path)}}
        (root / "task.json").write_text(json.dumps({**CONTRACT, **policy, **members}))
        (root / "checkpoint.json").write_text(json.dumps(STATE))
        (root / "harness.md").write_text("# Rules\n")

    @property
    def checkpoint(self) -> Record:
        return json.loads((self.root / "checkpoint.json").read_text())

    def lth(self, command: str, *words: str, code: int = 0) -> Record:
        """The answer of one command."""
        line = [sys.executable, "-m", "agent_harness.cli.lth", command, str(self.root), *words]
        done = process.run(
            self.client.island.beside(line),
            cwd=self.root,
            env=self.client.env,
            timeout_seconds=LIMIT_SECONDS,
            keep_bytes=1_000_000,
        )
        text = done.output.decode(errors="replace")
        assert done.exit_code == code, text
        return json.loads(text) if text.startswith("{") else {}


@pytest.fixture
def long_task(client: Client, project: Repo, tmp_path: Path) -> Task:
    return Task(tmp_path / "task", client, project)


def test_a_slice_that_reads_only_is_written_down_by_the_harness(client: Client, project: Repo, long_task: Task) -> None:
    client.island.script(
        "slice", [{"run": "cat README.md; echo x > written"}, "The second part is thought out."], start=SLICE
    )
    denied = client.name == "claude-code"  # which asks, and nobody is there; Codex's sandbox only fails the command
    answer = long_task.lth("run", code=int(denied))
    assert (answer["exitCode"], answer["status"]) == ((1, "needs-human") if denied else (0, "done"))
    output = (long_task.root / answer["outputPath"]).read_text()
    assert "The second part is thought out." in output.split("## stdout")[1]
    assert not (project.path / "written").exists()
    assert answer["outputPath"] in [each["path"] for each in long_task.checkpoint["evidence"]]
    assert answer["usage"]["totalTokens"] > 0
    assert long_task.lth("summary")["usage"]["totalTokens"] == answer["usage"]["totalTokens"]
    told = json.dumps(client.island.conversations())
    assert "the harness writes the checkpoint" in told


def test_the_clients_tell_input_output_and_cache_apart(client: Client, project: Repo, tmp_path: Path) -> None:
    """Claude Code by itself, Codex where it is asked to."""
    long_task = Task(tmp_path / "task", client, project, codexWorker={"extraArgs": ["--json"]})
    client.island.script("slice", ["The second part."], start=SLICE)
    used = long_task.lth("run")["usage"]
    assert used["inputTokens"] > 0 and used["outputTokens"] > 0
    assert used["totalTokens"] == used["inputTokens"] + used["outputTokens"]


def test_a_rate_limit_pauses_until_its_reset_and_the_task_is_finished_after_it(client: Client, long_task: Task) -> None:
    error = {"status": 429, "type": "usage_limit_reached", "message": "Enough for now, try again in 8 seconds"}
    refused = {"error": {**error, "reset_seconds": 8}}
    client.island.script("slice", [refused], start=SLICE)
    answer = long_task.lth("run", code=1)
    found = answer["classification"]
    assert (found["class"], answer["status"]) == ("rate_limit", "blocked"), answer
    waits = long_task.lth("next")
    assert waits["decision"] == "wait"
    assert waits["blockedUntil"] == found["blockedUntil"]
    assert (long_task.root / answer["handoffPath"]).exists()
    assert found["retryAfterSeconds"] is not None, (long_task.root / answer["outputPath"]).read_text()
    until = time.monotonic() + 120
    while long_task.lth("next")["decision"] == "wait" and time.monotonic() < until:
        time.sleep(0.5)
    assert long_task.lth("tick")["status"] == "active"
    client.island.script("slice", ["The second part is written."], start=SLICE)
    assert long_task.lth("run")["status"] == "done"  # its criteria were verified after the slice
    assert long_task.lth("next")["decision"] == "done"
