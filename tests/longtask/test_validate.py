"""`validate`, `summary`, `tail`, `status`: what they answer, and in which order of keys."""

import json

import pytest

from agent_harness.testing.long_task_project import LongTaskProject, checkpoint, task

AT = "2026-03-0{}T12:00:00.000Z"


def logged(project: LongTaskProject) -> None:
    events = [
        {"type": "worker_started", "at": AT.format(2), "worker": "codex-cli"},
        {
            "type": "rate_limited",
            "at": AT.format(3),
            "status": "blocked",
            "reason": "rate_limit",
            "worker": "codex-cli",
            "blockedUntil": AT.format(4),
            "blocker": {"source": "codex-cli"},
        },
        {"type": "tick_started", "at": AT.format(1)},
    ]
    project.write("runs/2026-03-02.jsonl", "".join(f"{json.dumps(event)}\n" for event in events))
    project.write("runs/2026-03-01.jsonl", f"{json.dumps({'type': 'tick_started', 'at': AT.format(5)})}\n")
    project.write("runs/notes.txt", "not a log")


def test_validate_says_what_comes_next_on_one_line(project: LongTaskProject) -> None:
    project.write("checkpoint.json", checkpoint(nextStep="First\nsecond"))
    done = project.lth("validate")
    assert (done.code, done.out, done.err) == (0, "OK demo: active -> First second\n", "")


def test_summary_counts(project: LongTaskProject) -> None:
    logged(project)
    answer = project.lth("summary", "--limit", "2").json
    assert list(answer) == [
        *("taskId", "status", "currentPhase", "nextStep", "blockedUntil", "blocker", "evidenceCount"),
        *("checkpointEvidenceCount", "archivedEvidenceCount", "totalEvents", "eventCounts", "workerCounts"),
        *("rateLimits", "lastEvent", "latestEvents", "usage"),
    ]
    assert answer["eventCounts"] == {"tick_started": 2, "worker_started": 1, "rate_limited": 1}
    assert answer["workerCounts"] == {"codex-cli": 2}
    assert answer["rateLimits"] == [
        {
            "at": AT.format(3),
            "status": "blocked",
            "reason": "rate_limit",
            "worker": "codex-cli",
            "blockedUntil": AT.format(4),
            "source": "codex-cli",
        }
    ]
    assert answer["lastEvent"]["at"] == AT.format(5) and len(answer["latestEvents"]) == 2


def test_summary_of_a_fresh_task(project: LongTaskProject) -> None:
    answer = project.lth("summary").json
    assert (answer["totalEvents"], answer["lastEvent"], answer["latestEvents"]) == (0, None, [])


def test_tail_is_by_time_and_filters_before_it_cuts(project: LongTaskProject) -> None:
    logged(project)
    answer = project.lth("tail").json
    assert list(answer) == ["taskId", "limit", "type", "count", "events"]
    assert [event["at"][9] for event in answer["events"]] == ["1", "2", "3", "5"]
    answer = project.lth("tail", "--limit", "1", "--type", "worker_started").json
    assert (answer["count"], answer["events"][0]["worker"]) == (1, "codex-cli")


def test_readers_wait_for_no_lock(project: LongTaskProject) -> None:
    """Neither for a change of the checkpoint under way nor for the lease of a run."""
    project.write(".lth.lock", {"owner": "me", "pid": 1, "expiresAt": "2099-01-01T00:00:00Z"})
    with project.store.exclusive():
        for command in ("validate", "next", "summary", "tail", "status", "health", "openclaw-recipe"):
            assert project.lth(command).code == 0, command
        assert project.lth("verify").json["status"] == "fail"
        assert project.lth("tick", "--dry-run").json["decision"] == "run"


@pytest.mark.parametrize("limit", ["0", "-1", "x", "1.5", "", "٣"])
def test_a_limit_is_a_positive_integer(project: LongTaskProject, limit: str) -> None:
    for command in ("tail", "summary"):
        done = project.lth(command, f"--limit={limit}")
        assert (done.code, done.out) == (1, "")
        assert done.err == f"--limit must be a positive integer: {limit}".rstrip() + "\n"


def test_status_is_for_people(project: LongTaskProject) -> None:
    logged(project)
    project.lth(
        "record", "--status", "blocked", "--reason", "rate_limit", "--note", "wait", "--retry-after-seconds", "60"
    )
    project.write(
        ".lth.lock", {"owner": "me", "pid": 1, "acquiredAt": AT.format(1), "expiresAt": "2099-01-01T00:00:00Z"}
    )
    done = project.lth("status")
    assert done.code == 0
    rows = dict(line.split(":", 1) for line in done.out.splitlines())
    assert rows["task"].strip() == "demo: Demo" and "wait: blocked window has not reopened" in rows["due"]
    assert "rate_limit, manual, wait" in rows["blocker"] and "held: owner me" in rows["lease"]
    assert "progress_recorded" in rows["last event"]


def test_every_reader_refuses_an_invalid_task_and_prints_why(project: LongTaskProject) -> None:
    project.write("task.json", task(title=None))
    for command in ("validate", "next", "tick", "summary", "tail", "status", "run", "resume", "openclaw-recipe"):
        done = project.lth(command)
        assert (done.code, done.out) == (1, ""), command
        assert "- missing string: title" in done.err.splitlines()
    for command, *words in (("record", "--status", "paused"), ("evidence", "--type", "test")):
        assert "- missing string: title" in project.lth(command, *words).err.splitlines()


def test_row_15_an_odd_task_is_one_line_a_problem(project: LongTaskProject) -> None:
    for content in ("null", "5", '"x"', "[]"):
        project.write("task.json", content)
        done = project.lth("next")
        assert (done.code, done.err) == (1, "- task must be object\n")
        assert project.lth("health").json["checks"][0]["status"] == "fail"
        assert project.lth("verify").json["errors"] == ["task must be object"]
