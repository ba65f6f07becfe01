"""The plugin in the real Claude Code: valid, and at work from its folder as well as from a marketplace."""

import json
from pathlib import Path

import pytest

import agent_harness
from agent_harness.kernel import process
from agent_harness.testing.repo import Repo

from .client import ClaudeCode
from .tasklist import decisions, heard

PLUGIN = Path(agent_harness.__file__).parent / "plugin"
ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.client, pytest.mark.parametrize("client", ["claude-code"], indirect=True)]


def claude(client: ClaudeCode, project: Path, *words: str) -> str:
    """What a command of Claude Code prints. It must succeed."""
    command = client.island.beside([client.program, *words])
    done = process.run(command, cwd=project, env=client.env, timeout_seconds=60)
    output = done.output.decode(errors="replace")
    assert done.exit_code == 0, output
    return output


@pytest.fixture
def waiting(project: Repo) -> Repo:
    """A project with an active list of one task, as the file format has it."""
    task = {"id": "task-001", "title": "Feed the goldfish", "status": "pending"}
    project.write("harness-tasks.json", json.dumps({"version": 2, "tasks": [task]}))
    return project.write(".harness-active")


def proves_itself(client: ClaudeCode, project: Repo, calls: Path, *words: str) -> None:
    """The start of the session and its stops are heard by the plugin, each once."""
    client.island.script("idle", ["I am done."] * 9)
    run = client.run("SCRIPT:idle", project=project.path, env={"HARNESS_HOOK_LOG": str(calls)}, words=words)
    assert run.exit_code == 0, run.output
    assert decisions(calls) == [("block", "work left")] * 7 + [("allow", "no progress")]
    assert heard(client.island, "next=task-001: Feed the goldfish") == 8
    assert "The harness manages the tasks of this project" in json.dumps(client.island.conversations()[0])


def test_its_folder_is_enough(client: ClaudeCode, waiting: Repo, tmp_path: Path) -> None:
    proves_itself(client, waiting, tmp_path / "calls.jsonl", "--plugin-dir", str(PLUGIN))


@pytest.mark.parametrize("market", [PLUGIN, ROOT], ids=["of-the-package", "of-the-repository"])
def test_it_can_be_installed_from_its_marketplace(
    client: ClaudeCode, waiting: Repo, tmp_path: Path, market: Path
) -> None:
    claude(client, waiting.path, "plugin", "marketplace", "add", str(market))
    claude(client, waiting.path, "plugin", "install", "harness@agent-harness", "--scope", "user")
    proves_itself(client, waiting, tmp_path / "calls.jsonl")


@pytest.mark.parametrize("what", [PLUGIN, ROOT], ids=["plugin", "marketplace-of-the-repository"])
def test_the_client_finds_it_valid(client: ClaudeCode, project: Repo, what: Path) -> None:
    said = claude(client, project.path, "plugin", "validate", str(what))
    assert "Validation passed" in said, said


def test_its_skill_is_there_and_reaches_the_model(client: ClaudeCode, project: Repo) -> None:
    client.island.script("skill", [{"tool": "Skill", "input": {"skill": "harness:harness"}}, "Now I know."])
    run = client.run("SCRIPT:skill", project=project.path, words=["--plugin-dir", str(PLUGIN)])
    assert run.exit_code == 0, run.output
    (begun,) = [event for event in run.of("system") if event.get("subtype") == "init"]
    assert "harness:harness" in begun["skills"]
    assert heard(client.island, "harness task claim") == 1
