"""A fresh task, as `init` leaves it and with no edit in between: every command that the quick start shows works on it.

One walk goes through them in their order; the rest is one boundary a test, on the same output.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from agent_harness.testing.long_task_project import LongTaskProject, from_now, program
from agent_harness.testing.repo import Repo

FIELDS = ("task.objective", "task.successCriteria[0].description")
TEMPLATES = {
    "coding": ("--template", "coding"),
    "default": (),
    "video-analysis": ("--template", "video-analysis"),
    "configured": (
        *("--template", "coding", "--scheduler", "openclaw-cron", "--worker", "codex-cli"),
        *("--fallback-worker", "kimi-cli", "--cwd", "REPO", "--check"),
    ),
}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    """A trusted working copy."""
    return Repo.with_files(tmp_path / "repo", {"kept.txt": "kept\n"}).path


@pytest.fixture(params=list(TEMPLATES))
def fresh(request: pytest.FixtureRequest, tmp_path: Path, repo: Path) -> LongTaskProject:
    """A task of each template, with and without options."""
    made = LongTaskProject(tmp_path / "tasks/my-coding-task")
    words = (str(repo) if each == "REPO" else each for each in TEMPLATES[str(request.param)])
    made.lth("init", *words, code=0)
    return made


@pytest.fixture
def coding(tmp_path: Path) -> LongTaskProject:
    """A task of the template `coding`."""
    made = LongTaskProject(tmp_path / "tasks/my-coding-task")
    made.lth("init", code=0)
    return made


def decision(project: LongTaskProject) -> tuple[str, str]:
    """Return the answer of `next`, and its reason."""
    answer = project.lth("next", code=0).json
    return answer["decision"], answer["reason"]


def event_types(project: LongTaskProject, begin: int = 0) -> list[str]:
    return project.kinds()[begin:]


def test_the_quick_start_from_its_first_to_its_last_command(fresh: LongTaskProject) -> None:
    assert fresh.lth("validate", code=0).out.startswith("OK my-coding-task: active -> ")
    found = fresh.lth("next", code=0)
    assert (found.json["decision"], found.json["reason"]) == ("run", "checkpoint status is active")
    assert [each.split(" ")[0] for each in found.json["warnings"]] == list(FIELDS)
    assert all(f"warning: {each} is still to be filled in" in found.err for each in FIELDS)
    tick = fresh.lth("tick", "--dry-run", code=0).json
    assert (tick["decision"], tick["dryRun"]) == ("run", True) and "Continue exactly one bounded slice." in str(
        tick["workerPrompt"]
    )
    assert fresh.kinds() == []

    fresh.lth("record", "--status", "paused", "--note", "Implemented parser skeleton; next: adapter tests.", code=0)
    assert decision(fresh) == ("run", "checkpoint status is paused")
    limited = ("--status", "blocked", "--reason", "rate_limit", "--source", "codex-cli")
    fresh.lth("record", *limited, "--retry-after-seconds", "14400", "--note", "Resume from the same slice.", code=0)
    assert decision(fresh) == ("wait", "blocked window has not reopened")
    assert fresh.kinds() == ["progress_recorded"] * 2

    text = "Codex CLI returned 429 Too Many Requests. Retry after 120 seconds."
    before = fresh.tree()
    told = fresh.lth("classify", "--text", text, code=0).json
    assert (told["class"], told["source"], told["retryAfterSeconds"]) == ("rate_limit", "codex-cli", 120)
    assert fresh.tree() == before

    words = ("--type", "review-note", "--criterion-id", "changes-logged", "--summary", "Reviewed the run log.")
    kept = fresh.lth("evidence", *words, code=0)
    assert kept.json["recorded"] is True and kept.json["evidence"]["criterionId"] == "changes-logged"
    assert (fresh.root / kept.json["manifestPath"]).is_file()
    assert "changes-logged" in kept.json["warnings"][0] and "verified-outcome" in kept.err
    assert fresh.kinds()[-2:] == ["evidence_recorded", "checkpoint_written"]
    report = fresh.lth("verify", code=1).json
    assert (report["status"], [each["id"] for each in report["checks"]]) == ("fail", ["verified-outcome"])
    health = fresh.lth("health", code=0).json
    checks = {each["name"]: each["status"] for each in health["checks"]}
    assert checks["task-contract"] == checks["run-decision"] == "pass" and health["warnings"]

    fresh.lth("record", "--status", "active", code=0)
    ran = fresh.run("cat > artifacts/prompt.txt && echo a slice", "--cwd", str(fresh.root)).json
    assert (ran["decision"], ran["worker"], ran["exitCode"], ran["status"]) == ("run", "local-command", 0, "paused")
    assert "Task directory:" in (fresh.root / "artifacts/prompt.txt").read_text()
    assert "a slice" in fresh.outputs()[0] and not fresh.lock.exists()
    assert "openclaw cron add" in fresh.lth("openclaw-recipe", "--every", "30m", code=0).json["command"]
    assert fresh.lth("summary", code=0).json["eventCounts"]["worker_completed"] == 1
    assert fresh.lth("tail", "--limit", "5", code=0).json["count"] == 5
    fresh.lth("status", code=0)
    assert fresh.lth("record", "--status", "done", code=1).err.count("verification failed") == 1

    fresh.lth("evidence", "--type", "review-note", "--criterion-id", "verified-outcome", "--summary", "Seen", code=0)
    assert fresh.lth("verify", code=0).json["status"] == "pass"
    fresh.lth("record", "--status", "done", code=0)
    assert decision(fresh) == ("done", "task is complete")


def test_health_is_answered_at_once(tmp_path: Path, repo: Path) -> None:
    words = ("--worker", "codex-cli", "--fallback-worker", "kimi-cli", "--cwd", str(repo), "--check")
    done = LongTaskProject(tmp_path / "new").lth("init", "--template", "coding", *words, code=0)
    assert (done.json["initialized"], done.json["worker"], done.json["fallbackWorker"]) == (
        *(True, "codex-cli", "kimi-cli"),
    )
    assert done.json["warnings"] and "still to be filled in" in done.err


# ---- the one thing that is refused


@pytest.mark.parametrize("worker", ["codex-cli", "claude-code", "kimi-cli", "codex", "claude-code:", "acp:x"])
def test_a_worker_that_costs_money_asks_for_the_contract_first(
    coding: LongTaskProject, repo: Path, tmp_path: Path, worker: str
) -> None:
    env = program(tmp_path / "bin", "codex", "touch started")
    for name in ("claude", "kimi", "x"):
        program(tmp_path / "bin", name, "touch started")
    done = coding.lth("run", "--worker", worker, "--cwd", str(repo), env=env, code=0)
    assert (done.json["decision"], done.json["worker"], done.json["dryRun"]) == ("needs-human", None, False)
    assert all(each in done.json["reason"] for each in FIELDS)
    assert coding.kinds() == ["tick_started", "needs_human"] and not (repo / "started").exists()
    assert coding.checkpoint["status"] == "active" and not coding.lock.exists()


def test_its_plan_is_shown_all_the_same(coding: LongTaskProject, repo: Path) -> None:
    plan = coding.lth("run", "--worker", "codex-cli", "--cwd", str(repo), "--dry-run", code=0).json
    assert plan["decision"] == "run" and "--sandbox read-only" in plan["command"] and plan["warnings"]
    forbidden = coding.lth("run", "--worker", "codex-cli", "--cwd", "~/.ssh", code=1)
    assert "Refusing to start codex-cli in forbidden cwd" in forbidden.err
    assert coding.untouched() == []


def test_nobody_who_costs_money_takes_over(coding: LongTaskProject, tmp_path: Path) -> None:
    env = program(tmp_path / "bin", "kimi", "touch started")
    line = "echo 'HTTP 429 Too Many Requests, retry after 60 seconds' >&2; exit 7"
    done = coding.run(line, "--fallback-worker", "kimi-cli", "--cwd", ".", code=7, env=env).json
    assert "kimi-cli costs money" in done["fallbackError"] and done["status"] == "blocked"
    assert not (coding.root / "started").exists()


# ---- one boundary each


def test_a_tick_that_waits_says_so_in_the_log(coding: LongTaskProject) -> None:
    coding.lth("record", "--status", "blocked", "--retry-after-seconds", "60", code=0)
    tick = coding.lth("tick", code=0).json
    assert (tick["decision"], tick["workerPrompt"]) == ("wait", None) and 0 < tick["waitSeconds"] <= 60
    assert coding.kinds()[1:] == ["tick_started", "run_skipped"]


def test_blocked_without_an_end_needs_a_person(coding: LongTaskProject) -> None:
    coding.lth("record", "--status", "blocked", code=0)
    assert decision(coding) == ("needs-human", "blocked without blockedUntil")
    coding.lth("tick", code=0)
    assert coding.kinds()[1:] == ["tick_started", "needs_human"]
    coding.lth("record", "--status", "needs-human", "--note", "Which parser?", code=0)
    assert decision(coding) == ("needs-human", "checkpoint requires human input")
    assert coding.run("true").json["decision"] == "needs-human"


def test_a_window_that_is_over_reopens_the_task(coding: LongTaskProject) -> None:
    coding.lth("record", "--status", "blocked", "--reason", "rate_limit", "--blocked-until", from_now(-1), code=0)
    assert decision(coding) == ("run", "blocked window reopened")
    assert coding.lth("tick", code=0).json["status"] == "active"
    state = coding.checkpoint
    assert (state["status"], state["blocker"], state["blockedUntil"]) == ("active", None, None)
    assert coding.kinds()[1:] == ["tick_started", "checkpoint_written", "worker_prompt_generated"]


@pytest.mark.parametrize(
    ("text", "kind", "status"),
    [
        ("Codex CLI returned 429 Too Many Requests.", "rate_limit", "blocked"),
        ("401 Unauthorized: invalid api key", "auth_error", "needs-human"),
        ("AssertionError: 3 failed, 1 passed", "test_failure", "paused"),
        ("ENOENT: no such file or directory", "missing_context", "needs-human"),
    ],
)
def test_classify_records_what_it_names(coding: LongTaskProject, text: str, kind: str, status: str) -> None:
    assert coding.lth("classify", "--text", text, "--record", code=0).json["class"] == kind
    assert coding.checkpoint["status"] == status and coding.checkpoint["blocker"]["type"] == kind
    first = "rate_limited" if kind == "rate_limit" else "failure_classified"
    assert coding.kinds() == [first, "checkpoint_written"]


def test_a_worker_that_fails_is_classified(coding: LongTaskProject) -> None:
    done = coding.run("echo 'AssertionError: 3 failed, 1 passed'; exit 3", code=3).json
    assert (done["classification"]["class"], done["status"]) == ("test_failure", "paused")
    assert {"worker_failed", "failure_classified"} <= set(coding.kinds())


@pytest.mark.parametrize(
    ("name", "member", "value", "said"),
    [
        ("task", "schemaVersion", 2, "unsupported task.schemaVersion 2"),
        ("checkpoint", "schemaVersion", 99, "unsupported checkpoint.schemaVersion 99"),
        ("checkpoint", "evidence", [{"path": "x"}], "checkpoint.evidence[0].type is required"),
    ],
)
def test_what_the_schema_does_not_know_is_refused(
    coding: LongTaskProject, name: str, member: str, value: Any, said: str
) -> None:
    coding.write(f"{name}.json", {**json.loads((coding.root / f"{name}.json").read_text()), member: value})
    assert said in coding.lth("validate", code=1).err
    assert coding.lth("next", code=1).out == ""


def test_old_evidence_goes_to_the_archive_and_still_counts(coding: LongTaskProject) -> None:
    words = ("--type", "review-note", "--criterion-id", "verified-outcome", "--summary", "The first")
    coding.lth("evidence", *words, code=0)
    state = coding.checkpoint
    more = [{"type": "test", "summary": f"number {each}"} for each in range(49)]
    coding.checkpoint = {**state, "evidence": [*state["evidence"], *more]}
    answer = coding.lth("evidence", "--type", "test", "--summary", "the fifty-first", code=0).json
    assert answer["evidenceArchive"]["archivedCount"] == 1 and len(coding.checkpoint["evidence"]) == 50
    assert "The first" in (coding.root / "evidence/checkpoint-evidence-archive.jsonl").read_text()
    assert coding.lth("verify", code=0).json["checks"][0]["evidence"]["type"] == "review-note"


@pytest.mark.parametrize("seconds", [60, -1])
def test_a_lock_of_another_run_is_heeded_until_it_is_over(coding: LongTaskProject, seconds: int) -> None:
    """In the folder form of another program."""
    lease = {"owner": "x", "pid": os.getpid(), "acquiredAt": from_now(-90), "expiresAt": from_now(seconds)}
    coding.write(".lth.lock/lock.json", lease)
    answer = coding.run("touch artifacts/ran").json
    assert answer["decision"] == ("wait" if seconds > 0 else "run")
    assert coding.lock.exists() is (seconds > 0) and (coding.root / "artifacts/ran").exists() is (seconds < 0)


@pytest.mark.parametrize("worker", ["local-command", "codex-cli", "kimi-cli", "claude-code"])
def test_no_worker_starts_in_a_forbidden_folder(coding: LongTaskProject, worker: str) -> None:
    for folder in ("~", "~/.ssh", "~/.codex", "~/.claude", "~/.openclaw"):
        done = coding.lth("run", "--worker", worker, "--command", "true", "--cwd", folder, code=1)
        assert f"Refusing to start {worker} in forbidden cwd" in done.err
    assert coding.untouched() == []
