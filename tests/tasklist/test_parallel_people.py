"""What a person may do beside a parallel run: look at places and the queue, and ask its coordinator for something."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent_harness.testing.task_list_project import TaskListProject, task

DYING = Path(__file__).parents[1] / "parallel" / "dying.py"
WORKS = 'mkdir -p out; echo "$HARNESS_TASK_ID" > out/$HARNESS_TASK_ID'


def project(path: Path, *names: str, **members: Any) -> TaskListProject:
    tasks = [
        task(each, validation={"command": f"grep -q . out/{each}", "timeout_seconds": 60}, **members) for each in names
    ]
    return TaskListProject(path / "list", *tasks, git=True, session_count=0)


def run(work: TaskListProject, agent: str, *words: str) -> Any:
    return work.harness("run", "--workers", "1", "--agent", work.agent(agent), *words)


def died(work: TaskListProject, moment: str, agent: str) -> None:
    """A run of one worker that was killed there."""
    words = [sys.executable, str(DYING), moment, "run", "--workers", "1", "--agent", work.agent(agent)]
    environment = {**os.environ, "HARNESS_TIME_SCALE": "0.1"}
    done = subprocess.run(words, cwd=work.root, env=environment, capture_output=True, check=False)
    assert done.returncode == -9, done


def answer(work: TaskListProject, *words: str) -> Any:
    return json.loads(work.harness(*words, "--json").out)


# ---- places and the queue --------------------------------------------------------------------------------------------


def test_without_a_parallel_run_one_line_says_how_one_begins(tmp_path: Path) -> None:
    work = project(tmp_path, "a")
    listed = work.harness("place")
    assert (listed.code, listed.out) == (0, "No places.\nnext: harness run --workers 4\n")
    assert answer(work, "place", "prune")["removed"] == []
    queue = work.harness("queue")
    assert (queue.code, "no parallel run has been here" in queue.err) == (7, True), queue
    assert "harness run --workers 4" in queue.err
    path = work.harness("place", "path", "w1")
    assert (path.code, "there is no place w1" in path.err) == (2, True), path
    meant = work.harness("place", "prnue")
    assert (meant.code, "Did you mean 'prune'?" in meant.err) == (2, True), meant
    assert "harness place prune" in work.harness("place", "--help").out


@pytest.mark.scenario
def test_places_are_listed_and_pruned_once_what_only_they_have_is_in_a_rescue(tmp_path: Path) -> None:
    """SC-13: also what came into a place after its last order had ended."""
    work = project(tmp_path, "a")
    assert run(work, WORKS).code == 0
    (each,) = answer(work, "place")["places"]
    assert (each["place"], each["item"], each["state"]) == ("w1", "a", "free")
    assert each["bytes"] > 0
    assert each["age_seconds"] >= 0
    place = Path(work.harness("place", "path", "w1").out.rstrip("\n"))
    assert (place / "out/a").read_text() == "a\n"
    (place / "late.txt").write_text("nobody has it\n")
    (place.parent / "notes").mkdir()
    (removed,) = answer(work, "place", "prune")["removed"]
    assert not place.exists()
    assert (place.parent / "notes").is_dir()
    (rescue,) = removed["rescues"]
    assert work.repo.git("show", f"{rescue}:late.txt") == "nobody has it"
    assert work.repo.git("for-each-ref", "refs/harness/place") == ""
    found = answer(work, "place")
    assert (found["places"], found["set_aside"]) == ([], [str(place.parent / "notes")])


@pytest.mark.scenario
def test_the_queue_of_a_dead_run_is_shown_and_its_place_is_free(tmp_path: Path) -> None:
    work = project(tmp_path, "a")
    died(work, "before:batched", WORKS)
    found = answer(work, "queue", "list")
    (each,) = found["queue"]
    assert (found["alive"], each["item"], each["fence"], each["state"]) == (False, "a", 1, "ready")
    assert each["since"].endswith("Z")
    assert found["next"] == "harness run --workers 1"
    shown = work.harness("queue")
    assert "a  ready  attempt 1" in shown.out
    assert "No run is under way." in shown.out
    assert answer(work, "place", "prune")["removed"][0]["place"] == "w1"
    assert run(work, "exit 1").code == 0  # the candidate lands without its place
    assert work.statuses() == ["completed"]


@pytest.mark.scenario
def test_a_place_that_the_next_run_goes_on_with_stays(tmp_path: Path) -> None:
    work = project(tmp_path, "a")
    died(work, "before:ended", WORKS)
    found = answer(work, "place", "prune")
    assert (found["removed"], found["kept"][0]["place"]) == ([], "w1")
    assert "a was worked on there" in found["kept"][0]["why"]
