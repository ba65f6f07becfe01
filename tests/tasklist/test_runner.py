"""``harness run`` on a task list: real agents, real git, and every way in which a run ends."""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import psutil
import pytest

from agent_harness.protocols.tasklist.records import Task
from agent_harness.protocols.tasklist.work import first_prompt, fix_prompt
from agent_harness.testing.repo import Repo
from agent_harness.testing.task_list_project import TaskListProject, task

WORKS = 'echo "$HARNESS_TASK_ID" >> work.txt'
PROOF = {"command": "grep -q $TASK work.txt"}


def job(name: str, command: str | None = "grep -q . work.txt", **members: Any) -> dict[str, Any]:
    return task(name, validation={"command": command, "timeout_seconds": 60}, **members)


def project(path: Path, *tasks: Any, **words: Any) -> TaskListProject:
    return TaskListProject(path / "list", *tasks, git=True, **(dict[str, Any](session_count=0) | words))


def plain(path: Path, *tasks: Any, **words: Any) -> TaskListProject:
    """A list outside of git, which costs a run far less."""
    return TaskListProject(path / "list", *tasks, session_count=0, **words)


def until(found: Callable[[], object]) -> None:
    for _ in range(3000):
        if found():
            return
        time.sleep(0.01)
    raise AssertionError("it never happened")


def rescues(found: TaskListProject) -> list[str]:
    return found.repo.git("for-each-ref", "--format=%(refname)", "refs/harness/rescue").split()


# ---- done ----------------------------------------------------------------------------------------------------------


def test_a_list_is_worked_down_and_each_task_is_proven_and_committed(tmp_path: Path) -> None:
    work = project(tmp_path, job("task-2", depends_on=["task-1"]), job("task-1", hints=["look there"]))
    work.repo.write("mine.txt", "not yet committed\n")
    ran = work.harness(
        "run", "--agent", work.agent(f"{WORKS}\nharness task checkpoint $HARNESS_TASK_ID 1/1 'all of it'")
    )
    assert ran.code == 0, ran
    assert work.statuses() == ["completed", "completed"]
    subjects = work.repo.git("log", "--format=%s").splitlines()
    assert subjects == ["[task-2] Title of task-2", "[task-1] Title of task-1", "First"]
    assert work.repo.status() == ["?? mine.txt"]
    commits = work.repo.git("log", "--format=%h", "--abbrev=7").split()
    base, numbers = commits[2], "tasks_total=2 completed=2 failed=0 pending=0 blocked=0 attempts_total=2 checkpoints=2"
    assert [re.sub(r"pid=\d+", "pid=N", line) for line in work.log()] == [
        "[SESSION-1] LOCK acquired (pid=N)",
        f"[SESSION-1] Starting [task-1] Title of task-1 (base={base})",
        '[SESSION-1] CHECKPOINT [task-1] step=1/1 "all of it"',
        f"[SESSION-1] Completed [task-1] (commit {commits[1]})",
        f"[SESSION-1] Starting [task-2] Title of task-2 (base={commits[1]})",
        '[SESSION-1] CHECKPOINT [task-2] step=1/1 "all of it"',
        "[SESSION-1] WARN [task-2] validation: the check already passed on the base commit, so it proves nothing",
        f"[SESSION-1] Completed [task-2] (commit {commits[0]})",
        f"[SESSION-1] STATS {numbers}",
        "[SESSION-1] LOCK released",
    ]
    assert (work.raw["session"], work.store.active()) == (None, False)
    prompt = work.prompt("task-1")
    for said in ("# Task task-1: Title of task-1", "Attempt 1 of 3", "grep -q . work.txt", "look there"):
        assert said in prompt
    assert "Completed [task-1]" in work.prompt("task-2")
    assert "Every task is completed." in ran.out
    again = work.harness("run", "--agent", "command:false")
    assert again.code == 0, again


def test_a_failed_proof_goes_back_to_the_agent(tmp_path: Path) -> None:
    work = project(tmp_path, job("a", "cat work.txt; grep -q fixed work.txt"))
    agent = work.agent('if [ "$HARNESS_ROUND" = 1 ]; then echo fixed >> work.txt; else echo half done > work.txt; fi')
    ran = work.harness("run", "--json", "--agent", agent)
    assert (ran.code, work.statuses(), work.task("a").attempts) == (0, ["completed"], 1), ran
    assert ran.json["attempts"][0]["result"] == "completed"
    assert "half done" in work.prompt("a", 1)
    assert "the agent gets the output (round 2 of 3)" in ran.err


@pytest.mark.parametrize("isolation", ["worktree", "in_place"])
def test_an_agent_that_forges_its_proof_is_not_believed(tmp_path: Path, isolation: str) -> None:
    work = project(tmp_path, job("a", "sh check.sh", max_attempts=1), session_config={"isolation": isolation})
    work.repo.write("check.sh", "grep -q done work.txt\n").stage("check.sh").git("commit", "-q", "-m", "Second")
    head = work.repo.head
    ran = work.harness("run", "--json", "--agent", work.agent("echo 'exit 0' > check.sh"))
    assert (ran.code, work.statuses(), work.repo.head) == (1, ["failed"], head), ran
    assert work.repo.read("check.sh") == b"grep -q done work.txt\n"
    assert "check.sh proves this task and existed before the work began" in work.task("a").error_log[0]
    assert "line 1: 'grep -q done work.txt' is now 'exit 0'" in work.prompt("a", 1)


@pytest.mark.scenario
def test_an_agent_that_puts_its_forgery_right_is_heard(tmp_path: Path) -> None:
    work = project(tmp_path, job("a", "sh check.sh"))
    work.repo.write("check.sh", "grep -q done work.txt\n").stage("check.sh").git("commit", "-q", "-m", "Second")
    honest = "git checkout -q check.sh; echo done > work.txt"
    ran = work.harness("run", "--agent", work.agent(f"if [ $HARNESS_ROUND = 1 ]; then {honest}; else : > check.sh; fi"))
    assert (ran.code, work.statuses()) == (0, ["completed"]), ran
    assert work.repo.git("show", "--format=", "--name-only", "HEAD").split() == ["work.txt"]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_task_that_is_never_proven_fails_for_good_and_leaves_its_work_in_rescues(tmp_path: Path) -> None:
    work = project(
        tmp_path,
        job("a", "echo wrong; exit 4", max_attempts=2, on_failure={"cleanup": "echo cleaned >> ../cleaned"}),
        job("b", depends_on=["a"]),
    )
    ran = work.harness("run", "--agent", work.agent(WORKS))
    assert (ran.code, work.statuses(), work.task("a").attempts) == (1, ["failed", "failed"], 2), ran
    assert work.task("a").error_log == ["[TEST_FAIL] the check of a failed: exit code 4"] * 2
    assert work.task("b").error_log == ["[DEPENDENCY] Blocked by failed a"]
    assert len(rescues(work)) == 2
    assert work.repo.git("show", f"{rescues(work)[0]}:work.txt").splitlines() == ["a"] * 3
    assert (work.repo.status(), work.repo.head) == ([], work.repo.git("rev-parse", "HEAD"))
    assert (work.root.parent / "cleaned").read_text() == "cleaned\ncleaned\n"
    base = work.repo.head[:7]
    rolled = [line for line in work.log() if "ROLLBACK [a] git reset" in line]
    assert [line.partition(" (rescue=")[0] for line in rolled] == [
        f"[SESSION-1] ROLLBACK [a] git reset --hard {base}"
    ] * 2
    assert "Earlier attempts failed" in work.prompt("a")
    assert f"git show {rescues(work)[0]}" in work.prompt("a")


@pytest.mark.scenario
def test_a_repository_without_a_commit_is_said_before_anything_is_done(tmp_path: Path) -> None:
    """The task is proven in the folder; nobody shall look for its commit afterwards."""
    work = TaskListProject(tmp_path / "list", job("a"), session_count=0)
    Repo(work.root)
    ran = work.harness("run", "--agent", work.agent(WORKS))
    assert (ran.code, work.statuses()) == (0, ["completed"]), ran
    assert "This repository has no commit yet: proven work is not committed" in ran.text
    assert "git commit --allow-empty -m Begin" in ran.text


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_a_proof_in_place_compiles_is_in_no_commit(tmp_path: Path) -> None:
    command = "test -z \"$PYTHONDONTWRITEBYTECODE\" && python3 -c 'import sys, mod; sys.exit(mod.bad)'"
    work = project(tmp_path, job("a", command), session_config={"isolation": "in_place"})
    twice = "if test -f ../again; then echo 'bad = 0' > mod.py; else echo 'bad = 1' > mod.py; touch ../again; fi"
    ran = work.harness("run", "--agent", work.agent(twice))
    assert (ran.code, work.statuses()) == (0, ["completed"]), ran
    assert [name for name in work.repo.git("ls-files").splitlines() if "pycache" in name] == []
    assert list(work.root.rglob("__pycache__")) == []


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_proof_leaves_nothing_in_the_temporary_folder(tmp_path: Path) -> None:
    command = f"mktemp > '{tmp_path}/made' && grep -q . work.txt"
    for isolation in ("worktree", "in_place"):
        (tmp_path / isolation).mkdir()
        work = project(tmp_path / isolation, job("a", command), session_config={"isolation": isolation})
        ran = work.harness("run", "--agent", work.agent("echo done > work.txt"))
        assert (ran.code, work.statuses()) == (0, ["completed"]), ran
        assert not Path((tmp_path / "made").read_text().strip()).exists()


def test_an_agent_that_does_nothing_fails_without_a_proof_being_run(tmp_path: Path) -> None:
    work = project(tmp_path, job("a", f"touch '{tmp_path}/ran'", max_attempts=1))
    told = """printf '{"type":"usage","input_tokens":9,"output_tokens":1}\\n'; exit 5"""
    ran = work.harness("run", "--agent", work.agent(told))
    assert (ran.code, work.statuses()) == (1, ["failed"])
    assert "[TASK_EXEC]" in work.task("a").error_log[0]
    assert not (tmp_path / "ran").exists()


@pytest.mark.kept("fail $HARNESS_TASK_ID --category TASK_EXEC 'no way'-failed-1")
@pytest.mark.parametrize(
    ("verb", "status", "code"),
    [
        pytest.param("complete $HARNESS_TASK_ID", "completed", 0, marks=pytest.mark.scenario),
        ("fail $HARNESS_TASK_ID --category TASK_EXEC 'no way'", "failed", 1),
    ],
)
def test_an_agent_closes_its_task_by_the_verbs(tmp_path: Path, verb: str, status: str, code: int) -> None:
    work = project(tmp_path, job("a", max_attempts=1))
    ran = work.harness("run", "--json", "--agent", work.agent(f"{WORKS}\nharness task {verb} > ../answer.json"))
    assert (ran.code, work.statuses(), work.task("a").attempts) == (code, [status], 1), ran
    assert json.loads((tmp_path / "answer.json").read_text())["ok"]
    assert [each["result"] for each in ran.json["attempts"]] == [status]
    assert len(rescues(work)) == (status == "failed")


# ---- limits --------------------------------------------------------------------------------------------------------


def test_a_run_has_a_limit_of_cost(tmp_path: Path) -> None:
    usage = json.dumps({"type": "usage", "input_tokens": 10, "output_tokens": 5, "cost_usd": 0.75})
    work = plain(tmp_path, job("a"), job("b"), job("c"))
    ran = work.harness("run", "--json", "--max-cost", "0.5", "--agent", work.agent(f"{WORKS}\necho '{usage}'"))
    assert (ran.code, work.statuses().count("completed")) == (9, 1), ran
    assert ran.json["next"] == "harness run"
    assert work.raw["session"] is None
    assert work.store.active()


def test_a_run_is_told_by_all_of_its_attempts(tmp_path: Path) -> None:
    """A failed attempt is no task done, and the last one alone does not decide the exit code."""
    work = plain(tmp_path, job("a", "test -e never"), job("b"), job("c"))
    ran = work.harness("run", "--once", "--agent", work.agent("exit 5"))
    assert (ran.code, "1 attempt of at most 1: 0 completed, 1 failed: a." in ran.out) == (1, True), ran
    assert ran.out.splitlines()[-1] == "next: harness run"
    mixed = work.agent(f'[ "$HARNESS_TASK_ID" = a ] && exit 5\n{WORKS}', name="mixed.sh")
    work.edit("a", status="pending")
    ran = work.harness("run", "--max-tasks", "2", "--agent", mixed)
    assert (ran.code, work.statuses()) == (1, ["failed", "completed", "pending"]), ran
    assert "2 attempts of at most 2: 1 completed, 1 failed: a." in ran.out


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_session_has_a_limit_of_its_own(tmp_path: Path) -> None:
    work = plain(tmp_path, job("a"), job("b"), session_config={"max_tasks_per_session": 1, "max_sessions": 3})
    agent = work.agent(WORKS)
    for expected in (["completed", "pending"], ["completed", "completed"]):
        ran = work.harness("run", "--agent", agent)
        assert (ran.code, work.statuses()) == (9, expected), ran
    ran = work.harness("run", "--agent", agent)
    assert ran.code == 9
    assert "max_sessions" in ran.err


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_an_agent_that_takes_too_long_is_ended_and_its_work_is_judged(tmp_path: Path) -> None:
    work = plain(tmp_path, job("a"), job("b", "false", max_attempts=1))
    (work.root / "work.txt").write_text("a slow machine ends the agent before it has written this\n")
    ran = work.harness("run", "--json", "--max-minutes", "0.005", "--agent", work.agent(f"{WORKS}\nexec sleep 300"))
    assert [each["result"] for each in ran.json["attempts"]] == ["completed", "failed"], ran
    assert [each["attempts"] for each in work.raw["tasks"]] == [1, 1]
    assert not (work.root.parent / "tools/prompt.b.1").exists()  # no further round for whoever took too long


LIMITED = "echo 'Error: 429 Too Many Requests' >&2; exit 1"


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_rate_limited_agent_costs_the_task_no_attempt(tmp_path: Path) -> None:
    """C28, UAH-374: exit 5 with the moment and the command; the next run knows it before it starts anything."""
    work = project(tmp_path, job("a"))
    agent = work.agent(f"{WORKS}\n{LIMITED}")
    ran = work.harness("run", "--no-wait", "--agent", agent)
    assert (ran.code, work.statuses(), work.task("a").attempts) == (5, ["pending"], 0), ran
    assert "rate limited" in ran.out
    assert len(rescues(work)) == 1
    assert work.repo.status() == []
    (account,) = [each["account"] for each in work.harness("limits", "--json").json["limits"]]
    (work.root.parent / "tools/prompt.a.0").unlink()
    again = work.harness("run", "--once", "--agent", agent)
    assert again.code == 5, again
    assert "is refused until" in again.out
    assert f"harness limits clear {account}" in again.out
    assert not (work.root.parent / "tools/prompt.a.0").exists()
    assert work.harness("status").code == 0
    now = work.harness("run", "--no-wait", "--now", "--agent", agent)
    assert (now.code, work.task("a").attempts) == (5, 0), now
    assert (work.root.parent / "tools/prompt.a.0").exists()
    assert work.harness("limits", "clear", account).code == 0
    assert work.harness("run", "--no-wait", "--agent", work.agent(WORKS)).code == 0


@pytest.mark.parametrize("place", ["none", "the second one"])
def test_a_refusal_is_known_to_the_run_wherever_it_can_be_kept(tmp_path: Path, place: str) -> None:
    """The provider is not asked again at once where no disk took its word, nor where another place was there before."""
    work, tried, spare = project(tmp_path, job("a")), tmp_path / "tried", tmp_path / "spare"
    home = {"XDG_STATE_HOME": str(tmp_path / "state"), "TMPDIR": str(spare)}
    if place == "none":
        spare.mkdir()
        (spare / f"agent-harness-{os.getuid()}").mkdir()
        (tmp_path / "state" / "agent-harness").mkdir(parents=True)
        for base in (spare / f"agent-harness-{os.getuid()}", tmp_path / "state" / "agent-harness"):
            (base / "limits").touch()
    else:
        (spare / f"agent-harness-{os.getuid()}" / "limits").mkdir(parents=True)
    agent = work.agent(f"if [ ! -f {tried} ]; then touch {tried}; {LIMITED}; fi\n{WORKS}")
    ran = work.harness("run", "--no-wait", "--agent", agent, **home)
    assert (ran.code, work.statuses()) == (5, ["pending"]), ran


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_run_waits_for_the_limit_to_end_and_goes_on(tmp_path: Path) -> None:
    """C28: the attempts that were refused are none of --max-tasks."""
    work = project(tmp_path, job("a"), job("b"))
    tried = tmp_path / "tried"
    agent = work.agent(f"if [ ! -f {tried} ]; then touch {tried}; {LIMITED}; fi\n{WORKS}")
    ran = work.harness("run", "--max-tasks", "2", "--agent", agent, HARNESS_TIME_SCALE="0.01")
    assert (ran.code, work.statuses()) == (0, ["completed", "completed"]), ran
    assert [task["attempts"] for task in work.raw["tasks"]] == [1, 1]
    assert work.harness("limits", "--json").json["limits"] == []
    assert work.raw["session_count"] == 1


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_another_allowed_agent_takes_over(tmp_path: Path) -> None:
    """C28: --agent given again; where nothing is left to do, nobody waits."""
    work = project(tmp_path, job("a"), job("b"))
    tired = work.agent(LIMITED, name="tired.sh")
    ran = work.harness("run", "--agent", tired, "--agent", work.agent(WORKS))
    assert (ran.code, work.statuses()) == (0, ["completed", "completed"]), ran
    assert "takes over (" in ran.out
    again = work.harness("run", "--agent", tired)
    assert (again.code, "Every task is completed." in again.out) == (0, True), again


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_wait_ends_when_a_person_clears_the_limit_or_pauses_the_list(tmp_path: Path) -> None:
    """The wait is in the clock and not in the process: another one can end it. UAH-057."""
    work = project(tmp_path, job("a"))
    tried = tmp_path / "tried"
    agent = work.agent(f"if [ ! -f {tried} ]; then touch {tried}; {LIMITED}; fi\n{WORKS}")
    with (tmp_path / "out").open("w") as out:
        words = [sys.executable, "-m", "agent_harness.cli.main", "run", "--agent", agent]
        running = subprocess.Popen(words, cwd=work.root, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        until(lambda: "Waiting;" in (tmp_path / "out").read_text())
        (account,) = [each["account"] for each in work.harness("limits", "--json").json["limits"]]
        assert work.harness("limits", "clear", account).code == 0
        assert running.wait(120) == 0, (tmp_path / "out").read_text()
    finally:
        running.kill()
    assert work.statuses() == ["completed"]


@pytest.mark.scenario
def test_on_a_terminal_the_wait_is_counted_down_and_ctrl_c_ends_it(tmp_path: Path) -> None:
    """Nothing is under way while it waits; what is known is kept."""
    work = project(tmp_path, job("a"))
    words = ["-m", "agent_harness.cli.main", "run", "--agent", work.agent(LIMITED)]
    with pexpect.spawn(sys.executable, words, cwd=str(work.root), encoding="utf-8", timeout=120) as terminal:
        terminal.expect("Waiting; press Ctrl-C to stop.")
        terminal.expect(r"command:sh-[0-9a-f]+: [0-9a-z ]+ left")
        terminal.sendintr()
        terminal.expect("Interrupted; nothing was in progress.")
        terminal.expect(pexpect.EOF)
    assert terminal.exitstatus == 130
    assert (work.statuses(), work.task("a").attempts, work.raw["session"]) == (["pending"], 0, None)


# ---- refusals ------------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_task_without_a_proof_halts_the_list_until_a_person_resumes(tmp_path: Path) -> None:
    work = plain(tmp_path, job("a", None), job("b"))
    agent = work.agent(WORKS)
    ran = work.harness("run", "--agent", agent)
    assert ran.code == 3, ran
    assert not (tmp_path / "tools/prompt.a.0").exists()  # no agent was paid for what nothing can prove
    assert "next: to add one: harness task set a validation.command=" in ran.out
    assert work.raw["halt"]["category"] == "CONFIG"
    assert work.statuses() == ["pending", "pending"]
    assert "[SESSION-1] ERROR [a] [CONFIG] Missing validation.command" in work.log()
    again = work.harness("run", "--agent", agent)
    assert (again.code, work.raw["session_count"]) == (3, 1), again
    assert "harness resume" in again.err
    assert work.harness("resume").code == 0
    assert work.harness("task", "set", "a", "validation.command=true").code == 0
    assert work.harness("run", "--agent", agent).code == 0


@pytest.mark.parametrize(
    ("members", "code", "said"),
    [
        ({"tasks": []}, 7, "there are no tasks yet"),
        ({"tasks": ["a note"]}, 7, "next: harness add"),
        ({"tasks": [job("a", depends_on=["gone"])]}, 7, "a depends on gone"),
        ({"tasks": [job("a", status="failed", attempts=3)]}, 1, "1 failed for good"),
        ({"halt": {"category": "CONFIG", "message": "mend it"}}, 3, "mend it"),
        ({"version": 3}, 3, "version 3"),
        ({"tasks": 5}, 6, "corrupted and unrecoverable"),
    ],
)
def test_no_agent_is_started_for_nothing(tmp_path: Path, members: dict[str, Any], code: int, said: str) -> None:
    work = plain(tmp_path, job("a"), **members)
    ran = work.harness("run", "--agent", work.agent("touch ../started"))
    assert (ran.code, said in ran.out + ran.err) == (code, True), ran
    assert not (tmp_path / "started").exists()


def test_a_paused_list_rests(tmp_path: Path) -> None:
    work = plain(tmp_path, job("a"))
    assert work.harness("pause", "for lunch").code == 0
    before = work.files()
    ran = work.harness("run", "--agent", work.agent(WORKS))
    assert (ran.code, work.files()) == (5, before), ran


def test_a_dry_run_names_the_next_task_and_changes_nothing(tmp_path: Path) -> None:
    work = plain(tmp_path, job("b"), job("a"))
    before = work.files()
    ran = work.harness("run", "--dry-run")
    assert (ran.code, "a: Title of a" in ran.out, work.files()) == (0, True, before)


@pytest.mark.parametrize("spec", ["command:", "nothing-of-that-name", "command:/no/such/program-here"])
def test_an_agent_that_cannot_be_started_changes_no_task(tmp_path: Path, spec: str) -> None:
    work = plain(tmp_path, job("a"))
    ran = work.harness("run", "--agent", spec)
    assert ran.code in (2, 4), ran
    assert (work.statuses(), work.task("a").attempts) == (["pending"], 0)


# ---- interrupted ---------------------------------------------------------------------------------------------------

SLOW = f"{WORKS}\necho $$ > ../begun; exec sleep 300"


def begun(folder: Path) -> int:
    """The process of the slow agent, once it is at work."""
    until(lambda: (folder / "begun").exists() and (folder / "begun").read_text().endswith("\n"))
    return int((folder / "begun").read_text())


@pytest.mark.scenario
def test_a_pause_from_another_terminal_gives_the_task_back(tmp_path: Path) -> None:
    work = project(tmp_path, job("a", SLOW.partition("\n")[2]))
    head = work.repo.head
    with work.start("run", "--agent", work.agent(SLOW)) as run:
        sleeper = begun(tmp_path)
        assert work.harness("pause", "looking at it").code == 0
        out, _ = run.communicate(timeout=60)
    until(lambda: not psutil.pid_exists(sleeper))
    assert run.returncode == 0, out
    found = work.task("a")
    assert (found.status, found.attempts, found.claimed_by) == ("pending", 0, None)
    assert (work.repo.status(), work.repo.head) == ([], head)
    assert work.harness("run", "--agent", work.agent(SLOW)).code == 5


@pytest.mark.kept("proof-2", "agent-2")
@pytest.mark.parametrize(
    ("where", "how"),
    [
        ("agent", signal.SIGINT),
        pytest.param("agent", signal.SIGTERM, marks=pytest.mark.scenario),
        pytest.param("proof", signal.SIGINT, marks=pytest.mark.scenario),
    ],
)
def test_ctrl_c_gives_the_task_back_with_its_work_in_a_rescue(tmp_path: Path, how: int, where: str) -> None:
    slow_proof = SLOW.partition("\n")[2].replace("../begun", str(tmp_path / "begun"))  # wherever it is judged
    work = project(tmp_path, job("a", slow_proof))
    head = work.repo.head
    with work.start("run", "--agent", work.agent(SLOW if where == "agent" else WORKS)) as run:
        sleeper = begun(tmp_path)
        run.send_signal(how)
        out, _ = run.communicate(timeout=60)
    until(lambda: not psutil.pid_exists(sleeper))
    assert run.returncode == 130, out
    assert "Traceback" not in out
    found = work.task("a")
    assert (found.status, found.attempts, found.claimed_by) == ("pending", 0, None)
    assert (work.repo.status(), work.repo.head) == ([], head)
    assert work.repo.git("show", f"{rescues(work)[0]}:work.txt") == "a"
    assert (work.raw["session"], work.log()[-1]) == (None, "[SESSION-1] LOCK released")


@pytest.mark.exhaustive
@pytest.mark.scenario
@pytest.mark.parametrize("how", ["", "env -u HARNESS_RUN_ID -u HARNESS_PROJECT_DIR -u HARNESS_STATE_ROOT "])
def test_the_agent_of_a_run_corrects_no_task(tmp_path: Path, how: str) -> None:
    work = project(tmp_path, job("a"), job("b", "false", max_attempts=1, depends_on=["a"]))
    line = f'{how}sh -c \'"{sys.executable}" -m agent_harness.cli.main task'
    asks = f"{line} set b validation.command=true' > ../set 2>&1; {line} reset --failed' > ../reset 2>&1; true"
    work.harness("run", "--agent", work.agent(f"{asks}\n{WORKS}"))
    for name in ("set", "reset"):
        assert f"harness task {name} is a decision for the user" in (tmp_path / name).read_text(), name
    assert work.statuses() == ["completed", "failed"]
    assert work.harness("task", "set", "b", "priority=P0", CLAUDECODE="1").code == 0
    assert "set by an agent's command: priority=P0" in work.log()[-1]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_ctrl_c_is_answered_at_once_and_a_second_one_does_not_wait_for_the_call_at_hand(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"))
    call = """echo '{"type":"tool_call","name":"Bash","input":{"command":"make"}}'\n"""
    with work.start("run", "--agent", work.agent(call + SLOW)) as run:
        sleeper = begun(tmp_path)
        run.send_signal(signal.SIGINT)
        assert run.stdout
        lines = iter(run.stdout.readline, "")
        assert any("the agent may finish its current call" in line for line in lines)
        run.send_signal(signal.SIGINT)
        assert any(line == "Stopping now.\n" for line in lines)
        run.communicate(timeout=60)
    until(lambda: not psutil.pid_exists(sleeper))
    assert run.returncode == 130
    assert work.statuses() == ["pending"]


@pytest.mark.scenario
def test_a_second_run_is_kept_out_and_after_a_kill_the_next_one_recovers(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"), job("b", "grep -q b work.txt"))
    usage = json.dumps({"type": "usage", "input_tokens": 10, "output_tokens": 5, "cost_usd": 0.75})
    with work.start("run", "--agent", work.agent(f"echo '{usage}'\n{SLOW}")) as run:
        agent = begun(tmp_path)
        until(lambda: work.harness("status", "--json").json["now"][0]["cost_usd"] == 0.75)
        before = work.text
        second = work.harness("run", "--agent", work.agent("exit 1", name="second.sh"))
        assert (second.code, work.text) == (5, before), second
        assert "another harness session is active" in second.err
        assert work.harness("task", "claim", "--session", "other").code == 5
        os.kill(run.pid, signal.SIGKILL)
    until(lambda: not psutil.pid_exists(agent))
    assert work.statuses() == ["in_progress", "pending"]
    ran = work.harness("run", "--json", "--agent", work.agent(WORKS, name="third.sh"))
    assert ran.code == 0, ran
    recovered = [(each["task_id"], each["action"], each["grade"]) for each in ran.json["recovered"]]
    assert recovered == [("a", "completed", "proven")]
    assert "a: completed, proven (" in ran.err
    assert (work.statuses(), work.raw["session_count"]) == (["completed", "completed"], 2)
    assert [each["attempts"] for each in work.raw["tasks"]] == [1, 1]
    for _ in range(2):
        paid = work.harness("status", "--json").json["costs"]
        assert (paid["total_usd"], paid["by_task"]["a"], paid["attempts"]) == (0.75, 0.75, 2)
        assert work.harness("run", "--agent", work.agent("exit 1", name="fourth.sh")).code == 0
    assert work.repo.git("log", "--format=%s").splitlines() == ["[b] Title of b", "[a] Title of a", "First"]


@pytest.mark.scenario
def test_two_runs_share_a_concurrent_list_in_work_trees_of_their_own(tmp_path: Path) -> None:
    jobs = [job(f"t-{n}", f"grep -q t-{n} t-{n}.txt") for n in range(4)]
    work = project(tmp_path, *jobs, mode="concurrent")
    agent = work.agent(
        'echo "$HARNESS_TASK_ID" > "$HARNESS_TASK_ID.txt"; echo "$PWD" >> "$HARNESS_STATE_ROOT/../places"'
    )
    with contextlib.ExitStack() as stack:
        runs = []
        for name in ("w1", "w2"):
            work.repo.git("worktree", "add", "-q", "-b", name, str(tmp_path / name))
            words = {"HARNESS_STATE_ROOT": str(work.root), "HARNESS_WORKER_ID": name}
            runs.append(stack.enter_context(work.start("run", "--agent", agent, cwd=tmp_path / name, **words)))
        for each in runs:
            out, _ = each.communicate(timeout=120)
            assert each.returncode in (0, 7), out  # 7: the other one had the last task
    assert work.statuses() == ["completed"] * 4
    assert [each["attempts"] for each in work.raw["tasks"]] == [1] * 4
    assert {*(tmp_path / "places").read_text().split()} <= {str(tmp_path / "w1"), str(tmp_path / "w2")}
    subjects = work.repo.git("log", "--format=%s", "w1", "w2").splitlines()
    assert sorted(subjects) == ["First", *(f"[t-{n}] Title of t-{n}" for n in range(4))]
    assert work.repo.git("log", "--format=%s", "main") == "First"


def test_a_claim_that_is_taken_away_ends_the_attempt_without_touching_the_task(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"))
    theft = tmp_path / "theft.py"
    theft.write_text(
        "import json\n"
        "state = json.load(open('harness-tasks.json'))\n"
        "state['tasks'][0].update(claim_token='new', claimed_by='x')\n"
        "json.dump(state, open('harness-tasks.json', 'w'))\n"
    )
    ran = work.harness("run", "--json", "--once", "--agent", work.agent(f"{WORKS}\npython3 {theft}"))
    assert [each["result"] for each in ran.json["attempts"]] == ["lost"], ran
    assert (ran.code, work.task("a").status, work.task("a").claimed_by) == (1, "in_progress", "x")
    assert (work.root / "work.txt").exists()


# ---- what the agent is told ----------------------------------------------------------------------------------------


def test_the_prompt_tells_what_the_protocol_does_not_know() -> None:
    found = Task(job("a", hints={"file": "x.py"}, claim_token="secret", error_log=["[A] 1"] * 9))
    text = first_prompt(found, log=["Starting [a] x"], rescues=["r1", "r2", "r3", "r4"])
    assert '"file": "x.py"' in text
    assert "secret" not in text
    assert text.count("[A] 1") == 5
    assert "r1" not in text and "git show r4" in text
    assert "harness task fail a --category" in text
    assert "{id}" not in text + fix_prompt(found, "exit code 1", [])


def test_a_further_prompt_ends_with_the_end_of_the_output() -> None:
    text = fix_prompt(Task(job("a")), "exit code 1", ["x" * 9000, "the last line"])
    assert "the last line" in text
    assert len(text) < 8000


def test_braces_in_an_id_do_no_harm(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list", job("{0}{id}"))
    assert "harness task fail {0}{id} " in first_prompt(project.task("{0}{id}"), log=[], rescues=[])


def test_what_the_list_waits_for_is_said_before_a_missing_agent(tmp_path: Path) -> None:
    """FIX-11: a list that is done, paused or halted is not in want of an agent."""
    nobody = {"HARNESS_AGENT": "command:no-such-program-here"}
    open_list = plain(tmp_path / "a", job("t"))
    assert "cannot be started" in open_list.harness("run", **nobody).err
    open_list.harness("pause")
    paused = open_list.harness("run", **nobody)
    assert (paused.code, "aused" in paused.err) == (5, True), paused
    done = plain(tmp_path / "b", job("t", status="completed")).harness("run", **nobody)
    assert (done.code, "every task is completed" in done.err) == (7, True), done


def test_a_run_that_can_complete_nothing_is_not_advised(tmp_path: Path) -> None:
    """FIX-18: the next command gives the task its proof."""
    found = plain(tmp_path, job("t-1", command=None))
    wanted = "harness task set t-1 validation.command='...'"
    assert f"next       {wanted}" in found.harness("status").out.splitlines()
    assert found.harness("status", "--json").json["next"] == wanted
    added = found.harness("add", "Another")
    assert added.out.splitlines()[-1] == f"next: {wanted}"
    assert found.harness("task", "set", "t-1", "validation.command=true").code == 0
    assert "next       harness run" in found.harness("status").out.splitlines()


@pytest.mark.parametrize("words", [(), ("--workers", "2")], ids=["serial", "parallel"])
def test_a_list_that_halts_for_a_proof_asks_for_the_proof_first(tmp_path: Path, words: tuple[str, ...]) -> None:
    """FIX-18: `harness resume` alone would have the next run halt for the same."""
    found = plain(tmp_path, job("t-1", command=None), git=True)
    ran = found.harness("run", "--agent", found.agent("exit 0\n"), *words)
    wanted = "harness task set t-1 validation.command='...'"
    assert (ran.code, wanted.partition("=")[0] in ran.out.splitlines()[-1]) == (3, True), ran
    assert found.harness("status", "--json").json["next"] == wanted
    assert [each["answer"] for each in found.harness("watch", "--json").json["questions"]] == [wanted]
    assert found.harness("task", "set", "t-1", "validation.command=true").code == 0
    assert found.harness("status", "--json").json["next"] == "harness resume"


# ---- what an agent asks for in its turn ----------------------------------------------------------------------------

ASKS = 'echo half > work.txt; harness task complete "$HARNESS_TASK_ID" -m "As asked" > answer'


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_completion_in_a_turn_is_a_request_that_is_carried_out_after_it(tmp_path: Path) -> None:
    work = project(
        tmp_path, job("a", "echo run >> ../runs; grep -q half work.txt"), session_config={"isolation": "in_place"}
    )
    sandbox = {"HARNESS_SANDBOX": "off"}  # in one, nobody would believe what the agent's own command has proven
    ran = work.harness("run", "--agent", work.agent(f"{ASKS}; cp answer ../; rm answer"), **sandbox)
    assert (ran.code, work.statuses()) == (0, ["completed"]), ran
    answer = json.loads((tmp_path / "answer").read_text())
    assert (answer["requested"], answer["status"], answer["validation"]["result"]) == (True, "in_progress", "PASS")
    assert answer["next"] == "harness status"  # nothing is left to be done in this turn
    assert work.repo.git("log", "-1", "--format=%s") == "[a] As asked"
    assert (tmp_path / "runs").read_text() == "run\n"  # what was proven in the turn, and is as it was, is not run again


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_work_that_is_taken_away_after_the_request_is_not_done(tmp_path: Path) -> None:
    work = project(tmp_path, job("a", "grep -q half work.txt", max_attempts=1))
    ran = work.harness("run", "--agent", work.agent(f"{ASKS}; rm answer; echo nothing > work.txt"))
    assert (ran.code, work.statuses()) == (1, ["failed"]), ran
    assert work.repo.git("log", "--format=%s").splitlines() == ["First"]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_request_without_a_proof_is_refused_in_the_turn(tmp_path: Path) -> None:
    work = project(tmp_path, job("a", "grep -q whole work.txt", max_attempts=1))
    agent = work.agent(f"{ASKS} 2> ../said || echo $? > ../code; rm answer; echo whole > work.txt")
    ran = work.harness("run", "--agent", agent)
    assert (ran.code, work.statuses()) == (0, ["completed"]), ran
    assert (tmp_path / "code").read_text() == "1\n"


LISTS = """
python3 - "$HARNESS_STATE_ROOT/harness-tasks.json" <<'END'
import json, sys
state = json.load(open(sys.argv[1]))
{change}
json.dump(state, open(sys.argv[1], "w"))
END
"""


@pytest.mark.kept(
    'state["tasks"][1]["status"] = "completed"-it was marked as completed in harness-tasks.json, but is not proven',
    'del state["tasks"][1]-it was removed from harness-tasks.json; restored',
    'state["session_config"]["requires_red"] = "off"-session_config was changed while an agent was working',
)
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            'state["tasks"][0]["status"] = "completed"',
            "it was marked as completed in harness-tasks.json, but is not proven",
        ),
        (
            'state["tasks"][1]["status"] = "completed"',
            "it was marked as completed in harness-tasks.json, but is not proven",
        ),
        ('del state["tasks"][1]', "it was removed from harness-tasks.json; restored"),
        ('del state["tasks"][0]', "it was removed from harness-tasks.json; restored"),
        ('state["session_config"]["requires_red"] = "off"', "session_config was changed while an agent was working"),
    ],
)
@pytest.mark.scenario
def test_a_list_that_an_agent_has_edited_is_put_back(tmp_path: Path, change: str, said: str) -> None:
    work = plain(tmp_path, job("a", "test -e a", max_attempts=1), job("b", "test -e b", max_attempts=1))
    config = work.raw["session_config"]
    ran = work.harness("run", "--agent", work.agent(LISTS.format(change=change)))
    assert (ran.code, work.statuses(), work.raw["session_config"]) == (1, ["failed", "failed"], config), ran
    assert any(said in line for line in work.log()), work.log()


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_the_harness_keeps_is_in_no_commit_though_the_agent_forces_it_in(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"))
    ran = work.harness("run", "--agent", work.agent(f"{WORKS}\ngit add -A -f . && git commit -qm all"))
    assert (ran.code, work.statuses()) == (0, ["completed"]), ran
    assert work.repo.git("ls-files").split() == work.repo.git("ls-tree", "-r", "--name-only", "HEAD").split()
    assert not [name for name in work.repo.git("ls-files").split() if "harness" in name]
    assert work.repo.status() == []
    assert Path(work.layout.costs).exists()


@pytest.mark.scenario
def test_what_was_there_at_the_claim_cannot_be_moved(tmp_path: Path) -> None:
    work = project(tmp_path, job("a", "sh check.sh", max_attempts=1))
    work.repo.write("check.sh", "grep -q done work.txt\n").stage("check.sh").git("commit", "-q", "-m", "Second")
    head = work.repo.head
    moves = "git for-each-ref --format='%(refname)' refs/harness | while read -r ref; do git update-ref $ref HEAD; done"
    ran = work.harness(
        "run", "--agent", work.agent(f"echo true > check.sh; git commit -qam x; {moves}; rm -rf .harness")
    )
    assert (ran.code, work.statuses(), work.repo.head) == (1, ["failed"], head), ran
    assert work.repo.read("check.sh") == b"grep -q done work.txt\n"
    assert "check.sh proves this task" in work.task("a").error_log[0]


def test_a_limit_that_outlasts_the_lease_does_not_end_the_run(tmp_path: Path) -> None:
    """The clock was set, or the machine slept: the task is taken up again once the provider serves."""
    work = plain(tmp_path, job("a"))
    expire = 's/"lease_expires_at": *"[^"]*"/"lease_expires_at": "2020-01-01T00:00:00Z"/'
    refused = '{"type": "rate_limited", "message": "usage limit", "retry_after_seconds": 1}'
    agent = work.agent(
        f"if mkdir ../tried; then sed -i '{expire}' harness-tasks.json; echo '{refused}'; exit 1; fi\n{WORKS}"
    )
    ran = work.harness("run", "--agent", agent)
    assert "a: lost (The lease on a expired" in ran.err + ran.out, ran
    assert (ran.code, work.statuses()) == (0, ["completed"]), ran


# ---- what a turn leaves in git itself --------------------------------------------------------------------------------

DISORDER = [
    "touch .git/index.lock .git/HEAD.lock .git/refs/heads/main.lock",
    "echo junk > .git/HEAD; echo junk > .git/index",
    "git pack-refs --all; echo >> .git/packed-refs",
    "git config core.worktree /nonexistent",
]


@pytest.mark.kept(
    "workers0-touch .git/index.lock .git/HEAD.lock .git/refs/heads/main.lock",
    "workers0-echo junk > .git/HEAD; echo junk > .git/index",
    "workers0-git pack-refs --all; echo >> .git/packed-refs",
)
@pytest.mark.scenario
@pytest.mark.parametrize("disorder", DISORDER)
@pytest.mark.parametrize("workers", [(), ("--workers", "2")])
def test_a_run_goes_on_after_a_turn_that_leaves_git_in_disorder(
    tmp_path: Path, disorder: str, workers: tuple[str, ...]
) -> None:
    proof = 'test -s "out-$HARNESS_TASK_ID.txt"'.replace("$HARNESS_TASK_ID", "{}")
    work = project(tmp_path, *(job(name, proof.format(name)) for name in ("task-1", "task-2")))
    agent = work.agent(
        f'echo w > "out-$HARNESS_TASK_ID.txt"\ntop=$(git rev-parse --show-toplevel); cd "$top"\n{disorder}'
    )
    ran = work.harness("run", *workers, "--agent", agent)
    assert ran.code == 0, ran
    assert work.statuses() == ["completed", "completed"]
    assert work.repo.git("symbolic-ref", "HEAD") == "refs/heads/main"
    assert "nonexistent" not in work.repo.git("config", "--list")


@pytest.mark.scenario
def test_an_attempt_counts_that_leaves_git_beyond_repair(tmp_path: Path) -> None:
    work = project(tmp_path, job("task-1"), job("task-2"))
    lost = "t=$(git rev-parse 'HEAD^{tree}')\nrm -f .git/objects/$(echo $t | cut -c1-2)/$(echo $t | cut -c3-)"
    ran = work.harness("run", "--agent", work.agent(f"{WORKS}\n{lost}"))
    assert ran.code != 0, ran
    assert "git fsck" in ran.text
    assert [each.attempts for each in work.state.tasks] == [1, 0]
    assert work.state.halt
