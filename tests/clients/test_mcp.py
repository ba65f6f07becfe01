"""The real clients work a task down by the tools of ``harness mcp`` alone."""

import json
from collections.abc import Sequence

import pytest

from agent_harness.testing.repo import Repo

from .client import SCRIPTS, Client
from .tasklist import TaskList

pytestmark = pytest.mark.client

SERVER = str(SCRIPTS / "harness")


def words(client: Client) -> Sequence[str]:
    """How each client is told of the server, for one run."""
    if client.name == "codex":
        told = {"command": SERVER, "args": ["mcp"], "default_tools_approval_mode": "approve", "required": True}
        return [w for name, value in told.items() for w in ("-c", f"mcp_servers.harness.{name}={json.dumps(value)}")]
    server = {"mcpServers": {"harness": {"command": SERVER, "args": ["mcp"]}}}
    return ["--mcp-config", json.dumps(server), "--strict-mcp-config", "--allowedTools", "mcp__harness"]


def call(client: Client, name: str, **arguments: object) -> list[dict[str, object]]:
    """A call of one of our tools, under the name that the client gives it."""
    if client.name == "codex":
        return [{"tool": name, "namespace": "mcp__harness", "input": arguments}]
    return [{"tool": f"mcp__harness__{name}", "input": arguments}]


def test_a_task_is_claimed_proven_and_closed_by_tools(client: Client, project: Repo) -> None:
    """The same record as by the verbs; a proof that fails is an error that the model sees, and the task stays open."""
    work = TaskList(project, client.env)
    work.add("Write the first file")
    client.island.script(
        "tools",
        [
            call(client, "claim"),
            call(client, "checkpoint", task_id="task-001", step=1, total=2, text="begun"),
            call(client, "complete", task_id="task-001"),
            [{"run": "echo worked > task-001.txt"}],
            call(client, "complete", task_id="task-001"),
            call(client, "log_query", text="completed"),
            "It is done.",
        ],
    )
    run = client.run("SCRIPT:tools", project=project.path, words=words(client))
    assert run.exit_code == 0, run.output
    seen = json.dumps(client.island.conversations()[-1])
    assert work.tasks[0]["status"] == "completed", seen
    assert "verification_failed" in seen
    assert project.git("log", "-1", "--format=%s") == "[task-001] Write the first file"
    assert work.tasks[0]["checkpoints"][0]["description"] == "begun"
    assert "Completed [task-001]" in seen
