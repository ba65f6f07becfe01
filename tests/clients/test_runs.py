"""Real clients as agents of ``harness run`` on a task list and of ``lth run``."""

from pathlib import Path

import pytest

from agent_harness.kernel import process
from agent_harness.testing.repo import Repo

from .client import LIMIT_SECONDS, SCRIPTS, Client, Codex
from .tasklist import TaskList
from .test_long_task import SLICE, Task

pytestmark = [pytest.mark.client, pytest.mark.timeout(900)]

MODELS = {"claude-code": "claude-sonnet-4-6", "codex": "gpt-5.5"}


def test_a_task_list_is_worked_down_by_the_harness(client: Client, project: Repo) -> None:
    """One session of the client for each task; the harness runs the validation and commits."""
    if isinstance(client, Codex):
        client.configure(project.path)
    work = TaskList(project, client.env)
    work.add("Write one", "Write two")
    steps = [{"find": {"task": r"(task-\d+)"}, "blocks": {"run": "echo worked > ${task}.txt"}}, "That is done."]
    client.island.script("work", steps, start="When you are done, end your turn")
    command = [str(SCRIPTS / "harness"), "run", "--agent", f"{client.name}:{MODELS[client.name]}", "--json"]
    done = process.run(
        client.island.beside(command), cwd=project.path, env=client.env, timeout_seconds=LIMIT_SECONDS * 2
    )
    assert done.exit_code == 0, done.output.decode(errors="replace")
    assert work.statuses == ["completed", "completed"]
    assert project.read("task-002.txt") == b"worked\n"
    models = {body["model"] for body in client.island.conversations()}
    assert models == {MODELS[client.name]}


def test_a_slice_of_a_long_task_is_run_under_the_supervisor(client: Client, project: Repo, tmp_path: Path) -> None:
    """`lth run` with an agent of ours: its events are the evidence of the slice."""
    task = Task(tmp_path / "task", client, project)
    used = {"input_tokens": 100, "output_tokens": 7}
    steps = [{"blocks": {"run": "echo thought"}, "usage": used}, {"blocks": "The second part is done.", "usage": used}]
    client.island.script("slice", steps, start=SLICE)
    answer = task.lth("run", "--worker", f"{client.name}:{MODELS[client.name]}")
    assert (answer["exitCode"], answer["classification"]) == (0, None), answer
    output = (task.root / answer["outputPath"]).read_text()
    assert "The second part is done." in output
    assert "echo thought" in output
    assert answer["status"] == "done"
