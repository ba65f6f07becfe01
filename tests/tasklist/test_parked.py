"""A task that waits for a person is shown as that, with the attempts that were made; the file has none left."""

import json
from pathlib import Path

import pytest

from agent_harness.testing.task_list_project import TaskListProject, task

QUESTION = "a: the check already passes and nothing was changed: was the item already done?"


@pytest.fixture
def parked(tmp_path: Path) -> TaskListProject:
    """A list whose task passed before, and whose agent changed nothing."""
    config = {"isolation": "worktree", "fix_rounds": 0}
    work = TaskListProject(tmp_path / "list", task("a"), git=True, session_count=0, session_config=config)
    ran = work.harness("run", "--agent", work.agent("true"))
    assert (ran.code, work.task("a").raw["attempts"]) == (3, 3), ran
    return work


def test_it_is_parked_and_not_failed(parked: TaskListProject) -> None:
    shown = parked.harness("status").out
    assert f"[parked] a: Title of a (1/3): {QUESTION}" in shown
    assert "Tasks: 0 completed, 0 failed, 0 in progress, 0 pending, 0 blocked, 1 parked, 1 in all" in shown
    (row,) = json.loads(parked.harness("status", "--json").out)["tasks"]
    assert (row["status"], row["state"], row["attempts"], row["max_attempts"]) == ("failed", "needs you", 1, 3)
    assert row["question"] == QUESTION
    assert any("attempts_total=1 " in line for line in parked.log())


def test_the_attempt_after_it_is_the_second_one(parked: TaskListProject) -> None:
    done = parked.harness("task", "accept", "a")
    assert (done.code, json.loads(done.out)["attempts"]) == (0, 2), done
    assert "[completed] a: Title of a (2/3)" in parked.harness("status").out
