"""Things that health checks, and when."""

from pathlib import Path
from typing import Any

import pytest

from agent_harness.testing.long_task_project import LongTaskProject, book, book_checkpoint, program
from agent_harness.testing.repo import Repo

Record = dict[str, Any]
BARE = {"PATH": "/usr/bin:/bin"}


def checks(project: LongTaskProject, env: dict[str, str] | None = None) -> dict[str, Record]:
    report = project.lth("health", env=env or BARE, code=0).json
    assert list(report) == ["status", "taskId", "scheduler", "preferredWorker", "checks"]
    assert all(list(each)[:3] == ["name", "status", "message"] for each in report["checks"])
    return {each["name"]: each for each in report["checks"]}


def test_a_task_that_is_ready(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(localWorker={"command": "true"})
    report = project.lth("health", "--strict", code=0).json
    assert (report["status"], report["scheduler"], report["preferredWorker"]) == ("pass", "manual", "local-command")
    found = checks(project)
    assert list(found) == ["task-contract", "run-decision", "scheduler-config", "worker-plan:local-command"]
    assert found["run-decision"]["message"] == "run: checkpoint status is active"
    assert (found["run-decision"]["decision"], found["run-decision"]["waitSeconds"]) == ("run", 0)
    assert found["worker-plan:local-command"]["cwd"] == str(tmp_path)
    assert project.untouched() == []


def test_a_task_that_does_not_load(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.checkpoint = {**book_checkpoint(), "status": "tired", "nextStep": ""}
    report = project.lth("health", code=0).json
    assert report["status"] == "fail"
    assert [each["name"] for each in report["checks"]] == ["task-contract"]
    message = report["checks"][0]["message"]
    assert "invalid checkpoint.status: tired" in message
    assert "; " in message
    project.lth("health", "--strict", code=1)


@pytest.mark.parametrize("content", ["null", "[]", "{", ""])
def test_row_15_a_contract_that_is_no_object(tmp_path: Path, content: str) -> None:
    project = LongTaskProject.of_book(tmp_path)
    (tmp_path / "task.json").write_text(content)
    assert project.lth("health", code=0).json["checks"][0]["status"] == "fail"
    done = project.lth("run", code=1)
    assert "Traceback" not in done.err


def test_row_15_a_forbidden_folder_is_a_check(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(localWorker={"command": "true", "cwd": "~/.ssh"})
    found = checks(project)["worker-plan:local-command"]
    assert found["status"] == "fail"
    assert "forbidden cwd" in found["message"]


def test_a_plan_that_lacks_its_command(tmp_path: Path) -> None:
    assert "--command" in checks(LongTaskProject.of_book(tmp_path))["worker-plan:local-command"]["message"]


@pytest.mark.parametrize(
    ("scheduler", "name", "status"),
    [
        ({"type": "openclaw", "every": "1h"}, "openclaw-cron", "pass"),
        ({"type": "none"}, "manual", "pass"),
        ({"type": "systemd"}, "systemd", "warn"),
        ({}, "manual", "pass"),
    ],
)
def test_schedulers(tmp_path: Path, scheduler: Record, name: str, status: str) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(scheduler=scheduler)
    found = checks(project)
    assert (found["scheduler-config"]["scheduler"], found["scheduler-config"]["status"]) == (name, status)
    assert found["scheduler-config"]["every"] == scheduler.get("every")
    assert ("openclaw-cli" in found) == (name == "openclaw-cron")


def test_openclaw_itself_as_the_worker(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(workerPolicy={"preferred": "openclaw-direct-model"})
    found = checks(project)
    assert found["scheduler-config"]["scheduler"] == "openclaw-cron"
    assert found["openclaw-cli"]["status"] == "warn"
    assert not any(name.startswith("worker-plan") for name in found)


@pytest.mark.scenario
def test_programs(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path / "task")
    policy = {"preferred": "codex", "allowed": ["kimi"], "fallbackOnRateLimit": "claude"}
    project.task = book(workerPolicy=policy, context={"repoPath": "."})
    found = checks(project)
    assert found["codex-cli"]["message"] == "codex is not on PATH"
    bin_folder = tmp_path / "bin"
    program(bin_folder, "codex", "echo codex-cli 1.2.3; echo more")
    program(bin_folder, "kimi", "echo broken; exit 3")
    program(bin_folder, "claude", "sleep 300")
    found = checks(project, {"PATH": f"{bin_folder}:/usr/bin:/bin"})
    assert (found["codex-cli"]["status"], found["codex-cli"]["message"]) == ("pass", "codex-cli 1.2.3")
    assert found["kimi-cli"]["status"] == "warn"
    assert "status 3" in found["kimi-cli"]["message"]
    assert "within 3 s" in found["claude-code"]["message"]
    assert [name for name in found if name.startswith("worker-plan:")] == [
        *("worker-plan:codex-cli", "worker-plan:kimi-cli", "worker-plan:claude-code")
    ]


def test_the_repository(tmp_path: Path) -> None:
    Repo(tmp_path / "repo")
    (tmp_path / "bare").mkdir()
    project = LongTaskProject.of_book(tmp_path / "task")
    found = []
    for path in ("../repo", "../bare", "../nowhere"):
        project.task = book(context={"repoPath": path})
        found.append(checks(project)["repo-context"]["status"])
    assert found == ["pass", "fail", "fail"]
    project.task = book(domain="coding")
    assert checks(project)["repo-context"]["status"] == "warn"
    project.task = book()
    assert "repo-context" not in checks(project)


def test_a_fallback_without_a_sandbox(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    policy = {"preferred": "codex", "fallbackOnRateLimit": "kimi"}
    project.task = book(workerPolicy=policy, context={"repoPath": "."})
    assert checks(project)["fallback-sandbox"]["status"] == "warn"
    for fallback, warned in (("command:true", True), ("local", True), ("codex-cli", False), ("manual-review", False)):
        project.task = book(workerPolicy={**policy, "fallbackOnRateLimit": fallback}, context={"repoPath": "."})
        assert ("fallback-sandbox" in checks(project)) is warned
    project.task = book(workerPolicy=policy, codexWorker={"cwd": ".", "sandbox": "workspace-write"})
    assert "fallback-sandbox" not in checks(project)


def test_a_person_is_needed(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.checkpoint = book_checkpoint(status="needs-human")
    assert checks(project)["run-decision"]["status"] == "warn"
