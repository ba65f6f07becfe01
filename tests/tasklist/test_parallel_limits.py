"""Limits of several agents on an account, on this machine and on its memory: SC-40, SC-41, SC-43."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from agent_harness.agents import registry
from agent_harness.kernel import clock, host, trusted_state
from agent_harness.kernel.rate_limits import LimitClock
from agent_harness.testing.task_list_project import TaskListProject, task

SCARCE = Path(__file__).parents[1] / "parallel" / "scarce.py"
WORKS = 'mkdir -p out; echo "$HARNESS_TASK_ID" > out/$HARNESS_TASK_ID'
NOTES = 'note() { echo "$1 $HARNESS_TASK_ID $(date +%s%N)" >> $NOTES/log; }'
REFUSED = 'echo \'{"type": "rate_limited", "message": "slow down", "retry_after_seconds": SECONDS}\'; exit 1'


def project(path: Path, *names: str) -> TaskListProject:
    tasks = [task(each, validation={"command": f"grep -q . out/{each}", "timeout_seconds": 60}) for each in names]
    return TaskListProject(path / "list", *tasks, git=True, session_count=0)


def until(found: Callable[[], object]) -> None:
    for _ in range(3000):
        if found():
            return
        time.sleep(0.02)
    raise AssertionError("it never happened")


class Noted:
    """Notes of agents, in their order."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    @property
    def lines(self) -> list[list[str]]:
        path = self.folder / "log"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def of(self, kind: str) -> list[list[str]]:
        return [each for each in self.lines if each[0] == kind]


def host_may(**members: object) -> None:
    folder = Path(trusted_state.of_user(host.FOLDER) or "")
    (folder / "host.json").write_text(json.dumps(members))


def answer(work: TaskListProject, *words: str) -> Any:
    return json.loads(work.harness(*words, "--json").out)


# ---- an account: SC-43 -----------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_agents_that_are_refused_at_once_are_one_refusal_and_come_back_fewer(tmp_path: Path) -> None:
    """The first attempt of each is refused once all four are at work; the second waits until the test lets it end."""
    names = ["a", "b", "c", "d"]
    work, noted = project(tmp_path, *names), Noted(tmp_path / "notes")
    is_refused, all_are = "$NOTES/refused.$HARNESS_TASK_ID", "[ $(ls $NOTES | grep -c refused) -eq 4 ]"
    agent = work.agent(
        f"{NOTES}; if [ ! -e {is_refused} ]; then touch {is_refused}; note first; "
        f"until {all_are}; do sleep 0.02; done; {REFUSED.replace('SECONDS', '30')}; fi; "
        f"note begin; while [ ! -e $NOTES/go ]; do sleep 0.02; done; {WORKS}; note end"
    )
    account = registry.from_spec(agent).account
    host_may(agents=8, accounts={account: {"agents": 4}})
    with work.start(
        "run", "--workers", "4", "--agent", agent, NOTES=str(noted.folder), HARNESS_TIME_SCALE="0.1"
    ) as process:
        until(lambda: len(noted.of("first")) == 4)
        until(lambda: [work.task(each).status for each in names] == ["pending"] * 4)
        (limit,) = answer(work, "limits")["limits"]
        until(lambda: len(noted.of("begin")) == 2)
        (gate,) = answer(work, "limits")["gates"]
        assert (gate["account"], gate["size"], gate["most"], gate["working"]) == (account, 2, 4, 2)  # halved once
        assert (
            f"{account}: 2 agents at work; after a refusal, at most 2 of 4 agents may run" in work.harness("limits").out
        )
        why = f"All agents allowed for {account} are running"
        until(lambda: f"  {why}" in work.harness("status").out)
        assert [each.partition(";")[0] for each in answer(work, "status")["parallel"]["limits"]] == [why]
        (noted.folder / "go").touch()
        told, _ = process.communicate(timeout=120)
        assert process.returncode == 0, told
    ends = clock.parse(limit["until"])
    assert ends
    assert min(int(at) for kind, _, at in noted.lines if kind == "begin") / 1e9 >= ends.timestamp() - 0.001
    at_work = most = 0
    for kind, *_ in noted.lines:
        at_work += {"begin": 1, "end": -1}.get(kind, 0)
        most = max(most, at_work)
    assert (most, at_work) == (2, 0)
    assert work.statuses() == ["completed"] * 4
    assert [work.task(each).attempts for each in names] == [1] * 4
    assert f"All agents allowed for {account} are running" in told


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_slot_takes_an_item_for_another_account_and_nothing_is_counted(tmp_path: Path) -> None:
    work, noted = project(tmp_path, "a", "b"), Noted(tmp_path / "notes")
    tired = work.agent(f"{NOTES}; note refused; {REFUSED.replace('SECONDS', '7200')}", name="tired.sh")
    fresh = work.agent(f"{NOTES}; note served; {WORKS}", name="fresh.sh")
    ran = work.harness("run", "--workers", "1", "--agent", tired, "--agent", fresh, NOTES=str(noted.folder))
    assert (ran.code, work.statuses()) == (0, ["completed"] * 2), ran
    assert [kind for kind, *_ in noted.lines] == ["refused", "served", "served"]
    assert [work.task(each).attempts for each in "ab"] == [1, 1]
    (limit,) = answer(work, "limits")["limits"]
    assert limit["account"] == registry.from_spec(tired).account


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_run_that_may_not_wait_ends_once_every_account_is_refused(tmp_path: Path) -> None:
    """Exit 5 with the moment and the command; no attempt counts, however often it is tried; --now tries once."""
    work, noted = project(tmp_path, "a", "b", "c"), Noted(tmp_path / "notes")
    agent = work.agent(f"{NOTES}; note tried; {REFUSED.replace('SECONDS', '7200')}")
    words = ("run", "--workers", "3", "--no-wait", "--agent", agent)
    ran = work.harness(*words, NOTES=str(noted.folder))
    assert (ran.code, "Rate limited: command:sh" in ran.out, "harness limits clear" in ran.out) == (5, True, True), ran
    assert [work.task(each).attempts for each in "abc"] == [0, 0, 0]
    tried = len(noted.lines)
    again = work.harness(*words, "--json", NOTES=str(noted.folder))
    assert (again.code, json.loads(again.out)["reason"]) == (5, "rate_limited"), again
    assert len(noted.lines) == tried
    assert work.harness(*words, "--now", NOTES=str(noted.folder)).code == 5
    assert len(noted.lines) == tried + 1
    assert work.harness("limits", "clear", registry.from_spec(agent).account).code == 0
    found = answer(work, "limits")
    assert (found["limits"], found["gates"]) == ([], [])


def test_what_agents_read_is_counted_where_their_account_has_a_limit(tmp_path: Path) -> None:
    """SC-44: what a cache gave is not."""
    work = project(tmp_path, "a")
    used = (
        '{"type": "usage", "input_tokens": 400, "cached_tokens": 9000, "cache_write_tokens": 100, "output_tokens": 7}'
    )
    agent = work.agent(f"echo '{used}'; echo '{used}'; {WORKS}")
    account = registry.from_spec(agent).account
    host_may(accounts={account: {"agents": 3, "input_tokens_per_minute": 5000}})
    assert work.harness("run", "--agent", agent).code == 0
    found = answer(work, "limits", "--host")["accounts"]
    assert found == {account: {"agents": 3, "input_tokens_per_minute": 5000, "input_tokens_a_minute": 200}}
    assert f"{account}: 0 of 3 agents, 200 of 5000 input tokens a minute" in work.harness("limits", "--host").out


# ---- the machine: SC-40 ----------------------------------------------------------------------------------------------


@pytest.mark.scenario
def test_a_plain_run_is_counted_and_waits_for_a_seat(tmp_path: Path) -> None:
    host_may(agents=1)
    work, noted = project(tmp_path, "a", "b"), Noted(tmp_path / "notes")
    agent = work.agent(f"{NOTES}; note begin; while [ ! -e $NOTES/go ]; do sleep 0.02; done; {WORKS}")
    agent_slot = host.take(host.AGENTS, {"project": "another", "item": "x"})
    assert agent_slot
    refused = work.harness("run", "--no-wait", "--agent", agent, NOTES=str(noted.folder))
    assert (refused.code, "All 1 agent slots of this machine are in use" in refused.out) == (5, True), refused
    with work.start("run", "--agent", agent, NOTES=str(noted.folder)) as process:
        until(lambda: answer(work, "status")["now"])
        agent_slot.release()
        until(lambda: noted.lines)
        (holder,) = answer(work, "limits", "--host")["holders"]
        assert (holder["pid"], holder["project"], holder["item"]) == (process.pid, str(work.root), "harness run")
        assert holder["account"] == registry.from_spec(agent).account
        assert f"{work.root}: harness run ({holder['account']}, process" in work.harness("limits", "--host").out
        (noted.folder / "go").touch()
        told, _ = process.communicate(timeout=120)
    assert (process.returncode, told.count("All 1 agent slots of this machine")) == (0, 1), told
    assert work.statuses() == ["completed"] * 2
    assert host.holders() == []


@pytest.mark.scenario
def test_a_machine_that_cannot_be_counted_on_stops_no_plain_run(tmp_path: Path) -> None:
    """A folder in place of a lock, one that nothing can be written into, and pipes, which nobody waits for."""
    work = project(tmp_path, "a", "b", "c")
    folder = Path(trusted_state.of_user(host.FOLDER) or "")
    agent = work.agent(f'echo \'{{"type": "usage", "input_tokens": 5, "output_tokens": 5}}\'; {WORKS}')
    account = registry.from_spec(agent).account
    host.note_input(account, 1)
    counted = next((folder / "input").iterdir())
    counted.unlink()
    for path in (counted, folder / "lock"):
        os.mkfifo(path)
    host_may(accounts={account: {"agents": 3, "input_tokens_per_minute": 5000}})
    assert work.harness("run", "--max-tasks", "1", "--agent", agent).code == 0
    assert work.harness("limits", "--host").code == 0
    shutil.rmtree(folder / "agents")
    (folder / "agents/1.lock").mkdir(parents=True)
    assert work.harness("run", "--max-tasks", "1", "--agent", work.agent(WORKS)).code == 0
    (folder / "agents/1.lock").rmdir()
    (folder / "agents").rmdir()
    (folder / "agents").write_text("no folder")
    assert work.harness("run", "--agent", work.agent(WORKS)).code == 0
    assert work.statuses() == ["completed"] * 3


# ---- memory: SC-41 ---------------------------------------------------------------------------------------------------


@pytest.mark.scenario
def test_where_memory_is_scarce_the_youngest_attempt_is_taken_back_and_begun_again(tmp_path: Path) -> None:
    work, noted = project(tmp_path, "a", "b"), Noted(tmp_path / "notes")
    work.edit(session_config={**work.raw["session_config"], "parallel": {"min_free_mb": 1000}})
    agent = work.agent(f"{NOTES}; {WORKS}; note begin; while [ ! -e $NOTES/go ]; do sleep 0.02; done")
    free = tmp_path / "free"
    free.write_text("1000")
    words = [sys.executable, str(SCARCE), str(free), "run", "--workers", "2", "--agent", agent]
    environment = {**os.environ, "NOTES": str(noted.folder), "HARNESS_TIME_SCALE": "0.02"}
    with subprocess.Popen(words, cwd=work.root, env=environment, stdout=subprocess.PIPE, text=True) as process:
        until(lambda: len(noted.of("begin")) == 2)
        first, youngest = (each[1] for each in noted.of("begin"))
        until(lambda: len(answer(work, "status")["parallel"]["workers"]) == 2)  # the view is a second old at most
        at_work = [each["item"] for each in answer(work, "status")["parallel"]["workers"]]
        youngest = at_work[-1]
        free.write_text("499")
        until(lambda: work.task(youngest).rescues)
        assert work.task(youngest).attempts == 0
        assert [work.task(each).status for each in at_work] == ["in_progress", "pending"]
        free.write_text("999")  # enough for who is at work, and for nobody more
        until(lambda: [each["item"] for each in answer(work, "status")["parallel"]["workers"]] == at_work[:1])
        free.write_text("1000")
        until(lambda: len(noted.of("begin")) == 3)
        (noted.folder / "go").touch()
        told, _ = process.communicate(timeout=120)
    assert (process.returncode, f"{youngest}: the attempt is cancelled because memory" in told) == (0, True), told
    assert noted.of("begin")[2][1] == youngest
    assert work.statuses() == ["completed"] * 2
    assert first in at_work


def test_memory_is_scarce_after_a_minute_and_once_a_minute() -> None:
    from agent_harness.parallel.slots import MemoryWatch

    watch = MemoryWatch(1000)
    free = [
        (0, 400),
        (59, 400),
        (60, 400),
        (61, 400),
        (119, 400),
        (120, 400),
        (150, 500),
        (200, 499),
        (259, 0),
        (260, 0),
    ]
    assert [at for at, left in free if watch.is_due(left, at)] == [60, 120, 260]


def test_a_limit_that_is_known_keeps_a_parallel_run_from_beginning(tmp_path: Path) -> None:
    work = project(tmp_path, "a")
    agent = work.agent(WORKS)
    LimitClock().note(registry.from_spec(agent).account, said="weekly limit", retry_after_seconds=7200)
    before = work.task("a").raw
    ran = work.harness("run", "--workers", "2", "--no-wait", "--agent", agent)
    assert (ran.code, "Rate limited" in ran.out) == (5, True), ran
    assert work.task("a").raw == before
