"""`record`: what it writes, what it refuses before anything is written, and that `done` is only written when proven."""

import json
import sys
from typing import Any

import pytest

from agent_harness.testing.long_task_project import LongTaskProject, checkpoint, from_now, task


def test_record_needs_a_status(project: LongTaskProject) -> None:
    before = project.tree()
    done = project.lth("record", "--note", "x")
    assert done.code == 1 and done.err.startswith("record requires --status: one of active, paused, blocked")
    assert project.tree() == before


@pytest.mark.parametrize("status", ["active", "paused", "blocked", "needs-human"])
def test_every_status_is_recorded(project: LongTaskProject, status: str) -> None:
    done = project.lth(
        "record",
        *("--status", status, "--note", "go on", "--last-completed-step", "half", "--active-files", "a.py, b.py,"),
        *("--open-questions", ""),
    )
    assert (done.code, done.out) == (0, f"Recorded {status} for demo\n")
    state = project.checkpoint
    assert (state["status"], state["nextStep"], state["lastCompletedStep"]) == (status, "go on", "half")
    assert (state["activeFiles"], state["openQuestions"]) == (["a.py", "b.py"], [])
    assert project.events() == [
        {
            "type": "progress_recorded",
            "at": state["updatedAt"],
            "status": status,
            "note": "go on",
            "blockedUntil": None,
            "blocker": state["blocker"],
        }
    ]


def test_what_is_not_given_stays(project: LongTaskProject) -> None:
    project.write("checkpoint.json", checkpoint(lastCompletedStep="x", activeFiles=["a"], currentPhase="p"))
    project.lth("record", "--status", "paused")
    state = project.checkpoint
    assert [state[name] for name in ("nextStep", "lastCompletedStep", "activeFiles", "currentPhase")] == [
        "Do the first slice",
        "x",
        ["a"],
        "p",
    ]


BLOCKERS: list[tuple[list[str], dict[str, Any] | None]] = [
    (["--status", "paused"], None),
    (
        ["--status", "blocked"],
        {"type": "unknown", "source": "manual", "retryAfterSeconds": None, "requiresHuman": False},
    ),
    (
        ["--status", "needs-human", "--note", "which key?"],
        {
            "type": "manual",
            "source": "manual",
            "message": "which key?",
            "retryAfterSeconds": None,
            "requiresHuman": True,
        },
    ),
    (
        ["--status", "blocked", "--reason", "rate_limit", "--source", "codex-cli", "--retry-after-seconds", "60"],
        {"type": "rate_limit", "source": "codex-cli", "retryAfterSeconds": 60, "requiresHuman": False},
    ),
    (
        ["--status", "paused", "--reason", "external", "--requires-human"],
        {"type": "external", "source": "manual", "retryAfterSeconds": None, "requiresHuman": True},
    ),
]


@pytest.mark.parametrize(("words", "expected"), BLOCKERS)
def test_blockers(project: LongTaskProject, words: list[str], expected: dict[str, Any] | None) -> None:
    project.write("checkpoint.json", checkpoint(blocker={"type": "rate_limit", "message": "old"}))
    assert project.lth("record", *words).code == 0
    blocker = project.checkpoint["blocker"]
    if blocker is not None:
        assert blocker.pop("observedAt") == project.checkpoint["updatedAt"]
    assert blocker == expected


def test_a_window_is_given_by_time_or_by_seconds_and_never_stays(project: LongTaskProject) -> None:
    project.lth("record", "--status", "blocked", "--blocked-until", "2036-05-17T14:00:00+02:00")
    assert project.checkpoint["blockedUntil"] == "2036-05-17T12:00:00.000Z"
    project.lth("record", "--status", "blocked", "--retry-after-seconds", "90")
    assert 80 <= project.lth("next").json["waitSeconds"] <= 90
    project.lth("record", "--status", "blocked", "--retry-after-seconds", "9" * 40)
    assert 31 * 86400 - 60 <= project.lth("next").json["waitSeconds"] <= 31 * 86400
    project.lth("record", "--status", "blocked", "--reason", "external")
    assert project.checkpoint["blockedUntil"] is None
    assert project.lth("next").json["reason"] == "blocked without blockedUntil"


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--status", "asleep"], "--status must be one of"),
        (["--status", "blocked", "--reason", "tired"], "--reason must be one of rate_limit"),
        (["--status", "blocked", "--source", "local-command"], "--source must be one of openclaw-provider"),
        (["--status", "blocked", "--blocked-until", "5"], "--blocked-until must be a time"),
        (["--status", "blocked", "--retry-after-seconds", "soon"], "--retry-after-seconds must be a finite number"),
        (["--status", "blocked", "--retry-after-seconds", "-1"], "--retry-after-seconds must be a number of seconds"),
        (["--status", "paused", "--note", ""], "--note must not be blank"),
        (["--status", "paused", "--note"], "option --note needs a value"),
    ],
)
def test_row_02_odd_words_never_brick_a_task(project: LongTaskProject, words: list[str], said: str) -> None:
    before = project.tree()
    done = project.lth("record", *words)
    assert done.code == 1 and done.err.startswith(said) and len(done.err.splitlines()) == 1
    assert project.tree() == before


def test_row_11_done_is_only_recorded_when_it_is_proven(project: LongTaskProject) -> None:
    before = project.tree()
    done = project.lth("record", "--status", "done")
    assert done.code == 1 and done.out == ""
    line, _, report = done.err.partition("\n")
    assert "verification failed" in line and json.loads(report)["status"] == "fail"
    assert project.tree() == before
    project.lth("evidence", "--type", "test", "--criterion-id", "it-works", "--status", "failed")
    assert project.lth("record", "--status", "done").code == 1
    project.lth("evidence", "--type", "test", "--criterion-id", "it-works", "--status", "passed")
    assert project.lth("record", "--status", "done").code == 0
    assert project.lth("next").json["decision"] == "done"


def test_done_runs_the_commands_of_the_criteria_without_the_lock(project: LongTaskProject) -> None:
    inner = f"'{sys.executable}' -m agent_harness.cli.lth record '{project.root}' --status paused --note inside"
    criterion: dict[str, Any] = {"id": "c", "description": "d", "metric": "command", "target": inner}
    project.write("task.json", task(successCriteria=[criterion]))
    assert project.lth("record", "--status", "done").code == 0
    assert (project.checkpoint["status"], project.checkpoint["nextStep"]) == ("done", "inside")
    criterion["target"] = {"command": "sleep 30"}
    project.write("task.json", task(successCriteria=[criterion]))
    assert project.lth("record", "--status", "done", "--verify-timeout-seconds", "1").code == 1


def test_a_window_that_a_worker_recorded_is_waited_for(project: LongTaskProject) -> None:
    project.lth("record", "--status", "blocked", "--blocked-until", from_now(-1))
    assert project.lth("tick").json["status"] == "active"


def test_no_secret_of_ours_is_kept(project: LongTaskProject, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "canary of the cage")
    said = "it was canary of the cage"
    told = [word for name in ("--note", "--last-completed-step", "--open-questions") for word in (name, said)]
    project.lth("record", "--status", "blocked", *told)
    shown = [word for name in ("--command", "--text", "--output", "--note", "--summary") for word in (name, said)]
    project.lth("evidence", "--type", "test", *shown)
    assert "it was ***" in json.dumps(project.checkpoint)
    assert [name for name, content in project.tree().items() if content and b"canary" in content] == []
