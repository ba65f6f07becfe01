"""Every row of the table of decisions, as a rule and on the command line."""

from datetime import timedelta
from typing import Any

import pytest

from agent_harness.protocols.longtask import lifecycle
from agent_harness.protocols.longtask.records import Checkpoint
from agent_harness.testing import NOON
from agent_harness.testing.long_task_project import LongTaskProject, checkpoint, from_now


def at(seconds: float) -> str:
    return (NOON + timedelta(seconds=seconds)).isoformat()


ROWS: list[tuple[dict[str, Any], tuple[str, str, int]]] = [
    ({"status": "done", "blocker": {"requiresHuman": True}}, ("done", "task is complete", 0)),
    ({"status": "needs-human"}, ("needs-human", "checkpoint requires human input", 0)),
    ({"blocker": {"requiresHuman": True}}, ("needs-human", "blocker requires human input", 0)),
    ({"status": "blocked"}, ("needs-human", "blocked without blockedUntil", 0)),
    ({"status": "blocked", "blockedUntil": ""}, ("needs-human", "blocked without blockedUntil", 0)),
    ({"status": "blocked", "blockedUntil": "soon"}, ("needs-human", "invalid blockedUntil", 0)),
    ({"status": "blocked", "blockedUntil": at(90.2)}, ("wait", "blocked window has not reopened", 91)),
    ({"status": "blocked", "blockedUntil": at(0.001)}, ("wait", "blocked window has not reopened", 1)),
    ({"status": "blocked", "blockedUntil": at(0)}, ("run", "blocked window reopened", 0)),
    ({"status": "blocked", "blockedUntil": at(-5)}, ("run", "blocked window reopened", 0)),
    ({"status": "active", "blockedUntil": at(90)}, ("run", "checkpoint status is active", 0)),
    ({"status": "paused"}, ("run", "checkpoint status is paused", 0)),
]


@pytest.mark.parametrize(("members", "expected"), ROWS)
def test_the_first_row_that_holds_decides(members: dict[str, Any], expected: tuple[str, str, int]) -> None:
    found = lifecycle.decide(Checkpoint(checkpoint(**members)), NOON)
    assert (found.decision, found.reason, found.wait_seconds) == expected


@pytest.mark.parametrize("status", ["active", "paused", "done", "needs-human"])
def test_next_answers_in_its_order_of_keys(project: LongTaskProject, status: str) -> None:
    project.write("checkpoint.json", checkpoint(status=status))
    done = project.lth("next")
    assert done.code == 0
    assert list(done.json) == ["decision", "reason", "status", "blockedUntil", "waitSeconds", "nextStep"]
    assert done.json["status"] == status


def test_next_waits_for_a_window_and_goes_on_behind_it(project: LongTaskProject) -> None:
    project.write("checkpoint.json", checkpoint(status="blocked", blockedUntil=from_now(1000)))
    answer = project.lth("next").json
    assert answer["decision"] == "wait" and 990 <= answer["waitSeconds"] <= 1000
    project.write("checkpoint.json", checkpoint(status="blocked", blockedUntil=from_now(-1)))
    answer = project.lth("next").json
    assert (answer["decision"], answer["status"]) == ("run", "blocked")


def test_reopening_is_a_copy_and_touches_only_blocked_checkpoints() -> None:
    blocked = Checkpoint(checkpoint(status="blocked", blockedUntil=at(-1), blocker={"type": "rate_limit"}, mine=1))
    opened = lifecycle.reopened(blocked, NOON).raw
    assert (opened["status"], opened["blockedUntil"], opened["blocker"], opened["mine"]) == ("active", None, None, 1)
    assert opened["updatedAt"] == "2026-03-01T12:00:00.000Z"
    assert blocked.status == "blocked"
    paused = Checkpoint(checkpoint(status="paused", blocker={"type": "unknown"}))
    assert lifecycle.reopened(paused, NOON).raw == paused.raw


def test_cooldowns_end() -> None:
    cooling = Checkpoint(
        checkpoint(workerCooldowns={"a": {"blockedUntil": at(5)}, "b": {"blockedUntil": at(0)}, "c": {}})
    )
    assert lifecycle.is_cooling(cooling, "a", NOON)
    assert lifecycle.expired_cooldowns(cooling, NOON) == ["b", "c"]


@pytest.mark.parametrize(
    ("state", "types"),
    [
        ({"status": "active"}, ["tick_started", "worker_prompt_generated"]),
        ({"status": "done"}, ["tick_started"]),
        ({"status": "needs-human"}, ["tick_started", "needs_human"]),
        ({"status": "blocked", "blockedUntil": from_now(1000)}, ["tick_started", "run_skipped"]),
        (
            {"status": "blocked", "blockedUntil": from_now(-1), "blocker": {"type": "rate_limit"}},
            ["tick_started", "checkpoint_written", "worker_prompt_generated"],
        ),
    ],
)
def test_a_tick_logs_what_it_decides(project: LongTaskProject, state: dict[str, Any], types: list[str]) -> None:
    project.write("checkpoint.json", checkpoint(**state))
    dry = project.lth("tick", "--dry-run")
    assert not (project.root / "runs").exists()
    done = project.lth("tick")
    assert done.code == 0 and project.kinds() == types
    assert project.events()[0]["status"] == state["status"]
    assert {**dry.json, "dryRun": False, "waitSeconds": 0} == {**done.json, "waitSeconds": 0}
    assert (done.json["workerPrompt"] is not None) == (done.json["decision"] == "run")


def test_a_tick_reopens_a_window_that_is_over(project: LongTaskProject) -> None:
    blocker = {"type": "rate_limit", "source": "codex-cli"}
    project.write("checkpoint.json", checkpoint(status="blocked", blockedUntil=from_now(-1), blocker=blocker, mine=[1]))
    answer = project.lth("tick").json
    assert (answer["decision"], answer["status"], answer["blockedUntil"]) == ("run", "active", None)
    now = project.checkpoint
    assert (now["status"], now["blockedUntil"], now["blocker"], now["mine"]) == ("active", None, None, [1])
    written = project.events()[1]
    assert (written["reason"], written["status"]) == ("blocked window reopened", "active")


def test_a_tick_names_the_preferred_worker_as_it_is_written(project: LongTaskProject) -> None:
    answer = project.lth("tick").json
    assert answer["worker"] is None and project.events()[-1]["worker"] == "unspecified"
    contract = {**project.store.load()[0].raw, "workerPolicy": {"preferred": "codex"}}
    project.write("task.json", contract)
    assert project.lth("tick").json["worker"] == "codex"
    assert project.events()[-1]["worker"] == "codex"


def test_a_tick_regards_neither_the_lease_nor_cooldowns(project: LongTaskProject) -> None:
    project.write(".lth.lock", {"owner": "me", "pid": 1, "expiresAt": "2099-01-01T00:00:00Z"})
    cooldowns = {"local-command": {"type": "rate_limit", "source": "manual", "blockedUntil": from_now(1000)}}
    project.write("checkpoint.json", checkpoint(workerCooldowns=cooldowns))
    answer = project.lth("tick").json
    assert (answer["decision"], answer["waitSeconds"]) == ("run", 0)
    assert "- local-command: blocked until " in answer["workerPrompt"]
    assert project.kinds() == ["tick_started", "worker_prompt_generated"]
    assert project.checkpoint["workerCooldowns"] == cooldowns
