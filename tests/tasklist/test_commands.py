"""The commands: each answer, each exit code, and bad input that leaves the disk as it was."""

import json
import os
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pexpect
import pytest

from agent_harness.cli import main
from agent_harness.kernel import clock
from agent_harness.testing import run_in_process
from agent_harness.testing.repo import Repo
from agent_harness.testing.task_list_project import NOON, TaskListProject, task

from . import SEED
from .test_claims import claimed
from .test_session_lease import LIVE

TOKEN = re.compile(r"[0-9a-f]{32}")


@pytest.fixture
def project(tmp_path: Path) -> TaskListProject:
    return TaskListProject(tmp_path / "list", task("task-001"), task("task-002", depends_on=["task-001"]))


def verb(project: TaskListProject, *words: str, **environment: str) -> dict[str, Any]:
    """The answer of a verb that succeeds."""
    ran = project.harness(*words, **environment)
    assert (ran.code, ran.err) == (0, ""), ran
    found = ran.json
    assert found["ok"]
    assert found["next"].startswith("harness ")
    return found


# ---- an agent's way through a list ---------------------------------------------------------------------------------


def test_the_loop_of_an_agent(project: TaskListProject) -> None:
    me = {"HARNESS_SESSION_ID": "s1"}
    start = verb(project, "session", "start", **me)
    assert (start["verb"], start["session"], start["next"]) == ("session start", 2, "harness task claim")
    assert verb(project, "task", "next", **me)["task_id"] == "task-001"
    found = verb(project, "task", "claim", "--lease", "600", **me)
    assert (found["verb"], found["task_id"], found["attempt"]) == ("claim", "task-001", 1)
    assert TOKEN.fullmatch(found["token"])
    assert found["next"] == 'harness task checkpoint task-001 1/3 "what was done"'
    me["HARNESS_CLAIM_TOKEN"] = found["token"]
    step = verb(project, "task", "checkpoint", "task-001", "1/2", "routes", **me)
    assert step["next"].startswith("harness task checkpoint task-001 2/2")
    assert verb(project, "task", "checkpoint", "task-001", "2/2", "x", **me)["next"] == "harness task complete task-001"
    assert verb(project, "task", "renew", "task-001", "--lease", "900", **me)["lease_expires_at"]
    assert verb(project, "task", "validate", "task-001", **me)["result"] == "PASS"
    done = verb(project, "task", "complete", "task-001", **me)
    assert (done["already"], done["remaining"], done["next"]) == (False, 1, "harness task claim")
    assert verb(project, "task", "complete", "task-001", **me)["already"]
    me["HARNESS_CLAIM_TOKEN"] = verb(project, "task", "claim", HARNESS_SESSION_ID="s1")["token"]
    given = verb(project, "task", "release", "task-002", "later", **me)
    assert (given["status"], given["attempts"]) == ("pending", 0)
    me["HARNESS_CLAIM_TOKEN"] = verb(project, "task", "claim", HARNESS_SESSION_ID="s1")["token"]
    lost = verb(project, "task", "fail", "task-002", "--category", "TEST_FAIL", "no\nway", **me)
    assert (lost["attempts"], lost["retryable"], lost["next"]) == (1, True, "harness task claim")
    assert project.task("task-002").error_log == ["[TEST_FAIL] no way"]
    assert verb(project, "task", "stats", **me)["stats"]["attempts_total"] == 2
    end = verb(project, "session", "end", **me)
    assert (end["work_left"], end["next"]) == (True, "harness session start")


@pytest.mark.scenario
def test_the_log_of_the_document_is_made_line_by_line(tmp_path: Path) -> None:
    """Lines of the verbs for the same work differ only in times, hashes, places and processes."""
    project = TaskListProject(tmp_path / "list", git=True)
    for each in ("harness-tasks.json", "harness-progress.txt"):
        (project.root / each).unlink(missing_ok=True)
    verb(project, "init", ".", "--json")
    (project.root / "harness-init.sh").write_text("true\n")
    words = ("--validate", "test -e auth.py", "--json")
    verb(project, "add", "Implement user authentication", "--priority", "P0", *words)
    verb(project, "add", "Add rate limiting", *words)
    for number in range(3):
        verb(project, "add", f"Add more {number}", *words)
    verb(project, "session", "start")
    verb(project, "task", "claim")
    project.repo.write("auth.py", "auth\n")
    verb(project, "task", "checkpoint", "task-001", "2/4", "auth routes created, tests pending")
    verb(project, "task", "complete", "task-001")
    verb(project, "task", "claim")
    project.repo.write("auth.py", "broken\n")
    verb(project, "task", "fail", "task-002", "--category", "TASK_EXEC", "Redis connection refused")
    verb(project, "task", "stats")
    made = {shape(line) for line in (project.root / "harness-progress.txt").read_text().splitlines()}
    assert {shape(line) for line in (SEED / "harness-progress.txt").read_text().splitlines()} == made


def shape(line: str) -> str:
    """A line without what differs from one run to the next, and without what a rollback adds about its rescue."""
    line = re.sub(r"^\[\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\] \[SESSION-\d\]", "", line)
    line = re.sub(r"\b[0-9a-f]{7}\b", "HASH", line).partition(" (rescue=")[0]
    return re.sub(r"pid=\d+", "pid=N", re.sub(r"project /.*", "project /", line))


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("task", "claim"), "task_id: task-001"),
        (("task", "next"), "title: Title of task-001"),
        (("session", "start"), "session: 2"),
        (("task", "stats"), "tasks_total: 2"),
        (("task", "recover"), "next: harness task claim"),
        (("rescue", "list"), "rescues: none"),
        (("task", "set", "task-001", "priority=P0"), "P0"),
    ],
)
def test_a_verb_answers_for_people_too(project: TaskListProject, words: tuple[str, ...], said: str) -> None:
    ran = project.harness(*words, "--text")
    assert (ran.code, ran.err) == (0, "")
    assert said in ran.out
    assert ran.out.splitlines()[-1].startswith("next: harness ")
    assert not ran.out.startswith("{")


# ---- exit codes ----------------------------------------------------------------------------------------------------

MINE = {"HARNESS_CLAIM_TOKEN": "t"}
BUSY = LIVE | {"expires_at": clock.timestamp(clock.now() + timedelta(minutes=50))}
FAR = {"lease_expires_at": "2099-01-01T00:00:00Z", "lease_seconds": 60.0}
PAST = {"lease_expires_at": "2020-01-01T00:00:00Z", "lease_seconds": 60.0}
HALT = {"halt": {"category": "CONFIG", "message": "mend it"}}
CLAIMED = task("task-001", **claimed("w") | FAR)

CODES: list[tuple[str, dict[str, Any], str, dict[str, str], int, str]] = [
    ("nothing eligible", {"tasks": []}, "task claim", {}, 7, "nothing_eligible"),
    ("nothing to see", {"tasks": []}, "task next", {}, 7, "nothing_eligible"),
    ("a task that waits", {}, "task claim --task task-002", {}, 7, "nothing_eligible"),
    ("a task that is none", {}, "task claim --task zz", {}, 2, "usage"),
    ("halted", HALT, "task claim", {}, 3, "person_needed"),
    ("halted", HALT, "session start", {}, 3, "person_needed"),
    ("another session", {"session": BUSY}, "task claim", {}, 5, "busy"),
    ("another session", {"session": BUSY}, "session start", {}, 5, "busy"),
    ("another session", {"session": BUSY}, "session end", {}, 5, "busy"),
    ("a claim of another", {"tasks": [CLAIMED]}, "task claim", {}, 5, "busy"),
    ("a later version", {"version": 3}, "task claim", {}, 3, "configuration"),
    ("damaged", {"tasks": {}}, "task claim", {}, 6, "state_damaged"),
    ("damaged", {"tasks": {}}, "session start", {}, 6, "state_damaged"),
    ("damaged", {"tasks": {}}, "task recover", {}, 6, "state_damaged"),
    ("sessions used up", {"session_config": {"max_sessions": 1}}, "task claim", {}, 9, "limit_reached"),
    ("no worker", {"session_config": {"concurrency_mode": "concurrent"}}, "task claim", {}, 2, "usage"),
    ("nothing claimed", {}, "task complete task-001", MINE, 8, "not_owner"),
    ("a wrong token", {"tasks": [CLAIMED]}, "task complete task-001 --token x", {}, 8, "lease_lost"),
    ("a wrong token", {"tasks": [CLAIMED]}, "task fail task-001 --category CONFIG x --token x", {}, 8, "lease_lost"),
    ("a wrong token", {"tasks": [CLAIMED]}, "task release task-001 x --token x", {}, 8, "lease_lost"),
    ("a wrong token", {"tasks": [CLAIMED]}, "task renew task-001 --token x", {}, 8, "lease_lost"),
    ("a wrong token", {"tasks": [CLAIMED]}, "task checkpoint task-001 1/2 x --token x", {}, 8, "lease_lost"),
    ("a wrong token", {"tasks": [CLAIMED]}, "task validate task-001 --token x", {}, 8, "lease_lost"),
    ("a wrong token", {"tasks": [CLAIMED]}, "task rollback task-001 --token x", {}, 8, "lease_lost"),
    ("somebody else", {"tasks": [CLAIMED]}, "task complete task-001", {}, 8, "not_owner"),
    ("too late", {"tasks": [CLAIMED | PAST]}, "task complete task-001", MINE, 8, "lease_lost"),
    ("at work", {"tasks": [CLAIMED]}, "task recover task-001", {}, 8, "not_owner"),
    ("no such rescue", {}, "rescue show refs/harness/rescue/x/1", {}, 2, "usage"),
    ("no step", {"tasks": [CLAIMED]}, "task checkpoint task-001 3/2 x", MINE, 2, "usage"),
    ("no step", {}, "task checkpoint task-001 one x", MINE, 2, "usage"),
    ("no step", {}, f"task checkpoint task-001 {'1' * 5000}/2 x", MINE, 2, "usage"),
    ("no category", {}, "task fail task-001 x", MINE, 2, "usage"),
    ("an odd category", {}, "task fail task-001 x --category ODD", MINE, 2, "usage"),
    ("no lease", {}, "task claim --lease 0", {}, 2, "usage"),
    ("no lease", {}, "task claim --lease nan", {}, 2, "usage"),
    ("no lease", {}, "task claim --lease inf", {}, 2, "usage"),
    ("no time", {}, "task claim --now soon", {}, 2, "usage"),
    ("no verb", {}, "task dance", {}, 2, "usage"),
    ("no task", {}, "task complete", {}, 2, "usage"),
    ("no field", {}, "task set task-001 priority", {}, 2, "usage"),
    ("an odd field", {}, "task set task-001 claim_token=x", {}, 2, "usage"),
    ("completed by hand", {}, "task set task-001 status=completed", {}, 2, "usage"),
    ("a circle", {}, "task set task-001 depends_on=task-002", {}, 3, "configuration"),
    ("no list", {}, "task claim --root /", {}, 4, "not_a_project"),
    ("a wrong pin", {}, "task claim", {"HARNESS_STATE_ROOT": "/nowhere"}, 4, "not_a_project"),
]


@pytest.mark.parametrize(("members", "words", "environment", "code", "kind"), [each[1:] for each in CODES])
def test_bad_input_is_one_answer_an_exit_code_and_a_disk_as_before(
    project: TaskListProject, members: dict[str, Any], words: str, environment: dict[str, str], code: int, kind: str
) -> None:
    project.edit(**members)
    before = project.files()
    ran = project.harness(*words.split(), HARNESS_SESSION_ID="mine", **environment)
    assert (ran.code, ran.err) == (code, ""), ran
    found = ran.json
    assert not found["ok"]
    assert found["error"]["message"] and "\n" not in found["error"]["message"]
    assert found["error"]["hint"]
    assert found["error"]["code"] == kind
    after = project.files()
    after.pop("harness-progress.txt", None)  # a list that cannot be restored says so there
    assert after == before
    text = project.harness(*words.split(), "--text", HARNESS_SESSION_ID="mine", **environment)
    assert (text.code, text.out) == (code, "")
    assert [line.partition(":")[0] for line in text.err.splitlines()] == ["harness", "next"]


@pytest.mark.parametrize(
    ("command", "timeout", "code", "kind"),
    [
        ("echo out; exit 3", 60, 1, "verification_failed"),
        ("sleep 60", 0.1, 124, "timed_out"),
        (None, 60, 3, "missing_validation"),
        ("no-such-program-here", 60, 4, "program_missing"),
    ],
)
def test_a_proof_that_fails_has_its_exit_code(
    project: TaskListProject, command: str | None, timeout: float, code: int, kind: str
) -> None:
    project.edit("task-001", validation={"command": command, "timeout_seconds": timeout})
    token = verb(project, "task", "claim")["token"]
    for name in ("validate", "complete"):
        ran = project.harness("task", name, "task-001", "--token", token)
        assert (ran.code, ran.json["error"]["code"], ran.json["verb"]) == (code, kind, name)
    assert project.task("task-001").status == "in_progress"
    assert project.harness("task", "claim").code == (3 if code in (3, 4) else 0)


@pytest.mark.parametrize("name", ["validate", "complete"])
def test_a_person_reads_what_failed_and_what_it_printed_last(project: TaskListProject, name: str) -> None:
    project.edit("task-001", validation={"command": "seq 100; printf 'E   assert 1 == 2\\033[31m\\n'; exit 3"})
    token = verb(project, "task", "claim")["token"]
    ran = project.harness("task", name, "task-001", "--token", token, "--text")
    first, *output, last = ran.err.splitlines()
    assert (ran.code, ran.out, "exit code 3" in first, last.startswith("next: ")) == (1, "", True, True)
    assert (output[0], output[-2]) == ("    82", "    100")
    assert "E   assert 1 == 2" in output[-1]
    assert "\x1b" not in ran.err


def test_an_explicit_folder_wins_over_a_pin(project: TaskListProject, tmp_path: Path) -> None:
    other = TaskListProject.at_noon(tmp_path / "other", task("its-own"))
    found = verb(project, "task", "next", "--root", str(other.root), HARNESS_STATE_ROOT=str(project.root))
    assert found["task_id"] == "its-own"
    assert verb(project, "task", "next", HARNESS_STATE_ROOT=str(other.root))["task_id"] == "its-own"


def test_a_lock_that_is_held_is_waited_for_and_then_told(project: TaskListProject) -> None:
    before = project.files()
    with project.store.lock():
        ran = project.harness("task", "claim", "--lock-timeout", "0.05")
    assert (ran.code, ran.json["error"]["code"], project.files()) == (5, "lock_busy", before)


def test_the_time_of_a_test_is_believed(project: TaskListProject) -> None:
    found = verb(project, "task", "claim", "--now", "2026-03-01T12:00:00Z", "--lease", "60")
    assert found["lease_expires_at"] == "2026-03-01T12:01:00Z"
    assert NOON.isoformat().startswith("2026-03-01T12")


# ---- what people type ----------------------------------------------------------------------------------------------


def test_a_person_makes_and_fills_a_list(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    project = TaskListProject(tmp_path / "elsewhere")
    project.root = tmp_path / "new"
    project.layout = type(project.layout)(project.root)
    ran = project.harness("init", ".")
    assert (ran.code, ran.err) == (0, ""), ran
    assert ran.out.splitlines()[-1].startswith("next: harness add")
    assert "Not changed: " in project.harness("init", ".").out
    found = verb(project, "add", "One", "--priority", "P0", "--validate", "true", "--timeout", "5", "--json")
    assert (found["task_id"], found["task_ids"]) == ("task-001", ["task-001"])
    ran = project.harness("add", "Two", "--depends", "task-001", "--max-attempts", "2", "--cleanup", "make clean")
    assert ran.code == 0
    assert "harness task set task-002 validation.command=" in ran.out
    (project.root / "more.jsonl").write_text('{"title": "Three", "own": [1]}\n\n{"title": "Four", "id": "x"}\n')
    assert verb(project, "add", "--from", "more.jsonl", "--json")["task_ids"] == ["task-003", "x"]
    assert "Hooks are off in this project" not in project.harness("add", "Five").out
    project.harness("deactivate")
    assert (
        "Hooks are off in this project" not in project.harness("add", "Six").out + project.harness("status").out
    )  # there are none
    assert project.harness("hooks", "install", "--client", "claude-code").code == 0
    for words in (("add", "Seven"), ("status",)):
        assert "Hooks are off in this project" in project.harness(*words).out, words
    one, two, three, *_ = project.raw["tasks"]
    assert (one["priority"], one["validation"]) == ("P0", {"command": "true", "timeout_seconds": 5})
    assert (two["depends_on"], two["max_attempts"]) == (["task-001"], 2)
    assert two["on_failure"] == {"cleanup": "make clean"}
    assert three["own"] == [1]


def test_the_first_task_of_a_repository_makes_its_list_at_the_top(tmp_path: Path) -> None:
    """F-ADD-1."""
    repo = Repo.with_files(tmp_path / "app", {"src/app.py": "one\n"})
    words = ("harness", "add", "One", "--validate", "test -e done")
    ran = run_in_process(main.main, *words, cwd=repo.path / "src")
    assert (ran.code, ran.err) == (0, ""), ran
    assert ran.out == f"Made a task list in {repo.path}.\nAdded task-001.\nnext: harness run\n"
    assert repo.status() == []
    again = run_in_process(main.main, "harness", "add", "Two", "--json", cwd=repo.path).json
    assert (again["task_id"], "made" in again) == ("task-002", False)
    other = Repo.with_files(tmp_path / "other", {"app.py": "one\n"})
    made = run_in_process(main.main, *words, "--json", cwd=other.path).json
    assert (made["task_ids"], made["made"]["root"]) == (["task-001"], str(other.path))


@pytest.mark.parametrize(
    ("words", "code", "where"),
    [
        (["add"], 2, "app"),
        (["add", "x", "--depends", "nobody"], 3, "app"),
        (["add", "x", "--root", "."], 4, "app"),
        (["add", "x", "--from", "typed.jsonl"], 2, "app"),
        (["add", "--from", "typed.jsonl"], 2, "app"),
        (["add", "x"], 4, "plain"),
        (["add", "x"], 4, "home"),
        (["add", "x"], 4, "project"),
    ],
)
def test_no_list_is_made_where_a_task_is_refused_or_a_list_has_no_place(
    words: list[str], code: int, where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F-ADD-1."""
    folder = tmp_path / where
    folder.mkdir()
    (folder / "typed.jsonl").write_text('{"title": "x", "validation": "pytest"}\n')
    if where != "plain":
        Repo(folder).commit("First")
    if where == "home":
        monkeypatch.setenv("HOME", str(folder))
    if where == "project":
        (folder / ".harness.yaml").write_text("{}\n")
    before = sorted(each.name for each in folder.iterdir())
    ran = run_in_process(main.main, "harness", *words, cwd=folder)
    assert (ran.code, ran.out) == (code, ""), ran
    assert [line.partition(":")[0] for line in ran.err.splitlines()] == ["harness", "next"], ran
    assert sorted(each.name for each in folder.iterdir()) == before


def test_an_added_task_names_what_it_may_change(project: TaskListProject) -> None:
    words = ("--validate", "sh check.sh", "--may-change", "check.sh", "--may-change", "tests/**", "--json")
    added = verb(project, "add", "Rework the checks", *words)["task_id"]
    task = next(each for each in project.raw["tasks"] if each["id"] == added)
    proof = {"command": "sh check.sh", "timeout_seconds": 300, "may_change": ["check.sh", "tests/**"]}
    assert task["validation"] == proof
    assert "--may-change" in project.harness("add", "--help").out


BAD_ADDS: list[tuple[list[str], int]] = [
    (["add"], 2),
    (["add", " "], 2),
    (["add", "x", "--priority", "P9"], 2),
    (["add", "x", "--timeout", "0"], 2),
    (["add", "x", "--timeout", "nan"], 2),
    (["add", "x", "--timeout", "inf"], 2),
    (["add", "x", "--max-attempts", "0"], 2),
    (["add", "x", "--depends", "nobody"], 3),
    (["add", "x", "--from", "odd.jsonl"], 2),
    (["add", "--from", "missing.jsonl"], 2),
    (["add", "--from", "good.jsonl", "--validate", "true"], 2),
    (["add", "--from", "good.jsonl", "--may-change", "tests/**"], 2),
    (["add", "--from", "good.jsonl", "--priority", "P0"], 2),
    (["add", "--from", "odd.jsonl"], 2),
    (["add", "--from", "latin.jsonl"], 2),
    (["add", "--from", "typed.jsonl"], 2),
    (["init"], 2),
    (["init", "nowhere"], 4),
    (["init", ".", "--max-tasks", "-1"], 2),
    (["init", ".", "--mode", "odd"], 2),
    (["run", "--sessions", "2"], 2),
    (["run", "--max-tasks", "0"], 2),
    (["run", "--agent", "command:true", "--max-minutes", "nan"], 2),
    (["run", "--agent", "command:true", "--max-cost", "nan"], 2),
    (["run", "--agent", "command:true", "--max-cost", "-1"], 2),
    (["resume", "--choose", "x"], 2),
    (["status", "--tail", "-1"], 2),
    (["drive"], 2),
    (["rescue", "prune"], 2),
    (["rescue", "prune", "--older-than", "-1"], 2),
    (["rescue", "prune", "--older-than", "nan"], 2),
]


@pytest.mark.parametrize(("words", "code"), BAD_ADDS)
def test_bad_words_are_one_line_and_the_next_command(project: TaskListProject, words: list[str], code: int) -> None:
    (project.root / "good.jsonl").write_text('{"title": "good"}\n')
    (project.root / "odd.jsonl").write_text('{"title": "good"}\n[]\n')
    (project.root / "latin.jsonl").write_bytes(b'{"title": "\xe9"}\n')
    (project.root / "typed.jsonl").write_text('{"title": "x", "validation": "pytest"}\n')
    before = project.files()
    ran = project.harness(*words)
    assert (ran.code, project.files()) == (code, before), ran
    if words[0] != "rescue":
        assert ran.out == ""
        assert [line.partition(":")[0] for line in ran.err.splitlines()] == ["harness", "next"], ran


@pytest.mark.parametrize("word", [os.fsdecode(b"caf\xe9"), "a\0b", "\x1b[31m", "x" * 20_000])
def test_odd_text_is_taken_or_refused_and_never_a_damaged_list(project: TaskListProject, word: str) -> None:
    token = verb(project, "task", "claim")["token"]
    for words in (
        ["add", word, "--json"],
        ["task", "checkpoint", "task-001", "1/2", word, "--token", token],
        ["task", "set", "task-002", f"title={word}"],
        ["pause", word, "--json"],
        ["resume", "--json"],
        ["task", "fail", "task-001", "--category", "TASK_EXEC", word, "--token", token],
        ["task", "claim", "--worker", word],
    ):
        ran = project.harness(*words)
        assert ran.code in (0, 2), (words, ran)
        project.store.read()
    assert Path(project.layout.progress).read_text(encoding="utf-8").replace("\n", "").isprintable()
    assert project.harness("status").code == 0


def test_nothing_in_the_file_steers_the_terminal_of_a_person(project: TaskListProject) -> None:
    nasty = "\x1b]0;owned\x07\x1b[2J\u202e"
    project.edit(
        tasks=[task(f"a{nasty}", title=nasty, status="failed", attempts=1, error_log=[f"[A] {nasty}"])],
        halt={"category": nasty, "message": nasty},
    )
    for words in (
        ["status"],
        ["task", "claim", "--text"],
        ["run", "--agent", "command:true"],
        ["task", "stats", "--text"],
    ):
        ran = project.harness(*words)
        assert (ran.out + ran.err).replace("\n", "").isprintable(), (words, ran)
    project.harness("resume")
    ran = project.harness("run", "--agent", project.agent("true"))
    assert "owned" in ran.out
    assert (ran.out + ran.err).replace("\n", "").isprintable(), ran
    assert project.harness("status", "--json").json["tasks"][0]["title"] == nasty


def test_pause_resume_and_the_marker(project: TaskListProject) -> None:
    assert project.harness("activate").out.startswith("Hooks are on in this project.")
    assert verb(project, "deactivate", "--json")["was_active"]
    assert project.harness("pause", "I look").out == "Paused.\nnext: harness resume\n"
    assert project.harness("status", "--json").json["paused"]
    assert project.harness("resume").out.startswith("Ended the pause.")
    assert project.harness("resume").out.startswith("Nothing to resume.")
    project.edit(**HALT)
    assert project.harness("resume").out.startswith("Ended the halt.")


def test_status_is_the_same_on_the_fast_path(project: TaskListProject) -> None:
    project.holding(SEED)
    slow = project.harness("status", "--json").json
    fast = subprocess.run(
        [sys.executable, "-m", "agent_harness.cli.main", "status", "--json"],
        cwd=project.root,
        capture_output=True,
        check=True,
    )
    assert json.loads(fast.stdout) == slow
    assert len(project.harness("status", "--json", "--tail", "2").json["log"]) == 2
    assert "\nTasks: 1 completed, 1 failed" in project.harness("status").out


# ---- asking --------------------------------------------------------------------------------------------------------


def ask(project: TaskListProject, *words: str) -> "pexpect.spawn[str]":
    command = [sys.executable, "-m", "agent_harness.cli.main", *words]
    return pexpect.spawn(command[0], command[1:], cwd=str(project.root), encoding="utf-8", timeout=60)


def test_on_a_terminal_add_asks_for_what_was_not_given(project: TaskListProject) -> None:
    with ask(project, "add", "New") as terminal:
        for question, answer in (
            ("Priority", "P7"),
            ("Priority", "P0"),
            ("Depends on", "task-001"),
            ("Command that checks the task", "pytest -q"),
            ("Time limit", ""),
        ):
            terminal.expect(question)
            terminal.sendline(answer)
        terminal.expect("Added task-003")
        terminal.expect(pexpect.EOF)
    found = project.raw["tasks"][2]
    assert (found["priority"], found["depends_on"]) == ("P0", ["task-001"])
    assert found["validation"] == {"command": "pytest -q", "timeout_seconds": 300}


@pytest.mark.parametrize("words", [("--validate", "true"), ("--json",)])
def test_on_a_terminal_nothing_is_asked_when_something_was_given(
    project: TaskListProject, words: tuple[str, ...]
) -> None:
    with ask(project, "add", "New", *words) as terminal:
        terminal.expect(pexpect.EOF)
    assert "Priority" not in (terminal.before or "")
    assert len(project.raw["tasks"]) == 3


@pytest.mark.parametrize("key", ["\x03", "\x04"])
def test_whoever_stops_answering_adds_nothing(project: TaskListProject, key: str) -> None:
    before = project.files()
    terminal = ask(project, "add", "New")
    terminal.expect("Priority")
    terminal.send(key)
    terminal.expect(pexpect.EOF)
    terminal.close()
    assert (terminal.exitstatus, project.files()) == (130, before)


def test_without_a_terminal_nothing_is_asked(project: TaskListProject) -> None:
    words = [sys.executable, "-m", "agent_harness.cli.main", "add", "New"]
    done = subprocess.run(words, cwd=project.root, capture_output=True, text=True, check=True, input="P0\n")
    assert "Priority" not in done.stdout
    assert project.raw["tasks"][2]["priority"] == "P1"


def test_a_long_step_holds_on_to_the_claim(tmp_path: Path) -> None:
    project = TaskListProject(tmp_path / "list", task("task-001"))
    project.harness("task", "claim", "--session", "s", "--lease", "3")
    ends = project.task("task-001").lease_expires_at
    step = f'while grep -q \'"lease_expires_at": "{clock.timestamp(ends)}"\' harness-tasks.json; do sleep 0.05; done'
    ran = project.harness(
        "task", "run-step", "task-001", "--session", "s", "--", "sh", "-c", f"{step}; echo done; exit 7"
    )
    assert (ran.json["exit"], ran.json["tail"]) == (7, ["done"])
    later = project.task("task-001").lease_expires_at
    assert ends
    assert later
    assert later > ends


OWN_FILES = (
    ".harness-pause",
    ".harness-active",
    "harness-progress.txt",
    "harness-tasks.json.bak",
    ".harness/validate/task-001.1.log",
    ".harness/claims/task-001.json",
    ".harness/sessions/costs.jsonl",
)


@pytest.mark.parametrize(
    ("name", "there"), [*((each, True) for each in OWN_FILES), (".harness-pause", False), (".harness-active", False)]
)
def test_nothing_is_written_through_a_link_in_place_of_a_file_of_ours(tmp_path: Path, name: str, there: bool) -> None:
    """Whoever may write into the folder cannot make the harness write elsewhere (tasklist.md 1, 8)."""
    project = TaskListProject(tmp_path / "list", task("task-001"), git=name.startswith(".harness/claims"))
    victim = tmp_path / "elsewhere/victim"
    victim.parent.mkdir()
    if there:
        victim.write_text("a person's\n")
    link = project.root / name
    link.parent.mkdir(parents=True, exist_ok=True)
    link.unlink(missing_ok=True)
    link.symlink_to(victim)
    me = {"HARNESS_SESSION_ID": "s"}
    for words in ("pause", "resume", "activate", "task claim", "task validate task-001", "task complete task-001"):
        ran = project.harness(*words.split(), **me)
        assert ran.code in (0, 4, 5, 8), (words, ran)
    assert [each.read_text() for each in victim.parent.iterdir()] == ["a person's\n"] * there
