"""A coordinator that is killed at each of its moments: the next one lands the same, once."""

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
if grep -q '^<<<<<<< ' list.txt 2>/dev/null; then sed -i '/^<<<<<<< /d;/^=======$/d;/^>>>>>>> /d' list.txt; fi
[ $HARNESS_TASK_ID != c ] && { grep -qx $HARNESS_TASK_ID list.txt || echo $HARNESS_TASK_ID >> list.txt; }
[ $HARNESS_TASK_ID = c ] && echo c > c.txt
sleep 0.7
"""


def project(path: Path) -> TaskListProject:
    """Two tasks that conflict, and one that does not."""
    jobs = [task(name, validation={"command": f"grep -qx {name} *.txt", "timeout_seconds": 60}) for name in "abc"]
    return TaskListProject(path / "list", *jobs, git=True, session_count=0)


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
