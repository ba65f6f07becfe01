"""Proof of a task: how it runs, what it is told, what is remembered."""

from pathlib import Path
from typing import Any

import pytest

from agent_harness.errors import LeaseLost
from agent_harness.kernel import lease
from agent_harness.protocols.tasklist.attempts import commits, validation
from agent_harness.protocols.tasklist.claims.caller import Caller
from agent_harness.protocols.tasklist.records import Task
from agent_harness.testing.task_list_project import TASK, TaskListProject


def run(caller: Caller, task: Task) -> dict[str, Any]:
    """The judge's answer on the work as it is now."""
    with commits.opened(caller, task) as work:
        return validation.run(caller, task, work).as_record()


def still_proven(caller: Caller, task: Task) -> bool:
    """Return True if this claim has a pass on record for the work as it is now."""
    with commits.opened(caller, task) as work:
        return bool(validation.proof_on_record(caller, task, work))


def claimed(tmp_path: Path, command: str | None, *, seconds: float = 600.0) -> tuple[TaskListProject, Caller]:
    project = TaskListProject.with_sources(tmp_path).add(validation=command)
    return project, project.hold(seconds=seconds)


def test_a_pass(tmp_path: Path) -> None:
    project, caller = claimed(tmp_path, "cat app.py; echo last >&2")
    found = run(caller, project.task())
    assert (found["result"], found["exit"], found["tail"]) == ("PASS", 0, ["one", "last"])
    assert Path(found["log"]).read_text() == "one\nlast\n"
    assert found["log"] == project.layout.validation_log(TASK, 1)
    assert found["tree"] == project.repo.git("rev-parse", "HEAD^{tree}")


def test_a_fail_and_its_tail(tmp_path: Path) -> None:
    project, caller = claimed(tmp_path, "seq 1 30000; exit 3")
    found = run(caller, project.task())
    assert (found["result"], found["exit"]) == ("FAIL", 3)
    assert found["tail"] == [str(number) for number in range(29961, 30001)]
    assert Path(found["log"]).stat().st_size == 64 << 10


def test_a_timeout_ends_everything(tmp_path: Path) -> None:
    project, caller = claimed(tmp_path, "sleep 1000 & sleep 1000")
    project.edit(TASK, validation={"command": "sleep 1000 & sleep 1000", "timeout_seconds": 0.3})
    found = run(caller, project.task())
    assert (found["result"], found["exit"]) == ("TIMEOUT", None)


def test_no_secret_reaches_the_command_or_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_CLAIM_TOKEN", "claim-token-of-this-test")
    monkeypatch.setenv("MY_API_KEY", "key-of-this-test-0123456789")
    project, caller = claimed(tmp_path, "env; echo PASSWORD=hunter2hunter2")
    found = run(caller, project.task())
    text = Path(found["log"]).read_text()
    assert "of-this-test" not in text
    assert "hunter2" not in text


@pytest.mark.parametrize("command", [None, "", "  \n"])
def test_no_command_is_a_mistake_in_the_list(tmp_path: Path, command: str | None) -> None:
    project, caller = claimed(tmp_path, command)
    with pytest.raises(validation.MissingCommand, match=r"no validation.command in harness-tasks.json"):
        run(caller, project.task())


def test_a_program_that_is_missing_is_the_environment(tmp_path: Path) -> None:
    project, caller = claimed(tmp_path, "no-such-program-anywhere --version")
    with pytest.raises(validation.ProgramMissing, match="no-such-program-anywhere"):
        run(caller, project.task())


@pytest.mark.parametrize("command", ["X=1 true", "{ true; }", "(true)", "cd lib && test -f b.py", "! false", "./go"])
def test_shell_syntax_is_left_to_the_shell(tmp_path: Path, command: str) -> None:
    project, caller = claimed(tmp_path, command)
    project.repo.write("go", "#!/bin/sh\n", executable=True)
    assert run(caller, project.task())["result"] == "PASS"


def test_a_pass_is_believed_while_nothing_changes(tmp_path: Path) -> None:
    project, caller = claimed(tmp_path, "echo x > made-by-the-run")
    assert not still_proven(caller, project.task())
    run(caller, project.task())
    assert still_proven(caller, project.task())
    project.repo.write("app.py", "changed")
    assert not still_proven(caller, project.task())


def test_a_pass_of_another_command_or_claim_proves_nothing(tmp_path: Path) -> None:
    project, caller = claimed(tmp_path, "true")
    run(caller, project.task())
    project.edit(TASK, validation={"command": "test 1 = 1"})
    assert not still_proven(caller, project.task())
    project.edit(TASK, validation={"command": "true"}, claim_token=lease.new_token())
    assert not still_proven(caller, project.task())


def test_a_failure_proves_nothing(tmp_path: Path) -> None:
    project, caller = claimed(tmp_path, "false")
    run(caller, project.task())
    assert not still_proven(caller, project.task())


def test_the_lease_is_renewed_while_it_runs(tmp_path: Path) -> None:
    command = f"until grep -q renewed {tmp_path}/seen; do sleep 0.05; done"
    project, caller = claimed(tmp_path, command, seconds=3.0)
    before = project.task().raw["lease_expires_at"]
    watch = (
        f'(while grep -q \'"lease_expires_at": "{before}"\' {project.layout.tasks}; do sleep 0.05; done; '
        f"echo renewed > {tmp_path}/seen) & wait"
    )
    project.edit(TASK, validation={"command": watch, "timeout_seconds": 60})
    assert run(caller, project.task())["result"] == "PASS"
    assert project.task().raw["lease_expires_at"] > before


def test_a_claim_that_was_lost_ends_the_command(tmp_path: Path) -> None:
    project, caller = claimed(tmp_path, "true", seconds=0.6)
    project.edit(TASK, validation={"command": f"echo x > {tmp_path}/began; sleep 1000", "timeout_seconds": 1000})
    task = project.task()
    project.edit(TASK, claim_token=lease.new_token())
    with pytest.raises(LeaseLost):
        run(caller, task)


def test_it_runs_where_the_task_list_is(tmp_path: Path) -> None:
    project = TaskListProject.with_sources(tmp_path, root=tmp_path / "project" / "lib").add(validation="test -f b.py")
    assert run(project.hold(cwd=project.root), project.task())["result"] == "PASS"


def test_outside_of_git(tmp_path: Path) -> None:
    project = TaskListProject.with_sources(tmp_path, git=False).add(validation="test -f harness-tasks.json")
    caller = project.hold()
    found = run(caller, project.task())
    assert (found["result"], found["tree"]) == ("PASS", None)
    assert not still_proven(caller, project.task())
