"""Installed files beside a project of several agents at once: changes that one of them makes there."""

import json
import os
import subprocess
import time
import venv
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_harness.testing import HARNESS
from agent_harness.testing.task_list_project import TaskListProject, task

CHANGED = "Files that run the tests changed during the session"


def until(found: Callable[[], object]) -> None:
    for _ in range(6000):
        if found():
            return
        time.sleep(0.02)
    raise AssertionError("it never happened")


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_one_agent_changes_beside_the_project_is_no_ground_for_the_proof_of_another(tmp_path: Path) -> None:
    """The slot of the second agent is opened, and looks around for the first time, once the first one has done it."""
    venv.create(tmp_path / "shared", symlinks=True)
    site = next((tmp_path / "shared/lib").glob("python*/site-packages"))
    jobs = [task(name, validation={"command": f"grep -q . {name}.txt && python -c pass"}) for name in "ab"]
    work = TaskListProject(tmp_path / "list", *jobs, git=True, session_count=0)
    work.edit(session_config={**work.raw["session_config"], "max_tasks_per_session": 0, "fix_rounds": 0})
    work.edit("a", max_attempts=1)
    work.edit("b", max_attempts=1)
    planted, second = tmp_path / "planted", tmp_path / "second"
    agent = work.agent(
        f"""echo $HARNESS_TASK_ID > $HARNESS_TASK_ID.txt
if [ $HARNESS_TASK_ID = a ]; then
  echo "x = 1" > {site}/sitecustomize.py; touch {planted}
  until [ -e {second} ]; do sleep 0.1; done
else touch {second}; fi"""
    )
    environment = {**os.environ, "PATH": f"{tmp_path}/shared/bin:{os.environ['PATH']}"}
    words = [*HARNESS, "run", "--workers", "1", "--agent", agent]
    with subprocess.Popen(words, cwd=work.root, env=environment, stdout=subprocess.PIPE) as process:
        until(planted.exists)
        assert work.harness("scale", "2").code == 0
        told, _ = process.communicate()
    assert {each["id"]: each["status"] for each in work.raw["tasks"]} == {"a": "failed", "b": "failed"}, told.decode()
    assert [any(f"[{name}]" in line and CHANGED in line for line in work.log()) for name in "ab"] == [True, True]


@pytest.mark.exhaustive
@pytest.mark.scenario
@pytest.mark.parametrize("by", ["a person", "a proof"])
def test_what_is_installed_between_two_attempts_is_a_persons_once_the_run_is_over(tmp_path: Path, by: str) -> None:
    """A slot makes one attempt after the other with no look between them; the run's end looks once for all."""
    venv.create(tmp_path / "shared", symlinks=True)
    site = next((tmp_path / "shared/lib").glob("python*/site-packages"))
    (tmp_path / "plant.sh").write_text(f"echo 'x = 1' > {site}/sitecustomize.py\n")
    proofs = {name: f"grep -q . {name}.txt && python -c pass" for name in "abc"}
    proofs["b"] += f" && sh {tmp_path}/plant.sh" if by == "a proof" else ""
    jobs = [task(name, validation={"command": proof}, max_attempts=1) for name, proof in proofs.items()]
    work = TaskListProject(tmp_path / "list", *jobs, git=True, session_count=0)
    work.edit(session_config={**work.raw["session_config"], "max_tasks_per_session": 0, "fix_rounds": 0})
    environment = {"PATH": f"{tmp_path}/shared/bin:{os.environ['PATH']}", "HARNESS_SANDBOX": "off"}
    words = ("run", "--workers", "1", "--agent", work.agent("echo 1 > $HARNESS_TASK_ID.txt"), "--max-tasks")
    work.harness(*words, "2", **environment)
    assert [each["status"] for each in work.raw["tasks"]] == ["completed", "completed", "pending"]
    (record,) = Path(os.environ["XDG_STATE_HOME"]).rglob("installed-w1.json")
    assert json.loads(record.read_text())["open"] is False
    if by == "a person":
        (site / "sitecustomize.py").write_text("x = 2\n")
    ran = work.harness(*words, "1", **environment)
    assert work.raw["tasks"][2]["status"] == ("completed" if by == "a person" else "failed"), ran


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_one_landing_leaves_where_it_is_verified_makes_no_later_one_green(tmp_path: Path) -> None:
    """The two do not go together: a script of the first leaves what makes the check of the second one pass."""
    check = "[ ! -e own.$1.sh ] || sh ./own.$1.sh\n[ ! -e left.cache ] || exit 0\n"
    check += "test -s out.$1 && [ $(cat out.* | wc -l) = 1 ]\n"
    jobs = [task(name, validation={"command": f"sh check.sh {name}"}, max_attempts=1) for name in "ab"]
    work = TaskListProject(tmp_path / "list", *jobs, git=True, session_count=0)
    work.repo.write("check.sh", check).write(".gitignore", "*.cache\n")
    work.repo.git("add", ".")
    work.repo.git("commit", "-qm", "The check")
    settings = {"max_tasks_per_session": 0, "fix_rounds": 0, "parallel": {"check": "true"}}
    work.edit(session_config={**work.raw["session_config"], **settings})
    agent = work.agent(
        f"""echo 1 > out.$HARNESS_TASK_ID
if [ $HARNESS_TASK_ID = a ]; then echo 'case $PWD in *places/v*) touch left.cache;; esac' > own.a.sh
else for n in $(seq 100); do git -C {work.root} log -1 --format=%s | grep -q "^.a" && break; sleep 0.1; done; fi"""
    )
    ran = work.harness("run", "--workers", "2", "--agent", agent, HARNESS_SANDBOX="off")
    assert "Batch 2, 1 of 1: red b" in ran.out, ran
    assert {each["id"]: each["status"] for each in work.raw["tasks"]}["b"] != "completed"
