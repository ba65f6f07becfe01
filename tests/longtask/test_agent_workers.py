"""Agents of the harness as workers of a slice: a model on loopback, asked by the `api` agent."""

import json
from pathlib import Path

import pytest

from agent_harness.testing.long_task_project import LongTaskProject, book
from agent_harness.testing.model_server import serve

KEY = "sk-ant-api03-0123456789abcdefABCDEF"
SLICE = "Continue exactly one bounded slice"


@pytest.fixture
def project(tmp_path: Path) -> LongTaskProject:
    project = LongTaskProject.of_book(tmp_path / "task")
    (project.root / "repo").mkdir()
    project.task = book(agentWorker={"cwd": "repo", "model": "claude-sonnet-4-6"}, workerPolicy={"preferred": "api"})
    return project


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_slice_of_the_api_agent(project: LongTaskProject) -> None:
    steps = [{"run": "echo chapter > chapter.txt"}, "The second chapter is written."]
    with serve({"slice": {"steps": steps, "start": SLICE}}) as server:
        env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url}
        answer = project.lth("run", env=env, code=0).json
    assert (answer["worker"], answer["status"], answer["command"]) == ("api", "paused", "agent api")
    assert (project.root / "repo/chapter.txt").read_text() == "chapter\n"
    output = project.outputs()[0]
    assert "The second chapter is written." in output and KEY not in output
    assert answer["usage"]["inputTokens"] > 0 and answer["usage"]["outputTokens"] > 0
    assert project.events("worker_completed")[0]["usage"] == answer["usage"]


@pytest.mark.parametrize("words", [(), ("--model", "gpt-5.5-mini")])
def test_the_model_of_the_contract_or_of_the_command_is_the_one_that_is_asked(
    project: LongTaskProject, words: tuple[str, ...]
) -> None:
    """Also of another provider than the one whose names the settings have by default."""
    project.task = book(agentWorker={"cwd": "repo", "model": "gpt-5.5"}, workerPolicy={"preferred": "api"})
    with serve({"slice": {"steps": ["Done."], "start": SLICE}}) as server:
        env = {"OPENAI_API_KEY": KEY, "OPENAI_BASE_URL": f"{server.url}/v1"}
        project.lth("run", *words, env=env, code=0)
        asked = {request["body"]["model"] for request in server.requests() if "model" in request["body"]}
    assert asked == {words[1] if words else "gpt-5.5"}


@pytest.mark.scenario
def test_a_rate_limit_of_the_api_agent_pauses_the_task(project: LongTaskProject) -> None:
    refused = {"error": {"status": 429, "type": "rate_limit_error", "message": "Enough, try again in 2000 seconds"}}
    with serve({"slice": {"steps": [refused] * 20, "start": SLICE}}) as server:
        env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url}
        done = project.lth("run", env=env)
    answer = json.loads(done.out)
    assert done.code != 0 and answer["classification"]["class"] == "rate_limit", done
    assert answer["status"] == "blocked" and project.lth("next").json["decision"] == "wait"
    assert "api" in project.checkpoint["workerCooldowns"]
