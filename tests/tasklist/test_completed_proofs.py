"""Completed tasks that later work breaks: before a task is completed, before it lands, and at the end of a run."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent_harness.testing.task_list_project import TaskListProject, task

WRITES = 'echo "written $HARNESS_TASK_ID" > out-$HARNESS_TASK_ID.txt'
REMOVES = f'[ "$HARNESS_TASK_ID" != b ] || rm -f out-a.txt\n{WRITES}'
BREAKS_UNSEEN = """\
case $HARNESS_TASK_ID in
a) echo 'import lib; lib.old()' > use.py ;;
b) echo 'def new(): return 1' > lib.py; echo 2 > b.txt ;;
c) echo 3 > c.txt ;;
esac"""


def job(name: str, command: str | None = None, **members: Any) -> dict[str, Any]:
    proof = command or f"grep -q written out-{name}.txt"
    return task(name, validation={"command": proof, "timeout_seconds": 60}, **{"max_attempts": 1} | members)


def project(path: Path, *tasks: Any) -> TaskListProject:
    work = TaskListProject(path / "list", *tasks, git=True, session_count=0)
    work.edit(session_config={**work.raw["session_config"], "fix_rounds": 1})
    return work


def passes(work: TaskListProject, name: str) -> bool:
    return "written" in work.repo.git("show", f"HEAD:out-{name}.txt")


def broken_unseen(path: Path) -> TaskListProject:
    """Three tasks, of which the second breaks the first by a file that is nobody's."""
    work = project(path, job("a", "python3 use.py"), job("b", "grep -q 2 b.txt"), job("c", "grep -q 3 c.txt"))
    (work.root / "lib.py").write_text("def old(): return 1\n")
    work.repo.commit("Add the library")
    return work


@pytest.mark.parametrize("needs", [[], ["a"]], ids=["the same file", "a dependency too"])
def test_work_that_removes_what_proves_a_completed_task_goes_back_with_what_failed(
    tmp_path: Path, needs: list[str]
) -> None:
    work = project(tmp_path, job("a"), job("b", depends_on=needs))
    ran = work.harness("run", "--agent", work.agent(REMOVES))
    assert (ran.code, work.statuses(), passes(work, "a")) == (1, ["completed", "failed"], True), ran
    assert "breaks a: grep -q written out-a.txt" in ran.out
    assert "breaks a: grep -q written out-a.txt" in work.prompt("b", 1)
    assert "out-a.txt: No such file" in work.prompt("b", 1)
    why = work.harness("why", "b")
    assert "REJECTED breaks_completed: the work breaks a task that was completed before" in why.out
    number = why.out.split("--output ")[1].split()[0]
    assert "out-a.txt: No such file" in work.harness("why", "b", "--output", number).out


def test_an_agent_that_repairs_what_it_broke_completes_its_task(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"), job("b"))
    ran = work.harness("run", "--agent", work.agent(f"{REMOVES}\n[ $HARNESS_ROUND = 0 ] || echo written > out-a.txt"))
    assert (ran.code, work.statuses(), passes(work, "a")) == (0, ["completed", "completed"], True), ran


def test_what_an_agent_completes_by_its_own_command_is_asked_for_as_well(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"), job("b"))
    assert work.harness("run", "--agent", work.agent(WRITES), "--once").code == 0
    token = json.loads(work.harness("task", "claim", "--json").out)["token"]
    (work.root / "out-a.txt").unlink()
    (work.root / "out-b.txt").write_text("written\n")
    said = work.harness("task", "complete", "b", HARNESS_CLAIM_TOKEN=token)
    assert (said.code, "breaks a" in said.out + said.err) == (1, True), said
    assert work.statuses() == ["completed", "in_progress"]
    assert work.harness("task", "validate", "b", HARNESS_CLAIM_TOKEN=token).code == 1
    (work.root / "out-a.txt").write_text("written\n")
    assert work.harness("task", "complete", "b", HARNESS_CLAIM_TOKEN=token).code == 0


def test_a_proof_that_failed_before_the_work_rejects_nobody(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"), job("b"))
    assert work.harness("run", "--agent", work.agent(WRITES), "--once").code == 0
    (work.root / "out-a.txt").write_text("other\n")
    work.repo.commit("A person changes it")
    ran = work.harness("run", "--agent", work.agent("echo more >> out-a.txt\n" + WRITES), "--once")
    assert (ran.code, work.statuses()) == (0, ["completed", "completed"]), ran
    assert "failed_before" in work.harness("why", "b", "--json").out


@pytest.mark.parametrize("name", ["helper.txt", "sub/helper.txt"])
def test_a_file_that_a_proof_names_is_enough(tmp_path: Path, name: str) -> None:
    """Nobody's work has touched it before."""
    work = project(tmp_path, job("a", f"grep -q yes {name} && grep -q . out-a.txt"), job("b"))
    (work.root / name).parent.mkdir(exist_ok=True)
    (work.root / name).write_text("yes\n")
    work.repo.commit("Add a helper")
    ran = work.harness("run", "--agent", work.agent(f"[ $HARNESS_TASK_ID = a ] || echo no > {name}\n{WRITES}"))
    assert (ran.code, work.statuses()) == (1, ["completed", "failed"]), ran
    assert f"breaks a: grep -q yes {name}" in ran.out


def test_what_breaks_a_task_unseen_is_found_at_the_end_of_the_run_and_who_did_it(tmp_path: Path) -> None:
    work = broken_unseen(tmp_path)
    ran = work.harness("run", "--agent", work.agent(BREAKS_UNSEEN))
    assert (ran.code, work.statuses()) == (3, ["failed", "completed", "completed"]), ran
    assert "needs you  a is no longer proven: b broke it" in ran.out
    assert "harness task reset a, or: harness undo b" in ran.out
    assert "proven     2 in this run: b, c; 2 of 3 in all" in ran.out
    assert "a is no longer proven: b broke it" in work.harness("status").out
    assert "REJECTED broken_later: a later change broke the item" in work.harness("why", "a").out
    assert work.harness("task", "reset", "a").code == 0
    again = work.harness("run", "--agent", work.agent("echo 'def old(): return 1' >> lib.py"))
    assert (again.code, work.statuses()) == (0, ["completed"] * 3), again


@pytest.mark.parametrize(("needs", "asked"), [([], True), (["a", "b"], False)], ids=["apart", "needed by the last"])
def test_at_the_end_what_the_last_task_has_asked_already_is_not_asked_again(
    tmp_path: Path, needs: list[str], *, asked: bool
) -> None:
    work = project(tmp_path, job("a"), job("b"), job("c", depends_on=needs))
    ran = work.harness("run", "--agent", work.agent(WRITES))
    assert (ran.code, work.statuses()) == (0, ["completed"] * 3), ran
    assert ("Running the checks of 2 completed tasks again." in ran.out) == asked


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_breaks_a_landed_task_does_not_land_also_alone_on_an_unmoved_head(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"), job("b", depends_on=["a"]))
    ran = work.harness("run", "--workers", "2", "--agent", work.agent(REMOVES))
    assert (ran.code, work.statuses(), passes(work, "a")) == (3, ["completed", "pending"], True), ran
    assert "Merged b" not in ran.out


@pytest.mark.scenario
def test_a_landing_that_breaks_another_one_and_is_not_fixed_is_told_as_that(tmp_path: Path) -> None:
    """The branch does not prove the first: nobody calls it proven any more, and each last line says so."""
    work = broken_unseen(tmp_path)
    ran = work.harness("run", "--workers", "1", "--agent", work.agent(BREAKS_UNSEEN))
    head = work.repo.git("rev-parse", "HEAD")
    assert ran.code == 3, ran
    assert work.task("a").status != "completed"
    assert f"main at {head[:10]} fails these checks: a; the merge of b broke them and is not fixed" in ran.out
    assert "needs you  a is no longer proven: b broke it" in ran.out
    assert "git revert" in work.harness("status").out
