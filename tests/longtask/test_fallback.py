"""Another worker in the place of one that is rate-limited."""

import json
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_harness.testing.long_task_project import NEXT, LongTaskProject, book, book_checkpoint, from_now, program

from .test_run import edits, start, wait_for

Record = dict[str, Any]
LIMITED = "echo 'HTTP 429, retry after 2 hours' >&2; exit 3"


@pytest.fixture
def project(tmp_path: Path) -> LongTaskProject:
    """A task with Codex first and a local command in its place."""
    made = LongTaskProject.of_book(tmp_path / "task")
    made.task = policy("echo instead")
    return made


def policy(command: str, fallback: str = "local", **members: object) -> Record:
    return book(
        workerPolicy={"preferred": "codex", "fallbackOnRateLimit": fallback},
        context={"repoPath": "."},
        localWorker={"command": command},
        **members,
    )


def codex(tmp_path: Path, script: str = LIMITED) -> dict[str, str]:
    return program(tmp_path / "bin", "codex", f"cat > {tmp_path}/prompt.codex\n{script}")


def test_a_fallback_that_goes_well(project: LongTaskProject, tmp_path: Path) -> None:
    project.task = policy(f"cat > {tmp_path}/prompt.local")
    answer = project.lth("run", env=codex(tmp_path), code=0).json
    assert list(answer) == [
        *("decision", "reason", "dryRun", "status", "waitSeconds", "worker", "requestedWorker", "command", "cwd"),
        *("exitCode", "finalExitCode", "outputPath", "classification", "fallback", "usage"),
    ]
    assert (answer["worker"], answer["requestedWorker"]) == ("codex-cli", "codex-cli")
    assert (answer["exitCode"], answer["finalExitCode"], answer["status"]) == (3, 0, "paused")
    assert answer["classification"]["class"] == "rate_limit"
    second = answer["fallback"]
    assert list(second) == ["worker", "command", "cwd", "exitCode", "outputPath", "classification"]
    assert (second["worker"], second["exitCode"], second["classification"]) == ("local-command", 0, None)
    assert (tmp_path / "prompt.codex").read_text() == (tmp_path / "prompt.local").read_text()
    state = project.checkpoint
    assert (state["status"], state["blocker"], state["blockedUntil"]) == ("paused", None, None)
    assert [each["path"] for each in state["evidence"]] == [answer["outputPath"], second["outputPath"]]
    assert list(state["workerCooldowns"]) == ["codex-cli"]
    assert project.kinds() == [
        *("tick_started", "worker_prompt_generated", "worker_started", "worker_failed", "rate_limited"),
        *("checkpoint_written", "worker_prompt_generated", "worker_started", "worker_completed", "checkpoint_written"),
    ]
    limited = project.events("rate_limited")[0]
    assert (limited["status"], limited["reason"]) == ("fallback", "rate_limit")
    assert "local-command" in limited["note"]
    assert limited["blockedUntil"] == answer["classification"]["blockedUntil"]
    for kind in ("worker_prompt_generated", "worker_started"):
        event = project.events(kind)[1]
        assert (event["worker"], event["reason"]) == ("local-command", "fallback_on_rate_limit")
    assert project.events("worker_completed")[0]["reason"] == "fallback exit 0"
    assert project.reasons()[-1] == "fallback worker completed without checkpoint update"
    assert not project.events("handoff_written")
    project.loads()


def test_a_fallback_that_writes_the_checkpoint(project: LongTaskProject, tmp_path: Path) -> None:
    project.task = policy(edits(nextStep="Mine."))
    project.lth("run", env=codex(tmp_path), code=0)
    assert project.checkpoint["nextStep"] == "Mine."
    assert project.reasons()[-1] == "fallback evidence recorded"


def test_a_fallback_that_claims_done(project: LongTaskProject, tmp_path: Path) -> None:
    project.task = policy(edits(status="done", nextStep="Nothing."))
    answer = project.lth("run", env=codex(tmp_path), code=0).json
    assert (answer["status"], answer["verification"]["status"]) == ("paused", "fail")


def test_the_slice_after_it_goes_to_the_fallback_at_once(project: LongTaskProject, tmp_path: Path) -> None:
    env = codex(tmp_path)
    project.lth("run", env=env, code=0)
    answer = project.lth("run", env=env, code=0).json
    assert list(answer) == [
        *("decision", "reason", "dryRun", "status", "waitSeconds", "worker", "requestedWorker", "degradedFrom"),
        *("workerCooldown", "command", "cwd", "exitCode", "outputPath", "classification"),
    ]
    assert (answer["worker"], answer["requestedWorker"], answer["degradedFrom"]) == (
        *("local-command", "codex-cli", "codex-cli"),
    )
    assert answer["workerCooldown"]["retryAfterSeconds"] == 7200
    event = project.events("worker_prompt_generated")[-1]
    assert (event["degradedFrom"], event["blockedUntil"]) == ("codex-cli", answer["workerCooldown"]["blockedUntil"])
    dry = project.lth("run", "--dry-run", env=env, code=0).json
    assert (dry["degradedFrom"], dry["worker"]) == ("codex-cli", "local-command")


def test_both_are_limited(project: LongTaskProject, tmp_path: Path) -> None:
    project.task = policy("echo 'HTTP 429, retry after 60 s'; exit 4")
    answer = project.lth("run", env=codex(tmp_path), code=4).json
    assert (answer["exitCode"], answer["finalExitCode"], answer["status"]) == (3, 4, "blocked")
    state = project.checkpoint
    cooldowns = state["workerCooldowns"]
    assert list(cooldowns) == ["codex-cli", "local-command"]
    assert state["blockedUntil"] == cooldowns["local-command"]["blockedUntil"]
    assert state["blockedUntil"] < cooldowns["codex-cli"]["blockedUntil"]
    assert project.events("worker_failed")[1]["reason"] == "fallback exit 4"
    assert len(project.events("handoff_written")) == 1
    project.loads()


def test_the_first_of_both_is_waited_for(project: LongTaskProject, tmp_path: Path) -> None:
    cooldown = {"type": "rate_limit", "source": "manual"}
    first, second = from_now(500), from_now(50)
    cooldowns = {
        "codex-cli": {**cooldown, "blockedUntil": first},
        "local-command": {**cooldown, "blockedUntil": second},
    }
    project.checkpoint = book_checkpoint(workerCooldowns=cooldowns)
    answer = project.lth("run", env=codex(tmp_path), code=0).json
    assert answer["decision"] == "wait"
    assert answer["reason"] == f"codex-cli is rate-limited until {first}"
    assert 40 < answer["waitSeconds"] <= 50
    assert project.events("run_skipped")[0]["blockedUntil"] == second


def test_a_degraded_slice_that_is_limited_too_waits_for_the_first(project: LongTaskProject, tmp_path: Path) -> None:
    project.task = policy("echo 'HTTP 429, retry after 2 hours'; exit 4")
    until = from_now(600)
    cooldown = {"type": "rate_limit", "source": "manual", "blockedUntil": until}
    project.checkpoint = book_checkpoint(workerCooldowns={"codex-cli": cooldown})
    project.lth("run", env=codex(tmp_path), code=4)
    assert project.checkpoint["blockedUntil"] == until


def test_the_fallback_fails_otherwise(project: LongTaskProject, tmp_path: Path) -> None:
    project.task = policy("echo 2 tests failed; exit 5")
    answer = project.lth("run", env=codex(tmp_path), code=5).json
    assert answer["fallback"]["classification"]["class"] == "test_failure"
    state = project.checkpoint
    assert (state["status"], state["blocker"]["type"]) == ("paused", "test_failure")
    assert list(state["workerCooldowns"]) == ["codex-cli"]
    assert not project.events("handoff_written")
    project.loads()


def test_row_04_a_fallback_that_cannot_start_leaves_the_rate_limit(project: LongTaskProject, tmp_path: Path) -> None:
    project.task = {**policy("x"), "localWorker": {}}
    answer = project.lth("run", env=codex(tmp_path), code=3).json
    assert "--command" in answer["fallbackError"]
    assert "fallback" not in answer
    assert project.checkpoint["status"] == "blocked"
    assert list(project.checkpoint["workerCooldowns"]) == ["codex-cli"]
    assert not project.lock.exists()


def test_no_fallback_for_other_failures_nor_to_itself(project: LongTaskProject, tmp_path: Path) -> None:
    project.lth("run", env=codex(tmp_path, "echo 2 tests failed; exit 6"), code=6)
    assert len(project.events("worker_started")) == 1
    project.task = policy("x", fallback="codex-cli")
    project.checkpoint = book_checkpoint()
    project.lth("run", env=codex(tmp_path), code=3)
    assert len(project.events("worker_started")) == 2


def test_any_worker_has_a_fallback_and_the_command_line_wins(project: LongTaskProject, tmp_path: Path) -> None:
    env = program(tmp_path / "bin", "kimi", "echo from kimi")
    words = ("--worker", "local", "--command", LIMITED, "--fallback-worker", "kimi")
    answer = project.lth("run", *words, env=env, code=0).json
    assert (answer["worker"], answer["fallback"]["worker"]) == ("local-command", "kimi-cli")


def test_what_the_first_worker_wrote_stays(project: LongTaskProject, tmp_path: Path) -> None:
    project.lth("run", env=codex(tmp_path, f"{edits(nextStep='From the first.')}; {LIMITED}"), code=0)
    assert project.checkpoint["nextStep"] == "From the first."


def test_a_checkpoint_that_the_first_worker_damaged(project: LongTaskProject, tmp_path: Path) -> None:
    project.lth("run", env=codex(tmp_path, f"rm checkpoint.json; {LIMITED}"), code=0)
    assert list((project.root / "evidence").glob("invalid-checkpoint-*.json"))
    project.loads()


def test_a_run_that_is_told_to_end_during_the_fallback(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    second = f"{shlex.quote(sys.executable)} -c pass; touch on; sleep 300"
    project.task = book(kimiWorker={"cwd": "."})
    env = program(tmp_path / "bin", "kimi", second)
    import os

    os.environ["PATH"], before = env["PATH"], os.environ["PATH"]
    try:
        running = start(project, LIMITED, "--fallback-worker", "kimi")
    finally:
        os.environ["PATH"] = before
    wait_for(running, tmp_path / "on")
    running.send_signal(signal.SIGTERM)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 143
    answer = json.loads(out)
    assert (answer["exitCode"], answer["finalExitCode"], answer["status"]) == (3, 143, "active")
    state = project.checkpoint
    assert list(state["workerCooldowns"]) == ["local-command"]
    assert (state["nextStep"], len(state["evidence"])) == (NEXT, 2)
    assert not project.lock.exists()
