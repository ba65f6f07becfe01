"""End of a turn of ``harness run``: its changes to the list and to its claim's repository are put in order."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_harness.errors import StateDamaged, UnsafeTree
from agent_harness.kernel import owner, root
from agent_harness.protocols.tasklist import planning, proven, recovery
from agent_harness.protocols.tasklist.attempts import left_by_turn, rollback, verbs
from agent_harness.protocols.tasklist.attempts.list_files import ListFiles
from agent_harness.protocols.tasklist.claims.caller import Caller
from agent_harness.testing.task_list_project import TASK, TaskListProject


@pytest.fixture
def project(tmp_path: Path) -> TaskListProject:
    return TaskListProject.with_sources(tmp_path).add()


def in_a_run(project: TaskListProject) -> Caller:
    """A claim as ``harness run`` makes it, with a merge of the attempt that waits."""
    caller = project.hold()
    proven.note_claim(project.layout, project.task(), turn=owner.current().as_record())
    return caller


def leave_a_merge(project: TaskListProject) -> None:
    repo = project.repo
    repo.git("checkout", "-q", "-b", "o")
    repo.write("app.py", "A\n").git("commit", "-q", "-a", "-m", "A")
    repo.git("checkout", "-q", "main")
    repo.write("app.py", "B\n").git("commit", "-q", "-a", "-m", "B")
    repo.git("merge", "-q", "o", check=False)


def test_a_merge_of_the_attempt_goes_back_with_it(project: TaskListProject) -> None:
    before, base = project.seen(), project.repo.head
    caller = in_a_run(project)
    leave_a_merge(project)
    assert left_by_turn.put_in_order(caller, project.task(), ends=False) is None
    assert left_by_turn.unfinished(caller, project.task())
    done = verbs.fail(caller, TASK, "TASK_EXEC", "no")
    assert (done["rolled_back"], done["halted"], project.repo.head) == (True, False, base)
    assert left_by_turn.unfinished(caller, project.task()) is None
    assert project.seen() == before


def test_a_merge_of_somebody_else_is_left_alone(project: TaskListProject) -> None:
    caller = project.hold()
    leave_a_merge(project)
    assert left_by_turn.put_in_order(caller, project.task(), ends=True) is None
    with pytest.raises(UnsafeTree, match="in the middle of a merge"):
        rollback.roll_back(caller, project.task())


def test_work_on_another_branch_lands_on_that_of_the_claim(project: TaskListProject) -> None:
    caller, base = in_a_run(project), project.repo.head
    project.repo.branch("mine").write("new", "x").commit("On it")
    told = left_by_turn.put_in_order(caller, project.task(), ends=False)
    assert told == "the agent's turn checked out mine; the harness checked out main again, with this work"
    assert verbs.complete(caller, TASK, known=verbs.AttemptFacts())["commit"] == project.repo.git("rev-parse", "main")
    assert base in project.repo.git("rev-list", "main").split()
    assert project.repo.git("branch", "--show-current") == "main"


def test_work_on_another_history_lands_on_top_of_the_claim(project: TaskListProject) -> None:
    caller, base = in_a_run(project), project.repo.head
    project.repo.write("new", "x").stage().git("commit", "-q", "--amend", "-m", "mine")
    mine = project.repo.head
    told = left_by_turn.put_in_order(caller, project.task(), ends=False)
    assert told
    assert "are kept in refs/harness/rescue/task-001/turn-1-1" in told
    assert project.repo.git("rev-parse", "refs/harness/rescue/task-001/turn-1-1") == mine
    verbs.complete(caller, TASK, known=verbs.AttemptFacts())
    assert project.repo.git("rev-parse", "main^") == base
    assert project.repo.git("show", "main:new") == "x"


def dropped_by_the_turn(project: TaskListProject) -> Caller:
    """A claim whose turn took the newest commit of a person away, and did its work on what was before."""
    project.repo.write("person", "of a person\n").stage("person").commit("Of a person", stage=False)
    caller = in_a_run(project)
    project.repo.git("reset", "-q", "--hard", "HEAD~1")
    return caller


def test_what_a_turn_drops_of_the_history_comes_back(project: TaskListProject) -> None:
    caller = dropped_by_the_turn(project)
    base = project.repo.git("rev-parse", "ORIG_HEAD")
    project.repo.write("new", "x").stage("new").commit("On what was before", stage=False)
    told = left_by_turn.put_in_order(caller, project.task(), ends=False)
    assert told
    assert "restored from that commit: person" in told
    verbs.complete(caller, TASK, known=verbs.AttemptFacts())
    assert project.repo.git("rev-parse", "main^") == base
    assert project.repo.git("diff", "--name-status", "main^", "main") == "A\tnew"
    assert (project.path / "person").read_text() == "of a person\n"


def test_work_that_contradicts_what_the_turn_dropped_is_not_taken(project: TaskListProject) -> None:
    caller = dropped_by_the_turn(project)
    base = project.repo.git("rev-parse", "ORIG_HEAD")
    project.repo.write("person", "of the turn\n").stage("person").commit("On what was before", stage=False)
    mine = project.repo.head
    assert left_by_turn.put_in_order(caller, project.task(), ends=False) is None
    assert project.repo.head == mine
    code, found = left_by_turn.unfinished(caller, project.task()) or ("", None)
    assert code == "history_conflict"
    assert found
    assert found.reason.endswith("conflicts with the original history: person")
    verbs.fail(caller, TASK, "TASK_EXEC", "no")
    assert project.repo.head == base
    assert (project.path / "person").read_text() == "of a person\n"
    assert project.repo.git("for-each-ref", "--contains", mine, "refs/harness/rescue")


# ---- the list itself -------------------------------------------------------------------------------------------------


def clean(project: TaskListProject) -> None:
    for path in (project.layout.tasks, project.layout.backup, project.layout.progress, project.layout.marker):
        Path(path).unlink(missing_ok=True)
    shutil.rmtree(project.layout.state_dir)


def empty(project: TaskListProject) -> None:
    Path(project.layout.tasks).write_text("{}")


def folder(project: TaskListProject) -> None:
    os.unlink(project.layout.tasks)
    Path(project.layout.tasks).mkdir()


def link(project: TaskListProject) -> None:
    elsewhere = project.path.parent / f"{project.path.name}-elsewhere.json"
    shutil.move(project.layout.tasks, elsewhere)
    Path(project.layout.tasks).symlink_to(elsewhere)


@pytest.mark.parametrize("wipe", [clean, empty, folder, link])
def test_a_list_that_a_turn_takes_away_is_put_back(
    project: TaskListProject, wipe: Callable[[TaskListProject], None]
) -> None:
    caller = project.hold()
    project.store.activate()
    project.store.note("WARN", "a line of before")
    files = ListFiles(caller, project.store.read())
    assert files.put_back() is None
    was = project.raw
    wipe(project)
    told = files.put_back()
    assert told
    assert "the agent's turn changed or removed harness-tasks.json" in told
    assert project.raw == was
    assert not Path(project.layout.tasks).is_symlink()
    assert project.store.active()
    assert "a line of before" in Path(project.layout.progress).read_text()
    assert files.put_back() is None


def test_a_list_that_is_gone_is_found_and_comes_back(project: TaskListProject) -> None:
    caller = in_a_run(project)
    project.edit(TASK, title="Written last")
    project.store.change(lambda change: change.touch())
    was = json.loads(Path(project.layout.tasks).read_text())
    clean(project)
    assert root.find(project.path / "lib") == root.Root("tasklist", str(project.path))
    with pytest.raises(StateDamaged) as missing:
        project.store.read()
    assert missing.value.hint == "harness task recover"
    with pytest.raises(StateDamaged, match="The file of a list with 1 tasks is missing"):
        planning.create(str(project.path))
    assert recovery.restore_if_needed(caller)
    assert project.raw["tasks"] == was["tasks"]


def test_a_folder_above_the_repository_is_not_asked_for_a_list(project: TaskListProject) -> None:
    in_a_run(project)
    project.store.change(lambda change: change.touch())
    clean(project)
    assert root.find(project.path)
    (project.path / "below" / ".git").mkdir(parents=True)
    assert root.find(project.path / "below") is None


# ---- whole runs ------------------------------------------------------------------------------------------------------

RUDE = """\
echo done > "out-$HARNESS_TASK_ID"
case "$HARNESS_TASK_ID$HARNESS_ROUND" in
a0) git checkout -q -b o; echo A > app.py; git commit -q -a -m A; git checkout -q main
    echo B > app.py; git commit -q -a -m B; git merge -q o; git config core.hooksPath /nowhere;;
a1) git merge --abort;;
b0) git reset -q --hard; git clean -q -f -d -x; echo done > out-b; git checkout -q -b mine; git add out-b
    git commit -q -m mine;;
c0) git add out-c; git commit -q --amend -m mine;;
esac
true
"""


@pytest.mark.kept("alone")
@pytest.mark.scenario
@pytest.mark.parametrize("workers", [(), ("--workers", "2")], ids=["alone", "workers"])
def test_a_night_goes_on_whatever_a_turn_leaves(tmp_path: Path, workers: tuple[str, ...]) -> None:
    work = TaskListProject.with_sources(tmp_path)
    for name in ("a", "b", "c"):
        work.add(name, validation=f"test -s out-{name}")
    first = work.repo.head
    ran = work.harness("run", *workers, "--agent", work.agent(RUDE))
    assert (ran.code, work.statuses()) == (0, ["completed"] * 3), ran
    assert work.repo.git("branch", "--show-current") == "main"
    assert first in work.repo.git("rev-list", "main").split()
    assert {"out-a", "out-b", "out-c"} <= set(work.repo.git("ls-tree", "--name-only", "main").split())
    if not workers:  # what is said of a workspace is in its own log
        for said in (
            "in the middle of a merge",
            "core.hookspath was /nowhere",
            "turn checked out mine",
            "changed or removed",
        ):
            assert said in ran.out + ran.err
