"""The claim is the gate: what it gives, to whom, and when it gives nothing."""

import copy
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from agent_harness.errors import (
    Busy,
    HarnessError,
    LeaseLost,
    LimitReached,
    NothingEligible,
    NotOwner,
    PersonNeeded,
    Refused,
    SessionHeld,
    StateDamaged,
    UsageError,
)
from agent_harness.kernel import owner
from agent_harness.protocols.tasklist.attempts import verbs
from agent_harness.protocols.tasklist.claims import claim
from agent_harness.protocols.tasklist.claims.caller import checkpoint, renew
from agent_harness.protocols.tasklist.store import TaskListChange
from agent_harness.testing.repo import Repo
from agent_harness.testing.task_list_project import NOON, TaskListProject, after, task

from .test_session_lease import LIVE, dead_process


@pytest.fixture
def project(tmp_path: Path) -> TaskListProject:
    return TaskListProject.at_noon(tmp_path / "list", task("a"), task("b"))


@pytest.fixture
def shared(tmp_path: Path) -> TaskListProject:
    return TaskListProject.at_noon(tmp_path / "list", task("a"), task("b"), mode="concurrent")


def claimed(by: str, **members: Any) -> dict[str, Any]:
    return {
        "status": "in_progress",
        "claimed_by": by,
        "claim_token": "t",
        "claimed_at": "2026-03-01T12:00:00Z",
        "lease_expires_at": "2026-03-01T12:30:00Z",
        "lease_seconds": 1800,
        **members,
    }


def refused(
    project: TaskListProject, error: type[HarnessError], *, name: str | None = "me", **words: Any
) -> HarnessError:
    """Return the error that a claim raises; the claim changes nothing."""
    before = project.files()
    with pytest.raises(error) as raised:
        claim.claim(project.caller(name), **words)
    assert type(raised.value) is error
    assert project.files() == before
    return raised.value


# ---- what it gives -------------------------------------------------------------------------------------------------


def test_a_claim_is_one_write_and_one_line(project: TaskListProject) -> None:
    answer = claim.claim(project.caller(), lease_seconds=60)
    found = project.task("a")
    assert project.raw["revision"] == 1
    assert found.raw == task("a") | {
        "status": "in_progress",
        "claimed_by": "me",
        "claimed_at": "2026-03-01T12:00:00Z",
        "claimed_session": 1,
        "claimed_process": found.raw["claimed_process"],
        "lease_expires_at": "2026-03-01T12:01:00Z",
        "lease_seconds": 60,
        "claim_token": found.claim_token,
        "worktree": str(project.root),
        "started_at_commit": None,
        "started_branch": None,
        "base_ref": None,
    }
    assert project.log() == ["[SESSION-1] Starting [a] Title of a (base=none)"]
    assert (answer["token"], answer["attempt"], answer["resumed"]) == (found.claim_token, 1, False)
    assert len(found.claim_token or "") == 32


def test_the_same_worker_gets_the_same_task_again_with_a_longer_lease(project: TaskListProject) -> None:
    first = claim.claim(project.caller())
    project.now = after(600)
    again = claim.claim(project.caller())
    assert (again["task_id"], again["token"], again["resumed"]) == ("a", first["token"], True)
    assert again["lease_expires_at"] == "2026-03-01T12:40:00Z"
    assert len(project.log()) == 1


def test_the_same_worker_gets_the_same_task_again_when_its_lease_is_unreadable(project: TaskListProject) -> None:
    first = claim.claim(project.caller())
    project.edit("a", lease_expires_at="soon")
    again = claim.claim(project.caller())
    assert (again["task_id"], again["token"], again["resumed"]) == ("a", first["token"], True)


def test_the_same_worker_begins_anew_once_its_lease_is_over(shared: TaskListProject) -> None:
    """Another worker could have had the task meanwhile."""
    first = claim.claim(shared.caller(), "a")
    shared.now = after(1836)
    again = claim.claim(shared.caller(), "a")
    assert (again["task_id"], again["attempt"], again["resumed"]) == ("a", 2, False)
    assert again["token"] != first["token"]


def test_a_worker_that_holds_a_task_gets_no_second_one(project: TaskListProject) -> None:
    project.claim()
    assert "you already have a in progress" in refused(project, Busy, task_id="b").message
    assert claim.claim(project.caller(), "a")["resumed"]


def test_a_named_task_is_given_or_the_reason_why_not(project: TaskListProject) -> None:
    more = [
        task("c", depends_on=["b"]),
        task("d", status="completed", depends_on=["gone"]),
        task("e", depends_on=["no"]),
    ]
    project.edit(tasks=[*project.raw["tasks"], *more, task("f", status="failed", attempts=3)])
    for name, said in (("c", "waits for b"), ("d", "completed"), ("e", "which is not a task"), ("f", "for good")):
        assert said in refused(project, NothingEligible, task_id=name).message
    assert "no task z" in refused(project, UsageError, task_id="z").message
    assert claim.claim(project.caller(), "b")["task_id"] == "b"


def test_in_concurrent_mode_each_worker_gets_its_own(shared: TaskListProject, tmp_path: Path) -> None:
    trees = [tmp_path / name for name in ("t1", "t2", "t3")]
    for each in trees:
        each.mkdir()
    found = [claim.claim(shared.caller(each.name, cwd=str(each)))["task_id"] for each in trees[:2]]
    assert found == ["a", "b"]
    with pytest.raises(NothingEligible) as raised:
        claim.claim(shared.caller("w3", cwd=str(trees[2])))
    assert "2 in progress by others" in raised.value.message
    assert raised.value.data["work_left"]


def test_a_base_is_named_in_the_log(tmp_path: Path) -> None:
    project = TaskListProject(tmp_path / "list", task("a"), git=True)
    project.claim()
    head = project.repo.head
    assert project.log() == [f"[SESSION-1] Starting [a] Title of a (base={head[:7]})"]
    found = project.task("a")
    assert (found.started_at_commit, found.started_branch) == (head, "refs/heads/main")
    assert project.repo.git("rev-parse", f"{found.base_ref}^1") == head


def test_an_unborn_branch_has_no_base(tmp_path: Path) -> None:
    project = TaskListProject(tmp_path / "list", task("a"), git=True)
    project.repo.git("update-ref", "-d", "HEAD")
    project.claim()
    assert (project.task("a").started_at_commit, project.task("a").base_ref) == (None, None)


def test_a_lost_race_gives_the_next_task_and_leaves_no_ref_behind(tmp_path: Path) -> None:
    project = TaskListProject(tmp_path / "list", task("a"), task("b"), git=True, mode="concurrent")

    def refs() -> list[str]:
        return project.repo.git("for-each-ref", "--format=%(refname)", "refs/harness/base").split()

    def give_away(change: TaskListChange) -> None:
        change.state.by_id["a"].raw.update(claimed("faster", worktree="/x", lease_expires_at="2099-01-01T00:00:00Z"))
        change.touch()

    won: list[dict[str, Any]] = []
    slow = threading.Thread(target=lambda: won.append(claim.claim(project.caller(lock_timeout_seconds=60))))
    with project.store.lock() as lock:
        slow.start()
        while not refs():  # it has prepared its way back, and waits for the lock
            time.sleep(0.01)
        project.store.change_under(lock, give_away)
    slow.join()
    assert won[0]["task_id"] == "b"
    assert refs() == [won[0]["base_ref"]]


# ---- when it gives nothing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "error", "said"),
    [
        (
            {"halt": {"category": "CONFIG", "message": "no command"}},
            PersonNeeded,
            "the task list is halted: CONFIG: no command",
        ),
        ({"session": LIVE | {"owner": "s9"}}, SessionHeld, "owner=s9"),
        ({"session_config": {"max_sessions": 1}}, LimitReached, "max_sessions"),
        ({"session_config": {"concurrency_mode": "concurrent"}}, UsageError, "missing HARNESS_WORKER_ID"),
        ({"tasks": []}, NothingEligible, "no tasks yet"),
        ({"tasks": [task("a", status="completed")]}, NothingEligible, "every task is completed"),
        ({"tasks": [task("a", status="failed", attempts=3)]}, NothingEligible, "1 failed for good"),
        ({"tasks": [task("a", depends_on=["x"])]}, NothingEligible, "a depends on x"),
        ({"tasks": 5}, StateDamaged, "no list of tasks"),
        ({"tasks": [task("a", **claimed("other"))]}, Busy, "a is in progress by other"),
    ],
)
def test_a_refusal_changes_nothing(
    project: TaskListProject, members: dict[str, Any], error: type[HarnessError], said: str
) -> None:
    project.edit(**members)
    name = None if error is UsageError else "me"
    assert said in refused(project, error, name=name).message
    with pytest.raises(error):
        claim.preview(project.caller(name), project.store.read(), NOON)


def test_a_pause_is_a_refusal(project: TaskListProject) -> None:
    Path(project.layout.pause).touch()
    assert refused(project, Busy).hint == "harness resume"


def test_one_work_tree_has_one_worker(shared: TaskListProject) -> None:
    Repo(shared.root, user_settings=True).write("app.py", "one\n").ignore(".harness*", "harness-*").commit("First")
    claim.claim(shared.caller("w1"))
    found = refused(shared, Refused, name="w2")
    assert found.code == "worktree_shared"


def test_a_folder_without_git_may_be_shared(shared: TaskListProject) -> None:
    first = claim.claim(shared.caller("w1"))
    assert not any("share this folder" in line for line in shared.log())
    second = claim.claim(shared.caller("w2"))
    assert (first["task_id"], second["task_id"]) == ("a", "b")
    said = [line for line in shared.log() if "share this folder" in line]
    assert len(said) == 1
    caller = shared.caller("w2")
    caller.token = second["token"]
    given = verbs.release(caller, "b", "later")
    assert given["rolled_back"] is False
    claim.claim(shared.caller("w2"))
    assert [line for line in shared.log() if "share this folder" in line] == said


def test_a_session_has_so_many_outcomes(project: TaskListProject) -> None:
    project.edit(session_config={"max_tasks_per_session": 1})
    verbs.fail(project.claim(), "a", "TEST_FAIL", "no")
    assert "max_tasks_per_session" in refused(project, LimitReached).message
    project.edit(session_count=2)
    assert claim.claim(project.caller())["task_id"] == "b"


def test_in_concurrent_mode_the_outcomes_of_a_worker_count(shared: TaskListProject) -> None:
    shared.edit(session_config={"max_tasks_per_session": 1, "concurrency_mode": "concurrent"})
    caller = shared.claim("w1")
    verbs.release(caller, "a", "later")
    caller = shared.claim("w1")  # what was given back is no outcome
    verbs.complete(caller, "a")
    refused(shared, LimitReached, name="w1")
    assert claim.claim(shared.caller("w2"))["task_id"] == "b"


def test_a_preview_says_what_a_claim_gives_and_writes_nothing(project: TaskListProject) -> None:
    project.edit(tasks=[task("a", depends_on=["a"]), task("b", priority="P0"), task("c", **claimed("x"))])
    project.now = after(3600)
    before = project.files()
    state = project.store.read()
    raw = copy.deepcopy(state.raw)
    assert claim.preview(project.caller(), state, after(3600)).id == "b"
    assert (state.raw, project.files()) == (raw, before)
    assert claim.claim(project.caller())["task_id"] == "b"


# ---- taking back ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("members", "at", "reaped"),
    [
        ({}, 0, False),
        ({}, 1829, False),
        ({}, 1836, True),  # 2 % of the lease
        ({"lease_seconds": 60, "lease_expires_at": "2026-03-01T12:01:00Z"}, 89, False),
        ({"lease_seconds": 60, "lease_expires_at": "2026-03-01T12:01:00Z"}, 90, True),
        ({"lease_expires_at": None}, 1835, False),
        ({"lease_expires_at": "soon"}, 1836, True),
        ({"lease_expires_at": None, "claimed_at": None}, 0, True),
    ],
)
def test_a_claim_without_a_sign_of_life_is_taken_back(
    shared: TaskListProject, members: dict[str, Any], at: float, reaped: bool
) -> None:
    shared.edit(tasks=[task("a", **claimed("w9", worktree="/elsewhere") | members), task("b", status="completed")])
    shared.now = after(at)
    if not reaped:
        refused(shared, NothingEligible)
        return
    answer = claim.claim(shared.caller())
    assert (answer["task_id"], answer["attempt"]) == ("a", 2)
    assert shared.raw["revision"] == 1
    assert shared.task("a").error_log == ["[SESSION_TIMEOUT] Lease expired (claimed_by=w9)"]
    assert shared.log()[0] == '[SESSION-1] RECOVERY [a] action="failed" reason="Lease expired (claimed_by=w9)"'


def test_a_claim_on_its_last_attempt_stays_failed_and_blocks(shared: TaskListProject) -> None:
    shared.edit(tasks=[task("a", attempts=2, **claimed("w9", worktree="/x")), task("b", depends_on=["a"]), task("c")])
    shared.now = after(3600)
    assert claim.claim(shared.caller())["task_id"] == "c"
    assert shared.statuses() == ["failed", "failed", "in_progress"]
    assert shared.log()[1] == "[SESSION-1] ERROR [b] [DEPENDENCY] Blocked by failed a"


def test_nothing_eligible_still_writes_down_what_was_found_hopeless(project: TaskListProject) -> None:
    project.edit(tasks=[task("a", depends_on=["a"])])
    with pytest.raises(NothingEligible):
        claim.claim(project.caller())
    assert project.task("a").error_log == ["[DEPENDENCY] Circular dependency detected: a -> a"]
    assert project.log() == ["[SESSION-1] ERROR [a] [DEPENDENCY] Circular dependency detected: a -> a"]


def test_in_exclusive_mode_a_dead_owner_is_taken_from_at_once(project: TaskListProject) -> None:
    project.edit("a", **claimed("w9", claimed_process=owner.current().as_record()))
    refused(project, Busy)
    project.edit("a", claimed_process=dead_process())
    answer = claim.claim(project.caller(), "a")
    assert (answer["task_id"], answer["attempt"]) == ("a", 2)


def test_a_task_of_a_parallel_run_that_died_waits_for_the_run_that_goes_on(shared: TaskListProject) -> None:
    """Its work may be proven already, and wait only to be merged."""
    dead = {"claimed_process": dead_process(), "claimed_run": {"workers": 2}}
    shared.edit("a", **claimed("w9", worktree="/elsewhere", **dead))
    shared.now = after(3600)
    assert claim.claim(shared.caller())["task_id"] == "b"
    assert (shared.task("a").status, shared.task("a").claim_token) == ("in_progress", "t")


def test_an_owner_that_slept_past_its_lease_can_change_nothing(shared: TaskListProject, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    sleeper = shared.claim("w1", task_id="a")
    shared.now = after(2000)
    new = claim.claim(shared.caller("w2", cwd=str(tmp_path / "other")), "a")
    awake = shared.caller("w1", token=sleeper.token)
    before = shared.files()
    for act in (
        lambda: verbs.complete(awake, "a"),
        lambda: verbs.fail(awake, "a", "TEST_FAIL", "x"),
        lambda: verbs.release(awake, "a", "x"),
        lambda: verbs.validate(awake, "a"),
        lambda: renew(awake, "a"),
        lambda: checkpoint(awake, "a", 1, 2, "x"),
    ):
        with pytest.raises(LeaseLost):
            act()
    assert shared.files() == before
    assert shared.task("a").claim_token == new["token"]


# ---- holding on ----------------------------------------------------------------------------------------------------


def test_a_checkpoint_is_recorded_logged_and_renews(project: TaskListProject) -> None:
    caller = project.claim(lease_seconds=600)
    project.now = after(300)
    held = project.caller(token=caller.token)
    answer = checkpoint(held, "a", 2, 4, 'auth "routes"\n created')
    assert answer["lease_expires_at"] == "2026-03-01T12:15:00Z"
    assert project.log()[-1] == '[SESSION-1] CHECKPOINT [a] step=2/4 "auth \\"routes\\" created"'
    assert [each.record for each in project.task("a").checkpoints] == [
        {
            "step": 2,
            "total": 4,
            "description": 'auth "routes" created',
            "timestamp": "2026-03-01T12:05:00Z",
            "attempt": 1,
        }
    ]
    assert checkpoint(held, "a", 2, 4, "again")["checkpoints"] == 1


@pytest.mark.parametrize(("step", "total"), [(0, 2), (3, 2), (-1, 2), (1, 0)])
def test_a_step_that_is_none_is_refused(project: TaskListProject, step: int, total: int) -> None:
    caller = project.claim()
    before = project.files()
    with pytest.raises(UsageError):
        checkpoint(caller, "a", step, total, "x")
    assert project.files() == before


def test_a_renewal_never_shortens(project: TaskListProject) -> None:
    caller = project.claim(lease_seconds=1800)
    assert renew(caller, "a", lease_seconds=10)["lease_expires_at"] == "2026-03-01T12:30:00Z"
    assert renew(caller, "a", lease_seconds=3600)["lease_expires_at"] == "2026-03-01T13:00:00Z"
    with pytest.raises(NotOwner):
        renew(caller, "b")
