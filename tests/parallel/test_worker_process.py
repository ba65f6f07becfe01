"""The process that carries out the jobs of a slot, one after the other."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent_harness.kernel import files
from agent_harness.parallel.engine import WorkerProcess
from agent_harness.parallel.items import JOB, RESULT, VERIFY, Job
from agent_harness.parallel.worker_process import LOG
from agent_harness.testing.repo import Repo


class Slot:
    """A workspace with the results of its jobs."""

    def __init__(self, base: Path, worker: WorkerProcess) -> None:
        self.base, self.worker = base, worker
        self.repo = Repo.with_files(base / "project", {"a.txt": "a\n"})
        (base / "places").mkdir()

    def ordered(self, name: str, do: str, **told: str) -> dict[str, Any]:
        """Return the result of a job; empty if there is none."""
        folder = self.base / name
        folder.mkdir()
        job = Job(
            id=f"run/{name}/1",
            kind=VERIFY,
            item="",
            name=name,
            fence=1,
            workspace=str(self.base / "places/v1"),
            home=str(self.repo.path),
            base=self.repo.git("rev-parse", "HEAD").strip(),
            branch="refs/heads/main",
            executor="tests.parallel.odd_job:execute",
            own=(),
            set_up={"sandbox": None, "command": None, "key": [], "minutes": 1.0, "teardown": None},
            inputs={"do": do, "note": str(self.base / "left")},
        )
        files.write_json(str(folder / JOB), job.as_record())
        environment = {"PATH": "/usr/bin:/bin", "PYTHONPATH": str(Path(__file__).parents[2]), "HARNESS_SLOT": "1"}
        self.worker.execute(job, str(folder), environment | told, lambda: False)
        return files.read_json(str(folder / RESULT)) if (folder / RESULT).exists() else {}

    def log(self, name: str) -> str:
        return (self.base / name / LOG).read_text()


@pytest.fixture
def slot(tmp_path: Path) -> Iterator[Slot]:
    with closing(WorkerProcess()) as worker:
        yield Slot(tmp_path, worker)


def test_a_slot_keeps_its_process_and_each_order_has_variables_of_its_own(slot: Slot) -> None:
    first, second = slot.ordered("first", "work", ONCE="yes"), slot.ordered("second", "work")
    assert first["process"] == second["process"]
    assert (first["told"], second["told"]) == (
        {"HARNESS_SLOT": "1", "ONCE": "yes"},
        {"HARNESS_SLOT": "1", "ONCE": None},
    )


def test_hands_that_are_killed_or_fail_lose_their_order_alone(slot: Slot) -> None:
    assert slot.ordered("killed", "die") == {}
    assert slot.ordered("failed", "fail") == {}
    assert "as it was told" in slot.log("failed")
    assert slot.ordered("next", "work")["status"] == "green"


def test_what_an_order_leaves_behind_is_ended_before_it_is_over(slot: Slot) -> None:
    """E14: the result counts, and nothing of the job runs when the next one begins."""
    assert slot.ordered("leaving", "leave")["status"] == "green"
    assert not psutil.pid_exists(int((slot.base / "left").read_text()))
    assert slot.ordered("next", "work")["status"] == "green"
