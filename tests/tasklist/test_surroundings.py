"""Installed files where validations run, over the tasks of one run and from one run to the next."""

import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_harness.testing.task_list_project import TaskListProject, task

CHANGED = "Files that run the tests changed during the session"
Make = Callable[..., TaskListProject]


@pytest.fixture
def make(tmp_path: Path) -> Make:
    def made(*commands: str, **settings: object) -> TaskListProject:
        """A list of tasks a, b, … with these validations, in a repository with an environment of its own."""
        jobs = [task(name, validation={"command": each}) for name, each in zip("abcd", commands, strict=False)]
        work = TaskListProject(tmp_path / "list", *jobs, git=True, session_count=0)
        settings = {"max_tasks_per_session": 0, "fix_rounds": 0, "isolation": "in_place", **settings}
        work.edit(session_config={**work.raw["session_config"], **settings})
        venv.create(work.root / ".venv", symlinks=True)
        work.repo.ignore(".venv/")
        return work

    return made


def asks(name: str) -> str:
    """A validation that starts the interpreter of the project's environment."""
    return f".venv/bin/python -c \"import sys; sys.exit('{name}' not in open('work.txt').read())\""


def site(work: TaskListProject) -> Path:
    return next((work.root / ".venv/lib").glob("python*/site-packages"))


def ran(work: TaskListProject, planted_by: str = "", *words: str) -> dict[str, str]:
    """The state of each task after a run, whose agent does its work and in one task plants a file beside it."""
    plants = f'[ $HARNESS_TASK_ID != "{planted_by}" ] || echo "x = 1" > {site(work)}/sitecustomize.py'
    work.harness("run", "--agent", work.agent(f"echo $HARNESS_TASK_ID >> work.txt\n{plants}"), *words)
    return {each["id"]: each["status"] for each in work.raw["tasks"]}


def said(work: TaskListProject, name: str) -> bool:
    return any(f"[{name}]" in line and CHANGED in line for line in work.log())


def test_a_later_task_of_a_run_changes_what_runs_tests(make: Make) -> None:
    work = make(*map(asks, "abc"))
    assert ran(work, "b") == {"a": "completed", "b": "failed", "c": "failed"}
    assert [said(work, name) for name in "abc"] == [False, True, True]


def test_what_is_changed_where_nothing_installed_has_a_part_is_found_by_the_next_task_that_runs_something(
    make: Make,
) -> None:
    work = make("test -s work.txt", "grep -q b work.txt && ! test -e odd", asks("c"))
    assert ran(work, "a") == {"a": "completed", "b": "completed", "c": "failed"}
    assert said(work, "c")


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_so_does_the_next_run(make: Make) -> None:
    work = make("test -s work.txt", asks("b"))
    assert ran(work, "a", "--max-tasks", "1")["a"] == "completed"
    assert ran(work)["b"] == "failed"
    assert said(work, "b")


@pytest.mark.kept("1")
@pytest.mark.parametrize("runs", [1, pytest.param(2, marks=pytest.mark.scenario)])
def test_what_a_judged_command_itself_changes_is_a_change_for_the_next_task(
    make: Make, monkeypatch: pytest.MonkeyPatch, runs: int
) -> None:
    monkeypatch.setenv("HARNESS_SANDBOX", "off")
    work = make(
        "for each in .venv/lib/python*/site-packages; do echo 'x = 1' > $each/sitecustomize.py; done",
        asks("b"),
        requires_red="off",
    )
    words = ("--max-tasks", "1") if runs == 2 else ()
    found = [ran(work, "", *words) for _ in range(runs)]
    assert found[-1] == {"a": "completed", "b": "failed"}
    assert said(work, "b")


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_a_person_changes_between_two_runs_is_no_agents_doing(make: Make) -> None:
    work = make(asks("a"), asks("b"))
    assert ran(work, "", "--max-tasks", "1")["a"] == "completed"
    (site(work) / "sitecustomize.py").write_text("x = 1\n")
    assert ran(work)["b"] == "completed"


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_a_cleanup_changes_after_the_last_look_is_a_change_for_the_next_task(make: Make) -> None:
    """A cleanup runs what the agent has left in ignored files, after the proof of its attempt."""
    work = make(asks("no such word"), asks("b"), isolation="worktree")
    (work.root / "own.sh").write_text("true\n")
    work.repo.ignore(".venv/\nown.sh")
    work.edit("a", max_attempts=1, on_failure={"cleanup": "sh own.sh"})
    work.edit("b", max_attempts=1)
    plant = f"echo 'x = 1' > {site(work)}/sitecustomize.py"
    work.harness("run", "--agent", work.agent(f'echo $HARNESS_TASK_ID >> work.txt; echo "{plant}" > own.sh'))
    assert {each["id"]: each["status"] for each in work.raw["tasks"]} == {"a": "failed", "b": "failed"}
    assert said(work, "b")
