"""The OpenClaw job: what it runs, how long, and that a shell reads it back."""

import json
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from agent_harness.testing.long_task_project import LongTaskProject, book


def words_of(command: str) -> dict[str, str]:
    """The options of a pasted command, as a real shell reads them."""
    script = "openclaw() { printf '%s\\0' \"$@\"; }\n" + command
    out = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    words = out.split("\0")[:-1]
    assert words[:2] == ["cron", "add"]
    return dict(zip(words[2::2], words[3::2], strict=True))


def test_a_job_that_runs_a_slice(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    answer = project.lth("openclaw-recipe", code=0).json
    assert list(answer) == ["taskId", "command", "message", "schedule", "commandNoModel"]
    schedule = answer["schedule"]
    assert list(schedule) == [
        *("every", "name", "sessionKey", "model", "timeoutSeconds", "tools", "worker", "schedulerCommand")
    ]
    assert schedule["every"] == "30m"
    assert schedule["name"] == "book-tick"
    assert schedule["sessionKey"] == "agent:main:cron:book"
    assert (schedule["model"], schedule["timeoutSeconds"]) == ("minimax/MiniMax-M2.5", "300")
    assert (schedule["tools"], schedule["worker"]) == ("exec read write", "local-command")
    options = words_of(answer["command"])
    assert list(options) == [
        *("--name", "--every", "--session", "--session-key", "--model", "--tools", "--timeout-seconds", "--message")
    ]
    assert options["--session"] == "isolated"
    assert options["--message"] == answer["message"]
    assert schedule["schedulerCommand"] in answer["message"].splitlines()
    assert answer["command"].count(" \\\n") == len(options)
    assert project.untouched() == []


def test_row_17_the_command_runs_from_anywhere(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path / "a task's folder")
    project.task = book(localWorker={"command": "echo here"})
    answer = project.lth("openclaw-recipe", code=0).json
    words = shlex.split(answer["schedule"]["schedulerCommand"])
    assert os.path.isabs(words[0])
    asked = ["--no-wait", "--worker", "local-command", "--timeout-seconds", "270"]
    assert words[-7:] == ["run", str(project.root), *asked]
    ran = subprocess.run(
        answer["schedule"]["schedulerCommand"], shell=True, cwd="/", capture_output=True, text=True, check=True
    )
    assert json.loads(ran.stdout)["status"] == "paused"
    without = words_of(answer["commandNoModel"])
    assert json.loads(without["--command-argv"]) == words
    assert "--model" not in without
    assert "--message" not in without


def test_a_job_without_an_installed_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.options import RecipeOptions
    from agent_harness.protocols.longtask.verbs import recipe

    project = LongTaskProject.of_book(tmp_path / "task")
    monkeypatch.setenv("PATH", str(tmp_path))
    python = tmp_path / "python3"
    python.symlink_to(sys.executable)
    monkeypatch.setattr(sys, "executable", str(python))
    answer, _ = recipe.recipe(LongTaskLayout(project.root), RecipeOptions())
    assert shlex.split(answer["schedule"]["schedulerCommand"])[:4] == [
        *(str(python), "-m", "agent_harness.cli.lth", "run")
    ]


@pytest.mark.parametrize("worker", ["openclaw-direct-model", "manual-review", None])
def test_a_job_that_ticks(tmp_path: Path, worker: str | None) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(workerPolicy={"preferred": worker} if worker else {})
    answer = project.lth("openclaw-recipe", code=0).json
    assert shlex.split(answer["schedule"]["schedulerCommand"])[-2:] == ["tick", str(tmp_path)]
    assert answer["schedule"]["worker"] == worker
    for word in ("wait", "done", "needs-human", "workerPrompt"):
        assert word in answer["message"]
    recorded = next(line for line in answer["message"].splitlines() if " record " in line)
    assert subprocess.run(shlex.split(recorded), check=False, capture_output=True).returncode == 0
    assert (project.checkpoint["status"], project.checkpoint["nextStep"]) == ("paused", "THE NEXT STEP")


@pytest.mark.parametrize(("seconds", "limit"), [("600", "570"), ("45", "30"), ("10", "30")])
def test_the_worker_ends_before_the_job_does(tmp_path: Path, seconds: str, limit: str) -> None:
    answer = LongTaskProject.of_book(tmp_path).lth("openclaw-recipe", "--timeout-seconds", seconds, code=0).json
    assert answer["schedule"]["timeoutSeconds"] == seconds
    assert answer["schedule"]["schedulerCommand"].endswith(f" --timeout-seconds {limit}")


def test_options_win_over_the_contract(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(
        scheduler={"every": "2h", "name": "mine", "model": "m/1", "timeoutSeconds": 90},
        workerPolicy={"preferred": "codex", "fallbackOnRateLimit": "kimi"},
    )
    schedule = project.lth("openclaw-recipe", code=0).json["schedule"]
    assert (schedule["every"], schedule["name"], schedule["model"], schedule["timeoutSeconds"]) == (
        *("2h", "mine", "m/1", "90"),
    )
    assert "--worker codex-cli --fallback-worker kimi-cli --timeout-seconds 60" in schedule["schedulerCommand"]
    words = ("--every", "5m", "--name", "it's", "--model", "m/2", "--session-key", "k", "--tools", "exec")
    answer = project.lth("openclaw-recipe", *words, "--worker", "local", "--fallback-worker", "local", code=0).json
    options = words_of(answer["command"])
    assert (options["--every"], options["--name"], options["--model"]) == ("5m", "it's", "m/2")
    assert (options["--session-key"], options["--tools"]) == ("k", "exec")
    assert "--fallback-worker" not in answer["schedule"]["schedulerCommand"]
