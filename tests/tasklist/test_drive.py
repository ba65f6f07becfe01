"""``harness drive``: a client is started again until the list is done, or nothing moves."""

import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent_harness.agents import registry
from agent_harness.kernel import host, trusted_state
from agent_harness.kernel.rate_limits import LimitClock
from agent_harness.testing.task_list_project import TaskListProject, task

WORK = (
    f'harness() {{ "{sys.executable}" -m agent_harness.cli.main "$@"; }}; '
    'echo start >> starts; set -- $(harness task claim --text | sed -n "s/^task_id: //p"); harness task complete "$1"'
)


def drive(project: TaskListProject, client: str, *words: str) -> Any:
    return project.harness("drive", "--json", *words, "--", "sh", "-c", client, HARNESS_TIME_SCALE="0.001")


def starts(project: TaskListProject) -> int:
    found = project.root / "starts"
    return len(found.read_text().split()) if found.exists() else 0


def test_an_empty_list_starts_nothing(tmp_path: Path) -> None:
    """It is not done: nobody has filled it (exit 7, and what fills it)."""
    project = TaskListProject(tmp_path / "list")
    ran = project.harness("drive", "--", "touch", "started")
    assert (ran.code, ran.out.splitlines()[0]) == (7, "There are no tasks yet."), ran
    assert ran.out.splitlines()[1].startswith("next: harness add ")
    assert not (project.root / "started").exists()


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_it_goes_on_until_the_list_is_done(tmp_path: Path) -> None:
    project = TaskListProject(tmp_path / "list", task("a"), task("b"))
    ran = drive(project, WORK)
    assert (ran.code, project.statuses(), starts(project)) == (0, ["completed"] * 2, 2), ran
    assert drive(project, "touch never").json["starts"] == 0
    assert not (project.root / "never").exists()


@pytest.mark.parametrize(
    ("members", "client", "words", "code", "count", "said"),
    [
        ({}, "echo x >> starts; exit 7", (), 1, 3, "made no progress"),
        ({}, "echo x >> starts; exit 130", (), 130, 1, "Interrupted"),
        ({}, "echo x >> starts", ("--times", "2"), 9, 2, "2 times"),
        ({"halt": {"category": "CONFIG", "message": "mend it"}}, "echo x >> starts", (), 3, 0, "mend it"),
        ({"session_config": {"max_sessions": 1}}, "echo x >> starts", (), 9, 0, "max_sessions"),
        ({"tasks": [task("a", status="failed", attempts=3)]}, "echo x >> starts", (), 1, 0, "failed for good"),
        ({}, "echo x >> starts; touch .harness-pause", (), 5, 1, "paused"),
    ],
)
def test_it_stops(
    tmp_path: Path, members: dict[str, Any], client: str, words: tuple[str, ...], code: int, count: int, said: str
) -> None:
    project = TaskListProject(tmp_path / "list", task("a"), **members)
    ran = drive(project, client, *words)
    assert (ran.code, starts(project)) == (code, count), ran
    assert said in ran.json["message"]


def test_a_client_that_cannot_be_started_is_one_line(tmp_path: Path) -> None:
    project = TaskListProject(tmp_path / "list", task("a"))
    ran = project.harness("drive", "--", "no-such-client-here")
    assert (ran.code, "cannot be started" in ran.err) == (4, True)


def test_ctrl_c_is_the_clients_to_answer(tmp_path: Path) -> None:
    project = TaskListProject(tmp_path / "list", task("a"))
    client = "trap 'echo mine > trapped; exit 130' INT; echo x > starts; sleep 300 & wait"
    with project.start("drive", "--", "sh", "-c", client) as run:
        while not starts(project):
            time.sleep(0.01)
        run.send_signal(signal.SIGINT)  # to the harness alone, as a careless script would send it
        time.sleep(0.2)
        assert run.poll() is None
        for child in psutil.Process(run.pid).children():
            child.send_signal(signal.SIGINT)
        assert run.wait(timeout=60) == 130
    assert (project.root / "trapped").exists()


def test_a_client_whose_account_is_refused_is_not_started_before_a_person_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C28: `drive` asks the clock before each start; a pause from another terminal ends its wait."""
    project = TaskListProject(tmp_path / "list", task("a"))
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "claude").write_text(f"#!/bin/sh\necho x >> {project.root}/starts\n")
    (tools / "claude").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    LimitClock().note(registry.from_spec("claude-code").account, said="weekly limit", retry_after_seconds=7200)
    command = [sys.executable, "-m", "agent_harness.cli.main", "drive", "--", "claude"]
    with (tmp_path / "out").open("w") as out:
        running = subprocess.Popen(command, cwd=project.root, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        until = time.monotonic() + 120
        while "Waiting; press Ctrl-C to stop." not in (tmp_path / "out").read_text():
            assert time.monotonic() < until and running.poll() is None
            time.sleep(0.05)
        assert project.harness("pause").code == 0
        assert running.wait(120) == 5
    finally:
        running.kill()
    assert starts(project) == 0


def test_a_client_has_a_seat_and_waits_for_it(tmp_path: Path) -> None:
    """SC-40: it is counted while it runs, also one that the harness does not know."""
    Path(trusted_state.of_user(host.FOLDER) or "", "host.json").write_text('{"agents": 1}')
    agent_slot = host.take(host.AGENTS, {"project": "another"})
    assert agent_slot
    project = TaskListProject(tmp_path / "list", task("a"))
    client = "touch on; while [ ! -e go ]; do sleep 0.02; done"
    with project.start("drive", "--times", "1", "--", "sh", "-c", client) as running:
        assert running.stdout
        assert any("All 1 agent slots of this machine" in line for line in running.stdout)
        assert not (project.root / "on").exists()
        agent_slot.release()
        until = time.monotonic() + 60
        while not (project.root / "on").exists():
            assert time.monotonic() < until
            time.sleep(0.02)
        (holder,) = host.holders()
        assert (holder["pid"], holder["item"]) == (running.pid, "harness drive")
        assert holder["account"] == registry.from_spec("command:sh").account
        (project.root / "go").touch()
        running.communicate(timeout=60)
    assert host.holders() == []
