"""The judge of a task list: agents that bend the proof, where it runs, what it says of the code before."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_harness.errors import VerificationFailed
from agent_harness.kernel import files
from agent_harness.protocols.tasklist import planning, proven, status
from agent_harness.protocols.tasklist.attempts import verbs
from agent_harness.protocols.tasklist.claims.caller import Caller
from agent_harness.protocols.tasklist.planning import new_state
from agent_harness.protocols.tasklist.records import State
from agent_harness.testing.task_list_project import NOON, TASK, TaskListProject, task

CHECK = "grep -q done work.txt\n"
MODES = ("worktree", "in_place", None)


def made(
    tmp_path: Path, *, isolation: str | None = "worktree", command: str = "sh check.sh", **config: Any
) -> TaskListProject:
    """A list with one task; without ``isolation`` it is one that somebody else has made."""
    project = TaskListProject.with_sources(tmp_path).add(validation=command)
    project.repo.write("check.sh", CHECK).write("work.txt", "todo\n").ignore("data/", ".venv/")
    project.repo.git("add", "check.sh", "work.txt", ".gitignore")
    project.repo.git("commit", "-q", "-m", "Second")
    raw = files.read_json(project.layout.tasks)
    settings = {name: value for name, value in raw["session_config"].items() if name != "isolation"}
    raw["session_config"] = {**settings, **({"isolation": isolation} if isolation else {}), **config}
    files.write_json(project.layout.tasks, raw)
    return project


def refused(caller: Caller) -> VerificationFailed:
    with pytest.raises(VerificationFailed) as raised:
        verbs.complete(caller, TASK)
    return raised.value


# ---- the guard -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", MODES)
def test_a_forged_check_is_not_believed(tmp_path: Path, isolation: str | None) -> None:
    project = made(tmp_path, isolation=isolation)
    caller = project.hold()
    project.repo.write("check.sh", "exit 0\n")
    head = project.repo.head
    error = refused(caller)
    assert "check.sh proves this task and existed before the work began, but line 1: 'grep -q done" in error.message
    assert "validation.may_change" in error.message
    assert error.data["tail"] == error.data["reasons"]
    assert (project.task().status, project.repo.head) == ("in_progress", head)
    assert "WARN [task-001] validation: check.sh proves this task" in project.log()[-1]
    project.repo.write("check.sh", CHECK).write("work.txt", "done\n")
    done = verbs.complete(caller, TASK)
    assert done["proof"] == {"where": isolation or "in_place", "red_before": "red"}
    assert project.repo.git("show", "--format=", "--name-only", "HEAD").split() == ["work.txt"]


def test_a_forgery_that_the_agent_committed(tmp_path: Path) -> None:
    project = made(tmp_path)
    caller = project.hold()
    project.repo.write("check.sh", "exit 0\n").stage("check.sh").git("commit", "-q", "-m", "better", "--", "check.sh")
    assert "check.sh" in refused(caller).message


def test_a_task_that_is_meant_to_change_its_check(tmp_path: Path) -> None:
    project = made(tmp_path)
    project.edit(TASK, validation={"command": "sh check.sh", "may_change": ["check.*"]})
    caller = project.hold()
    project.repo.write("check.sh", "grep -q finished work.txt\n").write("work.txt", "finished\n")
    assert verbs.complete(caller, TASK)["proof"]["red_before"] == "red"


def test_what_may_change_cannot_be_widened_under_way(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list", task("a"))
    caller = project.claim()
    raw = project.raw
    raw["tasks"][0]["validation"]["may_change"] = ["**/*"]
    files.write_json(project.layout.tasks, raw)
    with pytest.raises(proven.ProofChanged, match=r"validation.may_change of a was changed .* it was: \[\]"):
        verbs.complete(caller, "a")


def test_a_run_in_the_folder_that_forges_its_own_check(tmp_path: Path) -> None:
    """Files that the run itself writes are part of the commit there, and so are looked at as well."""
    project = made(tmp_path, isolation="in_place", command="sh check.sh && sh ./work.sh")
    project.repo.write("work.sh", "true\n").stage("work.sh").git("commit", "-q", "-m", "Third", "--", "work.sh")
    project.edit(TASK, validation={"command": "sh check.sh && sh ./work.sh", "may_change": ["work.sh"]})
    caller = project.hold()
    project.repo.write("work.txt", "done\n").write("work.sh", "echo true > check.sh\n")
    head = project.repo.head
    assert "check.sh" in refused(caller).message
    assert project.repo.head == head


@pytest.mark.scenario
def test_a_folder_without_git_has_the_guard_too(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list", task("a", validation={"command": "sh check.sh"}))
    (project.root / "check.sh").write_text(CHECK)
    caller = project.claim()
    (project.root / "check.sh").write_text("exit 0\n")
    with pytest.raises(VerificationFailed, match=r"check.sh proves this task"):
        verbs.complete(caller, "a")
    (project.root / "check.sh").unlink()
    (project.root / "check.sh").symlink_to("/bin/true")
    with pytest.raises(VerificationFailed, match=r"check.sh proves this task .* it is now a symbolic link"):
        verbs.complete(caller, "a")
    (project.root / "check.sh").unlink()
    with pytest.raises(VerificationFailed, match=r"check.sh proves this task .* it was deleted"):
        verbs.complete(caller, "a")
    (project.root / "check.sh").write_text(CHECK)
    (project.root / "work.txt").write_text("done\n")
    assert verbs.complete(caller, "a")["proof"] == {"where": "in_place", "red_before": "not_run"}
    assert len([line for line in project.log() if "run in the folder itself" in line]) == 1


def test_tests_may_be_added_in_a_folder_without_git(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(
        tmp_path / "list", task("a", validation={"command": "python3 -m unittest -q test_a test_b"})
    )
    test = "import unittest\n\n\nclass A(unittest.TestCase):\n    def test_a(self):\n        self.assertTrue(True)\n"
    (project.root / "test_a.py").write_text(test)
    caller = project.claim()
    (project.root / "test_b.py").write_text(test)
    (project.root / "test_a.py").write_text(f"{test}        self.assertFalse(False)\n")
    assert verbs.validate(caller, "a")["result"] == "PASS"
    (project.root / "test_a.py").write_text(test.replace("(True)", "(1)"))
    assert verbs.validate(caller, "a")["result"] == "FAIL"


# ---- where it runs ---------------------------------------------------------------------------------------------------


def test_what_is_committed_is_what_was_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Something of the agent goes on writing while its work is judged."""
    monkeypatch.setenv("HARNESS_SANDBOX", "off")  # the command plays that part
    project = made(tmp_path)
    command = f"grep -q done work.txt && echo later > {project.path}/work.txt && echo x > {project.path}/more.txt"
    project.edit(TASK, validation={"command": command})
    caller = project.hold()
    project.repo.write("work.txt", "done\n")
    done = verbs.complete(caller, TASK)
    assert project.repo.git("show", "HEAD:work.txt") == "done"
    assert done["validation"]["tree"] == project.repo.git("rev-parse", "HEAD^{tree}")
    assert project.status() == [" M work.txt", "?? more.txt"]


def test_a_run_leaves_nothing_behind(tmp_path: Path) -> None:
    project = made(tmp_path, command="echo x > made-by-the-run && sh check.sh")
    caller = project.hold()
    project.repo.write("work.txt", "done\n")
    verbs.complete(caller, TASK)
    assert (project.status(), (project.path / "made-by-the-run").exists()) == ([], False)


def test_a_run_in_the_folder_has_its_files_committed(tmp_path: Path) -> None:
    project = made(tmp_path, isolation="in_place", command="echo x > made-by-the-run && sh check.sh")
    caller = project.hold()
    project.repo.write("work.txt", "done\n")
    verbs.complete(caller, TASK)
    assert project.repo.git("show", "--format=", "--name-only", "HEAD").split() == ["made-by-the-run", "work.txt"]


def test_it_fails_there_and_passes_here(tmp_path: Path) -> None:
    project = made(tmp_path, command="test -f data/set && sh check.sh")
    project.repo.write("data/set", "x\n")
    caller = project.hold()
    project.repo.write("work.txt", "done\n")
    error = refused(caller)
    assert error.message == (
        "the check of task-001 failed: The command fails in a checkout of the work (exit 1) and passes in the "
        "project folder; the checkout lacks ignored files: data. Commit the files that it needs, or run it in the "
        "project folder: "
        "session_config.isolation: in_place in harness-tasks.json"
    )


def test_installed_packages_are_lent(tmp_path: Path) -> None:
    project = made(tmp_path, command=".venv/bin/tool && sh check.sh")
    project.repo.write(".venv/bin/tool", "#!/bin/sh\ntest -f check.sh\n", executable=True)
    caller = project.hold()
    project.repo.write("work.txt", "done\n")
    assert verbs.complete(caller, TASK)["proof"] == {"where": "worktree", "red_before": "red"}


def test_uncommitted_files_of_a_person_are_there_and_named(tmp_path: Path) -> None:
    project = made(tmp_path, command="sh mine.sh && sh check.sh")
    project.repo.write("mine.sh", "true\n")
    caller = project.hold()
    project.repo.write("work.txt", "done\n")
    done = verbs.complete(caller, TASK)
    assert [each["code"] for each in done["validation"]["findings"]] == ["own_files"]
    assert done["validation"]["findings"][0]["data"] == {"paths": ["mine.sh"]}
    assert project.status() == ["?? mine.sh"]


def test_the_list_says_where(tmp_path: Path) -> None:
    planning.create(str(tmp_path))
    assert json.loads((tmp_path / "harness-tasks.json").read_text())["session_config"]["isolation"] == "worktree"
    for written, read in (("worktree", "worktree"), ("in_place", "in_place"), (None, "in_place"), (3, "in_place")):
        raw = new_state(NOON) | {"session_config": {"isolation": written}}
        assert State(raw).config.isolation == read
    assert State(new_state(NOON) | {"session_config": {}}).config.isolation == "in_place"


def test_the_settings_of_the_claim_hold(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list", task("a", validation={"command": "false"}))
    project.claim()
    raw = project.raw
    raw["session_config"] |= {"isolation": "in_place", "requires_red": "off"}
    files.write_json(project.layout.tasks, raw)
    found = proven.terms(project.layout, State(project.raw), project.task("a"))
    assert (found.isolation, found.requires_red) == ("worktree", "tell")


# ---- the code before -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("isolation", MODES)
def test_a_command_that_passed_before_is_named_everywhere(tmp_path: Path, isolation: str | None) -> None:
    project = made(tmp_path, isolation=isolation, command="true")
    caller = project.hold()
    project.repo.write("work.txt", "done\n")
    done = verbs.complete(caller, TASK)
    assert (done["status"], done["proof"]["red_before"]) == ("completed", "green")
    told = "WARN [task-001] validation: the check already passed on the base commit, so it proves nothing"
    assert any(told in line for line in project.log())
    found = status.read(project.layout)
    assert (found["green_before"], found["tasks"][0]["proof"]["red_before"]) == ([TASK], "green")
    assert found["checked"] == {TASK: "the check already passed before the work"}
    assert any("not proven: task-001: the check already passed before the work" in line for line in status.lines(found))


def test_a_command_that_passed_before_can_be_refused_or_passed_over(tmp_path: Path) -> None:
    project = made(tmp_path, command="true", requires_red="reject")
    caller = project.hold()
    project.repo.write("work.txt", "done\n")
    assert "passed on the base commit" in refused(caller).message
    raw = files.read_json(project.layout.tasks)
    raw["session_config"]["requires_red"] = "off"
    files.write_json(project.layout.tasks, raw)
    assert verbs.complete(caller, TASK)["proof"]["red_before"] == "not_run"


def test_a_pass_on_record_keeps_what_it_said_of_the_code_before(tmp_path: Path) -> None:
    project = made(tmp_path, command="true")
    caller = project.hold()
    project.repo.write("work.txt", "done\n")
    assert verbs.validate(caller, TASK)["red_before"] == "green"
    done = verbs.complete(caller, TASK)
    assert (done["validation"], done["proof"]) == (None, {"where": "worktree", "red_before": "green"})
    assert len([line for line in project.log() if "passed on the base commit" in line]) == 1


def test_no_checkout_and_no_private_ref_is_left(tmp_path: Path) -> None:
    project = made(tmp_path)
    caller = project.hold()
    project.repo.write("work.txt", "done\n")
    verbs.complete(caller, TASK)
    assert project.repo.git("for-each-ref", "refs/harness/candidates") == ""
    place = Path(os.environ["XDG_CACHE_HOME"], "agent-harness/worktrees")
    assert list(place.iterdir()) == []


@pytest.mark.exhaustive
@pytest.mark.scenario
@pytest.mark.parametrize(("trust", "said"), [("normal", "weak_test"), ("fast", None)])
def test_tests_that_notice_nothing_prove_nothing_unless_the_list_trusts_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trust: str, said: str | None
) -> None:
    monkeypatch.delenv("HARNESS_VERIFICATION__TRUST", raising=False)
    command = f"{sys.executable} -m pytest --disable-plugin-autoload -q test_four.py"
    config = {"isolation": "worktree", "trust": trust}
    proof = task(TASK, validation={"command": command})
    project = TaskListProject(tmp_path / "list", proof, git=True, session_config=config)
    caller = project.claim()
    project.repo.write("four.py", "def four():\n    return 5\n")
    project.repo.write("test_four.py", "from four import four\n\n\ndef test_four():\n    four()\n")
    answer = verbs.validate(caller, TASK)
    assert [each["code"] for each in answer["findings"]] == ([said] if said else [])
    assert answer["result"] == ("FAIL" if said else "PASS")


@pytest.mark.parametrize("may_change", [[], ["check.sh"]])
def test_what_proves_a_later_task_is_not_free_while_another_one_is_worked_on(
    tmp_path: Path, may_change: list[str]
) -> None:
    project = made(tmp_path, command="grep -q done work.txt")
    planning.add(project.store, [{"id": "later", "title": "x", "validation": {"command": "sh check.sh"}}])
    project.edit(TASK, validation={"command": "grep -q done work.txt", "may_change": may_change})
    caller = project.hold(TASK)
    project.edit("later", validation={"command": "true"})  # what was kept of it counts as well
    project.repo.write("work.txt", "done\n").write("check.sh", "true\n")
    answer = verbs.validate(caller, TASK)
    assert answer["result"] == ("PASS" if may_change else "FAIL"), answer
    if not may_change:
        assert "check.sh proves another task of the list and existed before the work began" in answer["reasons"][0]
