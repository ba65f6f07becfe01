"""A session from start to end, and a person's switches."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_harness.errors import Busy, LimitReached, PersonNeeded, PreflightFailed, StateDamaged
from agent_harness.kernel import owner
from agent_harness.protocols.tasklist.claims import claim, sessions
from agent_harness.protocols.tasklist.claims.caller import Caller
from agent_harness.protocols.tasklist.store import TaskStore
from agent_harness.testing.task_list_project import NOON, TaskListProject, after, task


@pytest.fixture
def project(tmp_path: Path) -> TaskListProject:
    return TaskListProject.at_noon(tmp_path / "list", task("a"), session_count=0)


def init_script(project: TaskListProject, text: str) -> None:
    Path(project.layout.init_script).write_text(f"#!/bin/sh\n{text}\n")
    Path(project.layout.init_script).chmod(0o755)


def test_a_session_from_start_to_end(project: TaskListProject) -> None:
    answer = sessions.start(project.caller(session="s1"))
    assert (answer["session"], answer["owner"], answer["mode"], answer["resumed"]) == (1, "s1", "exclusive", False)
    assert project.store.active()
    session = project.raw["session"]
    assert (session["n"], session["owner"], session["expires_at"]) == (1, "s1", "2026-03-01T13:00:00Z")
    project.now = after(60)
    ended = sessions.end(project.caller(session="s1"))
    assert ended["work_left"]
    assert (project.raw["session"], project.raw["last_session"]) == (None, "2026-03-01T12:01:00Z")
    numbers = "STATS tasks_total=1 completed=0 failed=0 pending=1 blocked=0 attempts_total=0 checkpoints=0"
    log = project.log()
    assert log[0].startswith("[SESSION-1] LOCK acquired (pid=")
    assert log[1:] == [f"[SESSION-1] {numbers}", "[SESSION-1] LOCK released"]
    assert project.store.active()


def test_the_end_of_all_work_rests_the_hooks(project: TaskListProject) -> None:
    sessions.start(project.caller())
    project.edit("a", status="completed")
    sessions.end(project.caller())
    assert not project.store.active()


def test_the_owner_of_a_session_gets_it_again(project: TaskListProject) -> None:
    sessions.start(project.caller(session="s1"))
    project.now = after(600)
    again = sessions.start(project.caller(session="s1"))
    assert (again["session"], again["resumed"]) == (1, True)
    assert project.raw["session"]["expires_at"] == "2026-03-01T13:10:00Z"


def test_another_session_is_kept_out_until_it_ends_or_is_taken_over(project: TaskListProject) -> None:
    sessions.start(project.caller(session="s1"))
    before = project.files()
    for act in (
        lambda: sessions.start(project.caller(session="s2")),
        lambda: sessions.end(project.caller(session="s2")),
        lambda: claim.claim(project.caller(session="s2")),
    ):
        with pytest.raises(Busy, match="owner=s1"):
            act()
    assert project.files() == before
    taken = sessions.start(project.caller(session="s2"), take_over=True)
    assert (taken["session"], project.raw["session"]["owner"]) == (2, "s2")
    assert "[SESSION-2] WARN the session of s1 was taken over" in project.log()
    with pytest.raises(Busy, match="owner=s2"):
        sessions.end(project.caller(session="s1"))


@pytest.mark.parametrize("verb", [sessions.start, claim.claim])
def test_a_session_renewed_in_the_future_is_no_endless_lock(
    project: TaskListProject, verb: Callable[[Caller], object]
) -> None:
    """A clock that was ahead: a warning, and it ends in an hour at most (tasklist.md 10.2)."""
    sessions.start(project.caller(session="s1"))
    jumped = {"renewed_at": "2036-03-01T12:00:00Z", "expires_at": "2036-03-01T13:00:00Z"}
    project.edit(session=project.raw["session"] | jumped | {"process": None})
    for minutes in (0, 30):
        project.now = after(60 * minutes)
        with pytest.raises(Busy, match="until 2026-03-01T13:00:00Z"):
            verb(project.caller(session="s2"))
    told = [line for line in project.log() if "WARN" in line]
    why = (
        "the session of s1 was renewed with a clock that is ahead (2036-03-01T12:00:00Z); it now expires within an hour"
    )
    assert told == [f"[SESSION-1] WARN {why}"]
    project.now = after(3600 + 73)
    verb(project.caller(session="s2"))


def test_the_owner_of_a_session_renewed_in_the_future_goes_on(project: TaskListProject) -> None:
    """Its own clock may have been the one that jumped (tasklist.md 10.2)."""
    sessions.start(project.caller(session="s1"))
    project.edit(
        session=project.raw["session"] | {"renewed_at": "2036-03-01T12:00:00Z", "expires_at": "2036-03-01T13:00:00Z"}
    )
    claim.claim(project.caller(session="s1"))
    assert project.raw["session"]["expires_at"] == "2026-03-01T13:00:00Z"


def test_an_empty_list_is_not_done(project: TaskListProject) -> None:
    """Hooks still act when it is filled (tasklist.md 6.5)."""
    project.edit(tasks=[])
    sessions.start(project.caller())
    ended = sessions.end(project.caller())
    assert (ended["work_left"], ended["finished"], project.store.active()) == (False, False, True)


def test_concurrent_sessions_hold_no_lease(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list", task("a"), mode="concurrent", session_count=0)
    for name in ("s1", "s2"):
        assert sessions.start(project.caller(name, session=name))["mode"] == "concurrent"
    assert (project.raw.get("session"), project.raw["session_count"]) == (None, 2)
    assert project.log() == []


def test_the_last_session_does_no_work(project: TaskListProject) -> None:
    project.edit(session_config={"max_sessions": 2})
    sessions.start(project.caller())
    sessions.end(project.caller())
    with pytest.raises(LimitReached, match="2 of 2"):
        sessions.start(project.caller())
    assert project.raw["session"] is None
    assert "STATS" in project.log()[-1]
    with pytest.raises(LimitReached):
        sessions.start(project.caller())


def test_the_environment_is_set_up_at_each_start(project: TaskListProject) -> None:
    init_script(project, "echo hello; pwd")
    found = sessions.start(project.caller())["environment"]
    assert (found["exit"], found["tries"], found["tail"]) == (0, 1, ["hello", str(project.root)])
    assert project.log()[-1] == "[SESSION-1] INIT Environment health check: PASS"
    Path(project.layout.init_script).chmod(0o644)
    assert sessions.start(project.caller())["environment"]["exit"] == 0


def test_an_environment_that_fails_once_is_tried_again(project: TaskListProject) -> None:
    init_script(project, "test -e seen || { touch seen; exit 3; }")
    assert sessions.start(project.caller())["environment"]["tries"] == 2
    assert "[SESSION-1] ERROR [ENV_SETUP] harness-init.sh failed (exit 3): no output" in project.log()


def test_an_environment_that_fails_twice_halts_everything(project: TaskListProject) -> None:
    init_script(project, "echo GITHUB_TOKEN=ghp_0123456789abcdefghijABCDEFGHIJ012345; exit 3")
    with pytest.raises(PreflightFailed, match="exit 3") as raised:
        sessions.start(project.caller())
    assert "ghp_0123456789" not in project.text + "".join(project.log()) + str(raised.value.data)
    assert project.raw["halt"]["category"] == "ENV_SETUP"
    for act in (lambda: sessions.start(project.caller()), lambda: claim.claim(project.caller())):
        with pytest.raises(PersonNeeded, match="halted: ENV_SETUP"):
            act()
    init_script(project, "true")
    assert sessions.resume(project.caller())["halt"]["category"] == "ENV_SETUP"
    assert sessions.start(project.caller())["session"] == 1


def test_a_pause_stops_starts_and_claims_until_it_is_taken_back(project: TaskListProject) -> None:
    sessions.pause(project.caller(), "I look\nat it")
    for act in (lambda: sessions.start(project.caller()), lambda: claim.claim(project.caller())):
        with pytest.raises(Busy, match="paused"):
            act()
    assert sessions.resume(project.caller()) == {"was_paused": True, "halt": None}
    assert sessions.resume(project.caller()) == {"was_paused": False, "halt": None}
    sessions.start(project.caller())


def test_a_start_mends_what_is_damaged_and_what_was_left(project: TaskListProject) -> None:
    project.edit("a", validation={"command": "exit 3"})
    sessions.start(project.caller(session="s1"))
    project.claim()
    sessions.end(project.caller(session="s1"))
    Path(project.layout.tasks).write_text("{")
    project.now = after(7200)
    answer = sessions.start(project.caller("other", session="s2"))
    assert answer["restored"]["reason"]
    assert [each["action"] for each in answer["recovered"]] == ["failed"]
    found = project.task("a")
    assert (found.status, found.attempts) == ("failed", 1)
    assert found.error_log == ["[TEST_FAIL] Interrupted; validation: exit code 3"]


def test_a_start_removes_what_a_killed_writer_left_and_nothing_else(project: TaskListProject) -> None:
    names = ("tmp.99999999.ab", "bak.tmp.99999999.ab", "tmp.1.ab", "bak.tmp.1.ab")
    left = [project.root / f"harness-tasks.json.{name}" for name in names]
    for each in left:
        each.touch()
    sessions.start(project.caller())
    assert [each.exists() for each in left] == [False, False, True, True]


def test_a_damaged_list_without_a_backup_cannot_be_started_and_the_log_says_so_once(project: TaskListProject) -> None:
    Path(project.layout.tasks).write_text("{")
    for _ in range(3):
        with pytest.raises(StateDamaged, match="unrecoverable"):
            sessions.start(project.caller())
    assert project.log() == ["[SESSION-0] ERROR [ENV_SETUP] harness-tasks.json corrupted and unrecoverable"]
    assert project.text == "{"


def test_statistics_go_into_the_log(project: TaskListProject) -> None:
    found = sessions.log_stats(project.caller())["stats"]
    assert json.dumps(found["tasks_total"]) == "1"
    assert project.log()[-1].startswith("[SESSION-0] STATS tasks_total=1 ")
    assert TaskStore(project.layout, now=NOON).read().revision == 0


def test_a_session_does_not_begin_over_somebody_who_is_at_work(tmp_path: Path) -> None:
    """N3: a claim without a session is alive by its lease and its process; nothing of its owner is touched."""
    project = TaskListProject(tmp_path / "list", task("task-001", validation={"command": "test -e done"}), git=True)
    with subprocess.Popen(["sleep", "600"]) as client:  # the program that the first agent runs in
        try:
            first = project.caller(None, session="first", process=owner.of(client.pid))
            claimed = claim.claim(first)
            (project.root / "half.py").write_text("half\n")
            for words in (("session", "start"), ("run", "--agent", project.agent("true"))):
                ran = project.harness(*words, CLAUDE_CODE_SESSION_ID="second")
                assert ran.code == 5, ran
                assert "task-001 is claimed by" in ran.err + ran.out
            assert (project.root / "half.py").read_text() == "half\n"
            assert project.store.read().tasks[0].claim_token == claimed["token"]
            assert sessions.start(first)["recovered"] == []  # the owner itself goes on
        finally:
            client.kill()
    assert project.harness("session", "start", "--take-over", CLAUDE_CODE_SESSION_ID="second").code == 0
    assert project.store.read().tasks[0].status == "failed"  # and its files are in a rescue
    assert not (project.root / "half.py").exists()


def test_halves_that_killed_writers_left_go_with_the_next_session(project: TaskListProject) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    left = [project.root / f".harness/{name}.tmp.{gone.pid}.aa" for name in ("claims/a.json", "validate/a.1.log")]
    for path in left:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("half")
    sessions.start(project.caller(session="s1"))
    assert not any(path.exists() for path in left)
