"""A coordinator that is killed at each of its moments: the next one lands the same, once."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_harness.testing.task_list_project import TaskListProject, task

DYING = Path(__file__).with_name("dying.py")
MOMENTS = [
    *(f"after:{kind}" for kind in ("run", "ordered", "ended", "bounced", "batched", "verified", "landing", "landed")),
    *(f"before:{kind}" for kind in ("ended", "batched", "landed", "closed")),
    *("after:closed", "moved", "settled"),
]
FEW = ("moved", "after:ended")

AGENT = """\
[ -z "$STARTS" ] || echo "$HARNESS_TASK_ID $(pwd)" >> "$STARTS"
if grep -q '^<<<<<<< ' list.txt 2>/dev/null; then sed -i '/^<<<<<<< /d;/^=======$/d;/^>>>>>>> /d' list.txt; fi
[ $HARNESS_TASK_ID != c ] && { grep -qx $HARNESS_TASK_ID list.txt || echo $HARNESS_TASK_ID >> list.txt; }
[ $HARNESS_TASK_ID = c ] && echo c > c.txt
sleep 0.7
"""


def project(path: Path) -> TaskListProject:
    """Return a list with two tasks that conflict, and one that does not."""
    jobs = [task(name, validation={"command": f"grep -qx {name} *.txt", "timeout_seconds": 60}) for name in "abc"]
    return TaskListProject(path / "list", *jobs, git=True, session_count=0)


@pytest.mark.kept("after:bounced", "before:landed")
@pytest.mark.scenario
@pytest.mark.parametrize(
    "moment", [pytest.param(each, marks=() if each in FEW else pytest.mark.scenario) for each in MOMENTS]
)
def test_a_coordinator_that_dies_there_loses_nothing_and_lands_nothing_twice(tmp_path: Path, moment: str) -> None:
    """SC-5, SC-14, SC-36."""
    work = project(tmp_path)
    words = ["run", "--workers", "3", "--agent", work.agent(AGENT)]
    environment = {**os.environ, "HARNESS_TIME_SCALE": "0.1"}
    died = subprocess.run(
        [sys.executable, str(DYING), moment, *words], cwd=work.root, env=environment, capture_output=True, check=False
    )
    assert died.returncode == -9, died
    ran = work.harness(*words)
    assert ran.code == 0, ran
    assert work.statuses() == ["completed"] * 3
    found = work.repo.git("log", "--format=%(trailers:key=Harness-Item,valueonly)").split()
    assert sorted(found) == ["a", "b", "c"], work.repo.git("log", "--oneline", "--graph")
    assert sorted(work.repo.read("list.txt").decode().split()) == ["a", "b"]
    assert len([line for line in work.log() if "] Completed [" in line]) == 3
    assert [work.task(name).attempts for name in "abc"] == [1, 1, 1]
    assert work.status() == []
    assert work.raw["session"] is None


AHEAD = [
    *("after:batched@2", "after:batched@3", "after:verified", "before:landing@2", "after:landing@2"),
    *("before:landed@2", "after:landed@2", "after:verified@2"),
]


@pytest.mark.kept("after:landing@2")
@pytest.mark.scenario
@pytest.mark.parametrize("moment", AHEAD)
def test_a_coordinator_that_dies_with_a_batch_ahead_lands_each_item_once(tmp_path: Path, moment: str) -> None:
    """SC-5, SC-35: a is merged at once, b is verified on it, c on top of b."""
    host = Path(os.environ["XDG_STATE_HOME"], "agent-harness/host")
    host.mkdir(parents=True, mode=0o700)
    (host / "host.json").write_text('{"tests": 2}')
    settings = {"batch_max": 1, "window": 2, "test_runs": 2, "check": "sleep 1"}
    jobs = [task(name, validation={"command": f"test -e {name}", "timeout_seconds": 60}) for name in "abc"]
    work = TaskListProject(tmp_path / "list", *jobs, git=True, session_count=0)
    work.edit(session_config={**work.raw["session_config"], "parallel": settings})
    done = " && ".join(f"[ -e {tmp_path}/done.{name} ]" for name in "abc")
    together = f"touch {tmp_path}/done.$HARNESS_TASK_ID; until {done}; do sleep 0.1; done"
    words = ["run", "--workers", "3", "--agent", work.agent(f"touch $HARNESS_TASK_ID; {together}")]
    died = subprocess.run([sys.executable, str(DYING), moment, *words], cwd=work.root, capture_output=True, check=False)
    assert died.returncode == -9, died
    ran = work.harness(*words)
    assert (ran.code, work.statuses()) == (0, ["completed"] * 3), ran
    found = work.repo.git("log", "--format=%(trailers:key=Harness-Item,valueonly)").split()
    assert sorted(found) == ["a", "b", "c"]
    assert len([line for line in work.log() if "] Completed [" in line]) == 3
    assert (work.status(), work.repo.git("for-each-ref", "refs/harness/batch")) == ([], "")


UNTIL_LANDED = tuple(each for each in MOMENTS if each not in ("before:closed", "after:closed", "after:landed"))


@pytest.mark.kept("before:batched")
@pytest.mark.scenario
@pytest.mark.parametrize(
    "moment",
    [pytest.param(each, marks=() if each == "before:batched" else pytest.mark.scenario) for each in UNTIL_LANDED],
)
def test_a_plain_run_goes_on_with_what_a_dead_coordinator_has_proven(tmp_path: Path, moment: str) -> None:
    """SC-14: status names the proven work; it is merged first, and no agent works on it again."""
    work = project(tmp_path)
    starts = tmp_path / "starts"
    words = ["run", "--agent", work.agent(AGENT)]
    environment = {**os.environ, "HARNESS_TIME_SCALE": "0.1", "STARTS": str(starts)}
    command = [sys.executable, str(DYING), moment, *words, "--workers", "3"]
    died = subprocess.run(command, cwd=work.root, env=environment, capture_output=True, check=False)
    assert died.returncode == -9, died
    proven = [each.id for each in work.state.tasks if each.raw.get("landing")]
    if work.state.by_id["a"].status == "in_progress":
        found = json.loads(work.harness("status", "--json").out)
        assert found["next"] == "harness run --workers 3"
        assert found["left_by_run"]["proven"] == proven
        assert "A run with several agents left items" in work.harness("status").out
        assert work.harness("task", "recover", "a").code == 8
    starts.unlink(missing_ok=True)
    ran = work.harness(*words, STARTS=str(starts))
    assert ran.code == 0, ran
    begun = [line.split() for line in starts.read_text().splitlines()] if starts.exists() else []
    assert {path for _, path in begun} <= {str(work.root)}
    assert not {item for item, _ in begun} & {*proven} or "bounced" in moment or "conflict" in ran.out
    assert work.statuses() == ["completed"] * 3
    assert sorted(work.repo.read("list.txt").decode().split()) == ["a", "b"]
    assert [work.task(name).attempts for name in "abc"] == [1, 1, 1]
    assert work.status() == []
    landed = work.repo.git("log", "--format=%(trailers:key=Harness-Item,valueonly)").split()
    assert len(landed) == len({*landed})


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_a_person_took_back_meanwhile_does_not_land(tmp_path: Path) -> None:
    """SC-14, SC-29: a candidate that was taken back is kept in a rescue, and its task is done again."""
    work = project(tmp_path)
    agent = work.agent(AGENT)
    environment = {**os.environ, "HARNESS_TIME_SCALE": "0.1"}
    words = [sys.executable, str(DYING), "before:batched", "run", "--workers", "1", "--agent", agent]
    assert subprocess.run(words, cwd=work.root, env=environment, capture_output=True, check=False).returncode == -9
    proven = str(work.task("a").raw["landing"]["commit"])
    claims = ("claimed_by", "claimed_process", "claimed_run", "claim_token", "lease_expires_at", "landing", "worktree")
    work.edit("a", status="pending", **dict.fromkeys(claims))
    ran = work.harness("run", "--workers", "1", "--agent", agent)
    assert ran.code == 0, ran
    assert "a is no longer assigned to this run" in ran.out
    assert proven in work.repo.git("for-each-ref", "--format=%(objectname)", "refs/harness/rescue").split()
    assert work.statuses() == ["completed"] * 3
    landed = work.repo.git("log", "--format=%(trailers:key=Harness-Item,valueonly)").split()
    assert sorted(landed) == ["a", "b", "c"]
    assert work.repo.git("log", "--format=%(trailers:key=Harness-Candidate,valueonly)").split().count(proven) == 0


def test_candidates_of_another_branch_wait_for_it(tmp_path: Path) -> None:
    """SC-36: they are named with the branch, and nothing is merged to the branch that is checked out by now."""
    work = project(tmp_path)
    agent = work.agent(AGENT)
    environment = {**os.environ, "HARNESS_TIME_SCALE": "0.1"}
    words = [sys.executable, str(DYING), "before:batched", "run", "--workers", "1", "--agent", agent]
    assert subprocess.run(words, cwd=work.root, env=environment, capture_output=True, check=False).returncode == -9
    work.repo.git("switch", "-q", "-c", "other")
    ran = work.harness("run", "--agent", agent)
    assert (ran.code, "git switch main" in ran.err) == (4, True), ran
    assert work.repo.git("rev-parse", "other") == work.repo.git("rev-parse", "main")
    work.repo.git("switch", "-q", "main")
    assert work.harness("run", "--agent", agent).code == 0
    assert work.statuses() == ["completed"] * 3


@pytest.mark.parametrize("left", ["work", pytest.param("a checkpoint", marks=pytest.mark.scenario)])
def test_a_serial_attempt_that_was_cut_off_is_recovered_before_several_begin(tmp_path: Path, left: str) -> None:
    """SC-10: work that passes becomes its commit; checkpoints without a change in the files are a failed attempt."""
    proof = {"command": "test -e a.txt", "timeout_seconds": 60}
    work = TaskListProject(tmp_path / "list", task("a", validation=proof), git=True, session_count=0)
    me = ("--worker", "me", "--session", "mine")
    assert work.harness("task", "claim", *me).code == 0
    if left == "work":
        work.repo.write("a.txt", "a\n")
    else:
        token = str(work.task("a").claim_token)
        assert work.harness("task", "checkpoint", "a", "1/3", "looked", *me, "--token", token).code == 0
    work.edit("a", lease_expires_at="2020-01-01T00:00:00Z")
    ran = work.harness("run", "--workers", "2", "--agent", work.agent("touch a.txt"))
    assert (ran.code, work.task("a").status) == (0, "completed"), ran
    assert work.task("a").attempts == (1 if left == "work" else 2)
