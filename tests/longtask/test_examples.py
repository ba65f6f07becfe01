"""The shipped examples load, and the recorded demo proves what it says."""

import json
from pathlib import Path

import pytest

from agent_harness.protocols.longtask import schema
from agent_harness.protocols.longtask.verbs import templates

from .desk import Desk

RECORDED = [
    *("tick_started", "worker_prompt_generated", "worker_started", "worker_completed", "checkpoint_written"),
    *("tick_started", "worker_prompt_generated", "worker_started", "worker_failed", "rate_limited"),
    *("checkpoint_written", "handoff_written", "tick_started", "checkpoint_written", "worker_prompt_generated"),
    *("tick_started", "checkpoint_written", "worker_prompt_generated", "worker_started", "worker_completed"),
    *("checkpoint_written", "evidence_recorded", "checkpoint_written", "progress_recorded"),
]


def installed(tmp_path: Path, name: str) -> Desk:
    desk = Desk(tmp_path / "copy")
    done = desk.lth("init", "--template", name)
    assert (done.code, done.out) == (0, f"Initialized {name} task at {desk.path}\n"), done
    return desk


@pytest.mark.parametrize("name", templates.EXAMPLES)
def test_every_example_can_be_installed_and_loads(tmp_path: Path, name: str) -> None:
    desk = installed(tmp_path, name)
    assert desk.lth("validate").out.startswith(f"OK {name}: ")
    assert all((desk.path / folder).is_dir() for folder in ("runs", "evidence", "artifacts"))
    assert desk.lth("tick").code == 0
    assert "already exists" in desk.lth("init", "--template", name).err


def test_the_examples_are_what_they_promise(tmp_path: Path) -> None:
    coding = json.loads((installed(tmp_path / "a", "example-coding").path / "task.json").read_text())
    assert [each["metric"] for each in coding["successCriteria"]] == ["command", "manual"]
    assert coding["workerPolicy"]["preferred"] == "openclaw-direct-model"
    video = json.loads((installed(tmp_path / "b", "example-video-analysis").path / "task.json").read_text())
    assert {each["metric"] for each in video["successCriteria"]} == {"manual"}


def test_the_recorded_demo_verifies_and_its_log_is_whole(tmp_path: Path) -> None:
    desk = installed(tmp_path, "resume-demo")
    report = desk.lth("verify")
    assert (report.code, report.json["status"]) == (0, "pass")
    assert desk.lth("next").json["decision"] == "done"
    assert desk.event_types == RECORDED
    assert [schema.misfits(event, schema.RUN_EVENT, "event") for event in desk.events] == [[]] * len(RECORDED)
    assert desk.lth("summary").json["rateLimits"][0]["worker"] == "local-command"


def test_the_demo_can_be_played_again(tmp_path: Path) -> None:
    desk = installed(tmp_path, "resume-demo")
    (desk.path / "artifacts/report.txt").unlink()
    (desk.path / "artifacts/limited").unlink()
    desk.lth("record", "--status", "active", "--note", "Write the first part of the report.")
    assert desk.lth("run").json["status"] == "paused"
    limited = desk.lth("run")
    assert (limited.code, limited.json["status"]) == (1, "blocked")
    assert desk.lth("run").json["decision"] == "wait"
    state = desk.checkpoint
    state["blockedUntil"] = "2026-01-01T00:00:00.000Z"
    state["workerCooldowns"]["local-command"]["blockedUntil"] = "2026-01-01T00:00:00.000Z"
    desk.write("checkpoint.json", state)
    assert desk.lth("run").json["status"] == "paused"
    assert desk.lth("verify").code == 0
