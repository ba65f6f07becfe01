"""Another worker in the place of one that is rate-limited."""

import json
import shlex
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from .ground import NEXT, Ground, at, checkpoint, program, task
from .test_run import edits, start, wait_for

Record = dict[str, Any]
LIMITED = "echo 'HTTP 429, retry after 2 hours' >&2; exit 3"


@pytest.fixture
def ground(tmp_path: Path) -> Ground:
    """A task with Codex first and a local command in its place."""
    made = Ground(tmp_path / "task")
    made.task = policy("echo instead")
    return made


def policy(command: str, fallback: str = "local", **members: object) -> Record:
    return task(
        workerPolicy={"preferred": "codex", "fallbackOnRateLimit": fallback},
        context={"repoPath": "."},
        localWorker={"command": command},
        **members,
    )


def codex(tmp_path: Path, script: str = LIMITED) -> dict[str, str]:
    return program(tmp_path / "bin", "codex", f"cat > {tmp_path}/prompt.codex\n{script}")


def test_a_fallback_that_goes_well(ground: Ground, tmp_path: Path) -> None:
    ground.task = policy(f"cat > {tmp_path}/prompt.local")
    answer = ground.lth("run", env=codex(tmp_path), code=0).answer
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
    state = ground.checkpoint
    assert (state["status"], state["blocker"], state["blockedUntil"]) == ("paused", None, None)
    assert [each["path"] for each in state["evidence"]] == [answer["outputPath"], second["outputPath"]]
    assert list(state["workerCooldowns"]) == ["codex-cli"]
    assert ground.kinds() == [
        *("tick_started", "worker_prompt_generated", "worker_started", "worker_failed", "rate_limited"),
        *("checkpoint_written", "worker_prompt_generated", "worker_started", "worker_completed", "checkpoint_written"),
    ]
    limited = ground.events("rate_limited")[0]
    assert (limited["status"], limited["reason"]) == ("fallback", "rate_limit")
    assert "local-command" in limited["note"]
    assert limited["blockedUntil"] == answer["classification"]["blockedUntil"]
    for kind in ("worker_prompt_generated", "worker_started"):
        event = ground.events(kind)[1]
        assert (event["worker"], event["reason"]) == ("local-command", "fallback_on_rate_limit")
    assert ground.events("worker_completed")[0]["reason"] == "fallback exit 0"
    assert ground.reasons()[-1] == "fallback worker completed without checkpoint update"
    assert not ground.events("handoff_written")
    ground.loads()


def test_a_fallback_that_writes_the_checkpoint(ground: Ground, tmp_path: Path) -> None:
    ground.task = policy(edits(nextStep="Mine."))
    ground.lth("run", env=codex(tmp_path), code=0)
    assert ground.checkpoint["nextStep"] == "Mine."
    assert ground.reasons()[-1] == "fallback evidence recorded"


def test_a_fallback_that_claims_done(ground: Ground, tmp_path: Path) -> None:
    ground.task = policy(edits(status="done", nextStep="Nothing."))
    answer = ground.lth("run", env=codex(tmp_path), code=0).answer
    assert (answer["status"], answer["verification"]["status"]) == ("paused", "fail")


def test_the_slice_after_it_goes_to_the_fallback_at_once(ground: Ground, tmp_path: Path) -> None:
    env = codex(tmp_path)
    ground.lth("run", env=env, code=0)
    answer = ground.lth("run", env=env, code=0).answer
    assert list(answer) == [
        *("decision", "reason", "dryRun", "status", "waitSeconds", "worker", "requestedWorker", "degradedFrom"),
        *("workerCooldown", "command", "cwd", "exitCode", "outputPath", "classification"),
    ]
    assert (answer["worker"], answer["requestedWorker"], answer["degradedFrom"]) == (
        *("local-command", "codex-cli", "codex-cli"),
    )
    assert answer["workerCooldown"]["retryAfterSeconds"] == 7200
    event = ground.events("worker_prompt_generated")[-1]
    assert (event["degradedFrom"], event["blockedUntil"]) == ("codex-cli", answer["workerCooldown"]["blockedUntil"])
    dry = ground.lth("run", "--dry-run", env=env, code=0).answer
    assert (dry["degradedFrom"], dry["worker"]) == ("codex-cli", "local-command")


def test_both_are_limited(ground: Ground, tmp_path: Path) -> None:
    ground.task = policy("echo 'HTTP 429, retry after 60 s'; exit 4")
    answer = ground.lth("run", env=codex(tmp_path), code=4).answer
    assert (answer["exitCode"], answer["finalExitCode"], answer["status"]) == (3, 4, "blocked")
    state = ground.checkpoint
    cooldowns = state["workerCooldowns"]
    assert list(cooldowns) == ["codex-cli", "local-command"]
    assert state["blockedUntil"] == cooldowns["local-command"]["blockedUntil"]
    assert state["blockedUntil"] < cooldowns["codex-cli"]["blockedUntil"]
    assert ground.events("worker_failed")[1]["reason"] == "fallback exit 4"
    assert len(ground.events("handoff_written")) == 1
    ground.loads()


def test_the_first_of_both_is_waited_for(ground: Ground, tmp_path: Path) -> None:
    cooldown = {"type": "rate_limit", "source": "manual"}
    first, second = at(500), at(50)
    cooldowns = {
        "codex-cli": {**cooldown, "blockedUntil": first},
        "local-command": {**cooldown, "blockedUntil": second},
    }
    ground.checkpoint = checkpoint(workerCooldowns=cooldowns)
    answer = ground.lth("run", env=codex(tmp_path), code=0).answer
    assert answer["decision"] == "wait"
    assert answer["reason"] == f"codex-cli is rate-limited until {first}"
    assert 40 < answer["waitSeconds"] <= 50
    assert ground.events("run_skipped")[0]["blockedUntil"] == second


def test_a_degraded_slice_that_is_limited_too_waits_for_the_first(ground: Ground, tmp_path: Path) -> None:
    ground.task = policy("echo 'HTTP 429, retry after 2 hours'; exit 4")
    until = at(600)
    cooldown = {"type": "rate_limit", "source": "manual", "blockedUntil": until}
    ground.checkpoint = checkpoint(workerCooldowns={"codex-cli": cooldown})
    ground.lth("run", env=codex(tmp_path), code=4)
    assert ground.checkpoint["blockedUntil"] == until


def test_the_fallback_fails_otherwise(ground: Ground, tmp_path: Path) -> None:
    ground.task = policy("echo 2 tests failed; exit 5")
    answer = ground.lth("run", env=codex(tmp_path), code=5).answer
    assert answer["fallback"]["classification"]["class"] == "test_failure"
    state = ground.checkpoint
    assert (state["status"], state["blocker"]["type"]) == ("paused", "test_failure")
    assert list(state["workerCooldowns"]) == ["codex-cli"]
    assert not ground.events("handoff_written")
    ground.loads()


def test_row_04_a_fallback_that_cannot_start_leaves_the_rate_limit(ground: Ground, tmp_path: Path) -> None:
    ground.task = {**policy("x"), "localWorker": {}}
    answer = ground.lth("run", env=codex(tmp_path), code=3).answer
    assert "--command" in answer["fallbackError"]
    assert "fallback" not in answer
    assert ground.checkpoint["status"] == "blocked"
    assert list(ground.checkpoint["workerCooldowns"]) == ["codex-cli"]
    assert not ground.lock.exists()


def test_no_fallback_for_other_failures_nor_to_itself(ground: Ground, tmp_path: Path) -> None:
    ground.lth("run", env=codex(tmp_path, "echo 2 tests failed; exit 6"), code=6)
    assert len(ground.events("worker_started")) == 1
    ground.task = policy("x", fallback="codex-cli")
    ground.checkpoint = checkpoint()
    ground.lth("run", env=codex(tmp_path), code=3)
    assert len(ground.events("worker_started")) == 2


def test_any_worker_has_a_fallback_and_the_command_line_wins(ground: Ground, tmp_path: Path) -> None:
    env = program(tmp_path / "bin", "kimi", "echo from kimi")
    words = ("--worker", "local", "--command", LIMITED, "--fallback-worker", "kimi")
    answer = ground.lth("run", *words, env=env, code=0).answer
    assert (answer["worker"], answer["fallback"]["worker"]) == ("local-command", "kimi-cli")


def test_what_the_first_worker_wrote_stays(ground: Ground, tmp_path: Path) -> None:
    ground.lth("run", env=codex(tmp_path, f"{edits(nextStep='From the first.')}; {LIMITED}"), code=0)
    assert ground.checkpoint["nextStep"] == "From the first."


def test_a_checkpoint_that_the_first_worker_damaged(ground: Ground, tmp_path: Path) -> None:
    ground.lth("run", env=codex(tmp_path, f"rm checkpoint.json; {LIMITED}"), code=0)
    assert list((ground.root / "evidence").glob("invalid-checkpoint-*.json"))
    ground.loads()


def test_a_run_that_is_told_to_end_during_the_fallback(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    second = f"{shlex.quote(sys.executable)} -c pass; touch on; sleep 300"
    ground.task = task(kimiWorker={"cwd": "."})
    env = program(tmp_path / "bin", "kimi", second)
    import os

    os.environ["PATH"], before = env["PATH"], os.environ["PATH"]
    try:
        running = start(ground, LIMITED, "--fallback-worker", "kimi")
    finally:
        os.environ["PATH"] = before
    wait_for(running, tmp_path / "on")
    running.send_signal(signal.SIGTERM)
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 143
    answer = json.loads(out)
    assert (answer["exitCode"], answer["finalExitCode"], answer["status"]) == (3, 143, "active")
    state = ground.checkpoint
    assert list(state["workerCooldowns"]) == ["local-command"]
    assert (state["nextStep"], len(state["evidence"])) == (NEXT, 2)
    assert not ground.lock.exists()
