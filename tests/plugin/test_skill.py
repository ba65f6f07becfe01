"""Every command that the skill names, run in the situation in which it names it."""

import os
import re
import shlex
import sys
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest

from agent_harness.testing import CommandResult, run_process
from agent_harness.testing.task_list_project import TaskListProject

SKILL = (files("agent_harness") / "plugin/skills/harness/SKILL.md").read_text(encoding="utf-8")
BIN = Path(sys.executable).parent


def sh(
    project: TaskListProject, command: str, codes: tuple[int, ...] = (0,), *, session: str = "the-session"
) -> CommandResult:
    """A line of shell in the project, which has this harness on PATH."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("HARNESS_", "CLAUDE"))}
    environ |= {"PATH": f"{BIN}{os.pathsep}{os.environ['PATH']}", "HARNESS_SESSION_ID": session}
    done = run_process(["sh", "-c", command], cwd=project.root, environ=environ)
    assert done.code in codes, f"{command}\n{done.text}"
    return done


def claimed(project: TaskListProject) -> None:
    sh(project, "harness session start && harness task claim")


def worked(project: TaskListProject) -> None:
    claimed(project)
    (project.root / "done-1").write_text("yes\n")


def interrupted(project: TaskListProject) -> None:
    claimed(project)
    sh(project, "harness task checkpoint task-001 1/3 'the first step'")
    project.edit("task-001", lease_expires_at="2020-01-01T00:00:00Z", claimed_process=None)


def rescued(project: TaskListProject) -> None:
    worked(project)
    sh(project, "harness task fail task-001 --category TEST_FAIL why")


def nothing(project: TaskListProject) -> None:
    """The list is as it was made."""


SITUATIONS: tuple[tuple[str, Callable[[TaskListProject], None], tuple[int, ...]], ...] = (
    # what the command begins with, where it is run, and how it may end
    ("harness init", nothing, (0,)),
    ("harness add", nothing, (0,)),
    ("harness activate", nothing, (0,)),
    ("harness status", nothing, (0,)),
    ("harness doctor", nothing, (0,)),
    ("harness run", nothing, (0,)),
    ("harness session start", nothing, (0,)),
    ("harness session end", claimed, (0,)),
    ("harness task claim", nothing, (0,)),
    ("harness task next", nothing, (0,)),
    ("harness task checkpoint", claimed, (0,)),
    ("harness task renew", claimed, (0,)),
    ("harness task run-step", claimed, (0,)),
    ("harness task validate", worked, (0,)),
    ("harness task complete", worked, (0,)),
    ("harness task fail", worked, (0,)),
    ("harness task release", worked, (0,)),
    ("harness task rollback", worked, (0,)),
    ("harness task recover task", interrupted, (0,)),
    ("harness task recover", nothing, (0,)),
    ("harness rescue list", rescued, (0,)),
    ("harness rescue show", rescued, (0,)),
    ("git show REF", rescued, (0,)),
    ("grep", rescued, (0, 1)),
)

PLACES = {"PATH": ".", '"text"': '"text"', "CMD": "true", "REF": "refs/harness/rescue/task-001/1"}


def commands() -> list[str]:
    """Command lines of the fenced blocks, and of the text."""
    blocks = re.findall(r"```bash\n(.*?)```", SKILL, re.DOTALL)
    fenced = [line.strip() for block in blocks for line in block.splitlines() if line.strip()]
    inline = re.findall(r"`((?:harness|git show) [^`]+)`", re.sub(r"```.*?```", "", SKILL, flags=re.DOTALL))
    return sorted({*fenced, *inline})


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> TaskListProject:
    """A git project with a task list of three tasks, to be copied."""
    project = TaskListProject(tmp_path_factory.mktemp("made"), git=True, session_count=0)
    for number in (1, 2, 3):
        project.add(f"task-{number:03}", validation=f"test -s done-{number}")
    return project


@pytest.mark.parametrize("command", commands())
def test_every_command_of_the_skill_works(command: str, tmp_path: Path, made: TaskListProject) -> None:
    begins, situation, codes = next(row for row in SITUATIONS if command.startswith(row[0]))
    project = made.copied(tmp_path / "project")
    situation(project)
    session = "the-session"
    words = [PLACES.get(word, word) for word in shlex.split(command)]
    if begins == "harness run":
        words.append("--dry-run")
    if words[:2] == ["harness", "task"] and "--now" not in words and begins == "harness task recover task":
        session = "a-later-session"
        sh(project, "harness session start --take-over", session=session)
    done = sh(project, shlex.join(words), codes, session=session)
    if words[:2] in (["harness", "task"], ["harness", "session"], ["harness", "rescue"]):
        assert done.json["next"].startswith("harness ")


def test_the_skill_is_short_and_has_a_front_matter() -> None:
    assert len(SKILL.splitlines()) < 400
    assert SKILL.startswith("---\nname: harness\ndescription: ")


def test_the_exit_codes_of_the_skill_are_those_of_the_product() -> None:
    from agent_harness.errors import EXIT_CODES

    table = SKILL.split("## Exit codes")[1].split("## Rules")[0]
    assert {int(found) for found in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)} == {
        code for code, _ in EXIT_CODES if code != 130
    }
