"""``harness undo`` on a task list: one new commit that the proofs of the others have seen; nothing else is touched."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_harness.protocols.tasklist import proven
from agent_harness.testing.task_list_project import TaskListProject, task

AGENT = 'echo "$HARNESS_TASK_ID" >> work.txt; echo 1 > "$HARNESS_TASK_ID.txt"\n'


def project(path: Path, *tasks: dict[str, Any]) -> TaskListProject:
    """A list whose tasks each leave a file of their name and a line in one file."""
    config = {"isolation": "worktree", "fix_rounds": 0, "requires_red": "off"}
    work = TaskListProject(path / "list", *tasks, git=True, session_count=0, session_config=config)
    work.repo.write("work.txt", "first\n").commit("Begin")
    return work


def job(name: str, check: str = "", **members: Any) -> dict[str, Any]:
    return task(name, validation={"command": check or f"test -f {name}.txt", "timeout_seconds": 60}, **members)


def worked(work: TaskListProject, agent: str = AGENT) -> None:
    ran = work.harness("run", "--agent", work.agent(agent))
    assert ran.code == 0, ran


def seen(work: TaskListProject) -> tuple[Any, ...]:
    """All that a refusal must leave as it is."""
    told = Path(proven.ledger(work.layout)).read_text()
    return work.text, work.repo.head, work.repo.status(), work.repo.files(), told


def undone(work: TaskListProject, *words: str) -> dict[str, Any]:
    ran = work.harness("undo", *words, "--yes", "--json")
    assert ran.code == 0, ran
    return json.loads(ran.out)


def test_a_completed_task_is_taken_back_and_its_undo_is_final(tmp_path: Path) -> None:
    """F-STORY-2: a revert commit, the task open with its attempts, a person's line; nothing is undone twice."""
    work = project(tmp_path, job("a"), job("b"))
    worked(work, 'echo 1 > "$HARNESS_TASK_ID.txt"; git add . && git commit -qm own; echo 2 >> "$HARNESS_TASK_ID.txt"\n')
    before = seen(work)
    declined = work.harness("undo", "b")
    told = work.harness("undo", "b", "--dry-run", "--json")
    plan = json.loads(told.out)
    assert (declined.code, told.code, plan["undone"], plan["paths"], plan["checks"]) == (1, 0, False, ["b.txt"], ["a"])
    assert [each["subject"] for each in plan["commits"]] == ["[b] Title of b", "own"]
    assert seen(work) == before

    done = undone(work, "b")
    assert (done["commit"], done["undone"], done["unclear"]) == (work.repo.head, True, [])
    assert work.repo.git("rev-list", "--count", f"{plan['head']}..HEAD") == "1"
    assert (work.statuses(), work.task("b").attempts) == (["completed", "pending"], 1)
    assert not (work.root / "b.txt").exists()
    assert (work.root / "a.txt").exists()
    assert work.repo.status() == []
    story = json.loads(work.harness("why", "b", "--json").out)
    assert (story["state"], story["claims"][-1]["by"], story["claims"][-1]["word"]) == ("open", "person", "undo")
    assert work.harness("undo", "b", "--yes").code == 4

    before = seen(work)
    for words in (("--yes",), ("--dry-run",), ()):
        again = work.harness("undo", done["commit"][:12], *words)
        assert (again.code, "is the undo of b, and an undo cannot be undone" in again.err) == (4, True), again
    assert seen(work) == before
    worked(work)
    assert (work.statuses(), work.task("b").attempts) == (["completed", "completed"], 2)


@pytest.mark.scenario
def test_what_is_refused_leaves_everything_as_it_was(tmp_path: Path) -> None:
    """Another proof would break, later work on the same lines, dependants, a person's file, a session under way."""
    stands = job("c", "test -f c.txt && test -f a.txt")
    work = project(tmp_path, job("a"), job("b", depends_on=["a"]), job("d"), stands)
    worked(work)
    before = seen(work)
    for words, code, said in (
        (("a",), 4, "b depends on a and is completed"),
        (("b",), 4, "Later work has changed the same lines: work.txt"),
        (("S1",), 2, "Session 1 completed"),
        (("S9",), 2, "No work of session 9 was accepted"),
        (("nix",), 2, "'nix' is neither a task nor a session"),
    ):
        refused = work.harness("undo", *words, "--yes")
        assert (refused.code, said in refused.err) == (code, True), refused
    agent = work.harness("undo", "d", "--yes", HARNESS_RUN_ID="r", HARNESS_PROJECT_DIR=str(work.root))
    assert (agent.code, "a decision for the user" in agent.err) == (4, True), agent
    (work.root / "d.txt").write_text("mine\n")
    own = work.harness("undo", "d", "--yes")
    assert (own.code, "not committed: d.txt" in own.err) == (4, True), own
    assert (work.root / "d.txt").read_text() == "mine\n"
    work.repo.git("checkout", "--", "d.txt")
    assert seen(work) == before
    work.edit("a", status="pending")
    held = work.claim()
    busy = work.harness("undo", "d", "--yes")
    assert (busy.code, "a is in progress by" in busy.err) == (5, True), (busy, held)


@pytest.mark.scenario
def test_a_proof_that_would_break_is_named(tmp_path: Path) -> None:
    """It names the task and is judged by the commit; a proof that fails without it as well says nothing."""
    shaky = job("b", f"test -f b.txt && test ! -e {tmp_path}/broken")
    work = project(tmp_path, job("a"), shaky, job("c", "test -f c.txt && test -f a.txt"))
    worked(work, 'echo 1 > "$HARNESS_TASK_ID.txt"\n')
    before = seen(work)
    broken = work.harness("undo", "a", "--yes", "--json")
    error = json.loads(broken.out)["error"]
    assert (broken.code, error["data"]["broken"]) == (1, ["c"]), broken
    assert seen(work) == before
    (tmp_path / "broken").touch()
    assert undone(work, "c")["unclear"] == ["b"]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_landed_beside_it_stays(tmp_path: Path) -> None:
    """Of several agents at once: the task's own commit is reverted, and not what landed since its place was made."""
    work = project(tmp_path, job("a"), job("b"), job("c"))
    ran = work.harness("run", "--workers", "3", "--agent", work.agent('echo 1 > "$HARNESS_TASK_ID.txt"\n'))
    assert ran.code == 0, ran
    for name in ("a", "b", "c"):
        assert undone(work, name)["paths"] == [f"{name}.txt"]
    assert work.statuses() == ["pending"] * 3


@pytest.mark.scenario
def test_an_undo_that_was_killed_is_gone_on_with(tmp_path: Path) -> None:
    """The same words again end it: what the kill left of the files is no person's, and the commit is not made twice."""
    work = project(tmp_path, job("a"), job("b"))
    worked(work, 'echo 1 > "$HARNESS_TASK_ID.txt"\n')
    before = work.text
    plan = json.loads(work.harness("undo", "b", "--dry-run", "--json").out)

    proven.forget(work.layout, "b")
    work.repo.git("rm", "--quiet", "b.txt")  # killed before the branch had moved: the files are as they will be
    first = undone(work, "b")
    assert (first["head"], work.statuses(), work.repo.status()) == (plan["head"], ["completed", "pending"], [])

    (work.root / "harness-tasks.json").write_text(before)  # killed before the state was written
    again = undone(work, "b")
    assert (again["commit"], again["head"], work.repo.head) == (first["commit"], plan["head"], first["commit"])
    assert (work.statuses(), work.repo.status()) == (["completed", "pending"], [])


@pytest.mark.scenario
def test_an_undo_that_cannot_be_completed_leaves_the_grade_of_the_task(tmp_path: Path) -> None:
    """A person's file is in the way: nothing was undone, and a task that is only checked does not become proven."""
    work = project(tmp_path, job("a"), job("b"))
    worked(work, 'echo 1 > "$HARNESS_TASK_ID.txt"\n')
    graded = proven.checked(work.layout)
    assert "b" in graded
    plan = json.loads(work.harness("undo", "b", "--dry-run", "--json").out)
    tree = work.repo.git("rev-parse", f"{plan['accepted_at']}^^{{tree}}")
    branch, commit = work.repo.git("symbolic-ref", "HEAD"), work.repo.git("commit-tree", tree, "-p", "HEAD", "-m", "x")
    record = {"v": 1, "item": "b", "what": "b", "branch": branch, "head": plan["head"], "commit": commit}
    record |= {"of": None, "told": "", "tests": []}
    path = Path(proven.ledger(work.layout)).with_name("undo.json")
    path.write_text(json.dumps(record))
    (work.root / "b.txt").write_text("mine\n")
    ran = work.harness("run", "--agent", work.agent("exit 9\n"))
    assert "b: left (undoing b was interrupted: uncommitted files block the merge" in ran.out, ran
    assert (work.statuses(), work.repo.head, path.exists()) == (["completed", "completed"], plan["head"], False)
    assert proven.checked(work.layout) == graded
    assert (work.root / "b.txt").read_text() == "mine\n"


def test_a_session_whose_task_was_removed_from_the_list_is_no_item(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"))
    worked(work, 'echo 1 > "$HARNESS_TASK_ID.txt"\n')
    document = json.loads(work.text)
    document["tasks"] = [job("b")]
    (work.root / "harness-tasks.json").write_text(json.dumps(document))
    refused = work.harness("undo", "S1", "--yes")
    assert (refused.code, "Session 1 completed a, which is not in the list" in refused.err) == (2, True), refused


KILLED_BEFORE_THE_REF = """
import os, signal
from agent_harness.cli import tasklist
from agent_harness.kernel.git import Git

move = Git.update_ref

def killed(self, *words, **more):
    if more.get("message") == "agent-harness: landed":
        os.kill(os.getpid(), signal.SIGKILL)
    return move(self, *words, **more)

Git.update_ref = killed
tasklist.open_list().undo("b", say=print)
"""


def test_an_undo_that_is_killed_among_the_files_and_committed_by_a_person_is_verified_again(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"), job("b"))
    worked(work, 'echo 1 > "$HARNESS_TASK_ID.txt"\n')
    ran = subprocess.run([sys.executable, "-c", KILLED_BEFORE_THE_REF], cwd=work.root, capture_output=True, check=False)
    assert ran.returncode == -9, ran.stderr
    assert not (work.root / "b.txt").exists()
    work.repo.git("commit", "-qam", "mine")
    ran = work.harness("run", "--agent", work.agent("exit 9\n"))
    assert "b: reopened (undoing b was interrupted, but not proven)" in ran.out, ran
    assert (ran.code, work.statuses()[0]) == (1, "completed")
    assert work.statuses()[1] != "completed"
