"""With ``--json`` stdout holds one object and nothing else, whatever goes wrong, wherever it is typed. F-TERM-6."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_harness.cli import lth, main
from agent_harness.cli.machine import words
from agent_harness.testing import HARNESS, CommandResult, run_in_process
from agent_harness.testing.feature_list_project import FeatureListProject
from agent_harness.testing.long_task_project import LongTaskProject
from agent_harness.testing.task_list_project import TaskListProject, task


def nothing(root: Path) -> Path:
    root.mkdir()
    return root


def damaged_list(root: Path) -> Path:
    project = TaskListProject(root, task("task-001"))
    path = project.root / "harness-tasks.json"
    path.write_text(path.read_text()[:-20])
    return root


KINDS: dict[str, Callable[[Path], Path]] = {
    "no project": nothing,
    "task list": lambda root: TaskListProject(root, task("task-001"), git=True).root,
    "feature project": lambda root: FeatureListProject.made(root, True, False).root,
    "long task": lambda root: LongTaskProject.of_book(root).root,
    "damaged task list": damaged_list,
}
COMMANDS = [path.split()[1:] for path in words.walk() if path.startswith("harness")] + [["hook", "stop"]]
GO_ON = {"serve", "demo", "selftest", "mcp", "log follow", "fleet run", "hook stop", "watch"}
"""Commands that end only when somebody ends them, take minutes, or read a client's words."""


HAND_ON = (["drive"], ["task", "run-step"])
"""Commands that hand options on to the one that they run."""


def one_object(ran: CommandResult, *, ok: bool | None = None) -> None:
    """Check that stdout is one whole line with one object."""
    assert (ran.out[:1], ran.out[-1:]) == ("{", "\n"), ran
    found = json.loads(ran.out)
    assert ok is None or found.get("ok", True) is ok, ran
    if found.get("ok") is False and "error" in found:
        assert set(found["error"]) >= {"code", "message"}, ran
        assert ran.code != 0, ran


LATER = ("long task", "damaged task list")


@pytest.mark.kept("damaged task list", "no project", "task list", "feature project")
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.scenario] if kind in LATER else []) for kind in KINDS]
)
def test_a_bad_option_is_one_object(kind: str, tmp_path: Path) -> None:
    """Every command is covered, also with ``--help`` at the end."""
    folder = KINDS[kind](tmp_path / "here")
    for command in COMMANDS:
        for more in ((), *([("--help",)] if command not in HAND_ON else [])):
            ran = run_in_process(main.main, "harness", *command, "--json", "--no-such-option", *more, cwd=folder)
            assert ran.code == 2 or command in HAND_ON, (command, more, ran)
            assert ran.err == "", (command, more, ran)
            one_object(ran, ok=False)
    ran = run_in_process(main.main, "harness", "no-such-command", "--json", cwd=folder)
    assert ran.code == 2
    one_object(ran, ok=False)


@pytest.mark.scenario
@pytest.mark.parametrize("kind", KINDS)
def test_every_command_answers_with_one_object(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a required argument, a project, an agent, or a person's yes."""
    folder = KINDS[kind](tmp_path / "here")
    monkeypatch.setenv("PATH", os.defpath)  # where no client of an agent is
    for command in COMMANDS:
        if " ".join(command) not in GO_ON:
            one_object(run_in_process(main.main, "harness", *command, "--json", cwd=folder))


@pytest.mark.kept("15-feature project")
@pytest.mark.scenario
@pytest.mark.parametrize("kind", ["task list", "feature project"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_ended_by_a_signal_answers_with_one_object(
    kind: str, number: signal.Signals, tmp_path: Path
) -> None:
    begun = tmp_path / "begun"
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"turns": [{"do": [{"run": f"touch {begun}; sleep 600"}]}]}))
    if kind == "feature project":
        settings = "project:\n  name: calc\nenvironment: {init: 'true', reset: 'true'}\n"
        folder = FeatureListProject.made(tmp_path / "here", False, settings=settings).root
    else:
        folder = KINDS[kind](tmp_path / "here")
    command = [*HARNESS, "run", "--json", "--agent", f"scripted:{script}"]
    with subprocess.Popen(
        command,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as run:
        end = time.monotonic() + 120
        while not begun.exists() and run.poll() is None:
            assert time.monotonic() < end
            time.sleep(0.05)
        for _ in range(2):  # the second one does not wait for the agent
            run.send_signal(number)
            time.sleep(0.5)
        out, err = run.communicate(timeout=120)
    assert run.returncode in (0, 130), err
    one_object(CommandResult(run.returncode, out, err))


def test_a_long_task_answers_in_json_and_says_what_is_wrong_elsewhere(tmp_path: Path) -> None:
    """`lth` answers in JSON by itself; an error is lines on stderr alone, as its contract has it."""
    folder = LongTaskProject.of_book(tmp_path / "book").root
    for path in words.walk():
        if path.startswith("lth "):
            ran = run_in_process(lth.main, "lth", path.split()[1], str(folder), "--no-such-option", cwd=tmp_path)
            assert (ran.code, ran.out, bool(ran.err)) == (1, "", True), ran
    listed = run_in_process(lth.main, "lth", "ls", ".", "--json", cwd=tmp_path)
    assert listed.code == 0
    assert json.loads(listed.out)
