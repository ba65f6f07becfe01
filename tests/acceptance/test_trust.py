"""Checks that decide over an agent's work lie outside the project; the project's own word is not believed."""

import json
import os
import shutil
import stat
from pathlib import Path
from typing import Any

import pytest

from .calc import CalcProject
from .script import CODE, append, claim, commit, honest, proof_path, proof_text, sh, sleep, turn, usage, write

HALF = "\n\ndef add(a, b):\n    # half of it\n    raise NotImplementedError\n"


def own_records(calc: CalcProject, home: str | None = None) -> Path:
    """The folder of the harness outside the project."""
    base = Path(home or calc.environ["XDG_STATE_HOME"], "agent-harness/projects")
    (found,) = [path for path in base.iterdir() if path.name.endswith(f"%{calc.root.name}%.git")]
    return found


def killed_at_work(calc: CalcProject) -> None:
    """A session whose agent has claimed and committed half of a feature, and whose harness is dead."""
    ready = calc.base / "ready"
    steps = [append("src/calc.py", HALF), claim(1), commit("Half"), write("wip.txt", "x\n"), sh(f"touch {ready}")]
    process = calc.start("run", agent=[turn(*steps, sleep(600))])
    calc.wait_until(ready.exists, "the agent at work")
    process.kill()
    process.wait()
    calc.wait_until(lambda: not calc.processes(), "the end of the agent", seconds=60)


def forged(calc: CalcProject, record: dict[str, Any]) -> dict[str, Any]:
    """The record of a session whose harness had decided to accept everything that is there."""
    state = {**record["state"], "last_session": record["session"], "status": "complete", "current_feature": 1}
    finalization = {
        "kind": "accept",
        "session": record["session"],
        "state": state,
        "costs": record["costs"],
        "session_record": {"session_id": record["session"], "feature_id": 1, "feature_completed": True},
        "commit": calc.head,
        "branch": "refs/heads/main",
        "expected_head": calc.head,
        "proven": [1],
        "push": True,
    }
    return {**record, "phase": "settling", "settlement": finalization}


def copy_of(calc: CalcProject) -> Path:
    return calc.root / ".git/harness/open_session.json"


def not_accepted(calc: CalcProject, start: str | None) -> None:
    assert calc.remote() == start, "pushed what nobody had judged"
    assert calc.passing() == []
    assert '"passes": true' not in calc.git("show", "HEAD:features.json")
    assert not copy_of(calc).exists()
    assert not [row for row in calc.log("sessions.jsonl") if row.get("feature_completed")]


@pytest.mark.exhaustive
def test_a_verdict_that_an_agent_wrote_is_not_carried_out(calc: CalcProject) -> None:
    start = calc.remote()
    killed_at_work(calc)
    believed = own_records(calc) / "open_session.json"
    assert stat.S_IMODE(believed.parent.stat().st_mode) == 0o700
    record = json.loads(believed.read_text())
    assert record["phase"] == "running"
    copy_of(calc).write_text(json.dumps(forged(calc, record)))
    shown = calc.harness("status")
    assert "Features: 0/6" in shown.out, shown.text
    ran = calc.run([turn({"exit": 3}, times=9)])
    assert "Session 1 was interrupted (while running)" in ran.text
    not_accepted(calc, start)
    assert not believed.exists()


def test_a_verdict_that_only_the_project_tells_of_is_an_interruption(calc: CalcProject) -> None:
    """Moved, or the harness's own record was removed: the work is kept, and nobody's word is taken for it."""
    start = calc.remote()
    killed_at_work(calc)
    copy_of(calc).write_text(json.dumps(forged(calc, json.loads(copy_of(calc).read_text()))))
    shutil.rmtree(own_records(calc))
    assert "Features: 0/6" in calc.harness("status").out
    ran = calc.run([turn({"exit": 3}, times=9)])
    assert "its record is only in the project" in ran.text
    not_accepted(calc, start)
    assert calc.git("show", "HEAD~1:wip.txt") == "x" or calc.git("show", "HEAD:wip.txt") == "x"
    assert calc.state["next_prompt"] == "continuation"
    assert calc.log("sessions.jsonl")[0]["termination_reason"] == "error"


@pytest.mark.exhaustive
def test_a_moved_project_goes_on_from_where_it_was(calc: CalcProject) -> None:
    killed_at_work(calc)
    moved = CalcProject(calc.base, calc.base / "elsewhere", calc.environ)
    calc.root.rename(moved.root)
    calc.root = moved.root
    fresh = [write("src/calc.py", '"""A calculator."""\n'), sh("rm -f wip.txt")]
    ran = moved.run([turn(fresh, honest(1), usage(1, 1))])
    assert ran.code == 0, ran.text
    assert "Prompt type: continuation" in ran.out
    assert moved.passing() == [1]
    assert moved.remote() == moved.head


def test_a_rollback_that_a_crash_cut_short_is_done_and_says_where_the_work_is(calc: CalcProject) -> None:
    """Also what a person has committed on top meanwhile is in the rescue."""
    start = calc.head
    killed_at_work(calc)
    calc.put({"mine.txt": "of the person\n"})
    calc.git("add", "mine.txt")
    calc.git("commit", "-q", "-m", "Mine")
    path = own_records(calc) / "open_session.json"
    record = json.loads(path.read_text())
    finalization = forged(calc, record)["settlement"] | {"kind": "rollback", "checkpoint": record["rollback"]}
    finalization |= {"commit": None, "branch": None, "proven": None, "push": False, "events": []}
    finalization["session_record"]["feature_completed"] = False
    path.write_text(json.dumps({**record, "phase": "settling", "settlement": finalization}))
    ran = calc.run([turn(honest(1), usage(1, 1))])
    assert ran.code == 0, ran.text
    assert "Rolled back. The removed work is kept: git show refs/harness/rolled-back/1" in ran.out
    assert calc.git("show", "refs/harness/rolled-back/1:mine.txt") == "of the person"
    assert calc.git("show", "refs/harness/rolled-back/1:wip.txt") == "x"
    assert calc.git("merge-base", start, "HEAD") == start
    assert calc.git("ls-tree", "HEAD", "mine.txt") == ""
    assert calc.passing() == [1]


NO_RECORDS = {
    "empty": "",
    "torn": '{"session": 1',
    "a-list": "[]",
    "nothing": "{}",
    "odd": json.dumps({"session": [], "phase": {}, "settlement": 3, "checkpoint": "x"}),
    "of-a-future": json.dumps({"session": 1, "feature_id": 1, "phase": "settling", "settlement": {"kind": "accept"}}),
}


@pytest.mark.kept("torn")
@pytest.mark.parametrize("text", NO_RECORDS.values(), ids=NO_RECORDS.keys())
def test_what_is_no_record_is_kept_aside_and_the_run_goes_on(calc: CalcProject, text: str) -> None:
    copy_of(calc).parent.mkdir(exist_ok=True)
    copy_of(calc).write_text(text)
    assert calc.harness("status").code == 0
    ran = calc.run([turn(honest(1), usage(1, 1))])
    assert ran.code == 0, ran.text
    assert "does not match this project" in ran.text
    assert (copy_of(calc).parent / "open_session.json.aside").read_text() == text
    assert calc.passing() == [1]


@pytest.mark.exhaustive
def test_a_record_of_a_project_that_was_at_this_place_before_is_not_used(calc: CalcProject) -> None:
    killed_at_work(calc)
    shutil.rmtree(calc.root / ".git")
    calc.git("init", "-q", "-b", "main")
    calc.git("restore", "--source", "HEAD", ".", check=False)
    document = calc.features
    document["features"][0]["passes"] = False
    calc.put({"features.json": json.dumps(document, indent=2) + "\n", "src/calc.py": '"""A calculator."""\n'})
    (calc.root / "wip.txt").unlink()
    calc.commit("Start again")
    ran = calc.run([turn(honest(1), usage(1, 1))])
    assert ran.code == 0, ran.text
    assert "another repository" in ran.text
    assert calc.passing() == [1]
    calc.checked = False


# -- where there is no usual place ----------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize("home", ["/proc/nothing", "relative/place", "inside"])
def test_without_the_usual_place_the_run_goes_on_with_one_line(calc: CalcProject, home: str) -> None:
    temporary = calc.base / "temporary"
    temporary.mkdir()
    calc.environ |= {"XDG_STATE_HOME": home if home != "inside" else str(calc.root / ".state")}
    calc.environ |= {"TMPDIR": str(temporary)}
    killed_at_work(calc)
    assert (own_records_below(temporary) / "open_session.json").exists()
    assert not (calc.root / ".state").exists()
    assert not (calc.root / "relative").exists()
    fresh = [write("src/calc.py", '"""A calculator."""\n'), sh("rm -f wip.txt")]
    ran = calc.run([turn(fresh, honest(1), usage(1, 1))])
    assert ran.code == 0, ran.text
    said = [line for line in ran.out.splitlines() if "cannot be used" in line]
    assert len(said) == 1, ran.text
    assert "Session 1 was interrupted (while running)" in ran.text
    assert calc.passing() == [1]


def own_records_below(temporary: Path) -> Path:
    (found,) = (temporary / f"agent-harness-{os.getuid()}" / "projects").iterdir()
    return found


def test_without_any_place_a_crash_is_still_recovered(calc: CalcProject) -> None:
    start = calc.remote()
    nowhere = {"XDG_STATE_HOME": "/proc/nothing", "TMPDIR": "/proc/nothing"}
    calc.environ |= nowhere
    killed_at_work(calc)
    ran = calc.run([turn({"exit": 3}, times=9)])
    assert "in the project; after a crash it is not trusted" in ran.text
    assert "its record is only in the project" in ran.text
    not_accepted(calc, start)


@pytest.mark.exhaustive
def test_without_a_home_folder(calc: CalcProject) -> None:
    (calc.base / "temporary").mkdir()
    for name in ("HOME", "XDG_STATE_HOME"):
        calc.environ.pop(name)
    calc.environ |= {"HOME": "/proc/nothing", "GIT_CONFIG_GLOBAL": os.devnull, "TMPDIR": str(calc.base / "temporary")}
    ran = calc.run([turn(honest(1), usage(1, 1))])
    assert ran.code == 0, ran.text
    assert len([line for line in ran.out.splitlines() if "cannot be used" in line]) == 1


# -- what counts as proven --------------------------------------------------------------------------------------------


def mark(calc: CalcProject, feature: int) -> None:
    document = calc.features
    document["features"][feature - 1]["passes"] = True
    calc.put({"features.json": json.dumps(document, indent=2) + "\n"})


@pytest.mark.exhaustive
def test_a_mark_by_hand_is_believed_after_a_run_of_the_suite(calc: CalcProject) -> None:
    calc.accept(1)
    ran = calc.run([turn(honest(2), usage(1, 1), feature=2)])
    assert ran.code == 0, ran.text
    assert "Features marked as passing without a proof: Feature #1; running the suite." in ran.out
    assert calc.passing() == [1, 2]
    again = calc.run([turn(honest(3), usage(1, 1), feature=3)])
    assert again.code == 0, again.text
    assert "without a proof" not in again.out


@pytest.mark.exhaustive
def test_a_mark_by_hand_that_nothing_proves_stops_the_runs(calc: CalcProject) -> None:
    mark(calc, 1)
    calc.commit("Feature 1 is surely done")
    calc.git("push", "-q")
    ran = calc.run([turn(honest(2), times=9)])
    assert ran.code == 3, ran.text
    assert "1/6 features marked passing but the suite has" in ran.err
    assert calc.log("sessions.jsonl") == []
    calc.checked = False


@pytest.mark.exhaustive
def test_a_mark_whose_test_file_has_no_test_stops_the_runs(calc: CalcProject) -> None:
    calc.put({proof_path(1): "ONE = 1\n"})
    mark(calc, 1)
    calc.commit("Feature 1 needs no test")
    calc.git("push", "-q")
    ran = calc.run([turn(honest(2), times=9)])
    assert ran.code == 3, ran.text
    assert "no passing test for Feature #1" in ran.err
    calc.checked = False


@pytest.mark.exhaustive
def test_a_list_of_proofs_in_the_projects_own_state_counts_for_nothing(calc: CalcProject) -> None:
    mark(calc, 1)
    calc.commit("Feature 1 is surely done")
    calc.git("push", "-q")
    path = calc.root / ".harness/session_state.json"
    path.write_text(json.dumps({**calc.state, "proven": [1], "last_session": 1}))
    ran = calc.run([turn(honest(2), times=9)])
    assert ran.code == 3, ran.text
    calc.checked = False


def test_proofs_count_for_the_history_that_holds_them(calc: CalcProject) -> None:
    """On a branch without the accepted commit the marks are claims like any other."""
    start = calc.head
    assert calc.run([turn(honest(1), usage(1, 1))]).code == 0
    calc.git("switch", "-q", "-c", "other", start)
    mark(calc, 1)
    calc.commit("Feature 1 is surely done here too")
    ran = calc.run([turn(honest(2), times=9)])
    assert ran.code == 3, ran.text
    calc.git("switch", "-q", "main")
    assert "without a proof" not in calc.run([turn({"exit": 3}, times=9)]).out


@pytest.mark.exhaustive
def test_nothing_of_the_harness_is_outside_of_its_places(bare: CalcProject) -> None:
    """A command that reads, or that is refused, makes no folder in the state home."""
    assert bare.harness("status").code == 4
    assert not Path(bare.environ["XDG_STATE_HOME"], "agent-harness").exists()


def test_a_mark_that_came_between_sessions_is_judged_whole(calc: CalcProject) -> None:
    """Something that an agent left behind, such as a git hook, could have set the mark with a person's commit."""
    calc.environ["HARNESS_VERIFICATION__TRUST"] = "normal"
    ran = calc.run([turn(honest(1), usage(1, 1))])
    assert ran.code == 0, ran.text
    calc.put({proof_path(2): "def test_sub():\n    assert True\n"})
    mark(calc, 2)
    calc.commit("Surely done")
    calc.git("push", "-q")
    ran = calc.run([turn(honest(3), times=9)])
    assert ran.code == 3, ran.text
    assert "Feature #2 is marked as passing, and no session has proven it" in ran.err
    assert "harness override --feature 2 --passes true" in ran.err
    calc.put(
        {proof_path(2): proof_text(2), "src/calc.py": (calc.root / "src/calc.py").read_text() + "\n\n" + CODE["sub"]}
    )
    calc.commit("Now it is")
    calc.git("push", "-q")
    ran = calc.run([turn(honest(3), usage(1, 1), feature=3)], "--feature", "3")
    assert ran.code == 0, ran.text
    assert calc.passing() == [1, 2, 3]
    calc.checked = False
