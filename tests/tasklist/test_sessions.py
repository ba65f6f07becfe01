"""A session from start to end, and a person's switches."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_harness.errors import Busy, LimitReached, PersonNeeded, PreflightFailed, StateDamaged
from agent_harness.protocols.tasklist.claims import claim
from agent_harness.protocols.tasklist.store import TaskStore
from agent_harness.protocols.tasklist.workers import sessions
from agent_harness.protocols.tasklist.workers.worker import Worker

from .desk import NOON, Desk, after, task


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path / "list", task("a"), session_count=0)


def init_script(desk: Desk, text: str) -> None:
    Path(desk.layout.init_script).write_text(f"#!/bin/sh\n{text}\n")
    Path(desk.layout.init_script).chmod(0o755)


def test_a_session_from_start_to_end(desk: Desk) -> None:
    answer = sessions.start(desk.worker(session="s1"))
    assert (answer["session"], answer["owner"], answer["mode"], answer["resumed"]) == (1, "s1", "exclusive", False)
    assert desk.store.active()
    session = desk.raw["session"]
    assert (session["n"], session["owner"], session["expires_at"]) == (1, "s1", "2026-03-01T13:00:00Z")
    desk.now = after(60)
    ended = sessions.end(desk.worker(session="s1"))
    assert ended["work_left"]
    assert (desk.raw["session"], desk.raw["last_session"]) == (None, "2026-03-01T12:01:00Z")
    numbers = "STATS tasks_total=1 completed=0 failed=0 pending=1 blocked=0 attempts_total=0 checkpoints=0"
    log = desk.log()
    assert log[0].startswith("[SESSION-1] LOCK acquired (pid=")
    assert log[1:] == [f"[SESSION-1] {numbers}", "[SESSION-1] LOCK released"]
    assert desk.store.active()


def test_the_end_of_all_work_rests_the_hooks(desk: Desk) -> None:
    sessions.start(desk.worker())
    desk.edit("a", status="completed")
    sessions.end(desk.worker())
    assert not desk.store.active()


def test_the_owner_of_a_session_gets_it_again(desk: Desk) -> None:
    sessions.start(desk.worker(session="s1"))
    desk.now = after(600)
    again = sessions.start(desk.worker(session="s1"))
    assert (again["session"], again["resumed"]) == (1, True)
    assert desk.raw["session"]["expires_at"] == "2026-03-01T13:10:00Z"


def test_another_session_is_kept_out_until_it_ends_or_is_taken_over(desk: Desk) -> None:
    sessions.start(desk.worker(session="s1"))
    before = desk.files()
    for act in (
        lambda: sessions.start(desk.worker(session="s2")),
        lambda: sessions.end(desk.worker(session="s2")),
        lambda: claim.claim(desk.worker(session="s2")),
    ):
        with pytest.raises(Busy, match="owner=s1"):
            act()
    assert desk.files() == before
    taken = sessions.start(desk.worker(session="s2"), take_over=True)
    assert (taken["session"], desk.raw["session"]["owner"]) == (2, "s2")
    assert "[SESSION-2] WARN the session of s1 was taken over" in desk.log()
    with pytest.raises(Busy, match="owner=s2"):
        sessions.end(desk.worker(session="s1"))


@pytest.mark.parametrize("verb", [sessions.start, claim.claim])
def test_a_session_renewed_in_the_future_is_no_endless_lock(desk: Desk, verb: Callable[[Worker], object]) -> None:
    """A clock that was ahead: a warning, and it ends in an hour at most (tasklist.md 10.2)."""
    sessions.start(desk.worker(session="s1"))
    jumped = {"renewed_at": "2036-03-01T12:00:00Z", "expires_at": "2036-03-01T13:00:00Z"}
    desk.edit(session=desk.raw["session"] | jumped | {"process": None})
    for minutes in (0, 30):
        desk.now = after(60 * minutes)
        with pytest.raises(Busy, match="until 2026-03-01T13:00:00Z"):
            verb(desk.worker(session="s2"))
    told = [line for line in desk.log() if "WARN" in line]
    why = "the session of s1 was renewed in the future (2036-03-01T12:00:00Z); it ends in an hour at most"
    assert told == [f"[SESSION-1] WARN {why}"]
    desk.now = after(3600 + 73)
    verb(desk.worker(session="s2"))


def test_the_owner_of_a_session_renewed_in_the_future_goes_on(desk: Desk) -> None:
    """Its own clock may have been the one that jumped (tasklist.md 10.2)."""
    sessions.start(desk.worker(session="s1"))
    desk.edit(
        session=desk.raw["session"] | {"renewed_at": "2036-03-01T12:00:00Z", "expires_at": "2036-03-01T13:00:00Z"}
    )
    claim.claim(desk.worker(session="s1"))
    assert desk.raw["session"]["expires_at"] == "2026-03-01T13:00:00Z"


def test_an_empty_list_is_not_done(desk: Desk) -> None:
    """Hooks still act when it is filled (tasklist.md 6.5)."""
    desk.edit(tasks=[])
    sessions.start(desk.worker())
    ended = sessions.end(desk.worker())
    assert (ended["work_left"], ended["finished"], desk.store.active()) == (False, False, True)


def test_concurrent_sessions_hold_no_lease(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "list", task("a"), mode="concurrent", session_count=0)
    for name in ("s1", "s2"):
        assert sessions.start(desk.worker(name, session=name))["mode"] == "concurrent"
    assert (desk.raw.get("session"), desk.raw["session_count"]) == (None, 2)
    assert desk.log() == []


def test_the_last_session_does_no_work(desk: Desk) -> None:
    desk.edit(session_config={"max_sessions": 2})
    sessions.start(desk.worker())
    sessions.end(desk.worker())
    with pytest.raises(LimitReached, match="2 of 2"):
        sessions.start(desk.worker())
    assert desk.raw["session"] is None
    assert "STATS" in desk.log()[-1]
    with pytest.raises(LimitReached):
        sessions.start(desk.worker())


def test_the_environment_is_set_up_at_each_start(desk: Desk) -> None:
    init_script(desk, "echo hello; pwd")
    found = sessions.start(desk.worker())["environment"]
    assert (found["exit"], found["tries"], found["tail"]) == (0, 1, ["hello", str(desk.root)])
    assert desk.log()[-1] == "[SESSION-1] INIT Environment health check: PASS"
    Path(desk.layout.init_script).chmod(0o644)
    assert sessions.start(desk.worker())["environment"]["exit"] == 0


def test_an_environment_that_fails_once_is_tried_again(desk: Desk) -> None:
    init_script(desk, "test -e seen || { touch seen; exit 3; }")
    assert sessions.start(desk.worker())["environment"]["tries"] == 2
    assert "[SESSION-1] ERROR [ENV_SETUP] harness-init.sh failed (exit 3): no output" in desk.log()


def test_an_environment_that_fails_twice_halts_everything(desk: Desk) -> None:
    init_script(desk, "echo GITHUB_TOKEN=ghp_0123456789abcdefghijABCDEFGHIJ012345; exit 3")
    with pytest.raises(PreflightFailed, match="exit 3") as raised:
        sessions.start(desk.worker())
    assert "ghp_0123456789" not in desk.text + "".join(desk.log()) + str(raised.value.data)
    assert desk.raw["halt"]["category"] == "ENV_SETUP"
    for act in (lambda: sessions.start(desk.worker()), lambda: claim.claim(desk.worker())):
        with pytest.raises(PersonNeeded, match="halted by ENV_SETUP"):
            act()
    init_script(desk, "true")
    assert sessions.resume(desk.worker())["halt"]["category"] == "ENV_SETUP"
    assert sessions.start(desk.worker())["session"] == 1


def test_a_pause_stops_starts_and_claims_until_it_is_taken_back(desk: Desk) -> None:
    sessions.pause(desk.worker(), "I look\nat it")
    for act in (lambda: sessions.start(desk.worker()), lambda: claim.claim(desk.worker())):
        with pytest.raises(Busy, match="paused"):
            act()
    assert sessions.resume(desk.worker()) == {"was_paused": True, "halt": None}
    assert sessions.resume(desk.worker()) == {"was_paused": False, "halt": None}
    sessions.start(desk.worker())


def test_a_start_mends_what_is_damaged_and_what_was_left(desk: Desk) -> None:
    desk.edit("a", validation={"command": "exit 3"})
    sessions.start(desk.worker(session="s1"))
    desk.claim()
    sessions.end(desk.worker(session="s1"))
    Path(desk.layout.tasks).write_text("{")
    desk.now = after(7200)
    answer = sessions.start(desk.worker("other", session="s2"))
    assert answer["restored"]["reason"]
    assert [each["action"] for each in answer["recovered"]] == ["failed"]
    found = desk.task("a")
    assert (found.status, found.attempts) == ("failed", 1)
    assert found.error_log == ["[TEST_FAIL] Interrupted; validation: FAIL (exit 3)"]


def test_a_start_removes_what_a_killed_writer_left_and_nothing_else(desk: Desk) -> None:
    names = ("tmp.99999999.ab", "bak.tmp.99999999.ab", "tmp.1.ab", "bak.tmp.1.ab")
    left = [desk.root / f"harness-tasks.json.{name}" for name in names]
    for each in left:
        each.touch()
    sessions.start(desk.worker())
    assert [each.exists() for each in left] == [False, False, True, True]


def test_a_damaged_list_without_a_backup_cannot_be_started_and_the_log_says_so_once(desk: Desk) -> None:
    Path(desk.layout.tasks).write_text("{")
    for _ in range(3):
        with pytest.raises(StateDamaged, match="unrecoverable"):
            sessions.start(desk.worker())
    assert desk.log() == ["[SESSION-0] ERROR [ENV_SETUP] harness-tasks.json corrupted and unrecoverable"]
    assert desk.text == "{"


def test_statistics_go_into_the_log(desk: Desk) -> None:
    found = sessions.log_stats(desk.worker())["stats"]
    assert json.dumps(found["tasks_total"]) == "1"
    assert desk.log()[-1].startswith("[SESSION-0] STATS tasks_total=1 ")
    assert TaskStore(desk.layout, now=NOON).read().revision == 0
