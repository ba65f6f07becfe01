"""``harness setup``: step by step on a terminal, silent in scripts, and nothing twice."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest

from agent_harness.cli import app


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, and a PATH with one client on it."""
    folder, tools = tmp_path / "project", tmp_path / "bin"
    folder.mkdir()
    tools.mkdir()
    claude = tools / "claude"
    claude.write_text("#!/bin/sh\nexit 0\n")
    claude.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}{os.pathsep}/usr/bin{os.pathsep}/bin")
    monkeypatch.chdir(folder)
    return folder


def setup(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    assert app.main(["setup", "--json", *words]) == code
    return json.loads(capsys.readouterr().out)


def states(answer: dict[str, Any]) -> dict[str, str]:
    return {step["step"]: step["state"] for step in answer["steps"]}


def test_without_a_terminal_and_without_yes_it_only_says_the_plan(
    here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = setup(capsys)
    assert states(answer) == {"agent": "there", "project": "planned", "hooks": "left"}
    assert (answer["changed"], answer["next"]) == (False, "harness setup --yes")
    assert list(here.iterdir()) == []


def test_with_yes_it_makes_a_list_and_registers_hooks_once(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = setup(capsys, "--yes")
    assert states(answer) == {"agent": "there", "project": "done", "hooks": "done"}
    assert (here / "harness-tasks.json").is_file()
    settings = Path.home() / ".claude/settings.json"
    assert "agent" in settings.read_text()
    assert answer["next"].startswith("harness add ")
    before = (settings.read_bytes(), (here / "harness-tasks.json").read_bytes())
    again = setup(capsys, "--yes")
    assert states(again) == {"agent": "there", "project": "there", "hooks": "there"}
    assert again["changed"] is False
    assert (settings.read_bytes(), (here / "harness-tasks.json").read_bytes()) == before


def test_what_is_not_wanted_is_left(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = setup(capsys, "--yes", "--kind", "none", "--no-hooks", "--agent", "command:no-such-program-here")
    assert set(states(answer).values()) == {"left"}
    assert list(here.iterdir()) == []
    assert setup(capsys, "--kind", "features", "--yes")["steps"][1]["state"] == "planned"
    assert setup(capsys, "--spec", "no-such-file", code=2)["error"]["code"] == "usage"
    (here / "SPEC.md").write_text("x")
    assert setup(capsys, "--spec", "SPEC.md", "--kind", "tasks", code=2)["error"]["code"] == "usage"


def test_on_a_terminal_a_person_is_asked_and_may_say_no(here: Path) -> None:
    words = ["-m", "agent_harness.cli.main", "setup"]
    with pexpect.spawn(sys.executable, words, cwd=str(here), encoding="utf-8", timeout=120) as terminal:
        terminal.expect("What to make here")
        terminal.sendline("tasks")
        terminal.expect("Make a task list in")
        terminal.sendline("y")
        terminal.expect("Register the hooks with claude-code")
        terminal.sendline("n")
        terminal.expect("next: harness add")
        terminal.expect(pexpect.EOF)
    assert (here / "harness-tasks.json").is_file()
    assert not (Path.home() / ".claude/settings.json").exists()


def test_whoever_stops_answering_changes_nothing(here: Path) -> None:
    words = ["-m", "agent_harness.cli.main", "setup"]
    with pexpect.spawn(sys.executable, words, cwd=str(here), encoding="utf-8", timeout=120) as terminal:
        terminal.expect("What to make here")
        terminal.send("\x03")
        terminal.expect(pexpect.EOF)
        terminal.close()
    assert terminal.exitstatus == 130
    assert list(here.iterdir()) == []
