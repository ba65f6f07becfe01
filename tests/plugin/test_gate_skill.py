"""The skill that sets the gate up: its commands run, its YAML is that of the documentation, and `help ci` shows it."""

import os
import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import Any

from ruamel.yaml import YAML

from agent_harness.cli.main import main
from agent_harness.testing import run_in_process, run_process
from agent_harness.testing.repo import Repo

SKILL = (files("agent_harness") / "plugin/skills/gate/SKILL.md").read_text(encoding="utf-8")
ROOT = Path(__file__).parents[2]
FILES = {"value.txt": "1\n", "Makefile": "test:\n\ttest -e value.txt\n"}


def fenced(kind: str, text: str = SKILL) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", text, re.DOTALL)


def parsed(kind: str, text: str) -> list[Any]:
    return [YAML(typ="safe").load(each) for each in fenced(kind, text)]


def test_each_command_of_the_skill_ends_well_on_a_good_change(tmp_path: Path) -> None:
    repo = Repo.with_files(tmp_path / "project", FILES)
    repo.git("switch", "-q", "-c", "work")
    repo.write("value.txt", "2\n").commit("Two")
    program = tmp_path / "bin/harness"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -P -m agent_harness.cli.main "$@"\n')
    program.chmod(0o755)
    environ = {**os.environ, "PATH": f"{program.parent}{os.pathsep}{os.environ['PATH']}"}
    commands = [line for block in fenced("bash") for line in block.splitlines()]
    assert len(commands) == 3
    for command in commands:
        done = run_process(["sh", "-c", command], cwd=repo.path, environ=environ)
        assert done.code == 0, f"{command}\n{done.text}"
    assert (repo.path / ".git/hooks/pre-push").exists()


def test_the_workflow_of_the_skill_has_the_documented_steps_and_no_rights() -> None:
    workflow, include = parsed("yaml", SKILL)
    steps, documented = parsed("yaml", (ROOT / "docs/gate.md").read_text().split("\n## In CI\n")[1])[:2]
    assert workflow["jobs"]["gate"]["steps"] == steps["steps"]
    assert (workflow["on"], workflow["permissions"]) == ("pull_request", {"contents": "read"})
    assert include == documented
    assert (ROOT / include["include"][0]["file"]).exists()


def test_an_agent_without_the_plugin_reads_the_same_page() -> None:
    shown = run_in_process(main, "harness", "help", "ci")
    assert (shown.code, shown.out.strip()) == (0, SKILL.split("---\n", 2)[2].strip())


def test_the_exit_codes_are_those_of_the_gate_and_the_page_is_short() -> None:
    assert re.findall(r"^\| (\d) \|", SKILL, re.MULTILINE) == ["0", "1", "3", "4"]
    assert len(SKILL.splitlines()) <= 90
