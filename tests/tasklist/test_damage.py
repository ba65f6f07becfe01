"""A damaged state: the backup takes its place, and the log tells what it did not know yet."""

import threading
from pathlib import Path
from typing import Any

import pytest

from agent_harness.errors import StateDamaged
from agent_harness.protocols.tasklist import damage
from agent_harness.protocols.tasklist.attempts import verbs
from agent_harness.protocols.tasklist.store import TaskListChange
from agent_harness.protocols.tasklist.workers import sessions

from .desk import Desk, after, task
from .test_claims import claimed


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "list", task("a"), task("b"), extra={"mine": 1})


def broken(desk: Desk) -> dict[str, Any] | None:
    Path(desk.layout.tasks).write_text('{"tasks": [')
    return damage.restore_if_needed(desk.worker("mender"))


def test_a_whole_state_is_left_alone(desk: Desk) -> None:
    before = desk.files()
    assert damage.restore_if_needed(desk.worker()) is None
    assert desk.files() == before


def test_the_damaged_file_is_kept_and_the_log_says_why(desk: Desk) -> None:
    desk.change(lambda change: None)
    answer = broken(desk)
    assert answer
    assert Path(answer["kept"]).read_text() == '{"tasks": ['
    assert ".corrupt." in answer["kept"]
    assert desk.raw["extra"] == {"mine": 1}
    assert desk.log()[-1].startswith('[SESSION-1] RECOVERY action="restored from .bak" reason="')


@pytest.mark.parametrize("backup", [None, "", "{", "[]", '{"tasks": 5}'])
def test_without_a_good_backup_nothing_is_done(desk: Desk, backup: str | None) -> None:
    if backup is not None:
        Path(desk.layout.backup).write_text(backup)
    before = desk.files()
    for _ in range(2):
        with pytest.raises(StateDamaged, match="unrecoverable"):
            broken(desk)
    after_all = desk.files()
    assert after_all.pop("harness-progress.txt").count(b"\n") == 1
    assert after_all.pop("harness-tasks.json") == b'{"tasks": ['
    before.pop("harness-tasks.json")
    assert after_all == before


def test_a_task_that_was_just_given_away_is_in_progress_again(desk: Desk) -> None:
    desk.claim()
    assert broken(desk) | {"kept": 0, "reason": 0} == {"kept": 0, "reason": 0, "replayed": ["a"]}  # type: ignore[operator]
    found = desk.task("a")
    assert (found.status, found.claimed_by, desk.task("b").status) == ("in_progress", "unknown", "pending")
    assert found.lease


def test_a_task_that_was_just_completed_is_proven_again(desk: Desk) -> None:
    desk.edit("a", validation={"command": "test -e proof"})
    (desk.root / "proof").touch()
    verbs.complete(desk.claim(), "a")
    broken(desk)
    assert desk.task("a").status == "in_progress"
    (desk.root / "proof").unlink()
    desk.now = after(3600)
    found = sessions.start(desk.worker("mender", session="s2"))["recovered"]
    assert [each["action"] for each in found] == ["failed"]
    assert desk.task("a").status == "failed"


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
def test_what_the_log_says_of_a_task_in_progress(desk: Desk, line: str, status: str, attempts: int) -> None:
    desk.edit("a", **claimed("w"))
    desk.log("[2026-03-01T12:00:00Z] [SESSION-1] Starting [a] x (base=none)")
    desk.change(lambda change: None)
    desk.log(f"[2026-03-01T12:01:00Z] [SESSION-1] {line}")
    broken(desk)
    assert (desk.task("a").status, desk.task("a").attempts) == (status, attempts)


@pytest.mark.parametrize(
    ("failed_at", "status"), [("2026-03-01T12:00:00Z", "in_progress"), ("2026-03-01T12:02:00.500Z", "failed")]
)
def test_a_line_that_is_older_than_the_backup_changes_nothing(desk: Desk, failed_at: str, status: str) -> None:
    desk.edit("a", status="failed", attempts=1, failed_at=failed_at)
    desk.log("[2026-03-01T12:01:00Z] [SESSION-1] Starting [a] x (base=abc1234)")
    desk.change(lambda change: None)
    broken(desk)
    found = desk.task("a")
    assert (found.status, found.attempts) == (status, 1)
    assert found.started_at_commit == ("abc1234" if status == "in_progress" else None)


def test_a_completed_task_stays_completed(desk: Desk) -> None:
    desk.edit("a", status="completed", attempts=1)
    desk.log("[2026-03-01T12:01:00Z] [SESSION-1] Starting [a] x (base=none)")
    desk.change(lambda change: None)
    broken(desk)
    assert desk.task("a").status == "completed"


def test_two_that_restore_at_once_restore_once(desk: Desk) -> None:
    desk.change(lambda change: None)
    Path(desk.layout.tasks).write_text("{")
    found: list[dict[str, Any] | None] = []

    def restore() -> None:
        found.append(damage.restore_if_needed(desk.worker("w", lock_timeout_seconds=30)))

    def edit(change: TaskListChange) -> None:
        change.state.raw["new"] = 1

    with desk.store.lock():
        threads = [threading.Thread(target=restore) for _ in range(4)]
        for each in threads:
            each.start()
    for each in threads:
        each.join()
    assert sum(each is not None for each in found) == 1
    desk.change(edit)
    assert len([each for each in desk.files() if ".corrupt." in each]) == 1
