"""``lth schedule --engine``: slices of a long task by the clock of a real Temporal server."""

import os
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agent_harness.testing.long_task_project import LongTaskProject, book
from agent_harness.testing.temporal_server import TemporalServer

pytestmark = pytest.mark.engine
FAST = {"HARNESS_TIME_SCALE": "0.02"}


def until(found: Callable[[], object], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found():
            return
        time.sleep(0.1)
    raise AssertionError("it never happened")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[TemporalServer]:
    with TemporalServer(tmp_path) as found:
        yield found


@pytest.fixture
def worker(server: TemporalServer, tmp_path: Path) -> Iterator[Callable[[LongTaskProject], Path]]:
    made: list[subprocess.Popen[bytes]] = []

    def begin(project: LongTaskProject) -> Path:
        words = [sys.executable, "-m", "agent_harness.cli.main", "worker", "--engine", server.url]
        words += ["--lth", str(project.root), "--places", str(tmp_path / "places")]
        with (tmp_path / "worker.log").open("ab") as log:
            made.append(subprocess.Popen(words, env={**os.environ, **FAST}, cwd=tmp_path, stdout=log, stderr=log))
        return tmp_path / "worker.log"

    yield begin
    for each in made:
        each.kill()
        each.wait()


def test_slices_run_by_the_clock_of_the_server_until_a_person_is_needed(
    server: TemporalServer, worker: Callable[[LongTaskProject], Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every so often, one at a time; paused and begun again by a person, paused with a note when a person is needed."""
    monkeypatch.setenv("HARNESS_TIME_SCALE", FAST["HARNESS_TIME_SCALE"])
    project = LongTaskProject.of_book(tmp_path / "my $book")
    project.task = {**book(localWorker={"command": "echo x >> ran"}), "scheduler": {}}
    log = worker(project)
    made = project.lth("schedule", "--engine", server.url, "--every", "1m", "--worker", "local-command", code=0)
    assert f"lth/{socket.gethostname()}/" in made.out

    def ran() -> int:
        return sum(len(path.read_text().splitlines()) for path in tmp_path.rglob("ran"))

    until(lambda: ran() >= 2)

    def listed() -> str:  # which the server brings up to date in its own time
        return project.lth("schedule", "--engine", server.url, "--list", code=0).out

    until(lambda: f"slices of {project.root}" in listed())
    project.lth("schedule", "--engine", server.url, "--pause", code=0)
    until(lambda: "  paused  " in listed())
    time.sleep(1.5)
    count = ran()
    time.sleep(2.5)
    assert ran() == count
    project.lth("schedule", "--engine", server.url, "--resume", code=0)
    until(lambda: ran() > count)
    project.lth("record", "--status", "needs-human", "--note", "look at it", code=0)
    until(lambda: "its schedule is paused" in log.read_text())
    until(lambda: "needs-human: lth status" in listed())
    project.lth("schedule", "--engine", server.url, "--delete", code=0)
    until(lambda: listed() == "No schedules of long tasks.\n")


def test_what_cannot_be_scheduled_is_one_line(server: TemporalServer, tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path / "book")
    for words, told in [
        (("--engine", "temporal://127.0.0.1:1"), "127.0.0.1:1"),
        (("--engine", "local:"), "'local:' has no scheduler"),
        (("--engine", server.url, "--pause"), "has no schedule on this server"),
        (("--engine", server.url, "--pause", "--delete"), "cannot be used together"),
        (("--engine", server.url, "--every", "often", "--worker", "codex-cli"), "must be a time span"),
    ]:
        ran = project.lth("schedule", *words)
        assert ran.code == 1, (words, ran)
        assert told in ran.err, (words, ran)
        assert len(ran.err.splitlines()) <= 2
