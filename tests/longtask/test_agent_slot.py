"""A slice's worker is counted beside all other agents of the machine, and waits for its slot. SC-40, SC-43."""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from agent_harness.kernel import host, trusted_state
from agent_harness.protocols.longtask.layout import LongTaskLayout
from agent_harness.protocols.longtask.run.adapters import account_of
from agent_harness.session import now
from agent_harness.testing.long_task_project import LongTaskProject, book

from .test_fallback import codex, policy
from .test_run import said, start, wait_for

FULL = "All 1 agent slots of this machine are in use; waiting for one: harness limits --host"


@pytest.fixture
def project(tmp_path: Path) -> LongTaskProject:
    return LongTaskProject.of_book(tmp_path / "task")


def host_may(**members: object) -> None:
    Path(trusted_state.of_user(host.FOLDER) or "", "host.json").write_text(json.dumps(members))


def taken_by_another(account: str = "x") -> host.HostSlot:
    agent_slot = host.take(host.AGENTS, {"project": "another", "account": account})
    assert agent_slot
    return agent_slot


def until(found: Callable[[], object]) -> None:
    end = time.monotonic() + 60
    while not found():
        assert time.monotonic() < end, "it never happened"
        time.sleep(0.02)


def test_a_slice_waits_for_its_seat_says_so_and_gives_it_back(project: LongTaskProject) -> None:
    """It has the lease meanwhile, so that whoever wakes the task again does not wait beside it; nothing is written."""
    host_may(agents=1)
    agent_slot = taken_by_another()
    running = start(project, "touch on; while [ ! -e go ]; do sleep 0.02; done")
    said(running, f"lth: {FULL}")
    second = project.run("touch second").json
    assert (second["decision"], second["reason"]) == ("wait", "task lock is active")
    assert project.events() == []
    assert [each["phase"] for each in now.told(LongTaskLayout(project.root).home())] == ["waiting"]
    agent_slot.release()
    wait_for(running, project.root / "on")
    (holder,) = host.holders()
    assert (holder["pid"], holder["project"], holder["item"]) == (running.pid, str(project.root), "lth run")
    assert holder["account"] == "local-command"
    (project.root / "go").touch()
    out, _ = running.communicate(timeout=60)
    assert (running.returncode, json.loads(out)["status"]) == (0, "paused")
    assert host.holders() == []
    assert not (project.root / "second").exists()


def test_a_slice_that_may_not_wait_answers_wait(project: LongTaskProject) -> None:
    """As scheduled ones do: exit 0, the reason and the seconds, in the log, too; the checkpoint is as it was."""
    host_may(agents=1)
    agent_slot, before = taken_by_another(), project.checkpoint
    answer = project.run("touch ran", "--no-wait").json
    assert answer == {
        "decision": "wait",
        "reason": FULL,
        "dryRun": False,
        "status": "active",
        "waitSeconds": 60,
        "worker": None,
        "requestedWorker": "local-command",
    }
    (skipped,) = project.events("run_skipped")
    assert (skipped["worker"], skipped["reason"], skipped["waitSeconds"]) == ("local-command", FULL, 60)
    assert project.checkpoint == before
    assert not project.lock.exists()
    assert project.run("touch ran", "--no-wait", "--dry-run").json["decision"] == "run"
    agent_slot.release()
    assert project.run("touch ran", "--no-wait").json["decision"] == "run"
    assert host.holders() == []
    assert (project.root / "ran").exists()


def test_what_an_account_may_have_holds_back_its_slices(project: LongTaskProject) -> None:
    host_may(agents=8, accounts={"local-command": {"agents": 1}})
    agent_slot = taken_by_another("local-command")
    answer = project.run("true", "--no-wait").json
    told = "All agents allowed for local-command are running; waiting for one: harness limits"
    assert (answer["decision"], answer["reason"]) == ("wait", told)
    agent_slot.release()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_slice_that_waits_ends_when_it_is_told_to(project: LongTaskProject, number: signal.Signals) -> None:
    host_may(agents=1)
    agent_slot, before = taken_by_another(), project.checkpoint
    running = start(project, "touch ran")
    said(running, "lth: All 1 agent slots")
    running.send_signal(number)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, json.loads(out)["decision"]) == (128 + number, "wait"), err
    assert project.checkpoint == before
    assert not project.lock.exists()
    assert not (project.root / "ran").exists()
    agent_slot.release()


def test_a_slice_that_is_killed_gives_its_seat_back(project: LongTaskProject) -> None:
    running = start(project, "touch on; sleep 300")
    wait_for(running, project.root / "on")
    assert [each["pid"] for each in host.holders()] == [running.pid]
    running.kill()
    running.communicate(timeout=60)
    assert host.holders() == []


@pytest.mark.scenario
def test_who_takes_over_has_the_seat_of_its_own_account(project: LongTaskProject, tmp_path: Path) -> None:
    """The refused worker's is given back; where the other's account is full, it is waited for that."""
    host_may(agents=2, accounts={"local-command": {"agents": 1}})
    project.task = policy("touch on; while [ ! -e go ]; do sleep 0.02; done")
    environment = {**os.environ, **codex(tmp_path)}
    agent_slot = taken_by_another("local-command")
    running = project.start("run", environment=environment)
    said(running, "lth: All agents allowed for local-command are running")
    assert [each["account"] for each in host.holders()] == ["local-command"]
    agent_slot.release()
    wait_for(running, project.root / "on")
    (holder,) = host.holders()
    assert (holder["pid"], holder["account"]) == (running.pid, "local-command")
    (project.root / "go").touch()
    out, _ = running.communicate(timeout=60)
    assert (running.returncode, json.loads(out)["fallback"]["exitCode"]) == (0, 0)
    assert host.holders() == []


def test_an_agent_of_ours_is_counted_by_its_account(project: LongTaskProject) -> None:
    agent = "command:sh -c 'touch on; while [ ! -e go ]; do sleep 0.02; done'"
    project.task = book(agentWorker={"cwd": "."})
    running = project.start("run", "--worker", agent)
    wait_for(running, project.root / "on")
    assert [each["account"] for each in host.holders()] == [account_of(agent)]
    (project.root / "go").touch()
    running.communicate(timeout=60)
    assert host.holders() == []
