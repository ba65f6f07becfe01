"""Number of attempts that a session of a worker may end, if several workers share a list."""

from pathlib import Path
from typing import Any

import pytest

from agent_harness.errors import LimitReached
from agent_harness.protocols.tasklist.attempts import verbs
from agent_harness.protocols.tasklist.claims import claim, leases, sessions
from agent_harness.testing.task_list_project import NOON, TaskListProject, after, state_of, task


def shared(path: Path, limit: int = 2, **members: Any) -> TaskListProject:
    config = {"session_config": {"concurrency_mode": "concurrent", "max_tasks_per_session": limit}}
    return TaskListProject.at_noon(path / "list", *(task(f"task-{n}") for n in range(1, 7)), **config, **members)


def finish(project: TaskListProject, name: str, session: str, *, fails: bool = False) -> None:
    caller = project.caller(name, session=session)
    won = claim.claim(caller)
    caller.token = won["token"]
    if fails:
        verbs.fail(caller, won["task_id"], "TEST_FAIL", "no")
    else:
        verbs.complete(caller, won["task_id"])


def refused(project: TaskListProject, name: str, session: str) -> bool:
    try:
        claim.preview(project.caller(name, session=session), project.store.read(), NOON)
    except LimitReached as error:
        return "max_tasks_per_session" in error.message
    return False


def test_the_session_of_another_worker_changes_nothing(tmp_path: Path) -> None:
    """The limit belongs to the worker's own session, not to the last one that anybody started (tasklist.md 6.2)."""
    project = shared(tmp_path)
    sessions.start(project.caller("w1", session="s1"))
    finish(project, "w1", "s1")
    sessions.start(project.caller("w2", session="s2"))  # the count of all sessions goes up
    finish(project, "w1", "s1")
    assert (refused(project, "w1", "s1"), refused(project, "w2", "s2")) == (True, False)
    finish(project, "w2", "s2")
    assert not refused(project, "w2", "s2")


def test_every_attempt_counts_also_of_one_task(tmp_path: Path) -> None:
    """Failures too, each time (tasklist.md 6.2)."""
    project = shared(tmp_path)
    project.edit(tasks=[task("task-1")])
    sessions.start(project.caller("w1", session="s1"))
    for _ in range(2):
        finish(project, "w1", "s1", fails=True)
    assert refused(project, "w1", "s1")


@pytest.mark.parametrize("how", ["started again", "another client session"])
def test_a_new_session_begins_at_nothing(tmp_path: Path, how: str) -> None:
    """The task counter is reset at a session's start (tasklist.md 12.2)."""
    project = shared(tmp_path, limit=1)
    sessions.start(project.caller("w1", session="s1"))
    finish(project, "w1", "s1")
    assert refused(project, "w1", "s1")
    if how == "started again":
        sessions.end(project.caller("w1", session="s1"))
        sessions.start(project.caller("w1", session="s1"))
        assert not refused(project, "w1", "s1")
    else:
        assert not refused(project, "w1", "s9")


def test_records_are_read_whatever_they_hold_and_old_ones_are_forgotten(tmp_path: Path) -> None:
    """Records that somebody wrote there by hand do no harm, and the list does not grow for ever."""
    caller = shared(tmp_path).caller("w1", session="s1")
    for odd in (5, [1], {"w1": 3}, {"w1": {"owner": "s1", "outcomes": "x"}}, {"w1": {"owner": 7}}):
        state = state_of(worker_sessions=odd, session_config={"concurrency_mode": "concurrent"})
        assert leases.outcomes(state, caller) == 0
        leases.count_outcome(state, caller, NOON)
        assert leases.outcomes(state, caller) == 1
    state = state_of(session_config={"concurrency_mode": "concurrent"})
    leases.count_outcome(state, caller, NOON)
    other = shared(tmp_path / "other").caller("w2", session="s2")
    leases.begin_outcomes(state, other, after(8 * 86_400))
    assert [*state.raw["worker_sessions"]] == ["w2"]
