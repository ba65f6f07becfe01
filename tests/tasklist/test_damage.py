"""A damaged state: the backup takes its place, and the log tells what it did not know yet."""

import threading
from pathlib import Path
from typing import Any

import pytest

from agent_harness.errors import StateDamaged
from agent_harness.protocols.tasklist import recovery
from agent_harness.protocols.tasklist.attempts import verbs
from agent_harness.protocols.tasklist.claims import sessions
from agent_harness.protocols.tasklist.store import TaskListChange
from agent_harness.testing.task_list_project import TaskListProject, after, task

from .test_claims import claimed


@pytest.fixture
def project(tmp_path: Path) -> TaskListProject:
    return TaskListProject.at_noon(tmp_path / "list", task("a"), task("b"), extra={"mine": 1})


def broken(project: TaskListProject) -> dict[str, Any] | None:
    Path(project.layout.tasks).write_text('{"tasks": [')
    return recovery.restore_if_needed(project.caller("mender"))


def test_a_whole_state_is_left_alone(project: TaskListProject) -> None:
    before = project.files()
    assert recovery.restore_if_needed(project.caller()) is None
    assert project.files() == before


def test_the_damaged_file_is_kept_and_the_log_says_why(project: TaskListProject) -> None:
    project.change(lambda change: None)
    answer = broken(project)
    assert answer
    assert Path(answer["kept"]).read_text() == '{"tasks": ['
    assert ".corrupt." in answer["kept"]
    assert project.raw["extra"] == {"mine": 1}
    assert project.log()[-1].startswith('[SESSION-1] RECOVERY action="restored from .bak" reason="')


@pytest.mark.parametrize("backup", [None, "", "{", "[]", '{"tasks": 5}'])
def test_without_a_good_backup_nothing_is_done(project: TaskListProject, backup: str | None) -> None:
    if backup is not None:
        Path(project.layout.backup).write_text(backup)
    before = project.files()
    for _ in range(2):
        with pytest.raises(StateDamaged, match="unrecoverable"):
            broken(project)
    after_all = project.files()
    assert after_all.pop("harness-progress.txt").count(b"\n") == 1
    assert after_all.pop("harness-tasks.json") == b'{"tasks": ['
    before.pop("harness-tasks.json")
    assert after_all == before


def test_a_task_that_was_just_given_away_is_in_progress_again(project: TaskListProject) -> None:
    project.claim()
    assert broken(project) | {"kept": 0, "reason": 0} == {"kept": 0, "reason": 0, "replayed": ["a"]}  # type: ignore[operator]
    found = project.task("a")
    assert (found.status, found.claimed_by, project.task("b").status) == ("in_progress", "unknown", "pending")
    assert found.lease


def test_a_task_that_was_just_completed_is_proven_again(project: TaskListProject) -> None:
    project.edit("a", validation={"command": "test -e proof"})
    (project.root / "proof").touch()
    verbs.complete(project.claim(), "a")
    broken(project)
    assert project.task("a").status == "in_progress"
    (project.root / "proof").unlink()
    project.now = after(3600)
    found = sessions.start(project.caller("mender", session="s2"))["recovered"]
    assert [each["action"] for each in found] == ["failed"]
    assert project.task("a").status == "failed"


@pytest.mark.parametrize(
    ("line", "status", "attempts"),
    [
        ("ERROR [a] [TEST_FAIL] no", "failed", 1),
        ("ERROR [a] [CONFIG] Missing validation.command", "in_progress", 0),
        ("ERROR [a] [ENV_SETUP] npm is missing", "in_progress", 0),
        ("Completed [a] (commit 123)", "in_progress", 0),
        ("CHECKPOINT [a] step=1/2", "in_progress", 0),
        ("free text", "in_progress", 0),
    ],
)
def test_what_the_log_says_of_a_task_in_progress(
    project: TaskListProject, line: str, status: str, attempts: int
) -> None:
    project.edit("a", **claimed("w"))
    project.log("[2026-03-01T12:00:00Z] [SESSION-1] Starting [a] x (base=none)")
    project.change(lambda change: None)
    project.log(f"[2026-03-01T12:01:00Z] [SESSION-1] {line}")
    broken(project)
    assert (project.task("a").status, project.task("a").attempts) == (status, attempts)


@pytest.mark.parametrize(
    ("failed_at", "status"), [("2026-03-01T12:00:00Z", "in_progress"), ("2026-03-01T12:02:00.500Z", "failed")]
)
def test_a_line_that_is_older_than_the_backup_changes_nothing(
    project: TaskListProject, failed_at: str, status: str
) -> None:
    project.edit("a", status="failed", attempts=1, failed_at=failed_at)
    project.log("[2026-03-01T12:01:00Z] [SESSION-1] Starting [a] x (base=abc1234)")
    project.change(lambda change: None)
    broken(project)
    found = project.task("a")
    assert (found.status, found.attempts) == (status, 1)
    assert found.started_at_commit == ("abc1234" if status == "in_progress" else None)


def test_a_completed_task_stays_completed(project: TaskListProject) -> None:
    project.edit("a", status="completed", attempts=1)
    project.log("[2026-03-01T12:01:00Z] [SESSION-1] Starting [a] x (base=none)")
    project.change(lambda change: None)
    broken(project)
    assert project.task("a").status == "completed"


def test_two_that_restore_at_once_restore_once(project: TaskListProject) -> None:
    project.change(lambda change: None)
    Path(project.layout.tasks).write_text("{")
    found: list[dict[str, Any] | None] = []

    def restore() -> None:
        found.append(recovery.restore_if_needed(project.caller("w", lock_timeout_seconds=30)))

    def edit(change: TaskListChange) -> None:
        change.state.raw["new"] = 1

    with project.store.lock():
        threads = [threading.Thread(target=restore) for _ in range(4)]
        for each in threads:
            each.start()
    for each in threads:
        each.join()
    assert sum(each is not None for each in found) == 1
    project.change(edit)
    assert len([each for each in project.files() if ".corrupt." in each]) == 1
