"""``why``, ``diff`` and ``costs`` of a task list and of a long task, with one small project of each."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_harness.kernel import journal, trusted_state
from agent_harness.testing import HARNESS, CommandResult, run_process
from agent_harness.testing.long_task_project import LongTaskProject, book
from agent_harness.testing.repo import Repo
from agent_harness.testing.task_list_project import TaskListProject, task

PROVES = "grep -q good answer.txt && echo it holds"
AGENT = """\
case "$HARNESS_TASK_ID" in
  task-001) if [ "$HARNESS_ROUND" = 0 ]; then echo bad > answer.txt; else echo good > answer.txt; fi ;;
  *) echo bad > other.txt ;;
esac
echo '{"type": "usage", "input_tokens": 10, "output_tokens": 5, "cost_usd": 0.25}'
"""
SAYS_DONE = (
    f"{shlex.quote(sys.executable)} -c \"import json; p = 'checkpoint.json'; d = json.load(open(p)); "
    "d['status'] = 'done'; json.dump(d, open(p, 'w'))\""
)
BUILT = {"id": "built", "description": "It is built.", "metric": "command", "target": "cat artifacts/built"}


class Place:
    """Project folder with the environment of its commands."""

    def __init__(self, root: Path, environ: dict[str, str]) -> None:
        self.root, self.environ = root, environ

    def harness(self, *words: str, **environ: str) -> CommandResult:
        return run_process([*HARNESS, *words], cwd=self.root, environ={**self.environ, **environ})

    def why(self, *words: str) -> Any:
        return self.harness("why", *words, "--json").json


def environment(home: Path) -> dict[str, str]:
    home.mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = Test Person\n\temail = person@localhost\n")
    dropped = ("HARNESS_", "GIT_", "XDG_", "COLUMNS", "CI", "FORCE_COLOR")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    return {**kept, "HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "TERM": "xterm", "NO_COLOR": "1"}


@pytest.fixture(scope="module")
def listed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Return a list with a task rejected once and then proven, one failed for good, one that waits for it, one open."""
    base = tmp_path_factory.mktemp("listed")
    environ = environment(base / "home")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environ.items():
            patch.setenv(name, value)
        project = TaskListProject(
            base / "list",
            task("task-001", validation={"command": PROVES, "timeout_seconds": 60}),
            task("task-002", validation={"command": "grep -q good other.txt"}, max_attempts=1),
            task("task-003", depends_on=["task-002"]),
            git=True,
        )
        spec = project.agent(AGENT)
    ran = run_process([*HARNESS, "run", "--agent", spec], cwd=project.root, environ=environ)
    assert "task-001" in ran.text, ran.text
    yield Place(project.root, environ)


@pytest.fixture(scope="module")
def long_task(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Return a long task with a rejected claim and an accepted one."""
    base = tmp_path_factory.mktemp("long")
    environ = environment(base / "home")
    with pytest.MonkeyPatch.context() as patch:
        for name, value in environ.items():
            patch.setenv(name, value)
        project = LongTaskProject.of_book(base / "book")
        project.task = book(successCriteria=[BUILT], context={"repoPath": "."})
        Repo(project.root, user_settings=True).stage("task.json").commit("Begin", stage=False)
        project.run(f"cd {project.root}; {SAYS_DONE}")
        project.run(f"cd {project.root}; echo bricks > artifacts/built; {SAYS_DONE}")
    yield Place(project.root, environ)


def executed(place: Place, check: list[dict[str, Any]]) -> None:
    """Run the lines in one shell, in the project's folder, as a person who copies them would."""
    assert check
    before = subprocess.run(["git", "status", "--porcelain"], cwd=place.root, capture_output=True, check=True).stdout
    for number, each in enumerate(check):
        ended = "exit 1" if each["must"] == "pass" else "exit 2"
        told = f"{each['command']}; ended=$?"
        test = '[ "$ended" = 0 ]' if each["must"] == "pass" else '[ "$ended" != 0 ]'
        check[number]["line"] = f"{told}; {test} || {ended}"
    script = "\n".join(each["line"] for each in check)
    done = subprocess.run(
        ["sh", "-c", script], cwd=place.root, env=place.environ, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, (script, done.stdout, done.stderr)
    after = subprocess.run(["git", "status", "--porcelain"], cwd=place.root, capture_output=True, check=True).stdout
    assert after == before


def test_why_a_task_is_proven_and_how_to_check_it(listed: Place) -> None:
    """Each claim with its verdict; the commands to check it are run, with the results that they promise."""
    told = listed.harness("why", "task-001")
    assert told.code == 0, told.text
    lines = told.out.splitlines()
    assert lines[0].startswith("task-001 Title of task-001: proven at "), told.out
    assert len(lines) <= 30
    assert "REJECTED proof_failed: the check failed" in told.out
    assert "output: harness why task-001 --output 1" in told.out
    assert "accepted: proof passed, red before" in told.out
    assert lines[-1].startswith("next       harness ")
    found = listed.why("task-001")
    assert (found["ok"], found["state"], [each["verdict"] for each in found["claims"]]) == (
        True,
        "proven",
        ["rejected", "accepted"],
    )
    assert [each["must"] for each in found["check"]] == ["pass", "fail", "pass"]
    assert all(each["command"] in told.out for each in found["check"]), "what is shown is what is run"
    executed(listed, found["check"])


def test_the_lines_test_the_commit_also_with_an_editable_install(listed: Place) -> None:
    """An editable install leads imports to the folder, so that the folder would be tested, not the commit."""
    site = listed.root / ".venv/lib/python3/site-packages"
    site.mkdir(parents=True)
    (site / "editable.pth").write_text(f"{listed.root / 'src'}\n")
    probe = 'sh -c \'test "$PYTHONPATH" = "$PWD/src"\''
    try:
        check = listed.why("task-001")["check"]
        for each in check[:2]:
            each["command"] = each["command"].replace(shlex.join(["sh", "-c", PROVES]), probe)
        check[1]["must"] = "pass"
        executed(listed, check)
    finally:
        shutil.rmtree(listed.root / ".venv")


def test_what_a_verdict_printed(listed: Place) -> None:
    shown = listed.harness("why", "task-001", "--output", "2")
    assert (shown.code, "it holds" in shown.out) == (0, True), shown.text
    assert "[exit 0" in listed.harness("why", "task-001", "--output", "2", "--json").json["outputs"]["proof"]
    refused = listed.harness("why", "task-001", "--output", "77")
    assert (refused.code, refused.err.splitlines()[1]) == (2, "next: harness why task-001")


def test_why_a_task_is_not_proven(listed: Place) -> None:
    failed = listed.harness("why", "task-002")
    assert failed.out.startswith("task-002 Title of task-002: failed, "), failed.text
    assert "REJECTED proof_failed" in failed.out
    assert failed.out.count("rolled back, kept: harness diff rescue/task-002/1") == 1, "the work of one attempt, once"
    kept = listed.harness("diff", "rescue/task-002/1")
    assert (kept.code, "+bad" in kept.out) == (0, True), kept.text
    assert " on task-002: rolled back, kept in refs/harness/rescue/task-002/1" in kept.err, kept.err
    assert "next       harness task reset task-002" in failed.out
    waits = listed.harness("why", "task-003")
    assert "waits for  task-002 (failed)" in waits.out, waits.text
    assert "no claim yet" in waits.out
    assert waits.out.splitlines()[-1] == "next       harness why task-002"


def test_why_a_long_task_is_done_and_how_to_check_it(long_task: Place) -> None:
    told = long_task.harness("why")
    assert told.code == 0, told.text
    assert told.out.startswith("book A book: checked"), told.out
    assert "REJECTED criteria_unmet: not met: built" in told.out
    assert "accepted: built met" in told.out
    found = long_task.why("book")
    assert [each["command"] for each in found["check"]] == ["cat artifacts/built"]
    executed(long_task, found["check"])


@pytest.mark.parametrize(
    ("words", "said", "following"),
    [
        (["why", "task-01"], "No item 'task-01' in this project. Did you mean 'task-001'?", "harness why task-001"),
        (["why"], "The item id is missing", "harness why task-001"),
    ],
)
def test_an_item_that_is_not_there_is_one_line_and_the_next_command(
    listed: Place, words: list[str], said: str, following: str
) -> None:
    refused = listed.harness(*words)
    assert (refused.code, refused.out) == (2, "")
    assert refused.err == f"harness: {said}\nnext: {following}\n"
    assert listed.harness(*words, "--json").json["error"]["message"] == said


@pytest.mark.parametrize("verb", ["why", "diff"])
def test_where_no_project_is_and_where_it_is_empty(tmp_path: Path, verb: str) -> None:
    words = [verb, "1"]
    refused = run_process([*HARNESS, *words], cwd=tmp_path)
    assert (refused.code, refused.err.splitlines()[1].startswith("next: harness init")) == (4, True), refused.text
    made = run_process([*HARNESS, "init", "."], cwd=tmp_path)
    assert made.code == 0, made.text
    empty = run_process([*HARNESS, *words], cwd=tmp_path)
    assert (empty.code, "Traceback" in empty.text) == (2, False), empty.text
    assert empty.err.splitlines()[1].startswith("next: harness add ")


def test_what_somebody_wrote_cannot_steer_the_terminal_and_shows_no_secret(tmp_path: Path) -> None:
    """F-STORY-3: a damaged record does not prevent the answer either."""
    token = "ghp_" + "a1B2c3D4e5" * 4
    project = TaskListProject(tmp_path / "list", task("one", error_log=[f"[TEST] \x1b[2J password={token}"]))
    place = Place(project.root, dict(os.environ))
    told = place.harness("why", "one")
    assert told.code == 0, told.text
    assert "\x1b" not in told.text
    assert token not in told.text
    assert token not in json.dumps(place.why("one"))
    (project.root / "harness-tasks.json").write_text("{")
    damaged = place.harness("why", "one")
    assert (damaged.code != 0, "Traceback" in damaged.text) == (True, False), damaged.text
    assert "harness-tasks.json" in damaged.err


def test_the_diff_of_what_was_accepted_and_of_what_was_rolled_back(listed: Place) -> None:
    shown = listed.harness("diff", "task-001")
    assert shown.code == 0, shown.text
    assert shown.err.startswith("task-001: accepted (")
    assert "+good" in shown.out
    back = listed.harness("diff", "task-002")
    assert "rolled back, kept in refs/harness/rescue/task-002/" in back.err, back.text
    assert "+bad" in back.out
    assert listed.harness("diff", "task-001", "--name-only").out == "answer.txt\n"
    assert "1 file changed" in listed.harness("diff", "task-001", "--stat").out
    answer = listed.harness("diff", "task-001", "--json").json
    assert (answer["state"], answer["files"]) == ("accepted", [{"status": "A", "path": "answer.txt"}])
    none = listed.harness("diff", "task-001", "--tests")
    assert (none.code, none.err.splitlines()[0]) == (7, "harness: task-001 changed no test")
    never = listed.harness("diff", "task-003")
    assert (never.code, never.err.splitlines()[1]) == (7, "next: harness why task-003")
    assert "No session 77 in this project" in listed.harness("diff", "S77").err


def test_a_program_that_the_repository_names_does_not_run_for_a_diff(listed: Place, tmp_path: Path) -> None:
    trace = tmp_path / "ran"
    for name in ("diff.external", "core.pager", "pager.diff"):
        subprocess.run(["git", "config", name, f"touch {trace};cat"], cwd=listed.root, check=True)
    try:
        assert listed.harness("diff", "task-001").code == 0
        assert not trace.exists()
    finally:
        for name in ("diff.external", "core.pager", "pager.diff"):
            subprocess.run(["git", "config", "--unset", name], cwd=listed.root, check=True)


def test_what_was_spent_and_what_of_it_on_refused_claims(listed: Place) -> None:
    told = listed.harness("costs")
    assert told.code == 0, told.text
    found = listed.harness("costs", "--json").json
    assert found["proven"] == 1
    assert found["wasted_sessions"] == 1
    assert found["spent_usd"] > found["wasted_usd"] > 0
    assert f"Spent       ${found['spent_usd']:.2f} (" in told.out
    assert f"Wasted      ${found['wasted_usd']:.2f} (1 session whose work was rejected)" in told.out
    assert {row["name"] for row in found["rows"]} == {"task-001", "task-002"}
    table = listed.harness("costs", "--csv").out.splitlines()
    assert table[0].startswith("item,sessions,spent_usd,of_unknown_cost,wasted_usd,")
    assert len(table) == 3
    (row,) = listed.harness("costs", "--by", "agent", "--json").json["rows"]
    assert row["spent_usd"] == found["spent_usd"]
    assert listed.harness("costs", "--by", "colour").code == 2


def test_what_nobody_knows_is_never_a_sum(long_task: Place) -> None:
    told = long_task.harness("costs")
    assert "Spent       not reported by the agent (2 sessions)" in told.out, told.text
    assert "$0.00" not in told.out.replace("counted as $0.00", "")
    assert long_task.harness("costs", "--json").json["spent_usd"] is None
    assert "cost       not reported by the agent (2 sessions" in long_task.harness("why").out


def test_the_diff_of_a_slice_that_left_no_commit(long_task: Place) -> None:
    refused = long_task.harness("diff", "2")
    assert (refused.code, refused.err.splitlines()[1:]) == (7, ["next: lth rescue ."]), refused.text
    assert "rolled back" not in long_task.harness("why").out


def test_the_log_of_a_task_list_and_of_a_long_task_is_searched(listed: Place, long_task: Place) -> None:
    rows = listed.harness("log", "query", "--item", "task-002", "--json").json["rows"]
    assert rows
    assert {row["task"] for row in rows} == {"task-002"}
    told = listed.harness("log", "query", "--level", "critical")
    assert (told.code, "ERROR  [task-002]" in told.out, "Completed" in told.out) == (0, True, False), told.text
    ended = long_task.harness("log", "query", "--type", "worker_completed", "--json").json["rows"]
    assert [row["type"] for row in ended] == ["worker_completed"] * 2
    assert len(long_task.harness("log", "sessions", "--json").json["sessions"]) == 2
    last = "Older sessions exist. To show more: harness log sessions --last 4"
    assert last in long_task.harness("log", "sessions", "--last", "1").out
    assert last.partition(". ")[2] not in long_task.harness("log", "sessions", "--last", "2").out
    (shown,) = long_task.harness("log", "sessions", "--last", "1", "--json").json["sessions"]
    assert "line" not in shown
    assert listed.harness("log", "query", "--feature", "1").code == 2


def test_the_log_is_followed_past_its_rotation(listed: Place) -> None:
    """F-REC-6: the last lines first, then each as it comes; only those about one item if it is named."""
    log = listed.root / ".harness/logs/run.log"
    whole = log.read_text()
    words = [*HARNESS, "log", "--follow", "task-002", "--json"]
    pipe = {"stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(words, cwd=listed.root, env=listed.environ, **pipe) as process:
        try:
            assert process.stdout is not None
            first = json.loads(process.stdout.readline())
            assert set(first) == {"at", "log", "text"}
            with log.open("a") as file:
                file.write("2026-01-01T10:00:00+00:00 task-001 says hello\n")
                file.write("2026-01-01T10:00:01+00:00 task-002 says one \x1b[2J\n")
            log.rename(log.with_name("run.log.1"))
            log.write_text("2026-01-01T10:00:02+00:00 task-002 says two\n")
            seen: list[str] = []
            while not seen or "says two" not in seen[-1]:
                seen.append(json.loads(process.stdout.readline())["text"])
        finally:
            process.kill()
            log.write_text(whole)
            log.with_name("run.log.1").unlink()
    assert [each for each in seen if "says one" in each]
    assert not [each for each in seen if "says hello" in each]


def test_the_log_of_an_item_of_which_nothing_was_said_says_that_it_waits(tmp_path: Path) -> None:
    """F-REC-6: on stderr, so that a program that reads the rows gets none."""
    listed = TaskListProject(tmp_path / "list", task("task-001"), git=True)
    with listed.start("log", "--follow", "task-001", "--json") as process:
        assert process.stdout is not None  # with stderr in it
        line = process.stdout.readline()
    assert line == "The log has no lines about task-001 yet. Waiting for new lines (Ctrl-C stops)\n"


def test_why_proven_work_did_not_land(tmp_path: Path) -> None:
    """Each time with its reason; for the last one the output of the check, without secrets."""
    project = TaskListProject(tmp_path / "list", task("task-001"), task("task-002"), git=True)
    assert project.harness("session", "start").code == 0
    home = Path(trusted_state.existing(project.layout.tasks, project.layout.root) or "")
    bounced: list[dict[str, Any]] = [
        {"why": "conflict", "files": ["shared.txt"], "met": ["task-002"]},
        {"why": "red", "failing": ["task-002"], "output": "PASSWORD=hunter2hunter2\nno header\n", "met": []},
    ]
    for number, mend in enumerate(bounced, 1):
        event = {"n": number, "at": "2026-01-01T00:00:00Z", "type": "bounced", "item": "task-001", "mend": mend}
        journal.append(str(home / "parallel/ledger.jsonl"), event)
    told = project.harness("why", "task-001").out
    assert re.search(r"^not landed .* conflict in shared.txt, with task-002$", told, re.MULTILINE), told
    assert re.search(r" red: task-002\n.*\n +no header$", told, re.MULTILINE), told
    assert "hunter2" not in told
    assert len(project.harness("why", "task-001", "--json").json["not_landed"]) == 2
    assert "not landed" not in project.harness("why", "task-002").out


def test_a_recorded_verdict_is_exported_as_a_receipt(listed: Place, long_task: Place, tmp_path: Path) -> None:
    for place, item, word in (
        (listed, "task-001", "accepted"),
        (listed, "task-002", "rejected"),
        (long_task, "", "accepted"),
    ):
        words = filter(None, ("why", item, "--receipt", str(tmp_path / f"r-{item}.json")))
        made = place.harness(*words)
        assert made.code == 0, made.text
        found = json.loads((tmp_path / f"r-{item}.json").read_text())
        assert (found["verdict"], found["record"]["verdict"]) == (word, word)
        assert "terms" not in found
        assert "tests" not in found
        assert found["record"]["n"] >= 1
        assert {len(each) for each in found["logs"].values()} == {64}
        audited = place.harness("audit", str(tmp_path / f"r-{item}.json"))
        assert audited.code == 0, audited.text
    again = listed.harness("audit", str(tmp_path / "r-task-001.json"), "--rerun")
    assert (again.code, "exported from the records of a project" in again.text) == (4, True), again.text
    waits = listed.harness("why", "task-003", "--receipt", str(tmp_path / "3.json"))
    assert (waits.code, waits.out, "has no verdict on record" in waits.err) == (2, "", True), waits.text
