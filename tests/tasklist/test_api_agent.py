"""The api agent on a task list: it calls the verbs under its claim, and what it costs is told."""

import os
import sys
from pathlib import Path

import pytest

from agent_harness.testing.model_server import serve

from .test_runner import job, project


@pytest.mark.scenario
def test_a_task_is_done_with_the_verbs_and_its_cost_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No model is named anywhere; cache reads are priced apart."""
    verb = "echo work >> work.txt; harness task checkpoint $HARNESS_TASK_ID 1/1 'all of it'; true"
    used = {
        "input_tokens": 100_000,
        "output_tokens": 10_000,
        "cached_tokens": 40_000,
    }  # three quarters of the window are not reached
    steps = [
        {"blocks": {"run": verb}, "usage": used},
        {"blocks": "Done.", "usage": {"input_tokens": 0, "output_tokens": 0}},
    ]
    with serve({"work": {"start": "task-1", "steps": steps}}) as server:
        monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-api03-0123456789")
        monkeypatch.setenv("ANTHROPIC_BASE_URL", server.url)
        monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
        work = project(tmp_path, job("task-1"))
        ran = work.harness("run", "--agent", "api", "--once")
        assert ran.code == 0, ran
        model = server.requests()[0]["body"]["model"]
    assert work.statuses() == ["completed"]
    assert any('CHECKPOINT [task-1] step=1/1 "all of it"' in line for line in work.log())
    assert model == "claude-sonnet-4-6"
    (cost,) = [line for line in work.harness("status").out.splitlines() if line.startswith("cost ")]
    assert cost == "cost       $0.46, $0.46 for each proven"
