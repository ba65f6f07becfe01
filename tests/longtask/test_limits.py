"""One clock of rate limits: a task and the account of its worker wait until the same moment; one command lifts it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent_harness.kernel import clock
from agent_harness.kernel.rate_limits import LimitClock
from agent_harness.testing.long_task_project import LongTaskProject, Record, book, book_checkpoint, from_now, program

REFUSES = "cat > /dev/null; echo 'API Error: 429 Too Many Requests' >&2; exit 1"
WORKS = "cat > /dev/null; echo fine"


@pytest.fixture
def project(tmp_path: Path) -> LongTaskProject:
    return LongTaskProject.of_book(tmp_path / "task")


def limited(project: LongTaskProject, tmp_path: Path, says: str = REFUSES) -> Record:
    """The answer of a slice whose provider refuses it."""
    env = program(tmp_path / "bin", "claude", says)
    return project.lth("run", "--worker", "claude", "--cwd", ".", env=env, code=1).json


def run_harness(*words: str) -> "subprocess.CompletedProcess[bytes]":
    return subprocess.run(
        [sys.executable, "-m", "agent_harness.cli.main", *words], capture_output=True, check=False, timeout=60
    )


def due(project: LongTaskProject) -> str:
    return str(project.lth("next").json["decision"])


def test_a_refusal_without_a_reset_has_one_end_for_task_and_account(project: LongTaskProject, tmp_path: Path) -> None:
    project.task = book(rateLimitPolicy={"fallbackWaitSeconds": 3600})
    answer = limited(project, tmp_path)
    (limit,) = LimitClock().all()
    state = project.checkpoint
    until = clock.timestamp(limit.until, fraction=True)
    assert until == state["blockedUntil"] == state["workerCooldowns"]["claude-code"]["blockedUntil"]
    assert until == answer["classification"]["blockedUntil"]
    assert answer["classification"]["retryAfterSeconds"] is None
    assert (limit.source, limit.attempt) == ("contract", 1)
    assert limit.until - limit.noted_at == clock.timedelta(hours=1)


def test_an_agents_own_word_has_one_end_too(project: LongTaskProject) -> None:
    worker = 'command:sh -c \'echo "{\\"type\\":\\"rate_limited\\",\\"retry_after_seconds\\":90}"; exit 1\''
    project.lth("run", "--worker", worker, "--cwd", ".", code=1)
    (limit,) = LimitClock().all()
    assert project.checkpoint["blockedUntil"] == clock.timestamp(limit.until, fraction=True)
    assert limit.source == "structured"


def test_everybody_says_until_when_and_what_lifts_it(project: LongTaskProject, tmp_path: Path) -> None:
    limited(project, tmp_path)
    (limit,) = LimitClock().all()
    told = {
        "worker": "claude-code",
        "account": limit.account,
        "until": clock.timestamp(limit.until, fraction=True),
        "untilLocal": clock.local(limit.until),
        "lift": f"harness limits clear {limit.account}",
    }
    for words in (["next"], ["tick", "--dry-run"], ["tick"], ["run", "--dry-run"]):
        assert project.lth(*words).json["rateLimits"] == [told], words
    for text in (project.lth("status").out, project.lth("resume").err):
        assert f"{told['untilLocal']}; to continue now: {told['lift']}" in text
    other = LongTaskProject.of_book(tmp_path / "other")  # not blocked: its worker would have to wait
    other.task = book(workerPolicy={"preferred": "claude-code"})
    assert other.lth("next").json["rateLimits"] == [told]


@pytest.mark.parametrize("words", [["ACCOUNT"], ["ACCOUNT", "--json"], ["claude-code"], ["claude"], ["--all"]])
def test_lifting_it_wakes_the_task_wholly(project: LongTaskProject, tmp_path: Path, words: list[str]) -> None:
    limited(project, tmp_path)
    (limit,) = LimitClock().all()
    assert due(project) == "wait"
    done = run_harness("limits", "clear", *(limit.account if each == "ACCOUNT" else each for each in words))
    assert done.returncode == 0, done.stderr
    assert "rateLimits" not in project.lth("next").json
    assert due(project) == project.lth("tick", "--dry-run").json["decision"] == "run"
    answer = project.lth("run", "--worker", "claude", "--cwd", ".", env=program(tmp_path / "bin", "claude", WORKS)).json
    assert (answer["decision"], answer["exitCode"]) == ("run", 0)
    assert "workerCooldowns" not in project.checkpoint
    assert project.checkpoint["blockedUntil"] is None


def test_a_limit_that_the_clock_has_lost_is_lifted_all_the_same(project: LongTaskProject) -> None:
    """A checkpoint of another machine: only the task knows of the limit."""
    blocker = {"type": "rate_limit", "source": "codex-cli", "observedAt": from_now(-60), "requiresHuman": False}
    project.checkpoint = book_checkpoint(status="blocked", blockedUntil=from_now(3600), blocker=blocker)
    assert due(project) == "wait"
    (told,) = project.lth("next").json["rateLimits"]
    assert told["lift"] == f"lth record {project.root} --status active"
    cleared = run_harness("limits", "clear", str(told["account"]))
    assert cleared.returncode == 0 and b"A long task that waits for" in cleared.stdout
    assert due(project) == "run"


def test_another_account_leaves_it(project: LongTaskProject, tmp_path: Path) -> None:
    limited(project, tmp_path)
    run_harness("limits", "clear", "codex")
    assert due(project) == "wait"


def test_a_later_word_of_the_provider_moves_the_end_of_the_task(project: LongTaskProject, tmp_path: Path) -> None:
    limited(project, tmp_path)
    (limit,) = LimitClock().all()
    sooner = LimitClock().note(limit.account, said="limit", retry_after_seconds=60)
    answer = project.lth("next").json
    assert answer["blockedUntil"] == clock.timestamp(sooner.until, fraction=True)
    assert 0 < answer["waitSeconds"] <= 60


def test_a_worker_that_works_elsewhere_wakes_the_task(project: LongTaskProject, tmp_path: Path) -> None:
    limited(project, tmp_path)
    (limit,) = LimitClock().all()
    LimitClock().forget(limit.account, noted_before=clock.now())
    assert due(project) == "run"


def test_the_first_of_two_limited_workers_to_be_free_wakes_the_task(project: LongTaskProject, tmp_path: Path) -> None:
    env = program(tmp_path / "bin", "claude", REFUSES) | program(tmp_path / "bin", "kimi", REFUSES)
    project.lth("run", "--worker", "claude", "--fallback-worker", "kimi", "--cwd", ".", env=env, code=1)
    assert due(project) == "wait"
    run_harness("limits", "clear", "claude")
    assert due(project) == "run"
    env |= program(tmp_path / "bin", "claude", WORKS)
    answer = project.lth("run", "--worker", "claude", "--fallback-worker", "kimi", "--cwd", ".", env=env).json
    assert (answer["worker"], answer["exitCode"]) == ("claude-code", 0)
    assert list(project.checkpoint["workerCooldowns"]) == ["kimi-cli"]


def test_the_limit_of_a_line_of_shell_ends_with_a_persons_word(project: LongTaskProject) -> None:
    project.run("echo 'HTTP 429'; exit 1", code=1)
    assert project.lth("next").json["rateLimits"][0]["lift"] == f"lth record {project.root} --status active"
    project.lth("record", "--status", "active", code=0)
    assert "workerCooldowns" not in project.checkpoint
    assert project.run(WORKS).json["decision"] == "run"


def test_a_readers_question_makes_nothing(project: LongTaskProject) -> None:
    project.checkpoint = book_checkpoint(
        workerCooldowns={"codex-cli": {"type": "rate_limit", "blockedUntil": from_now(60)}}
    )
    project.lth("next", code=0)
    project.lth("status", code=0)
    assert not (Path.home() / ".local/state/agent-harness").exists()


def test_status_of_a_list_says_which_accounts_wait(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_harness("init", ".").returncode == 0
    LimitClock().note("codex", said="limit", retry_after_seconds=600)
    said = run_harness("status").stdout.decode()
    assert re.search(r"Rate limited: codex until \d{4}-.*; to continue now: harness limits clear codex\n", said), said


@pytest.mark.parametrize("worker", ["claude", "local-command"])
def test_a_limit_that_ends_too_late_to_wait_for_is_said(project: LongTaskProject, tmp_path: Path, worker: str) -> None:
    """A pause is never longer than 31 days: what the provider says is shown beside it, and not lost."""
    says = "cat > /dev/null; echo 'You have hit your monthly limit: 429 Too Many Requests; retry after 40 days'; exit 1"
    env = program(tmp_path / "bin", "claude", says)
    command = ["--command", "claude"] if worker == "local-command" else []
    done = project.lth("run", "--worker", worker, "--cwd", ".", *command, env=env, code=1)
    told = done.json["classification"]["toldUntil"]
    until = done.json["classification"]["blockedUntil"]
    assert told[:10] == from_now(40 * 86_400)[:10] and until[:10] == from_now(31 * 86_400)[:10]
    assert f"rate-limited until {told} (will ask again at {until})" in done.err
    (shown,) = project.lth("next").json["rateLimits"]
    assert shown["toldUntil"] == told
    assert f"{told} (will ask again at " in project.lth("status").out
