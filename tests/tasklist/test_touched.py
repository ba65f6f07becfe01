"""Writes of a claim: all that it changed. Tasks are named when they are changed, and nothing is left behind."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest

from agent_harness.errors import HarnessError
from agent_harness.kernel.json import jsontext
from agent_harness.protocols.tasklist.claims import claim
from agent_harness.protocols.tasklist.claims.caller import Caller, checkpoint, renew
from agent_harness.protocols.tasklist.store import TaskListChange, TaskStore
from agent_harness.testing.task_list_project import TaskListProject, after, task

T = TypeVar("T")
OLD = {"claimed_by": "gone", "claimed_at": "2026-02-01T00:00:00Z", "lease_expires_at": "2026-02-01T01:00:00Z"}


class Watching(TaskStore):
    """A store that remembers what the last change made of the state."""

    raw: dict[str, Any] | None = None

    def change(self, act: Callable[[TaskListChange], T]) -> T:
        def watched(change: TaskListChange) -> T:
            self.raw = change.state.raw
            return act(change)

        return super().change(watched)


def some_tasks(dice: random.Random) -> list[Any]:
    """Tasks in every state that a claim clears up: left behind, blocked, in a circle, tried before."""
    tasks: list[Any] = []
    for number in range(dice.randrange(2, 40)):
        name = f"t{number}"
        needs = [f"t{dice.randrange(number + 1 if dice.random() < 0.1 else max(number, 1))}"] if number else []
        made = task(name, depends_on=needs if dice.random() < 0.5 else [], attempts=dice.randrange(4))
        status = dice.choice(["pending", "pending", "completed", "failed", "in_progress"])
        made |= {"status": status, **(OLD if status == "in_progress" else {})}
        tasks.append(made if dice.random() < 0.95 else "no task")
    return tasks


def is_all_written(project: TaskListProject, caller: Caller) -> bool:
    """Return True if the file holds the state at the end of the change."""
    store = caller.store
    assert isinstance(store, Watching)
    return jsontext.line(jsontext.loads(project.text)) == jsontext.line(store.raw)


@pytest.mark.parametrize("seed", range(25))
def test_the_file_holds_all_that_a_claim_changed(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    project = TaskListProject.at_noon(
        tmp_path / "list", *some_tasks(dice), mode=dice.choice(["exclusive", "concurrent"]), max_tasks=0
    )
    for seconds in (0, 60, 4000):
        project.now = after(seconds)
        caller = project.caller()
        caller.store = Watching(project.layout, now=project.now)
        before = project.text
        try:
            won = claim.claim(caller)
        except HarnessError:
            assert project.text == before or is_all_written(project, caller)
            continue
        assert is_all_written(project, caller)
        assert jsontext.dumps(jsontext.loads(project.text)) == project.text
        caller.token = won["token"]
        renew(caller, won["task_id"], lease_seconds=3000 + seconds)
        assert is_all_written(project, caller)
        checkpoint(caller, won["task_id"], 1, 2, "half of it")
        assert is_all_written(project, caller)


def test_a_claim_leaves_the_layout_of_other_tasks_alone(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list", task("a"), task("b"))
    by_hand = '{"id": "b",   "title": "By hand", "cost": 1.10, "status": "pending"}'
    text = project.text[: project.text.rindex("    {")] + f"    {by_hand}\n  ]\n}}\n"
    Path(project.layout.tasks).write_text(text)
    project.claim()
    assert by_hand in project.text
    assert Path(project.layout.backup).read_text() == text
    assert [project.task("a").status, project.task("b").status] == ["in_progress", "pending"]


def test_what_somebody_writes_after_a_look_is_seen_by_the_change(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list", task("a"))
    store = project.store
    assert store.look().by_id["a"].title == "Title of a"
    project.edit("a", title="by hand")

    def act(change: TaskListChange) -> str:
        change.touch(change.state.by_id["a"])
        return change.state.by_id["a"].title

    assert store.change(act) == "by hand"
    assert store.change(act) == "by hand"
    assert project.raw["revision"] == 2


def test_a_change_of_a_task_that_was_not_named_counts_where_none_was(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list", task("a"), task("b"))

    def act(change: TaskListChange) -> None:
        change.touch(change.state.by_id["a"])
        change.state.by_id["b"].raw["checkpoints"].append({"step": 1})
        change.touch()

    project.store.change(act)
    assert project.raw["tasks"][1]["checkpoints"] == [{"step": 1}]
