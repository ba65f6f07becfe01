"""An accepted feature is taken back: one new commit that the whole suite has seen, and nothing else is touched."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agent_harness.protocols.tasklist import proven
from agent_harness.session import ledger
from agent_harness.testing.task_list_project import TaskListProject, task

from .calc import CalcProject
from .script import claim, honest, proof_ids, proof_path, proof_text, prove, report, sh, turn, write
from .simulated_machine import Machine, Ran

WORKS = 'echo 1 > "$HARNESS_TASK_ID.txt"\n'
MUL_ON_TOP = sh(
    "python3 -c \"import pathlib; p = pathlib.Path('src/calc.py'); "
    "p.write_text('def mul(a, b):\\n    return a * b\\n\\n\\n' + p.read_text())\""
)


def test_the_last_feature_is_taken_back_and_open_again(calc: CalcProject) -> None:
    """F-STORY-2: the verdict gets a person's line, the baseline follows, the next session can build it again."""
    calc.run([turn(honest(1))])
    calc.run([turn(honest(2))])
    before, shown = calc.head, calc.harness("undo", "2", "--dry-run", "--json").json
    assert (shown["undone"], shown["feature_id"], shown["session"]) == (False, 2, 2)
    assert set(proof_ids(2)) <= set(shown["tests"])
    assert "src/calc.py" in shown["paths"]
    assert calc.head == before

    declined = calc.harness("undo", "2")
    assert calc.head == before, declined
    ran = calc.harness("undo", "S2", "--yes")
    assert ran.code == 0, ran.text
    assert calc.passing() == [1]
    assert calc.git("rev-list", "--count", f"{before}..HEAD").strip() == "1"
    assert calc.git("show", "HEAD:src/calc.py") == calc.git("show", f"{shown['accepted_at']}~1:src/calc.py")
    assert not set(proof_ids(2)) & set(calc.baseline["passing_tests"])
    assert set(proof_ids(1)) <= set(calc.baseline["passing_tests"])
    assert calc.changes() == []
    told = calc.harness("why", "2", "--json").json
    assert (told["state"], told["claims"][-1]["by"], told["claims"][-1]["word"]) == ("open", "person", "undo")
    assert calc.harness("undo", "2", "--yes").code == 4
    calc.run([turn(honest(2))])
    assert calc.passing() == [1, 2]


@pytest.mark.scenario
def test_what_others_stand_on_stays(calc: CalcProject) -> None:
    """Refused with everything as it was: tests of others would break; later work changed the same lines; own files."""
    helped = [write("src/helper.py", "def one():\n    return 1\n"), *honest(2)]
    uses = f"{proof_text(3)}\n\ndef test_helped():\n    import helper\n\n    assert helper.one() == 1\n"
    third = [MUL_ON_TOP, write(proof_path(3), uses), *prove(3), claim(3), *report(3)]
    for steps in (honest(1), helped, third):
        assert calc.run([turn(steps)]).code == 0, calc.progress
    before = calc.head
    broken = calc.harness("undo", "2", "--yes")
    assert broken.code != 0
    assert "Feature #3 would break" in broken.text
    same = calc.harness("undo", "1", "--yes")
    assert same.code == 4
    assert "same lines: src/calc.py" in same.text
    assert (calc.head, calc.changes()) == (before, [])

    (calc.root / "src/calc.py").write_text("mine\n")
    own = calc.harness("undo", "3", "--yes")
    assert own.code == 4
    assert "not committed: src/calc.py" in own.text
    assert (calc.root / "src/calc.py").read_text() == "mine\n"
    calc.git("checkout", "--", "src/calc.py")
    assert calc.harness("undo", "9", "--yes").code == 2
    assert calc.harness("undo", "nix", "--yes").code == 2
    assert calc.harness("undo", "S9", "--yes").code == 2
    assert calc.passing() == [1, 2, 3]


def undone(calc: CalcProject, *words: str) -> dict[str, Any]:
    ran = calc.harness("undo", *words, "--yes", "--json")
    assert ran.code == 0, ran.text
    return ran.json


def on_disk(calc: CalcProject) -> tuple[Any, ...]:
    """All that a refusal must leave as it is."""
    state = {path: path.read_bytes() for path in (calc.root / ".harness").glob("*.json")}
    kept = Path(calc.project.store.ledger())
    return calc.head, calc.changes(), state, {path.name: path.read_bytes() for path in kept.parent.glob("*.json*")}


@pytest.mark.exhaustive
def test_an_undo_is_not_undone(calc: CalcProject) -> None:
    """F-STORY-2: its commit is named in the answer, and nothing changes; the next session builds the feature again."""
    calc.run([turn(honest(1))])
    calc.run([turn(honest(2))])
    first = undone(calc, "2")
    assert first["next"] == "harness status"
    before = on_disk(calc)
    for words in (("--yes",), ("--dry-run",), ()):
        again = calc.harness("undo", first["commit"][:12], *words)
        assert (again.code, "is the undo of 2, and an undo cannot be undone" in again.text) == (4, True), again.text
    assert on_disk(calc) == before
    calc.run([turn(honest(2))])
    assert calc.passing() == [1, 2]


# ---- a kill ----------------------------------------------------------------------------------------------------------

SETTLING = 46
"""So many points before its end an undo is judged by, and begins to be carried out."""


def reached(ran: Ran, point: int | None) -> bool:
    """Return True if the run reached the point.

    The next run tidies up after a killed one, and tries once more for a lock that is still held. Each adds a few
    points. The first run, by which points are counted, may have some of them.
    """
    return point is not None and ran.points >= point


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    with Machine(tmp_path) as machine:
        yield machine


def carried_out_once(calc: CalcProject, before: str, found: dict[str, Any]) -> None:
    """One commit, one line, one event, one sentence; and what counts follows."""
    commit = found["commit"]
    assert (calc.head, calc.git("rev-list", "--count", f"{before}..HEAD")) == (commit, "1")
    assert calc.passing() == [1]
    assert not set(proof_ids(2)) & set(calc.baseline["passing_tests"])
    assert calc.project.store.proven()["features"] == calc.passing()
    path = calc.project.store.ledger()
    assert ledger.check(path).whole
    assert sum(each.commit == commit for each in ledger.newest_first(path)) == 1
    assert sum(row["commit"] == commit for row in calc.events("feature_undone")) == 1
    added = calc.git("diff", f"{before}..HEAD", "--", "claude-progress.txt")
    assert added.count("undid Feature #2") == 1
    assert calc.changes() == []
    assert not Path(str(calc.project.store.reversal())).exists()


@pytest.mark.kill
def test_an_undo_that_was_killed_is_ended_by_the_same_words_or_the_next_command(
    calc: CalcProject, machine: Machine
) -> None:
    """F-STORY-2: SIGKILL before each of its last steps; what was decided is carried out, once."""
    calc.run([turn(honest(1))])
    calc.run([turn(honest(2))])

    def killed(point: int | None) -> Ran:
        fault = None if point is None else {"kind": "kill", "point": point}
        return machine.run("harness", "undo", "2", "--yes", cwd=calc.root, fault=fault, environ=calc.variables())

    points, decided = 0, 0
    for number, back in enumerate([None, *range(0, SETTLING, int(os.environ.get("HARNESS_STEP", "9")))]):
        before = calc.head
        point = None if back is None else points - back
        ran = killed(point)
        assert ran.killed == reached(ran, point), ran.out
        points = points or ran.points
        left = Path(str(calc.project.store.reversal())).exists()
        decided += left
        if left and number % 2:
            told = calc.harness("resume")
            assert "was interrupted. Completing the undo." in told.text, told.text
            found = {"commit": calc.head}
        elif ran.killed and (left or calc.head == before):
            found = undone(calc, "2")
        else:
            found = {"commit": calc.head}
        carried_out_once(calc, before, found)
        calc.run([turn(honest(2))])
        assert calc.passing() == [1, 2]
    assert decided > 1, "killed too early or too late"


def completed_list(folder: Path) -> TaskListProject:
    """Two completed tasks, each with a file of its name."""
    jobs = [
        task(name, validation={"command": f"test -f {name}.txt", "timeout_seconds": 60}, max_attempts=99)
        for name in "ab"
    ]
    work = TaskListProject(folder, *jobs, git=True, session_count=0, session_config={"requires_red": "off"})
    assert work.harness("run", "--agent", work.agent(WORKS)).code == 0
    return work


@pytest.mark.kill
def test_a_run_ends_the_undo_of_a_task_that_was_killed_and_says_so(tmp_path: Path, machine: Machine) -> None:
    """F-STORY-2: SIGKILL before each of its last steps; nobody is said to have marked the task by hand."""
    work = completed_list(tmp_path / "list")
    path = Path(proven.ledger(work.layout))
    left = path.with_name("undo.json")
    points, decided = 0, 0
    for number, back in enumerate([None, *range(0, SETTLING, int(os.environ.get("HARNESS_STEP", "6")))]):
        before, said = work.repo.head, Path(work.layout.progress).read_text()
        point = None if back is None else points - back
        fault = {} if point is None else {"kind": "kill", "point": point}
        ran = machine.run("harness", "undo", "b", "--yes", cwd=work.root, fault=fault)
        assert ran.killed == reached(ran, point), ran.out
        points = points or ran.points
        decided += left.exists()
        if left.exists() and number % 2:
            following = work.harness("run", "--once", "--agent", work.agent("exit 9\n"))
            assert following.code in (0, 1), following
            new = Path(work.layout.progress).read_text().removeprefix(said)
            assert "was interrupted, and is now complete" in new
            assert "manually" not in new
        elif work.repo.head == before or left.exists():
            done = work.harness("undo", "b", "--yes", "--json")
            assert (done.code, done.json["undone"]) == (0, True), done
        commit = work.repo.head
        assert work.repo.git("rev-list", "--count", f"{before}..HEAD") == "1"
        lines = [each for each in ledger.newest_first(str(path)) if each.commit == commit]
        assert [(each.by, each.word) for each in lines] == [("person", "undo")]
        assert [each == "completed" for each in work.statuses()] == [True, False]
        assert not (work.root / "b.txt").exists()
        assert (work.repo.status(), left.exists()) == ([], False)
        assert work.harness("run", "--agent", work.agent(WORKS)).code == 0
        assert work.statuses() == ["completed"] * 2
    assert decided > 1, "killed too early or too late"


@pytest.mark.exhaustive
def test_an_undo_that_was_killed_and_cannot_be_ended_leaves_the_task_to_its_proof(tmp_path: Path) -> None:
    """F-STORY-2: the branch went on before anything had moved; the run says what was interrupted, and proves anew."""
    work = completed_list(tmp_path / "list")
    planned = work.harness("undo", "b", "--dry-run", "--json").json
    branch, never_landed = (
        work.repo.git("symbolic-ref", "HEAD"),
        ("commit-tree", "HEAD^{tree}", "-p", "HEAD", "-m", "x"),
    )
    record = {"v": 1, "item": "b", "again": False, "what": "b", "branch": branch, "head": planned["head"]}
    record |= {"commit": work.repo.git(*never_landed), "of": None, "told": "", "tests": [], "files_read": []}
    Path(proven.ledger(work.layout)).with_name("undo.json").write_text(json.dumps(record))
    proven.forget(work.layout, "b")
    work.repo.write("mine.txt", "x").commit("Mine")
    assert work.harness("run", "--agent", work.agent("exit 9\n")).code == 0
    assert work.statuses() == ["completed", "completed"]
    log = Path(work.layout.progress).read_text()
    assert "undoing b was interrupted; the validation passes" in log
    assert "manually" not in log
    why = work.harness("why", "b").out
    assert "an undo of the item was interrupted" in why
