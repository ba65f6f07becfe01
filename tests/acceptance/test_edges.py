"""Readers that go away, projects in odd places, money for nothing, and commits of a person between two sessions."""

import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_harness.testing import HARNESS, LTH, run_process
from agent_harness.testing.long_task_project import LongTaskProject
from agent_harness.testing.task_list_project import TaskListProject, task

from .calc import CalcProject
from .script import append, claim, commit, edit_features, honest, say, sh, turn, usage, write
from .test_s01_init import init, initializer, records

HALF = "\n\ndef add(a, b):\n    # half of it\n    raise NotImplementedError\n"


# -- commits of a person -----------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_a_rejected_continuation_leaves_a_persons_commits_where_they_are(calc: CalcProject) -> None:
    ran = calc.run([turn(append("src/calc.py", HALF), commit("Half"), usage(1, 1))])
    assert ran.code == 0, ran.text
    assert calc.state["next_prompt"] == "continuation"
    calc.put({"mine.txt": "of the person\n"})
    mine = calc.commit("Mine, on top of the unfinished work")
    cheat = edit_features("fs[1]['description'] = 'easier'")
    ran = calc.run([turn(append("src/calc.py", "\n\nMORE = 1\n"), cheat, commit("More"), usage(1, 1))])
    assert ran.code == 1, ran.text
    assert "You have commits on top of the unfinished work" in ran.out
    assert calc.head == mine
    assert "half of it" in (calc.root / "src/calc.py").read_text()
    assert "MORE" not in (calc.root / "src/calc.py").read_text()
    assert "MORE" in calc.git("show", "refs/harness/rolled-back/2:src/calc.py")
    fresh = [write("src/calc.py", '"""A calculator."""\n'), *honest(1)]
    ran = calc.run([turn(fresh, usage(1, 1))])
    assert ran.code == 0, ran.text
    assert calc.git("merge-base", mine, "HEAD") == mine
    assert calc.passing() == [1]


@pytest.mark.exhaustive
def test_a_rejected_continuation_that_nobody_disturbed_goes_back_to_its_beginning(calc: CalcProject) -> None:
    start = calc.head
    assert calc.run([turn(append("src/calc.py", HALF), commit("Half"), usage(1, 1))]).code == 0
    ran = calc.run([turn(edit_features("fs[1]['description'] = 'easier'"), commit("More"), usage(1, 1))])
    assert ran.code == 1, ran.text
    assert calc.head == start
    assert "half of it" in calc.git("show", "refs/harness/rolled-back/2:src/calc.py")


# -- money -------------------------------------------------------------------------------------------------------------


def test_the_costs_of_an_init_that_failed_are_kept(bare: CalcProject) -> None:
    bare.git("init", "-q", "-b", "main")
    (bare.root / "spec.md").write_text("# Calculator\n")
    failed = init(bare, turn(write("features.json", "{"), usage(500, 100, cost=0.25), times=2))
    assert failed.code == 1, failed.text
    assert bare.costs["cumulative"]["total_cost_usd"] == 0.5
    ended = init(bare, turn(usage(10, 1, cost=0.125), {"exit": 3}))
    assert ended.code == 1, ended.text
    assert bare.costs["cumulative"]["total_cost_usd"] == 0.625
    ran = init(bare, initializer(records()))
    assert ran.code == 0, ran.text
    total = bare.costs["cumulative"]
    assert total["total_cost_usd"] >= 0.625
    assert total["total_tokens"]["input"] == 500 + 500 + 10 + 1000


# -- readers that go away ----------------------------------------------------------------------------------------------


def shell(
    calc: CalcProject, line: str, *args: str, agent: Sequence[dict[str, object]] | None = None
) -> tuple[int, str]:
    """A command of the harness within a line of the shell: its own exit code, and what it said on stderr."""
    errors, code = calc.base / "errors", calc.base / "code"
    words = " ".join(f"'{word}'" for word in calc.command(*args, agent=agent))
    line = line.replace("HARNESS", f"{{ {words} 2>'{errors}'; echo $? >'{code}'; }}")
    subprocess.run(["sh", "-c", line], cwd=calc.root, env=calc.environ, stdin=subprocess.DEVNULL, check=False)
    return int(code.read_text()), errors.read_text()


@pytest.mark.kept("HARNESS | head -n 1 >/dev/null")
@pytest.mark.parametrize("line", ["HARNESS | head -n 1 >/dev/null", "HARNESS | true", "HARNESS >/dev/full"])
def test_a_session_goes_on_when_nobody_reads(calc: CalcProject, line: str) -> None:
    talk = [say(f"line {n}") for n in range(50)]
    code, errors = shell(calc, line, "run", agent=[turn(talk, honest(1), usage(1, 1))])
    assert code == 0, errors
    assert "Traceback" not in errors
    assert "BrokenPipe" not in errors
    assert calc.passing() == [1]
    assert calc.remote() == calc.head
    assert not (calc.root / ".git/harness/open_session.json").exists()


@pytest.mark.kept(
    "HARNESS >/dev/full-args0",
    "HARNESS >/dev/full-args1",
    "HARNESS >/dev/full-args4",
    "HARNESS | true-args0",
    "HARNESS | true-args1",
    "HARNESS | true-args3",
    "HARNESS | true-args4",
    "HARNESS >&- 2>&--args3",
)
@pytest.mark.parametrize("args", [("status",), ("status", "--json"), ("run", "--dry-run"), ("--help",), ("--version",)])
@pytest.mark.parametrize("line", ["HARNESS >&-", "HARNESS >/dev/full", "HARNESS | true", "HARNESS >&- 2>&-"])
def test_no_answer_to_a_closed_stdout_is_a_traceback(calc: CalcProject, line: str, args: tuple[str, ...]) -> None:
    calc.checked = False
    code, errors = shell(calc, line, *args)
    assert "Traceback" not in errors, errors
    assert "Exception ignored" not in errors, errors
    assert len(errors.splitlines()) <= 2, errors
    assert 0 <= code < 126


def test_a_session_with_stdout_closed_is_finished(calc: CalcProject) -> None:
    code, errors = shell(calc, "HARNESS >&-", "run", agent=[turn(honest(1), usage(1, 1))])
    assert code == 0, errors
    assert "Traceback" not in errors
    assert calc.passing() == [1]


# -- places ------------------------------------------------------------------------------------------------------------


@pytest.mark.kept("args1", "args2", "args3")
@pytest.mark.parametrize("args", [("run",), ("run", "--dry-run"), ("verify", "--feature", "1"), ("resume",)])
def test_a_project_in_a_subfolder_of_a_repository_is_refused(calc: CalcProject, args: tuple[str, ...]) -> None:
    calc.checked = False
    inner = calc.root / "inner"
    inner.mkdir()
    for path in list(calc.root.iterdir()):
        if path.name not in (".git", "inner"):
            os.rename(path, inner / path.name)
    calc.git("add", "-A")
    calc.git("commit", "-q", "-m", "Move everything down")
    before = calc.fingerprint(without=(".git/index",))
    ran = calc.here(*args, cwd=inner, agent=[turn(honest(1))] if args == ("run",) else None)
    assert ran.code == 4, ran.text
    assert len(ran.err.splitlines()) == 2
    assert "must be the top folder of its repository" in ran.err
    assert str(calc.root) in ran.err
    assert calc.fingerprint(without=(".git/index",)) == before


def test_init_in_a_subfolder_of_a_repository_is_refused(calc: CalcProject) -> None:
    inner = calc.root / "inner"
    inner.mkdir()
    (inner / "spec.md").write_text("# Calculator\n")
    ran = calc.here("init", "--spec", "spec.md", cwd=inner, agent=[turn(claim(1))])
    assert ran.code == 4, ran.text
    assert "top folder of the repository" in ran.err
    assert [path.name for path in inner.iterdir()] == ["spec.md"]
    (inner / "spec.md").unlink()


# -- the version before ------------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_the_hint_about_damaged_state_mends_it(calc: CalcProject) -> None:
    """Messages of the harness to type, typed."""
    for number in (1, 2):
        assert calc.run([turn(honest(number), usage(1, 1))]).code == 0
    path = calc.root / ".harness/session_state.json"
    path.write_text('{"last_session": ')
    ran = calc.harness("run", agent=[turn(honest(3))])
    assert ran.code == 6, ran.text
    hint = ran.err.splitlines()[1].removeprefix("next: ")
    assert hint.startswith("cp .harness/session_state.json.bak ")
    subprocess.run(["sh", "-c", hint], cwd=calc.root, check=True)
    assert isinstance(json.loads(path.read_text()), dict)
    ran = calc.run([turn(honest(3), sh("true"), usage(1, 1))])
    assert ran.code == 0, ran.text
    assert calc.passing() == [1, 2, 3]


# -- a disk that says no -----------------------------------------------------------------------------------------------

FULL = "a file size limit is set (ulimit -f)"


def limited(*words: str) -> list[str]:
    """The command, where a file may not grow beyond 8 KiB: state is written, an index of git is not."""
    return ["bash", "-c", 'ulimit -f 8; PYTHONDONTWRITEBYTECODE=1 exec "$@"', "limited", *words]


def many_files(folder: Path) -> None:
    for number in range(400):
        (folder / f"file-{number}.txt").write_text("x\n")


@pytest.mark.exhaustive
def test_a_task_list_on_a_disk_that_says_no_stops_with_one_line_and_goes_on_later(tmp_path: Path) -> None:
    project = TaskListProject(tmp_path / "list", task("a", validation={"command": "test -e made"}), git=True)
    many_files(tmp_path / "list")
    subprocess.run(["git", "add", "-A"], cwd=tmp_path / "list", check=True)
    run = [*HARNESS, "run", "--agent", "command:touch made"]
    stopped = run_process(limited(*run), cwd=tmp_path / "list")
    assert stopped.code == 4
    assert FULL in stopped.err.splitlines()[-1] and "Unexpected" not in stopped.text
    assert run_process(run, cwd=tmp_path / "list").code == 0
    assert project.task("a").status == "completed"


@pytest.mark.exhaustive
def test_a_long_task_on_a_disk_that_says_no_stops_with_one_line_and_goes_on_later(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "-q", str(tmp_path)], check=True)
    many_files(tmp_path)
    subprocess.run(["git", "add", "-A"], cwd=tmp_path, check=True)
    project = LongTaskProject.of_book(tmp_path / "book")
    run = [
        *LTH,
        "run",
        str(tmp_path / "book"),
        "--worker",
        "local-command",
        "--command",
        "true",
        "--cwd",
        str(tmp_path),
    ]
    stopped = run_process(limited(*run), cwd=tmp_path)
    assert stopped.code == 1
    assert FULL in stopped.err and "Unexpected" not in stopped.text
    assert run_process(run, cwd=tmp_path).code == 0
    assert project.checkpoint["status"] != "blocked"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("words", [[*HARNESS, "config"], [*LTH, "status", "nothing"]], ids=["harness", "lth"])
def test_an_error_that_nobody_can_read_ends_with_a_code_of_the_table(tmp_path: Path, words: Sequence[str]) -> None:
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "wb") as full:
        done = subprocess.run(words, cwd=tmp_path, env=buffered, stdout=full, stderr=full, check=False)
    assert done.returncode == 1


@pytest.mark.exhaustive
def test_a_folder_that_is_gone_is_one_line(tmp_path: Path) -> None:
    words = ["bash", "-c", 'rmdir "$PWD"; exec "$@"', "gone", *HARNESS, "hooks", "uninstall", "--client", "codex"]
    (tmp_path / "gone").mkdir()
    done = run_process(words, cwd=tmp_path / "gone")
    assert (done.code, done.err) == (
        4,
        "harness: The current folder no longer exists\nnext: cd to an existing folder\n",
    )
