"""One session at a time, for as long as its owner shows signs of life."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_harness.errors import Busy
from agent_harness.kernel import owner
from agent_harness.protocols.tasklist.claims import leases
from agent_harness.protocols.tasklist.records import SessionLease
from agent_harness.testing.task_list_project import NOON, TaskListProject, after, state_of

LIVE = {
    "n": 1,
    "owner": "s1",
    "started_at": "2026-03-01T12:00:00Z",
    "renewed_at": "2026-03-01T12:00:00Z",
    "expires_at": "2026-03-01T13:00:00Z",
}


def dead_process() -> dict[str, Any]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        found = owner.of(child.pid)
        assert found
    return found.as_record()


@pytest.mark.parametrize(
    ("session", "at", "alive"),
    [
        (None, 0, False),
        ({}, 0, False),
        (LIVE, 0, True),
        (LIVE, 3671, True),  # 2 % of an hour
        (LIVE, 3672, False),
        (LIVE | {"expires_at": "soon"}, 0, False),
        (LIVE | {"expires_at": 5}, 0, False),
        (LIVE | {"process": "odd"}, 0, True),
        (LIVE | {"process": {"pid": -1}}, 0, True),
    ],
)
def test_a_session_is_alive(session: dict[str, Any] | None, at: float, alive: bool) -> None:
    assert leases.is_alive(None if session is None else SessionLease(session), after(at)) is alive


@pytest.mark.parametrize(
    ("changes", "ahead"),
    [
        ({}, False),
        ({"renewed_at": "2026-03-01T12:01:12Z", "expires_at": "2026-03-01T13:01:12Z"}, False),  # within the grace
        ({"renewed_at": "2026-03-01T12:01:13Z"}, True),
        ({"expires_at": "2026-03-01T13:01:13Z"}, True),
        ({"renewed_at": None, "expires_at": "2099-01-01T00:00:00Z"}, True),
        ({"renewed_at": 5, "expires_at": "soon"}, False),
    ],
)
def test_a_lease_of_a_clock_that_was_ahead_is_known(changes: dict[str, Any], ahead: bool) -> None:
    """By its renewal or by its end, beyond the grace (tasklist.md 10.2)."""
    assert leases.is_ahead(state_of(session=LIVE | changes), NOON) is ahead
    concurrent = state_of(session=LIVE | changes, session_config={"concurrency_mode": "concurrent"})
    assert not leases.is_ahead(concurrent, NOON)


def test_a_session_ends_with_its_program() -> None:
    here = owner.current().as_record()
    assert leases.is_alive(SessionLease(LIVE | {"process": here}), NOON)
    assert not leases.is_alive(SessionLease(LIVE | {"process": dead_process()}), NOON)
    elsewhere = here | {"host": "another", "boot_id": "another"}
    assert leases.is_alive(SessionLease(LIVE | {"process": elsewhere}), NOON)


def test_another_session_is_refused_and_told_whose_it_is(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list")
    state = state_of(session=dict(LIVE))
    leases.refuse_other(state, project.caller(session="s1"), NOON)
    with pytest.raises(Busy, match=r"owner=s1, since 2026-03-01T12:00:00Z, until 2026-03-01T13:00:00Z") as raised:
        leases.refuse_other(state, project.caller(session="s2"), NOON)
    assert "--take-over" in (raised.value.hint or "")
    leases.refuse_other(state, project.caller(session="s2"), after(4000))
    concurrent = state_of(session=dict(LIVE), session_config={"concurrency_mode": "concurrent"})
    leases.refuse_other(concurrent, project.caller(session="s2"), NOON)


def test_a_verb_of_the_owner_renews_and_one_of_another_does_not(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list")
    state = state_of(session=dict(LIVE))
    leases.keep(state, project.caller(session="s1"), after(600))
    assert state.session and state.session.record == LIVE | {
        "renewed_at": "2026-03-01T12:10:00Z",
        "expires_at": "2026-03-01T13:10:00Z",
    }
    leases.keep(state, project.caller(session="s2"), after(9000))
    assert state.session and state.session.record["expires_at"] == "2026-03-01T13:10:00Z"


def test_an_end_far_ahead_of_the_clock_comes_back_with_the_owners_next_verb(tmp_path: Path) -> None:
    state = state_of(session=LIVE | {"expires_at": "2030-01-01T00:00:00Z"})
    leases.keep(state, TaskListProject.at_noon(tmp_path / "list").caller(session="s1"), NOON)
    assert state.session and state.session.record["expires_at"] == "2026-03-01T13:00:00Z"
