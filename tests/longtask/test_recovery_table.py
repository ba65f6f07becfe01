"""Every row of the way back, and what a person is told after a run that was killed."""

import itertools

import pytest

from agent_harness.protocols.longtask import recovery
from agent_harness.protocols.longtask.records import LogEvent
from agent_harness.testing.long_task_project import LongTaskProject, from_now

LEASES = ("none", "held", "unreadable", "over")
DECISIONS = ("run", "claimed", "wait", "done", "needs-human")


def test_every_situation_has_a_row_and_every_row_a_situation() -> None:
    rows = {
        id(recovery.row_for(lease=lease, due=due, unfinished=unfinished))
        for lease, due, unfinished in itertools.product(LEASES, DECISIONS, (True, False))
    }
    assert rows == {id(row) for row in recovery.ROWS}


@pytest.mark.parametrize(
    ("kinds", "expected"),
    [
        ("", False),
        ("tick_started worker_started", True),
        ("worker_started checkpoint_written evidence_recorded", True),
        ("worker_started worker_completed checkpoint_written", False),
        ("worker_started worker_failed", False),
        ("worker_started worker_started worker_failed tick_started", False),
    ],
)
def test_a_worker_that_never_ended_shows_in_the_log(kinds: str, expected: bool) -> None:
    assert recovery.is_unfinished(LogEvent({"type": kind}) for kind in kinds.split()) == expected


LOCK = {"owner": "me", "pid": 1, "acquiredAt": from_now(-60)}
STARTED = '{"type":"worker_started","at":"2026-03-01T12:00:00.000Z","worker":"codex-cli"}\n'


@pytest.mark.parametrize(
    ("lock", "log", "said"),
    [
        (None, "", "go on: the last slice ended normally"),
        (None, STARTED, "start again: the last worker that was started never ended"),
        ({**LOCK, "expiresAt": from_now(-1)}, STARTED, "start again: the last run died with its worker"),
        ({**LOCK, "expiresAt": from_now(-1)}, "", "go on: the last run died between two slices"),
        ({**LOCK, "expiresAt": from_now(86_400)}, STARTED, "wait: another run holds the lease"),
        ("torn", "", "wait: the lease cannot be read, and counts"),
    ],
)
def test_status_names_the_row(project: LongTaskProject, lock: object, log: str, said: str) -> None:
    if lock is not None:
        project.write(".lth.lock", lock)
    project.write("runs/2026-03-01.jsonl", log)
    before = project.tree()
    assert f"next run:   {said}" in project.lth("status").out
    assert project.tree() == before


def test_resume_is_run_with_a_line_that_says_why(project: LongTaskProject) -> None:
    project.write("runs/2026-03-01.jsonl", STARTED)
    done = project.lth("resume", "--worker", "local", "--command", "echo again")
    assert done.code == 0 and done.json["status"] == "paused"
    assert done.err.startswith("resume: start again: the last worker that was started never ended (run: ")
