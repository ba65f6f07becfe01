"""One slice: its events, its answer, its output file, and what each end of a worker makes of the checkpoint."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agent_harness.kernel import clock, owner
from agent_harness.kernel.rate_limits import LimitClock
from agent_harness.protocols.longtask.run import outcome
from agent_harness.protocols.longtask.run.adapters import account_of
from agent_harness.testing.long_task_project import (
    NEXT,
    LongTaskProject,
    argv,
    book,
    book_checkpoint,
    from_now,
    program,
)

Record = dict[str, Any]
EMPTY = "exec true"


def edits(**members: object) -> str:
    """A line of shell by which a worker writes the checkpoint."""
    script = (
        "import json, os; p = os.environ['LTH_TASK_DIR'] + '/checkpoint.json'; s = json.load(open(p)); "
        f"s.update(json.loads({json.dumps(json.dumps(members))})); open(p, 'w').write(json.dumps(s))"
    )
    return f"{shlex.quote(sys.executable)} -c {shlex.quote(script)}"


def gone(pid: int) -> bool:
    """Return True if a process is over, or ends within 10 seconds."""
    until = time.monotonic() + 10
    while owner.exists(pid) and time.monotonic() < until:
        time.sleep(0.02)
    return not owner.exists(pid)


# ---- a slice that goes well


def test_the_events_the_answer_and_the_checkpoint_of_a_slice(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    answer = project.run("echo hello; echo oops >&2").json
    assert list(answer) == [
        *("decision", "reason", "dryRun", "status", "waitSeconds", "worker", "requestedWorker", "command", "cwd"),
        *("exitCode", "outputPath", "classification"),
    ]
    assert answer["decision"] == "run"
    assert answer["reason"] == "checkpoint status is active"
    assert (answer["dryRun"], answer["status"], answer["waitSeconds"]) == (False, "paused", 0)
    assert answer["worker"] == answer["requestedWorker"] == "local-command"
    assert (answer["cwd"], answer["exitCode"], answer["classification"]) == (str(tmp_path), 0, None)
    assert re.fullmatch(r"evidence/worker-output-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z\.txt", answer["outputPath"])
    state = project.checkpoint
    assert state["status"] == "paused"
    assert NEXT in state["lastCompletedStep"]
    assert "local-command" in state["lastCompletedStep"]
    assert state["nextStep"] != NEXT
    item = state["evidence"][0]
    assert (item["type"], item["path"]) == ("worker-output", answer["outputPath"])
    assert project.kinds() == [
        *("tick_started", "worker_prompt_generated", "worker_started", "worker_completed", "checkpoint_written")
    ]
    assert project.events("worker_started")[0]["note"] == answer["command"]
    completed = project.events("worker_completed")[0]
    assert (completed["status"], completed["reason"], completed["note"]) == ("paused", "exit 0", answer["outputPath"])
    assert project.reasons() == ["worker completed without checkpoint update"]
    project.loads()


def test_the_output_file(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.run("echo out; printf 'no end' >&2")
    text = project.outputs()[0]
    stamp = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z"
    assert re.fullmatch(
        "worker: local-command\n"
        "command: echo out; printf 'no end' >&2\n"
        f"cwd: {re.escape(str(tmp_path))}\nexitCode: 0\nstartedAt: {stamp}\nfinishedAt: {stamp}\n"
        "## stdout\nout\n## stderr\nno end\n",
        text,
    )


def test_secrets_and_odd_bytes_of_a_worker(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.run("echo key=sk-ant-REDACTED; printf '\\377\\n'")
    assert "aaaaaaaaaa" not in project.outputs()[0]
    assert "\N{REPLACEMENT CHARACTER}" in project.outputs()[0]


def test_what_a_worker_is_told(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.run('echo "$LTH_TASK_DIR $LTH_WORKER ${#LTH_RUN_ID} $SOME_API_KEY"; cat', env={"SOME_API_KEY": "k"})
    text = project.outputs()[0]
    assert f"{tmp_path} local-command 32 k\n" in text
    assert "Continue exactly one bounded slice." in text
    assert f"Next step: {NEXT}" in text


def test_marks_of_a_run_around_this_one_are_not_passed_on(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    marks = {"CLAUDECODE": "1", "HARNESS_CLAIM_TOKEN": "token-outside", "HARNESS_RUN_ID": "run-outside"}
    project.run("env", env={**marks, "KEPT": "kept"})
    names = {line.partition("=")[0] for line in project.outputs()[0].splitlines()}
    assert "KEPT" in names and not {"CLAUDECODE", "HARNESS_CLAIM_TOKEN"} & names
    assert "run-outside" not in project.outputs()[0]


@pytest.mark.parametrize("command", [EMPTY, "exec <&-; sleep 0.2; echo done", "head -c 1 >/dev/null"])
def test_a_worker_need_not_read_its_prompt(tmp_path: Path, command: str) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(objective="long " * 100_000)
    assert project.run(command).json["exitCode"] == 0


def test_an_unread_prompt_of_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.checkpoint = book_checkpoint(status="blocked", blockedUntil=from_now(-5))
    answer = project.run("touch ran", "--dry-run").json
    assert list(answer) == [
        *("decision", "reason", "dryRun", "status", "waitSeconds", "worker", "requestedWorker", "command", "cwd"),
        "workerPrompt",
    ]
    assert (answer["dryRun"], answer["status"]) == (True, "active")
    assert answer["reason"] == "blocked window reopened"
    assert project.untouched() == []
    assert project.checkpoint["status"] == "blocked"


# ---- decisions


@pytest.mark.parametrize(
    ("members", "decision", "kinds"),
    [
        ({"status": "done"}, "done", ["tick_started"]),
        ({"status": "needs-human"}, "needs-human", ["tick_started", "needs_human"]),
        ({"status": "blocked"}, "needs-human", ["tick_started", "needs_human"]),
        ({"status": "blocked", "blockedUntil": "2099-01-01T00:00:00Z"}, "wait", ["tick_started", "run_skipped"]),
    ],
)
def test_nothing_runs_when_nothing_is_due(tmp_path: Path, members: Record, decision: str, kinds: list[str]) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.checkpoint = book_checkpoint(**members)
    answer = project.run("touch ran").json
    assert list(answer) == ["decision", "reason", "dryRun", "status", "waitSeconds", "worker"]
    assert (answer["decision"], answer["worker"]) == (decision, None)
    assert project.kinds() == kinds
    assert not (tmp_path / "ran").exists()
    assert not project.lock.exists()


def test_a_window_that_is_over_reopens_before_the_worker_starts(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.checkpoint = book_checkpoint(status="blocked", blockedUntil=from_now(-5), blocker={"type": "external"})
    project.run("cat checkpoint.json")
    assert '"status": "active"' in project.outputs()[0]
    assert project.reasons() == ["blocked window reopened", "worker completed without checkpoint update"]
    assert project.kinds()[:4] == ["tick_started", "checkpoint_written", "worker_prompt_generated", "worker_started"]
    assert project.events("tick_started")[0]["status"] == "blocked"


def test_row_01_a_failed_local_worker_leaves_a_task_that_loads(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.run("exit 9", code=9)
    assert project.checkpoint["blocker"]["source"] == "manual"
    project.loads()
    project.checkpoint = book_checkpoint(blocker={"type": "unknown", "source": "local-command"})
    project.loads()


# ---- workers that write the checkpoint


@pytest.mark.parametrize(
    "members",
    [
        {"nextStep": "The third chapter."},
        {"status": "paused"},
        {"status": "blocked", "blockedUntil": "2099-01-01T00:00:00Z"},
        {"status": "needs-human"},
        {"currentPhase": "editing"},
        {"lastCompletedStep": "The second chapter."},
        {"activeFiles": ["a"]},
        {"openQuestions": ["b"]},
    ],
)
def test_what_a_worker_wrote_stays(tmp_path: Path, members: Record) -> None:
    project = LongTaskProject.of_book(tmp_path)
    status = project.run(edits(**members)).json["status"]
    state = project.checkpoint
    assert {name: state[name] for name in members} == members
    assert status == state["status"]
    assert [each["type"] for each in state["evidence"]] == ["worker-output"]
    assert project.reasons() == ["worker output recorded"]


def test_evidence_alone_is_no_progress(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    lth = shlex.join([sys.executable, "-m", "agent_harness.cli.lth"])
    project.run(f'{lth} evidence "$LTH_TASK_DIR" --type test --summary green')
    assert [each["type"] for each in project.checkpoint["evidence"]] == ["test", "worker-output"]
    assert project.reasons() == ["evidence recorded", "worker completed without checkpoint update"]


def test_row_11_an_untrue_claim_of_done_is_taken_back(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    answer = project.run(edits(status="done", nextStep="Nothing.")).json
    assert answer["status"] == "paused"
    assert [each["id"] for each in answer["verification"]["checks"]] == ["written"]
    state = project.checkpoint
    assert state["status"] == "paused"
    assert "written" in state["nextStep"]
    assert project.reasons() == ["worker output recorded", "worker claimed done without verification"]
    project.loads()


def test_a_true_claim_of_done_stays(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(
        successCriteria=[
            {"id": "there", "description": "d", "metric": "command", "target": "test -e book.md"},
            {"id": "said", "description": "d", "metric": "output_contains", "target": "the end"},
        ]
    )
    answer = project.run(f"touch book.md; echo the end; {edits(status='done', nextStep='Nothing.')}").json
    assert answer["status"] == project.checkpoint["status"] == "done"
    assert "verification" not in answer
    assert project.lth("next", code=0).json["decision"] == "done"


def test_a_claim_is_not_proven_by_a_check_that_is_cut_short(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(
        successCriteria=[{"id": "slow", "description": "d", "metric": "command", "target": "touch checking; sleep 300"}]
    )
    running = start(project, edits(status="done", nextStep="Nothing."))
    wait_for(running, tmp_path / "checking")
    running.terminate()
    out, _ = running.communicate(timeout=60)
    assert json.loads(out)["status"] == project.checkpoint["status"] == "paused"
    project.loads()


@pytest.mark.parametrize(
    "damage", ["rm checkpoint.json", "echo '{' > checkpoint.json", "echo '[]' > checkpoint.json", edits(status="tired")]
)
def test_row_04_a_damaged_checkpoint_is_kept_aside_and_restored(tmp_path: Path, damage: str) -> None:
    project = LongTaskProject.of_book(tmp_path)
    before = project.checkpoint
    done = project.run(damage, code=1)
    state = project.checkpoint
    assert done.json["status"] == state["status"] == "needs-human"
    assert state["blocker"]["type"] == "unknown"
    assert state["nextStep"] == before["nextStep"]
    kept = list((tmp_path / "evidence").glob("invalid-checkpoint-*.json"))
    assert done.json["invalidCheckpoint"] == f"evidence/{kept[0].name}"
    assert project.reasons() == ["worker left an invalid checkpoint"]
    assert not project.lock.exists()
    project.loads()


def test_a_damaged_contract_is_told_and_the_lease_given_back(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    done = project.run("echo '{}' > task.json", code=1)
    assert "- missing string: id" in done.err
    assert project.kinds()[-1] == "worker_completed"
    assert not project.lock.exists()


# ---- workers that fail


@pytest.mark.parametrize(
    ("command", "code", "name", "status"),
    [
        ("echo 'HTTP 429' >&2; exit 5", 5, "rate_limit", "blocked"),
        ("echo '2 tests failed'; exit 6", 6, "test_failure", "paused"),
        ("echo '401 Unauthorized'; exit 7", 7, "auth_error", "needs-human"),
        ("cat nothing.txt; exit 8", 8, "missing_context", "needs-human"),
        ("echo hm; exit 9", 9, "unknown", "needs-human"),
    ],
)
def test_a_failure_has_a_class(tmp_path: Path, command: str, code: int, name: str, status: str) -> None:
    project = LongTaskProject.of_book(tmp_path)
    answer = project.run(command, code=code).json
    assert (answer["exitCode"], answer["classification"]["class"], answer["status"]) == (code, name, status)
    state = project.checkpoint
    assert (state["status"], state["nextStep"]) == (status, outcome.NEXT_STEPS[name])
    blocker = state["blocker"]
    assert (blocker["type"], blocker["message"]) == (name, answer["classification"]["summary"])
    assert blocker["requiresHuman"] is (status == "needs-human")
    assert (state["blockedUntil"] is not None) == (name == "rate_limit")
    assert state["evidence"][0]["exitCode"] == code
    failed = project.events("worker_failed")[0]
    assert (failed["status"], failed["reason"]) == ("needs-human", f"exit {code}")
    kind = "rate_limited" if name == "rate_limit" else "failure_classified"
    event = project.events(kind)[0]
    assert (event["status"], event["reason"]) == (status, name)
    assert project.reasons() == [f"classified {name}"]
    assert ("workerCooldowns" in state) == (name == "rate_limit")
    assert project.checkpoint["evidence"][0]["path"] == answer["outputPath"]
    project.loads()


def test_a_next_step_that_a_failed_worker_wrote_stays(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.run(f"{edits(nextStep='Mine.', status='done')}; echo 2 tests failed; exit 1", code=1)
    assert project.checkpoint["nextStep"] == "Mine."
    assert project.checkpoint["status"] == "paused"


def test_row_12_a_prompt_that_is_echoed_is_no_failure_of_its_own(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(objective="Add rate limiting: HTTP 429, retry after 5 s, rate limit exceeded.")
    answer = project.run("cat >&2; exit 1", code=1).json
    assert answer["classification"]["class"] == "unknown"
    project.checkpoint = book_checkpoint()
    answer = project.run("sed 's/^/  /' ; exit 1", code=1).json
    assert answer["classification"]["class"] == "unknown"


@pytest.mark.parametrize(
    ("command", "code"), [("kill -9 $$", 137), ("kill -TERM $$", 143), ("kill -SEGV $$", 139), ("exit 200", 200)]
)
def test_row_03_death_by_a_signal_is_a_failure(tmp_path: Path, command: str, code: int) -> None:
    project = LongTaskProject.of_book(tmp_path)
    answer = project.run(command, code=code).json
    assert answer["exitCode"] == code
    assert project.events("worker_failed")[0]["reason"] == f"exit {code}"
    assert ("error: killed by SIG" in project.outputs()[0]) == (code != 200)


def test_row_07_a_timeout_ends_the_whole_group(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    command = "(trap '' TERM; sleep 300) & echo $! > pid; setsid sleep 300 & echo $! > away; echo begun; wait"
    answer = project.run(command, "--timeout-seconds", "1", code=124).json
    assert answer["exitCode"] == 124
    assert "error: timed out after 1 s" in project.outputs()[0]
    assert "begun" in project.outputs()[0]
    assert gone(int((tmp_path / "pid").read_text()))
    assert gone(int((tmp_path / "away").read_text()))
    assert not project.lock.exists()
    project.loads()


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_worker_has_five_seconds_to_tidy_up(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    command = "trap 'sleep 1; echo tidied; exit 0' TERM; while :; do sleep 0.1; done"
    assert project.run(command, "--timeout-seconds", "3", code=124).json["exitCode"] == 124
    assert "tidied" in project.outputs()[0]


def test_what_a_finished_worker_left_behind_is_ended(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.run("setsid sleep 300 & echo $! > pid")
    assert gone(int((tmp_path / "pid").read_text()))


def test_a_program_that_is_missing(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    answer = project.lth("run", "--worker", "kimi", "--cwd", ".", code=127, env={"PATH": "/usr/bin:/bin"}).json
    assert (answer["exitCode"], answer["classification"]["class"]) == (127, "missing_context")
    assert "error: kimi: command not found" in project.outputs()[0]
    assert project.checkpoint["blocker"]["source"] == "kimi-cli"
    assert not project.lock.exists()


def test_a_program_that_the_system_does_not_execute(tmp_path: Path) -> None:
    env = program(tmp_path / "bin", "kimi", "echo never")
    (tmp_path / "bin/kimi").write_bytes(b"no program\0")
    project = LongTaskProject.of_book(tmp_path / "task")
    answer = project.lth("run", "--worker", "kimi", "--cwd", ".", code=127, env=env).json
    assert (answer["exitCode"], answer["status"]) == (127, "needs-human")
    assert project.events("worker_failed")[0]["reason"] == "exit 127"
    assert not project.lock.exists()


@pytest.mark.scenario
def test_row_18_more_output_than_fits(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    answer = project.run("echo first; head -c 12000000 /dev/zero | tr '\\0' 'x' | fold -w 99; echo last").json
    assert answer["exitCode"] == 0
    text = project.outputs()[0]
    assert "## stdout\nfirst\n" in text
    assert "last\n## stderr\n" in text
    assert re.search(r"\n\[\.\.\. \d+ bytes left out here \.\.\.\]\n", text)
    assert 10 << 20 <= len(text) <= (10 << 20) + 4096


def test_huge_numbers_of_a_contract_are_as_long_as_can_be(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(
        workerPolicy={"lockTtlSeconds": 10**400},
        localWorker={"command": "echo 'HTTP 429'; exit 1", "timeoutSeconds": 10**400},
        rateLimitPolicy={"fallbackWaitSeconds": 10**400},
    )
    project.lth("run", code=1)
    assert project.checkpoint["status"] == "blocked"
    project.loads()


def test_evidence_that_would_lie_elsewhere_is_refused_before_anything_starts(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path / "task")
    (tmp_path / "elsewhere").mkdir()
    (project.root / "evidence").rmdir()
    (project.root / "evidence").symlink_to(tmp_path / "elsewhere")
    done = project.run("touch ran", code=1)
    assert "must stay inside the task directory" in done.err
    assert not (project.root / "ran").exists()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_output_that_cannot_be_kept_is_told(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    done = project.run("rmdir evidence; touch evidence", code=1)
    assert "evidence" in done.err
    assert "could not be kept" in project.events("worker_failed")[0]["reason"]
    assert not project.lock.exists()


# ---- rate limits and cooldowns


def test_a_rate_limit_pauses_with_a_time(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    answer = project.run("echo 'HTTP 429, retry after 2 hours'; exit 1", code=1).json
    state = project.checkpoint
    cooldown = state["workerCooldowns"]["local-command"]
    assert state["blockedUntil"] == cooldown["blockedUntil"] == answer["classification"]["blockedUntil"]
    assert list(cooldown) == [
        "type",
        "source",
        "message",
        "observedAt",
        "blockedUntil",
        "retryAfterSeconds",
        "evidence",
    ]
    assert (cooldown["type"], cooldown["source"], cooldown["retryAfterSeconds"]) == ("rate_limit", "manual", 7200)
    assert cooldown["evidence"][0]["path"] == answer["outputPath"]
    assert project.events("rate_limited")[0]["worker"] == "local-command"
    assert 7100 < project.lth("next").json["waitSeconds"] <= 7200


def cooling(until: str | None, worker: str = "local-command") -> Record:
    return {worker: {"type": "rate_limit", "source": "manual", "blockedUntil": until}}


def test_a_worker_that_cools_down_is_waited_for(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    until = from_now(100)
    project.checkpoint = book_checkpoint(workerCooldowns=cooling(until), status="blocked", blockedUntil=from_now(-1))
    answer = project.run("touch ran").json
    assert list(answer) == [
        *("decision", "reason", "dryRun", "status", "waitSeconds", "worker", "requestedWorker", "workerCooldown"),
        "rateLimits",
    ]
    assert answer["decision"] == "wait"
    assert answer["reason"] == f"local-command is rate-limited until {until}"
    assert answer["workerCooldown"]["blockedUntil"] == until
    assert 90 < answer["waitSeconds"] <= 100
    assert project.kinds() == ["tick_started", "checkpoint_written", "run_skipped"]
    assert project.events("run_skipped")[0]["worker"] == "local-command"
    assert project.checkpoint["status"] == "active"


def test_cooldowns_that_are_over_are_forgotten(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    odd = {**cooling(from_now(-1)), **cooling(None, "kimi-cli"), **cooling(from_now(100), "codex-cli")}
    project.checkpoint = book_checkpoint(workerCooldowns=odd)
    project.run(EMPTY)
    assert list(project.checkpoint["workerCooldowns"]) == ["codex-cli"]
    over = [each["worker"] for each in project.events() if each.get("reason") == "worker cooldown expired"]
    assert over == ["local-command", "kimi-cli"]
    project.checkpoint = book_checkpoint(workerCooldowns=cooling(from_now(-1)))
    project.run(EMPTY)
    assert "workerCooldowns" not in project.checkpoint


def test_the_session_of_codex_is_evidence(tmp_path: Path) -> None:
    env = program(tmp_path / "bin", "codex", "echo 'HTTP 429' >&2; touch ~/.codex/sessions/2026/05/17/s.jsonl; exit 1")
    sessions = Path.home() / ".codex/sessions/2026/05/17"
    sessions.mkdir(parents=True)
    (sessions / "older.jsonl").touch()
    os.utime(sessions / "older.jsonl", (1, 1))
    project = LongTaskProject.of_book(tmp_path / "task")
    project.lth("run", "--worker", "codex", "--cwd", ".", env=env, code=1)
    item = project.checkpoint["evidence"][1]
    assert list(item) == ["type", "path", "source", "observedAt", "note"]
    assert (item["type"], item["path"], item["source"]) == ("codex-session", str(sessions / "s.jsonl"), "codex-cli")
    project.checkpoint = book_checkpoint()
    assert [LimitClock().forget(each.account) for each in LimitClock().all()] == [True]
    project.lth("run", "--worker", "codex", "--cwd", ".", "--codex-session-path", "~/mine", env=env, code=1)
    assert project.checkpoint["evidence"][1]["path"] == str(Path.home() / "mine")


def test_a_limit_of_an_account_holds_for_every_task_until_it_is_over(tmp_path: Path) -> None:
    """C28: what one task runs into, the next one is told before its worker starts; another worker may take over."""
    env = program(tmp_path / "bin", "claude", 'echo "You\'ve hit your usage limit. Try again in 3 hours" >&2; exit 1')
    first, second = LongTaskProject.of_book(tmp_path / "one"), LongTaskProject.of_book(tmp_path / "two")
    first.lth("run", "--worker", "claude", "--cwd", ".", env=env, code=1)
    (limit,) = LimitClock().all()
    assert (limit.account, limit.source) == (account_of("claude-code"), "structured")
    answer = second.lth("run", "--worker", "claude", "--cwd", ".", env=env).json
    assert (answer["decision"], answer["worker"], answer["requestedWorker"]) == ("wait", None, "claude-code")
    assert 7_200 < answer["waitSeconds"] <= 10_800
    assert answer["workerCooldown"]["source"] == "scheduler"
    assert [each["lift"] for each in answer["rateLimits"]] == [f"harness limits clear {limit.account}"]
    assert second.checkpoint["status"] == "active"
    words = ("--fallback-worker", "local", "--command", "echo took over")
    other = second.lth("run", "--worker", "claude", "--cwd", ".", *words, env=env).json
    assert (other["worker"], other["exitCode"], other["degradedFrom"]) == ("local-command", 0, "claude-code")


def test_a_worker_that_ends_well_lifts_the_limit_of_its_account(tmp_path: Path) -> None:
    env = program(tmp_path / "bin", "kimi", "echo fine")
    LimitClock(now=lambda: clock.now() - timedelta(hours=1)).note("kimi", said="limit", retry_after_seconds=3590)
    project = LongTaskProject.of_book(tmp_path / "task")
    project.lth("run", "--worker", "kimi", "--cwd", ".", env=env)
    assert LimitClock().note("kimi", said="again").attempt == 1


# ---- signals


def start(project: LongTaskProject, command: str, *words: str) -> "subprocess.Popen[bytes]":
    line = argv("run", str(project.root), "--worker", "local", "--command", command, *words)
    return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for(running: "subprocess.Popen[bytes]", path: Path) -> None:
    until = time.monotonic() + 60
    while not path.exists():
        assert running.poll() is None, running.communicate()
        assert time.monotonic() < until
        time.sleep(0.01)


def said(running: "subprocess.Popen[bytes]", text: str) -> None:
    """Waits for a line on stderr that begins so."""
    assert running.stderr
    lines = iter(running.stderr.readline, b"")
    assert any(line.startswith(text.encode()) for line in lines), text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_row_04_a_run_that_is_told_to_end_ends_in_order(tmp_path: Path, number: signal.Signals) -> None:
    project = LongTaskProject.of_book(tmp_path)
    running = start(
        project, f"{edits(nextStep='Half way.', status='done')}; echo partial; echo $$ > pid; touch on; sleep 300"
    )
    wait_for(running, tmp_path / "on")
    running.send_signal(number)
    said(running, "lth: stopping within seconds")
    out, _ = running.communicate(timeout=60)
    assert running.returncode == 128 + number
    answer = json.loads(out)
    assert (answer["exitCode"], answer["classification"]) == (128 + number, None)
    assert gone(int((tmp_path / "pid").read_text()))
    assert "partial" in project.outputs()[0]
    assert f"error: interrupted by {number.name}" in project.outputs()[0]
    assert project.events("worker_failed")[0]["reason"] == f"exit {128 + number}"
    state = project.checkpoint
    assert state["status"] == answer["status"] == "paused"
    assert [each["exitCode"] for each in state["evidence"]] == [128 + number]
    assert not project.lock.exists()
    assert project.lth("next").json["decision"] == "run"


def test_a_signal_that_was_ignored_stays_ignored(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    line = argv("run", str(project.root), "--command", "touch on; while test -e on; do sleep 0.05; done")
    running = subprocess.Popen(
        ["sh", "-c", 'trap "" HUP; exec "$@"', "sh", *line], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    wait_for(running, tmp_path / "on")
    running.send_signal(signal.SIGHUP)
    (tmp_path / "on").unlink()
    running.communicate(timeout=60)
    assert running.returncode == 0


# ---- agents of ours


def test_an_agent_under_the_supervisor(tmp_path: Path) -> None:
    agent = tmp_path / "agent"
    agent.write_text(
        "#!/bin/sh\ncat > prompt\n"
        'echo \'{"type":"text","text":"working on it"}\'\n'
        'echo \'{"type":"usage","input_tokens":10,"output_tokens":2,"cost_usd":0.5}\'\n'
        'echo "$LTH_WORKER $LTH_TASK_DIR"\n'
    )
    agent.chmod(0o755)
    project = LongTaskProject.of_book(tmp_path / "task")
    worker = f"command:{agent}"
    answer = project.lth("run", "--worker", worker, "--cwd", ".", code=0).json
    assert (answer["worker"], answer["status"]) == (worker, "paused")
    counted = {"inputTokens": 10, "outputTokens": 2, "cachedTokens": 0, "totalTokens": 12, "costUsd": 0.5}
    assert answer["usage"] == counted == project.events("worker_completed")[0]["usage"]
    assert "working on it" in project.outputs()[0]
    assert f"{worker} {project.root}" in project.outputs()[0]
    assert "Continue exactly one bounded slice." in (project.root / "prompt").read_text()


@pytest.mark.parametrize(
    ("script", "code", "name", "words"),
    [
        ('echo \'{"type":"rate_limited","retry_after_seconds":90}\'; exit 1', 1, "rate_limit", ()),
        ("echo 2 tests failed; exit 4", 4, "test_failure", ()),
        ("kill -9 $$", 137, "unknown", ()),
        ("sleep 300", 124, "unknown", ("--timeout-seconds", "1")),
    ],
)
def test_an_agent_that_fails(tmp_path: Path, script: str, code: int, name: str, words: tuple[str, ...]) -> None:
    project = LongTaskProject.of_book(tmp_path)
    worker = f"command:sh -c {shlex.quote(script)}"
    answer = project.lth("run", "--worker", worker, "--cwd", ".", *words, code=code).json
    assert answer["classification"]["class"] == name
    if name == "rate_limit":
        assert 80 <= answer["classification"]["retryAfterSeconds"] <= 90
    project.loads()


# ---- together


def test_row_08_runs_records_and_evidence_from_eight_processes(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(evidencePolicy={"checkpointWindow": 4})
    working = "mkdir busy || touch two; sleep 0.1; rmdir busy"
    commands = [
        *(("run", "--worker", "local", "--command", working) for _ in range(4)),
        *(("evidence", "--type", "test", "--summary", str(number)) for number in range(8)),
        *(("record", "--status", "paused", "--note", f"step {number}") for number in range(4)),
    ]
    waves = [commands[number::2] for number in range(2)]
    ran = 0
    for wave in waves:
        line = [argv(command, str(project.root), *words) for command, *words in wave]
        running = [subprocess.Popen(each, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for each in line]
        assert len(running) == 8
        for each in running:
            out, said = each.communicate(timeout=120)
            assert each.returncode == 0, said
            ran += b'"outputPath"' in out
    assert not (tmp_path / "two").exists()
    archive = (tmp_path / "evidence/checkpoint-evidence-archive.jsonl").read_text().splitlines()
    items = [*(json.loads(each)["evidence"] for each in archive), *project.checkpoint["evidence"]]
    assert sorted(each["summary"] for each in items if each["type"] == "test") == [str(number) for number in range(8)]
    assert len([each for each in items if each["type"] == "worker-output"]) == ran == len(project.outputs())
    assert project.checkpoint["evidenceArchive"]["archivedCount"] == len(archive)
    assert len(project.events("progress_recorded")) == 4
    assert len(project.events("evidence_recorded")) == 8
    project.loads()


def test_what_a_slice_says_is_kept_with_time_and_zone(tmp_path: Path) -> None:
    """F-REC-6: beside the events, also where no terminal is; a plan says nothing that is kept."""
    project = LongTaskProject.of_book(tmp_path / "task")
    log = project.root / "runs/run.log"
    project.lth("resume", "--worker", "local-command", "--command", "true", "--dry-run", code=0)
    assert not log.exists()
    ran = project.lth("resume", "--worker", "local-command", "--command", "true", code=0)
    said = [line for line in ran.err.splitlines() if line]
    assert said
    kept = [line.split(" ", 1) for line in log.read_text().splitlines()]
    assert [text for _, text in kept] == said
    assert all(datetime.fromisoformat(at).tzinfo for at, _ in kept)
