"""The shipped examples load, and the recorded demo proves what it says."""

import json
from pathlib import Path

import pytest

from agent_harness.protocols.longtask import schema
from agent_harness.protocols.longtask.verbs import init
from agent_harness.testing.long_task_project import LongTaskProject

RECORDED = [
    *("tick_started", "worker_prompt_generated", "worker_started", "worker_completed", "checkpoint_written"),
    *("tick_started", "worker_prompt_generated", "worker_started", "worker_failed", "rate_limited"),
    *("checkpoint_written", "handoff_written", "tick_started", "checkpoint_written", "worker_prompt_generated"),
    *("tick_started", "checkpoint_written", "worker_prompt_generated", "worker_started", "worker_completed"),
    *("checkpoint_written", "evidence_recorded", "checkpoint_written", "progress_recorded"),
]


def installed(tmp_path: Path, name: str) -> LongTaskProject:
    project = LongTaskProject(tmp_path / "copy")
    done = project.lth("init", "--template", name)
    assert (done.code, done.out) == (0, f"Initialized {name} task at {project.root}\n"), done
    return project


@pytest.mark.parametrize("name", init.EXAMPLES)
def test_every_example_can_be_installed_and_loads(tmp_path: Path, name: str) -> None:
    project = installed(tmp_path, name)
    assert project.lth("validate").out.startswith(f"OK {name}: ")
    assert all((project.root / folder).is_dir() for folder in ("runs", "evidence", "artifacts"))
    assert project.lth("tick").code == 0
    assert "already exists" in project.lth("init", "--template", name).err


def test_the_examples_are_what_they_promise(tmp_path: Path) -> None:
    coding = json.loads((installed(tmp_path / "a", "example-coding").root / "task.json").read_text())
    assert [each["metric"] for each in coding["successCriteria"]] == ["command", "manual"]
    assert coding["workerPolicy"]["preferred"] == "openclaw-direct-model"
    video = json.loads((installed(tmp_path / "b", "example-video-analysis").root / "task.json").read_text())
    assert {each["metric"] for each in video["successCriteria"]} == {"manual"}


def test_the_recorded_demo_verifies_and_its_log_is_whole(tmp_path: Path) -> None:
    project = installed(tmp_path, "resume-demo")
    report = project.lth("verify")
    assert (report.code, report.json["status"]) == (0, "pass")
    assert project.lth("next").json["decision"] == "done"
    assert project.kinds() == RECORDED
    assert [schema.misfits(event, schema.RUN_EVENT, "event") for event in project.events()] == [[]] * len(RECORDED)
    assert project.lth("summary").json["rateLimits"][0]["worker"] == "local-command"


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_the_demo_can_be_played_again(tmp_path: Path) -> None:
    project = installed(tmp_path, "resume-demo")
    (project.root / "artifacts/report.txt").unlink()
    (project.root / "artifacts/limited").unlink()
    project.lth("record", "--status", "active", "--note", "Write the first part of the report.")
    assert project.lth("run").json["status"] == "paused"
    limited = project.lth("run")
    assert (limited.code, limited.json["status"]) == (1, "blocked")
    assert project.lth("run").json["decision"] == "wait"
    state = project.checkpoint
    state["blockedUntil"] = "2026-01-01T00:00:00.000Z"
    state["workerCooldowns"]["local-command"]["blockedUntil"] = "2026-01-01T00:00:00.000Z"
    project.write("checkpoint.json", state)
    assert project.lth("run").json["status"] == "done"
    assert project.lth("verify").code == 0
