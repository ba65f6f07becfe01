"""Inputs that a parallel run of a task list cannot work with: ``scale.md`` 13.

One line and the next command, the right exit code, an unchanged disk, and no agent.
"""

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from agent_harness.testing import HARNESS
from agent_harness.testing.task_list_project import TaskListProject, task

from .test_parallel import WORKS, job, landed, project, run


def refused(work: TaskListProject, code: int, *told: str, words: tuple[str, ...] = (), **environment: str) -> None:
    """Each of both ends so, starts nobody, and changes nothing."""
    started = work.root.parent / "started"
    before = work.files()
    for more in (("--dry-run",), ()):
        ran = run(work, f"touch {started}", 2, *more, *words, **environment)
        assert (ran.code, started.exists()) == (code, False), ran
        assert all(each in ran.err for each in told), ran
        assert "Traceback" not in ran.text
    assert work.files() == before


def test_a_number_below_none_is_refused(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"))
    assert work.harness("run", "--workers=-1", "--agent", "command:true").code == 2


def test_a_repository_without_a_commit_is_refused(tmp_path: Path) -> None:
    work = TaskListProject(tmp_path / "list", job("a"), session_count=0)
    subprocess.run(["git", "init", "-q", str(work.root)], check=True)
    refused(work, 4, "needs a git work tree with a commit")


def test_a_folder_that_is_a_bare_repository_is_refused(tmp_path: Path) -> None:
    work = TaskListProject(tmp_path / "list", job("a"), session_count=0)
    subprocess.run(["git", "init", "-q", "--bare", str(work.root)], check=True)
    refused(work, 4, "needs a git work tree with a commit")


def test_a_sparse_work_tree_is_refused(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"))
    work.repo.git("sparse-checkout", "set", "lib")
    refused(work, 4, "sparse", "git sparse-checkout disable")


def test_a_git_that_cannot_combine_is_refused(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"))
    tools = tmp_path / "old"
    tools.mkdir()
    real = shutil.which("git")
    shim = f'#!/bin/sh\nfor each; do [ "$each" != version ] || exec echo git version 2.37.4; done\nexec {real} "$@"\n'
    (tools / "git").write_text(shim)
    (tools / "git").chmod(0o755)
    words = [*HARNESS, "run", "--workers", "2", "--agent", work.agent(f"touch {tmp_path}/started")]
    environment = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
    ran = subprocess.run(words, cwd=work.root, env=environment, capture_output=True, text=True, check=False)
    assert (ran.returncode, (tmp_path / "started").exists()) == (4, False), ran
    assert "need git 2.38" in ran.stderr


def test_more_ports_than_there_are_end_the_run_before_an_agent(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"))
    ran = run(work, f"touch {tmp_path}/started", 1, HARNESS_PARALLEL__PORTS="20000")
    assert (ran.code, (tmp_path / "started").exists()) == (4, False), ran
    assert "fewer than 20000 free ports are left for a slot" in ran.err
    assert (work.statuses(), work.task("a").attempts) == (["pending"], 0)


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_set_up_that_cannot_be_run_ends_the_run_before_an_agent(tmp_path: Path) -> None:
    """SC-17: said with what the shell says of it."""
    work = project(tmp_path, job("a"))
    work.repo.write("set-up.sh", "true\n")
    work.repo.stage("set-up.sh").commit("Set-up", stage=False)
    ran = run(work, f"touch {tmp_path}/started", 1, HARNESS_PARALLEL__SETUP="./set-up.sh")
    assert (ran.code, (tmp_path / "started").exists()) == (4, False), ran
    assert "ermission denied" in ran.out + ran.err


@pytest.mark.scenario
def test_what_is_passed_over_is_said_once(tmp_path: Path) -> None:
    """Declarations that are none, submodules, and what no workspace gets a copy of."""
    work = project(tmp_path, job("a", touches="src"), job("b", touches=["out/b"]))
    outside = tmp_path / "outside"
    outside.write_text("mine\n")
    (work.root / "link.env").symlink_to(outside)
    work.repo.write(".gitmodules", "").write(".gitignore", "link.env\n")
    work.repo.stage(".gitmodules", ".gitignore").commit("Modules", stage=False)
    (work.root / ".gitmodules").write_text('[submodule "x"]\n\tpath = x\n\turl = ./x\n')
    work.repo.stage(".gitmodules").commit("A module", stage=False)
    copied = ["../outside", "link.env", "app.py"]
    work.edit(session_config={**work.raw["session_config"], "parallel": {"copy": copied}})
    ran = run(work, f"[ ! -e link.env ] && {WORKS}", 2)
    assert (ran.code, sorted(landed(work))) == (0, ["a", "b"]), ran
    assert ran.out.count("a: touches must be a list of strings; it is ignored") == 1
    assert ran.out.count("Submodules are empty folders in workspaces") == 1
    for each, why in zip(copied, ("leads outside the project", "is a symbolic link", "is tracked"), strict=True):
        assert f"parallel.copy: {each} {why}" in ran.out


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_ids_of_any_letters_are_worked_on_and_shown_as_they_are(tmp_path: Path) -> None:
    ids = ["a/b", "..", "with blanks ", "é😀", "x" * 300, "-rf", "a%2Fb"]
    jobs = [task(each, validation={"command": f"test -e out/{n}", "timeout_seconds": 60}) for n, each in enumerate(ids)]
    work = project(tmp_path, *jobs)
    cases = "".join(f"'{each}') n={n};; " for n, each in enumerate(ids))
    ran = run(work, f'case "$HARNESS_TASK_ID" in {cases}esac; mkdir -p out; echo x > out/$n', 3, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, sorted(each["item"] for each in answer["landed"])) == (0, sorted(ids)), ran
    assert work.statuses() == ["completed"] * len(ids)
