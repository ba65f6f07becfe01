"""The needs of a person, as every view shows them, by the facts."""

from pathlib import Path

import pytest

from agent_harness.session import needs
from agent_harness.testing.task_list_project import TaskListProject, task


@pytest.mark.parametrize(
    ("done", "is_for_a_person"),
    [
        ({"exit_code": 0, "reason": "done"}, False),
        ({"exit_code": 1, "reason": "failed"}, False),
        ({"exit_code": 1, "reason": "agent_fails"}, True),
        ({"exit_code": 1, "sessions": [{"reason": "error", "told": "exit status 1"}]}, True),
        ({"exit_code": 1, "sessions": [{"reason": "budget"}]}, False),
        ({"exit_code": 3, "reason": "branch_gone"}, True),
        ({"exit_code": 4, "reason": "disk_full"}, True),
        ({"exit_code": 5, "reason": "rate_limited"}, False),
        ({"exit_code": 5, "reason": "busy"}, False),
        ({"exit_code": 5, "reason": "session_held"}, True),
        ({"exit_code": 5, "reason": "landing_blocked"}, True),
        ({"exit_code": 6, "reason": "state_damaged"}, True),
        ({"exit_code": 9, "reason": "max_tasks"}, False),
        ({"exit_code": 9, "reason": "budget"}, True),
        ({"exit_code": 130, "reason": "user_pause"}, False),
    ],
)
def test_why_a_run_ended_is_a_persons_to_remove_by_its_class(done: dict[str, object], is_for_a_person: bool) -> None:
    assert bool(needs.end_of({**done, "message": "why", "hint": "git status"})) is is_for_a_person


def test_what_was_asked_is_not_said_twice_and_everything_has_its_command() -> None:
    end = needs.end_of({"exit_code": 3, "reason": "parked", "message": "a waits", "hint": None})
    assert [*map(str, needs.of([("halted: a waits", "harness resume")], last_run=end))] == [
        "halted: a waits (harness resume)"
    ]
    end = needs.end_of({"exit_code": 4, "reason": "x", "message": "no room", "hint": "df -h ."})
    found = needs.of([], held=["a"], looks=["1"], handed=True, failed=[*"abcdefg"], last_run=end, named="#{}".format)
    assert [*map(str, found)] == [
        "the last run ended: no room (df -h .)",
        "#a is held and will not be merged (harness queue release a)",
        "verify manually: #1 (harness manual-verify)",
        "you have taken over the project (harness hand-back)",
        "7 failed for good: #a, #b, #c, #d, #e and 2 more (harness task reset --failed)",
    ]


def test_a_reason_that_a_person_removes_is_said_by_run_and_status_until_the_next_run(tmp_path: Path) -> None:
    """W3: git is in the middle of a merge; the next command ends it, not a run that stops again for it."""
    work = TaskListProject(tmp_path / "list", task("task-001", validation={"command": "test -f made"}), git=True)
    work.repo.git("checkout", "-qb", "other")
    work.repo.write("app.py", "theirs\n").commit("Theirs")
    work.repo.git("checkout", "-q", "main")
    work.repo.write("app.py", "ours\n").commit("Ours")
    work.repo.git("merge", "other", check=False)
    assert work.harness("run", "--agent", work.agent("touch made")).code == 4
    said = work.harness("status").out
    assert "needs you  the last run ended: git is in the middle of a merge" in said
    assert "git merge --abort" in next(line for line in said.splitlines() if line.startswith("next "))
    assert work.harness("status", "--json").json["needs"][0]["command"].endswith("git merge --abort")
    work.repo.git("merge", "--abort")
    assert work.harness("run", "--agent", work.agent("touch made")).code == 0
    assert "needs you  nothing" in work.harness("status").out
