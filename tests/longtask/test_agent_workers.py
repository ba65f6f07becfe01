"""Agents of the harness as workers of a slice: a model on loopback, asked by the `api` agent."""

import json
from pathlib import Path

import pytest

from agent_harness.testing.model_server import serve

from .ground import Ground, task

KEY = "sk-ant-api03-0123456789abcdefABCDEF"
SLICE = "Continue exactly one bounded slice"


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    ground = Ground(tmp_path / "task")
    (ground.root / "repo").mkdir()
    ground.task = task(agentWorker={"cwd": "repo", "model": "claude-sonnet-4-6"}, workerPolicy={"preferred": "api"})
    return ground


@pytest.mark.scenario
def test_a_slice_of_the_api_agent(ground: Ground) -> None:
    steps = [{"run": "echo chapter > chapter.txt"}, "The second chapter is written."]
    with serve({"slice": {"steps": steps, "start": SLICE}}) as server:
        env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url}
        answer = ground.lth("run", env=env, code=0).answer
    assert (answer["worker"], answer["status"], answer["command"]) == ("api", "paused", "agent api")
    assert (ground.root / "repo/chapter.txt").read_text() == "chapter\n"
    output = ground.outputs()[0]
    assert "The second chapter is written." in output and KEY not in output
    assert answer["usage"]["inputTokens"] > 0 and answer["usage"]["outputTokens"] > 0
    assert ground.events("worker_completed")[0]["usage"] == answer["usage"]


@pytest.mark.scenario
def test_a_rate_limit_of_the_api_agent_pauses_the_task(ground: Ground) -> None:
    refused = {"error": {"status": 429, "type": "rate_limit_error", "message": "Enough, try again in 2000 seconds"}}
    with serve({"slice": {"steps": [refused] * 20, "start": SLICE}}) as server:
        env = {"ANTHROPIC_API_KEY": KEY, "ANTHROPIC_BASE_URL": server.url}
        done = ground.lth("run", env=env)
    answer = json.loads(done.out)
    assert done.code != 0 and answer["classification"]["class"] == "rate_limit", done
    assert answer["status"] == "blocked" and ground.lth("next").answer["decision"] == "wait"
    assert "api" in ground.checkpoint["workerCooldowns"]
