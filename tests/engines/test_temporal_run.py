"""``harness run --workers N --engine temporal://...`` against a real server, with real workers and a git remote."""

import asyncio
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from temporalio.client import Client

from agent_harness.agents import registry
from agent_harness.testing import HARNESS, CommandResult, run_process
from agent_harness.testing.feature_list_project import FeatureListProject, module_work
from agent_harness.testing.repo import Repo
from agent_harness.testing.task_list_project import task
from agent_harness.testing.temporal_server import TemporalServer

from .machines import SCALE, Fleet, until

pytestmark = pytest.mark.engine

WORKS = 'mkdir -p out; echo "$HARNESS_TASK_ID" > out/$HARNESS_TASK_ID'
SCARCE = Path(__file__).parents[1] / "parallel" / "scarce.py"
SPENDING = "*/state/agent-harness/worker/*/orders/*/state/parallel/spending/*.json"
USAGE = 'echo \'{"type": "usage", "input_tokens": 5, "output_tokens": 5, "cost_usd": 0.01}\''


def job(name: str, **members: Any) -> dict[str, Any]:
    return task(name, validation={"command": f"grep -q . out/{name}", "timeout_seconds": 60}, **members)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TemporalServer]:
    with TemporalServer(tmp_path_factory.mktemp("server")) as found:
        yield found


@pytest.fixture
def fleet(tmp_path: Path, server: TemporalServer) -> Iterator[Callable[..., Fleet]]:
    made: list[Fleet] = []

    def make(*tasks: Any) -> Fleet:
        made.append(Fleet(tmp_path, server, *tasks))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_a_list_is_worked_by_the_hands_of_another_machine(fleet: Callable[..., Fleet]) -> None:
    """Merges, costs and transcripts are the same as with local workspaces; nothing is left at the remote."""
    found = fleet(job("a"), job("b", depends_on=["a"]), job("c"), job("d"))
    found.worker("--slots", "2")
    ran = found.run(f"{WORKS}; {USAGE}", 3, "--json")
    answer = json.loads(ran.out)
    assert (ran.code, answer["reason"], answer["attempts"]) == (0, "done", 4), (ran, found.log())
    assert found.landed() == ["a", "b", "c", "d"]
    assert answer["cost_usd"] == pytest.approx(0.04)
    assert answer["checks"] >= 1  # nothing lands on the word of another machine
    assert found.work.statuses() == ["completed"] * 4
    assert found.at_remote() == []
    rows = [json.loads(line) for line in Path(found.work.layout.costs).read_text().splitlines()]
    assert sorted((row["task_id"], row["result"]) for row in rows) == [(name, "completed") for name in "abcd"]
    assert not (found.work.root / ".." / "list" / "nothing").exists()
    assert found.work.repo.status() == []
    assert found.work.repo.git("for-each-ref", "refs/harness/orders", "refs/harness/results") == ""


def pids(found: Fleet, name: str) -> list[int]:
    """Return the process ids that the started agents of a task have written."""
    path = found.path / f"pids-{name}"
    return [int(line) for line in path.read_text().split()] if path.exists() else []


def is_kept(found: Fleet, path: str) -> bool:
    """Return True if a rescue of the coordinator holds the file."""
    kept = found.work.repo.git("for-each-ref", "--format=%(refname)", "refs/harness/rescue").split()
    return any(path in found.work.repo.git("ls-tree", "-r", "--name-only", ref).split() for ref in kept)


def slow(found: Fleet, seconds: float = 6.0) -> str:
    """Return an agent that reports its start, writes half of its work, and waits."""
    return (
        f'echo $$ >> "{found.path}/pids-$HARNESS_TASK_ID"; mkdir -p out; '
        f"[ -e out/half-$HARNESS_TASK_ID ] || echo half > out/half-$HARNESS_TASK_ID; sleep {seconds}; {WORKS}"
    )


def test_hands_that_are_killed_are_replaced_and_their_work_is_kept(fleet: Callable[..., Fleet]) -> None:
    """E3: another worker begins after the heartbeat timeout; the dead one's work is fetched once it is back."""
    found = fleet(job("a"))
    first = found.worker("--slots", "1", name="first")
    run = found.begin(slow(found))
    until(lambda: pids(found, "a"))
    time.sleep(0.5)
    first.kill()
    found.worker("--slots", "1", name="second")
    assert run.wait(timeout=120) == 0, found.log("second")
    assert found.landed() == ["a"]
    assert len(pids(found, "a")) == 2
    assert json.loads(_last_object(found.path / "run.log"))["attempts"] == 1
    found.worker("--slots", "1", name="first")
    until(lambda: "of an earlier worker was saved in" in found.log("first"))
    found.work.add("b", validation="grep -q . out/b")
    assert found.run(WORKS, 1).code == 0
    assert is_kept(found, "out/half-a")
    assert found.at_remote() == []


def _last_object(log: Path) -> str:
    return [line for line in log.read_text().splitlines() if line.startswith("{")][-1]


def test_a_worker_that_stopped_for_too_long_reports_nothing_that_counts(fleet: Callable[..., Fleet]) -> None:
    """E4, SC-51: it goes on when it is continued; its result is refused, its work is kept, the task is merged once."""
    found = fleet(job("a"), job("b"))
    first = found.worker("--slots", "1", name="first")
    run = found.begin(slow(found, 4), 1)
    until(lambda: pids(found, "a"))
    first.send_signal(signal.SIGSTOP)
    found.worker("--slots", "1", name="second")
    until(lambda: len(pids(found, "a")) == 2)
    first.send_signal(signal.SIGCONT)
    assert run.wait(timeout=180) == 0, (found.log("first"), found.log("second"))
    assert found.landed() == ["a", "b"]
    assert found.work.statuses() == ["completed", "completed"]


def test_a_server_that_is_away_for_less_than_the_heartbeat_costs_nothing(
    fleet: Callable[..., Fleet], server: TemporalServer
) -> None:
    """E6: nothing begins twice."""
    found = fleet(job("a"), job("b"))
    found.worker("--slots", "2")
    run = found.begin(slow(found, 6))
    until(lambda: pids(found, "a") and pids(found, "b"))
    server.kill()
    time.sleep(2)
    server.start()
    assert run.wait(timeout=180) == 0, found.log()
    assert (len(pids(found, "a")), len(pids(found, "b"))) == (1, 1)
    assert found.landed() == ["a", "b"]


def test_a_home_that_is_killed_finds_its_orders_again(fleet: Callable[..., Fleet]) -> None:
    """E2: the workers go on meanwhile; the next run takes the result in, and begins nothing twice."""
    found = fleet(job("a"), job("b"))
    found.worker("--slots", "2")
    run = found.begin(slow(found, 4))
    until(lambda: pids(found, "a") and pids(found, "b"))
    run.kill()
    run.wait()
    words = ("run", "--workers", "3", "--dry-run", "--json")
    told = found.work.harness(*words, "--engine", found.server.url).json["parallel"]
    assert (told["starts"], sorted(told["unsure"])) == ([], ["a", "b"])  # SC-7: what only the server knows is said
    here = found.work.harness(*words).json["parallel"]
    assert ([each["item"] for each in here["starts"]], here["unsure"]) == (["a", "b"], [])
    ran = found.run(slow(found, 4), 3, "--json")
    assert ran.code == 0, (ran, found.log())
    assert (len(pids(found, "a")), len(pids(found, "b"))) == (1, 1)
    assert found.landed() == ["a", "b"]
    assert json.loads(ran.out)["lost"] == 0


def test_ctrl_c_ends_the_turns_elsewhere_and_keeps_their_work(fleet: Callable[..., Fleet]) -> None:
    """SC-3, E5: no attempt is counted; the next run continues and merges."""
    found = fleet(job("a"))
    found.worker("--slots", "1")
    run = found.begin(slow(found, 60), 1)
    until(lambda: pids(found, "a"))
    run.send_signal(signal.SIGINT)
    assert run.wait(timeout=120) == 130, found.log()
    assert is_kept(found, "out/half-a")
    until(lambda: not _alive(pids(found, "a")))
    assert found.work.task("a").attempts == 0
    assert found.run(WORKS, 1).code == 0
    assert found.landed() == ["a"]


def _alive(found: list[int]) -> list[int]:
    return [pid for pid in found if Path(f"/proc/{pid}").exists() or _answers(pid)]


def _answers(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except OSError:
        return False
    return True


def test_a_worker_that_is_told_to_end_hands_its_order_on(fleet: Callable[..., Fleet]) -> None:
    """SC-54, SC-52: it exits with 0, and the next workers begin with its work."""
    found = fleet(job("a"))
    first = found.worker("--slots", "1", name="first")
    run = found.begin(
        f'echo $$ >> "{found.path}/pids-$HARNESS_TASK_ID"; mkdir -p out; '
        f'if [ -e out/half ]; then echo went-on > "{found.path}/seen"; {WORKS};'
        " else echo half > out/half; sleep 60; fi",
        1,
    )
    until(lambda: pids(found, "a"))
    time.sleep(0.5)
    first.terminate()
    found.worker("--slots", "1", name="second")
    assert first.wait(timeout=60) == 0, found.log("first")
    assert run.wait(timeout=180) == 0, (found.log("first"), found.log("second"))
    assert (found.path / "seen").read_text() == "went-on\n"
    assert found.landed() == ["a"]


def test_a_worker_that_is_told_twice_does_not_wait_for_its_agents(fleet: Callable[..., Fleet]) -> None:
    """SC-54: the agent ignores the first signal; the next workers begin with its work."""
    found = fleet(job("a"))
    first = found.worker("--slots", "1", name="first", HARNESS_TIME_SCALE="1")
    run = found.begin(
        f'trap "" TERM INT HUP; echo $$ >> "{found.path}/pids-$HARNESS_TASK_ID"; mkdir -p out; '
        f'if [ -e out/half ]; then echo went-on > "{found.path}/seen"; {WORKS};'
        " else echo half > out/half; while :; do sleep 1; done; fi",
        1,
    )
    until(lambda: pids(found, "a"))
    time.sleep(0.5)
    first.terminate()
    until(lambda: "takes no new jobs" in found.log("first"))
    first.terminate()
    until(lambda: "Second stop signal" in found.log("first"))
    found.worker("--slots", "1", name="second")
    assert first.wait(timeout=90) == 0, found.log("first")
    assert run.wait(timeout=180) == 0, (found.log("first"), found.log("second"))
    assert (found.path / "seen").read_text() == "went-on\n"
    assert found.landed() == ["a"]


def test_a_worker_keeps_nothing_that_the_remote_has(fleet: Callable[..., Fleet]) -> None:
    """Folders of jobs and refs go with the result; workspaces stay."""
    found = fleet(job("a"), job("b"))
    found.worker("--slots", "1")
    assert found.run(f"{WORKS}; echo mine > stray", 1).code == 0, found.log()
    (root,) = (path.parent for path in (found.path / "machine-0").rglob("remote.json"))
    assert [*(root / "orders").iterdir()] == []
    assert (root / "places" / "w1").is_dir()
    refs = subprocess.run(
        ["git", "for-each-ref", "--format=%(refname)"], cwd=root / "project", capture_output=True, text=True, check=True
    ).stdout.split()
    assert [ref for ref in refs if "/place" not in ref] == []


def test_a_result_that_nobody_pushed_comes_home_when_a_worker_starts_again(fleet: Callable[..., Fleet]) -> None:
    """The remote is away when the workers are done, and the worker is killed: its candidate becomes a rescue."""
    found = fleet(job("a"))
    first = found.worker("--slots", "1", name="first")
    run = found.begin(slow(found, 3), 1)
    until(lambda: pids(found, "a"))
    away = found.remote.with_name("away.git")
    found.remote.rename(away)
    until(lambda: "trying again in" in found.log("first"))
    first.kill()
    first.wait()
    away.rename(found.remote)
    found.worker("--slots", "1", name="second")
    assert run.wait(timeout=180) == 0, found.log("second")
    assert found.landed() == ["a"]
    found.worker("--slots", "1", name="first")
    until(lambda: "of an earlier worker was saved in" in found.log("first"))
    found.work.add("b", validation="grep -q . out/b")
    assert found.run(WORKS, 1).code == 0
    assert is_kept(found, "out/a")
    assert found.at_remote() == []


def test_a_worker_that_puts_its_folder_in_order_keeps_it_and_leaves_when_told(fleet: Callable[..., Fleet]) -> None:
    """SC-54: the remote takes a push and does not answer; the first signal waits for it, the second does not."""
    found = fleet(job("a"))
    first = found.worker("--slots", "1", name="first")
    run = found.begin(slow(found, 3), 1)
    until(lambda: pids(found, "a"))
    away = found.remote.with_name("away.git")
    found.remote.rename(away)
    until(lambda: "trying again in" in found.log("first"))
    first.kill()
    first.wait()
    away.rename(found.remote)
    hook, hangs = found.remote / "hooks/pre-receive", found.path / "hangs"
    hook.write_text(f"#!/bin/sh\ntouch {hangs}\nexec sleep 600\n")
    hook.chmod(0o755)
    second = found.worker("--slots", "1", name="first", HARNESS_TIME_SCALE="1")
    until(hangs.exists)
    second.send_signal(signal.SIGINT)
    other = found.worker("--slots", "1", name="first")
    assert other.wait(timeout=60) == 5, found.log("first")
    assert second.poll() is None
    second.send_signal(signal.SIGINT)
    assert second.wait(timeout=60) == 0, found.log("first")
    assert "Traceback" not in found.log("first")
    hook.unlink()
    found.worker("--slots", "1", name="first")
    assert run.wait(timeout=180) == 0, found.log("first")
    assert "of an earlier worker was saved in" in found.log("first")
    assert found.landed() == ["a"]


def test_a_worker_that_is_told_to_end_does_not_wait_for_a_remote_that_is_away(fleet: Callable[..., Fleet]) -> None:
    """SC-54: its workers are done, and the result is not taken; the next worker in its folder pushes it."""
    found = fleet(job("a"))
    first = found.worker("--slots", "1", name="first")
    run = found.begin(slow(found, 3), 1)
    until(lambda: pids(found, "a"))
    away = found.remote.with_name("away.git")
    found.remote.rename(away)
    until(lambda: "trying again in" in found.log("first"))
    first.terminate()
    assert first.wait(timeout=100) == 0, found.log("first")
    away.rename(found.remote)
    found.worker("--slots", "1", name="first")
    assert run.wait(timeout=180) == 0, found.log("first")
    assert "of an earlier worker was saved in" in found.log("first")
    assert found.landed() == ["a"]


def test_a_result_that_the_remote_has_lost_is_made_anew(fleet: Callable[..., Fleet]) -> None:
    """The remote is lost between push and fetch, and an empty one is there instead: nobody waits for what is gone."""
    found = fleet(job("a"))
    found.worker("--slots", "1")
    run = found.begin(slow(found, 3), 1)
    until(lambda: pids(found, "a"))
    run.send_signal(signal.SIGSTOP)
    until(lambda: "a/1: accepted" in found.log())
    shutil.rmtree(found.remote)
    subprocess.run(["git", "init", "-q", "--bare", str(found.remote)], check=True)
    run.send_signal(signal.SIGCONT)
    assert run.wait(timeout=180) == 0, (found.log(), (found.path / "run.log").read_text())
    assert found.landed() == ["a"]
    assert len(pids(found, "a")) == 2


def test_hands_without_room_on_their_disk_begin_nothing(fleet: Callable[..., Fleet], tmp_path: Path) -> None:
    """A full disk costs no attempt: the job waits there, and begins elsewhere when that worker ends."""
    small = tmp_path / "small"
    small.mkdir()
    mounted = ("unshare", "-rm", "sh", "-c", f'mount -t tmpfs -o size=64m tmpfs "{small}" && exec "$@"', "sh")
    if subprocess.run([*mounted, "true"], check=False, capture_output=True).returncode:
        pytest.skip("no small file system can be mounted here")
    found = fleet(job("a"))
    first = found.worker("--slots", "1", "--places", str(small), name="first", within=mounted)
    run = found.begin(WORKS, 1)
    until(lambda: "waiting for free disk space: less than 512 MB are free" in found.log("first"))
    first.terminate()
    found.worker("--slots", "1", name="second")
    assert run.wait(timeout=180) == 0, (found.log("first"), found.log("second"))
    assert ": started (try" not in found.log("first")
    assert "Traceback" not in found.log("first")
    assert json.loads(_last_object(found.path / "run.log"))["attempts"] == 1
    assert found.landed() == ["a"]


def test_a_worker_short_of_memory_takes_no_further_order_and_gives_its_youngest_back(
    fleet: Callable[..., Fleet],
) -> None:
    """SC-41: worker and coordinator report it each minute; the job goes on elsewhere, with its work, uncounted."""
    found = fleet(job("a"), job("b"), job("c"))
    free, go = found.path / "free", found.path / "go"
    free.write_text("1000")
    scarce = (sys.executable, str(SCARCE), str(free))
    found.worker("--slots", "3", "--min-free-mb", "1000", name="scarce", harness=scarce)
    run = found.begin(
        f'echo $$ >> "{found.path}/pids-$HARNESS_TASK_ID"; mkdir -p out; [ -e out/half-$HARNESS_TASK_ID ] && '
        f'echo went-on >> "{found.path}/seen"; echo half > out/half-$HARNESS_TASK_ID; '
        f'while [ ! -e "{go}" ]; do sleep 0.1; done; {WORKS}',
        2,
    )
    until(lambda: found.log("scarce").count("started (try 1)") == 2)
    until(lambda: sum(bool(pids(found, each)) for each in "abc") == 2)
    free.write_text("499")
    until(lambda: "returned this job because memory is short" in found.log("scarce"))
    until(lambda: found.log("scarce").count("No further jobs are accepted: less than 1000 MB") >= 2)
    assert found.log("scarce").count(": started (try") == 2
    limits = json.loads(found.work.harness("status", "--json").out)["parallel"]["limits"]
    assert limits == [f"{socket.gethostname()}: less than 1000 MB of memory are free"]
    found.worker("--slots", "1", name="roomy")
    until(lambda: ": started (try" in found.log("roomy"))
    until((found.path / "seen").exists)
    free.write_text("1000")
    go.touch()
    assert run.wait(timeout=180) == 0, (found.log("scarce"), found.log("roomy"))
    assert found.landed() == ["a", "b", "c"]
    answer = json.loads(_last_object(found.path / "run.log"))
    assert (answer["attempts"], answer["lost"]) == (3, 0), answer
    assert found.log("scarce").count("returned this job because") == 1


def test_with_little_memory_a_worker_has_one_order_at_a_time(fleet: Callable[..., Fleet]) -> None:
    """SC-41: the only job of a worker is always begun; others wait at the server, where other workers may take them."""
    found = fleet(job("a"), job("b"))
    found.worker("--slots", "2", HARNESS_PARALLEL__MIN_FREE_MB="1000000000")
    log = found.path / "noted"
    ran = found.run(f'echo begin >> "{log}"; sleep 2; {WORKS}; echo end >> "{log}"', 2)
    assert ran.code == 0, (ran, found.log())
    assert log.read_text().split() == ["begin", "end"] * 2
    assert "No further jobs are accepted: less than 1000000000 MB of memory are free" in found.log()
    assert found.landed() == ["a", "b"]


def hanging(found: Fleet) -> Path:
    """Make the remote take a push without an answer; return a file that exists once a push hangs."""
    hook, hangs = found.remote / "hooks/pre-receive", found.path / "hangs"
    hook.write_text(f"#!/bin/sh\ntouch {hangs}\nexec sleep 600\n")
    hook.chmod(0o755)
    return hangs


@pytest.mark.parametrize("times", [1, 2])
def test_ctrl_c_does_not_wait_for_an_order_that_cannot_be_pushed(fleet: Callable[..., Fleet], times: int) -> None:
    """SC-3: nothing has begun anywhere; the next run begins."""
    found = fleet(job("a"))
    found.worker("--slots", "1")
    hangs = hanging(found)
    run = found.begin(WORKS, 1)
    until(hangs.exists)
    for _ in range(times):
        run.send_signal(signal.SIGINT)
    assert run.wait(timeout=50) == 130, (found.path / "run.log").read_text()
    assert "Traceback" not in (found.path / "run.log").read_text()
    (found.remote / "hooks/pre-receive").unlink()
    ran = found.run(WORKS, 1, "--json")
    assert (ran.code, json.loads(ran.out)["lost"], found.landed()) == (0, 0, ["a"]), ran
    assert found.work.task("a").attempts == 1


def test_ctrl_c_waits_for_no_remote_that_hangs_and_the_next_run_takes_the_result_in(
    fleet: Callable[..., Fleet],
) -> None:
    """SC-3: workers have a result that they cannot push; the coordinator ends, and they end their jobs on a signal."""
    found = fleet(job("a"))
    worker = found.worker("--slots", "1", HARNESS_TIME_SCALE="1")
    waits = f'while [ ! -e "{found.path}/go" ]; do sleep 0.1; done'
    run = found.begin(f'echo $$ >> "{found.path}/pids-a"; {WORKS}; {waits}', 1)
    until(lambda: pids(found, "a"))
    hangs = hanging(found)
    (found.path / "go").touch()
    until(hangs.exists)
    run.send_signal(signal.SIGINT)
    assert run.wait(timeout=100) == 130, (found.path / "run.log").read_text()
    assert "the next run collects the results" in (found.path / "run.log").read_text()
    (found.remote / "hooks/pre-receive").unlink()
    for _ in range(2):
        worker.terminate()
        time.sleep(0.5)
    assert worker.wait(timeout=60) == 0, found.log()
    found.worker("--slots", "1", name="second")
    ran = found.run(WORKS, 1, "--json")
    assert (ran.code, found.landed()) == (0, ["a"]), (ran, found.log("second"))


def test_hands_that_are_recalled_do_not_wait_for_their_work_to_be_saved(fleet: Callable[..., Fleet]) -> None:
    """SC-52: a remote that hangs while work is saved does not prevent the end of the agent."""
    found = fleet(job("a"))
    found.worker("--slots", "1", HARNESS_TIME_SCALE="0.02")
    run = found.begin(slow(found, 600), 1)
    until(lambda: pids(found, "a"))
    until(hanging(found).exists)
    run.send_signal(signal.SIGINT)
    until(lambda: not _alive(pids(found, "a")))
    assert run.wait(timeout=120) == 130, found.log()
    (found.remote / "hooks/pre-receive").unlink()
    until(lambda: "a/1: partial" in found.log())
    assert found.run(WORKS, 1).code == 0
    assert found.landed() == ["a"]


def test_what_was_spent_while_home_was_away_counts_once_though_no_result_was_accepted(
    fleet: Callable[..., Fleet], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """SC-42, E8: the server forgets the job, whose workers have pushed their work; the next run counts its cost."""
    with TemporalServer(tmp_path_factory.mktemp("forgetful")) as server:
        found = fleet(job("a"))
        found.server = server
        found.worker("--slots", "1")
        spent = USAGE.replace("0.01", "0.3")
        go = found.path / "go"
        run = found.begin(
            f'echo $$ >> "{found.path}/pids-a"; [ -e "{go}" ] || {{ until [ -e "{go}" ]; do sleep 0.1; done; {spent}; '
            f"sleep 600; }}; {WORKS}; {spent}",
            1,
        )
        until(lambda: pids(found, "a"))
        run.kill()
        run.wait()
        go.touch()
        until(lambda: '"spent": 0.3' in "".join(each.read_text() for each in found.path.glob(SPENDING)))
        server.forget()
        server.start()
        until(lambda: "a/1: partial" in found.log())
        ran = found.run(f"{WORKS}; {spent}", 1, "--json")
        assert (ran.code, json.loads(ran.out)["cost_usd"]) == (0, pytest.approx(0.6)), (ran, found.log())
        assert json.loads(found.work.harness("costs", "--json").out)["spent_usd"] == pytest.approx(0.6)
        assert found.at_remote() == []


def test_what_a_killed_worker_had_spent_comes_home_with_what_it_left(fleet: Callable[..., Fleet]) -> None:
    """SC-42: no heartbeat reported it, since the coordinator was away; the next worker in the folder does."""
    found = fleet(job("a"))
    first = found.worker("--slots", "1", name="first")
    go = found.path / "go"
    spent = USAGE.replace("0.01", "0.3")
    agent = (
        f'echo $$ >> "{found.path}/pids-a"; [ -e "{go}" ] || {{ until [ -e "{go}" ]; do sleep 0.1; done; {spent}; '
        f"sleep 600; }}; {WORKS}; {spent}"
    )
    run = found.begin(agent, 1)
    until(lambda: pids(found, "a"))
    run.kill()
    run.wait()
    go.touch()
    until(lambda: '"spent": 0.3' in "".join(each.read_text() for each in found.path.glob(SPENDING)))
    first.kill()
    first.wait()
    found.worker("--slots", "1", name="first")
    until(lambda: "started (try 2)" in found.log("first"))
    ran = found.run(agent, 1, "--json")
    assert (ran.code, json.loads(ran.out)["cost_usd"]) == (0, pytest.approx(0.6)), (ran, found.log("first"))
    assert json.loads(found.work.harness("costs", "--json").out)["spent_usd"] == pytest.approx(0.6)
    assert found.at_remote() == []


def test_code_goes_through_a_folder_that_all_machines_have(fleet: Callable[..., Fleet]) -> None:
    """``--exchange``: no remote is needed or touched, and the coordinator runs nothing of others."""
    found = fleet(job("a"), job("b"))
    share = found.path / "the share"
    share.mkdir()
    found.worker("--slots", "2", "--exchange", str(share), remote="/elsewhere/*")
    agent = found.work.agent(WORKS)
    url = f"{found.server.url}?priority=1&weight=2.5"
    words = ("run", "--workers", "2", "--engine", url, "--exchange", str(share), "--agent", agent)
    ran = found.work.harness(*words, HARNESS_TIME_SCALE=SCALE)
    assert ran.code == 0, (ran, found.log())
    assert found.landed() == ["a", "b"]
    assert found.at_remote() == []
    (bundles,) = share.iterdir()
    assert Repo(bundles, init=False).git("for-each-ref") == ""
    checked = found.work.harness("engine", "check", url, "--exchange", str(share), "--json")
    assert json.loads(checked.out)["checks"][-1]["ok"], checked
    assert [*share.iterdir()] == [bundles]
    (bundles / "config").write_text((bundles / "config").read_text() + '[remote "x"]\n\tuploadpack = touch here\n')
    again = found.work.harness(*words)
    assert again.code == 4, again
    assert "a git setting that the harness did not write" in again.text


def test_machines_with_one_key_share_the_clock_of_its_limit(fleet: Callable[..., Fleet]) -> None:
    """SC-57: the coordinator knows a worker's refusal, and others do not ask; a person's lifting counts everywhere."""
    found = fleet(job("a"))
    client = found.path / "kimi"
    client.write_text(
        f'#!/bin/sh\ncd "$2"\necho $$ >> "{found.path}/asked"\nif [ -e "{found.path}/open" ]; then {WORKS}; exit; fi\n'
        "echo 'Error 429: rate limit reached, try again in 2 hours' >&2\nexit 1\n"
    )
    client.chmod(0o755)
    agent = json.dumps({"kind": "kimi", "program": str(client)})

    def ran(worker: str) -> CommandResult:
        words = ("run", "--workers", "1", "--no-wait", "--engine", f"{found.server.url}?pool={worker}")
        return found.work.harness(*words, "--agent", agent, HARNESS_TIME_SCALE=SCALE)

    def asked() -> int:
        return len((found.path / "asked").read_text().split())

    for name in ("first", "second"):
        found.worker("--slots", "1", "--pool", name, name=name, KIMI_API_KEY="k-123")
    refused = ran("first")
    assert refused.code == 5, (refused, found.log("first"))
    (limit,) = json.loads(found.work.harness("limits", "--json").out)["limits"]
    assert str(limit["account"]).startswith("kimi:key-"), limit
    before = asked()
    elsewhere = ran("second")
    assert elsewhere.code == 5, (elsewhere, found.log("second"))
    assert asked() == before
    assert found.work.task("a").attempts == 0
    found.work.harness("limits", "clear", str(limit["account"]))
    (found.path / "open").touch()
    again = ran("second")
    assert again.code == 0, (again, found.log("second"))
    assert found.landed() == ["a"]


@pytest.mark.parametrize(("words", "told"), [({"remote": "/elsewhere/*"}, "matches no --remote")])
def test_hands_refuse_what_is_not_theirs(fleet: Callable[..., Fleet], words: dict[str, str], told: str) -> None:
    """E10, SC-56: the coordinator shows the reason, and nothing was begun."""
    found = fleet(job("a"))
    found.worker("--slots", "1", **words)  # type: ignore[arg-type]
    ran = found.run(WORKS, 1)
    assert ran.code == 4, ran
    assert told in ran.text
    assert found.work.task("a").attempts == 0


def test_whoever_refuses_an_order_is_not_asked_alone(fleet: Callable[..., Fleet]) -> None:
    """E10, SC-56: other workers of the pool, then the next pool, in the same attempt. If none takes it: the reasons."""
    found = fleet(job("a"), job("b"))
    found.worker("--slots", "1", "--pool", "strict", name="strict", remote="/elsewhere/*")
    found.worker("--slots", "1", "--pool", "usual", name="odd", remote="/elsewhere/*")
    found.worker("--slots", "1", "--pool", "usual", name="right")
    words = ("run", "--workers", "2", "--agent", found.work.agent(WORKS), "--json")
    url = f"{found.server.url}?pool=strict,usual"
    ran = found.work.harness(*words, "--engine", url, HARNESS_TIME_SCALE=SCALE)
    answer = json.loads(ran.out)
    assert (ran.code, answer["attempts"]) == (0, 2), (ran, found.log("right"))
    assert found.landed() == ["a", "b"]
    assert "refused" in found.log("strict")
    assert found.at_remote() == []
    checked = json.loads(found.work.harness("engine", "check", url, "--json").out)
    assert [row["what"] for row in checked["checks"]].count("hands") == 2


def test_the_fleet_says_whose_orders_come_first(fleet: Callable[..., Fleet]) -> None:
    """SC-60: priority and weight of a project are those of its activities at the server."""
    found = fleet(job("a"))
    found.worker("--slots", "1")
    roster = Path(os.environ["HOME"], ".config/agent-harness/fleet.yaml")
    roster.parent.mkdir(parents=True)
    row = {"path": str(found.work.root), "priority": 2, "weight": 2.5, "agent": found.work.agent(WORKS)}
    roster.write_text(json.dumps({"engine": found.server.url, "projects": [row]}))
    environment = {**os.environ, "HARNESS_TIME_SCALE": SCALE}
    ran = run_process((*HARNESS, "fleet", "run", "--once"), cwd=found.path, environ=environment)
    assert ran.code == 0, ran
    until(lambda: found.landed() == ["a"])
    priority = asyncio.run(_priority_of(found.server, "/a/1"))
    assert (priority.priority_key, priority.fairness_weight) == (2, 2.5)
    assert re.fullmatch("[0-9a-f]{24}", priority.fairness_key)


async def _priority_of(server: TemporalServer, ending: str) -> Any:
    """Return the priority, on the server, of the activity of the job whose id ends so."""
    client = await Client.connect(f"127.0.0.1:{server.port}")
    async for each in client.list_workflows():
        if each.id.endswith(ending):
            async for event in client.get_workflow_handle(each.id, run_id=each.run_id).fetch_history_events():
                if event.HasField("activity_task_scheduled_event_attributes"):
                    return event.activity_task_scheduled_event_attributes.priority
    raise AssertionError(f"no job ends in {ending}")


def test_a_lost_database_loses_no_work(fleet: Callable[..., Fleet], tmp_path_factory: pytest.TempPathFactory) -> None:
    """E8: a job that the server no longer knows is lost, and its item is open again."""
    with TemporalServer(tmp_path_factory.mktemp("forgetful")) as server:
        found = fleet(job("a"))
        found.server = server
        found.worker("--slots", "2")
        run = found.begin(slow(found, 3), 1)
        until(lambda: pids(found, "a"))
        server.forget()
        server.start()
        assert run.wait(timeout=240) == 0, (found.log(), (found.path / "run.log").read_text())
        assert found.landed() == ["a"]


def test_bad_addresses_and_missing_parts_are_one_line(fleet: Callable[..., Fleet], server: TemporalServer) -> None:
    """E12 and section 13: the missing part and the command to type; nothing on the disk has changed."""
    found = fleet(job("a"))
    before = found.work.raw
    agent = found.work.agent(WORKS)

    def tried(url: str, *words: str) -> CommandResult:
        return found.work.harness("run", *(words or ("--workers", "2")), "--engine", url, "--agent", agent)

    for url, code, told in [
        ("temporal://127.0.0.1:1", 4, "127.0.0.1:1"),
        ("rabbit://x", 2, "Unknown engine URL scheme: 'rabbit'"),
        ("temporal://me:secret@127.0.0.1:7233", 2, "must not contain a password"),
        (f"{server.url.replace('/default', '/nowhere')}", 4, "no namespace 'nowhere'"),
        (f"{server.url}?remote=upstream", 4, "No git remote 'upstream'"),
        (f"{server.url}?colour=red", 2, "colour"),
        (f"{server.url}?exchange=here", 2, "an absolute path"),
        (f"{server.url}?exchange=/nowhere/at/all", 4, "The exchange folder must exist on all machines"),
        (f"{server.url}?priority=9", 2, "between 1 and 5"),
        (f"{server.url}?weight=nan", 2, "between 0.001 and 1000"),
        (f"{server.url}?pool=a&pool=b", 2, "sets an option twice"),
        (f"{server.url}?pool=a,,b", 2, "pool must list different names"),
    ]:
        ran = tried(url)
        assert ran.code == code, (url, ran)
        assert told in ran.text, (url, ran)
        assert "secret" not in ran.text
    assert tried(server.url, "--max-tasks", "1").code == 2
    assert tried(f"{server.url}?remote=hands", "--workers", "2", "--exchange", "/tmp").code == 2
    alone = found.work.harness("run", "--workers", "2", "--exchange", "/tmp", "--agent", agent)
    assert (alone.code, "--exchange needs --engine" in alone.text) == (2, True)
    worker = found.work.harness("worker", "--engine", server.url, "--exchange", "/nowhere/at/all")
    assert (worker.code, "The exchange folder must exist on all machines" in worker.text) == (4, True)
    assert [each["status"] for each in found.work.raw["tasks"]] == [each["status"] for each in before["tasks"]]
    assert found.at_remote() == []


def test_what_a_run_would_find_is_looked_at_before(fleet: Callable[..., Fleet]) -> None:
    """``harness engine check``: nobody listens yet, then somebody does; no ref is left at the remote."""
    found = fleet(job("a"))
    pool = f"{found.server.url}?pool=other"
    before = found.work.harness("engine", "check", pool)
    assert before.code == 4
    assert "no worker listens on harness.work.other" in before.text
    found.worker("--slots", "1", "--pool", "other")
    until(lambda: found.work.harness("engine", "check", pool).code == 0)
    after = json.loads(found.work.harness("engine", "check", pool, "--json").out)
    assert [row["what"] for row in after["checks"]] == ["server", "namespace", "hands", "planning", "remote"]
    assert found.at_remote() == []


def test_a_feature_project_is_built_by_the_hands_of_another_machine(
    fleet: Callable[..., Fleet], tmp_path: Path
) -> None:
    """Two features are merged; the coordinator has verdicts, costs and session records."""
    found = fleet(job("a"))
    made = FeatureListProject.of_modules(tmp_path / "shop", "ham", "egg")
    made.git("remote", "add", "hands", str(found.remote))
    spent = {"usage": {"input_tokens": 5, "output_tokens": 5, "cost_usd": 0.25}}
    turns = [{"when": {"feature": n}, "do": module_work(n, x, spent)} for n, x in ((1, "ham"), (2, "egg"))]
    found.worker("--slots", "2")
    url = f"{found.server.url}?remote=hands"
    ran = made.harness(
        "run", "--workers", "2", "--engine", url, "--json", agent=turns, environ={"HARNESS_TIME_SCALE": SCALE}
    )
    answer = json.loads(ran.out)
    assert (ran.code, answer["exit_code"]) == (0, 0), (ran.text, found.log())
    assert made.passing() == [1, 2]
    assert made.changes() == []
    assert answer["cost_usd"] == pytest.approx(0.5)
    told = json.loads(made.harness("costs", "--json").out)
    assert told["spent_usd"] == pytest.approx(0.5), told
    assert "accepted" in made.harness("why", "1").text
    assert found.at_remote() == []


def test_status_shows_what_a_session_of_another_machine_does(fleet: Callable[..., Fleet], tmp_path: Path) -> None:
    """SC-50: the phase of its session, its usage and its start, as for a local workspace."""
    found = fleet(job("a"))
    made = FeatureListProject.of_modules(tmp_path / "shop", "ham")
    made.git("remote", "add", "hands", str(found.remote))
    made.environ["HARNESS_TIME_SCALE"] = SCALE
    spent = {"usage": {"input_tokens": 5, "output_tokens": 5, "cost_usd": 0.25}}
    waits = {"run": f"for n in $(seq 600); do [ -e {tmp_path}/seen ] && break; sleep 0.1; done"}
    turns = [{"when": {"feature": 1}, "do": module_work(1, "ham", spent, waits)}]
    found.worker("--slots", "1")
    shown: list[dict[str, Any]] = []

    def works() -> bool:
        told = made.harness("status", "--json").json["parallel"] or {}
        shown.extend(told.get("workers", ()))
        return any((each["phase"], each["cost_usd"]) == ("working", 0.25) for each in shown)

    with made.start("run", "--workers", "1", "--engine", f"{found.server.url}?remote=hands", agent=turns) as run:
        try:
            until(works, 50.0)
        finally:
            (tmp_path / "seen").touch()
        assert run.wait(240) == 0, (made.started(), found.log())
    assert made.passing() == [1]


def test_nothing_lands_on_the_word_of_another_machine(fleet: Callable[..., Fleet]) -> None:
    """Work that passes there but not on the coordinator's machine is rejected, and the branch stays as it was."""
    found = fleet(task("a", validation={"command": 'test -n "$ONLY_THERE" || test -e here', "timeout_seconds": 60}))
    found.worker("--slots", "1", ONLY_THERE="1")
    head = found.work.repo.head
    ran = found.run(WORKS, 1, "--max-tasks", "2", "--json")
    assert ran.code != 0, ran
    assert json.loads(ran.out)["bounces"] >= 1, ran
    assert (found.work.repo.head, found.landed()) == (head, [])
    assert found.work.statuses() != ["completed"]


def of_machine(found: Fleet, name: str, *words: str) -> Any:
    """Return the messages of the harness on a worker's machine."""
    home = found.path / name
    told = {**os.environ, "HOME": str(home), "XDG_STATE_HOME": str(home / "state"), "HARNESS_TIME_SCALE": SCALE}
    return json.loads(run_process((*HARNESS, *words, "--json"), cwd=home, environ=told).out)


def host_may(found: Fleet, name: str, **members: object) -> None:
    folder = found.path / name / "state/agent-harness/host"
    folder.mkdir(parents=True)
    (folder / "host.json").write_text(json.dumps(members))


def test_workers_of_one_machine_share_its_seats(fleet: Callable[..., Fleet]) -> None:
    """SC-40: two workers with two slots each, on a machine with one slot; the coordinator shows the waiting ones."""
    names = ["a", "b", "c"]
    found = fleet(*map(job, names))
    host_may(found, "machine", agents=1)
    for workspaces in ("one", "two"):
        found.worker("--slots", "2", "--places", str(found.path / workspaces), name="machine")
    log, go = found.path / "noted", found.path / "go"
    noted = f'note() {{ echo "$1" >> "{log}"; }}; note begin; while [ ! -e "{go}" ]; do sleep 0.05; done'
    run = found.begin(f"{noted}; {WORKS}; note end", 3)

    def phases() -> list[str]:
        view = json.loads(found.work.harness("status", "--json").out).get("parallel") or {}
        return sorted(str(each.get("phase")) for each in view.get("workers") or [])

    until(lambda: log.exists() and phases() == ["waiting", "waiting", "working"])
    (holder,) = of_machine(found, "machine", "limits", "--host")["holders"]
    assert (holder["kind"], holder["item"] in names) == ("agents", True)
    go.touch()
    assert run.wait(timeout=180) == 0, found.log("machine")
    assert log.read_text().split() == ["begin", "end"] * 3
    assert found.landed() == names


def test_hands_heed_the_gates_of_their_machine(fleet: Callable[..., Fleet]) -> None:
    """SC-43: two slots are refused at once, which halves the account's limit there; then one works at a time."""
    found = fleet(job("a"), job("b"))
    log, go = found.path / "noted", found.path / "go"
    refused = f"{found.path}/refused-"
    agent = (
        f'note() {{ echo "$1" >> "{log}"; }}; if [ ! -e "{refused}$HARNESS_TASK_ID" ]; then '
        f'touch "{refused}$HARNESS_TASK_ID"; until [ -e "{refused}a" ] && [ -e "{refused}b" ]; do sleep 0.05; done; '
        'echo \'{"type": "rate_limited", "message": "slow down", "retry_after_seconds": 30}\'; exit 1; fi; '
        f'note begin; while [ ! -e "{go}" ]; do sleep 0.05; done; {WORKS}; note end'
    )
    account = registry.from_spec(found.work.agent(agent)).account
    host_may(found, "machine", accounts={account: {"agents": 2}})
    found.worker("--slots", "2", name="machine")
    run = found.begin(agent, 2)
    until(log.exists)
    (gate,) = of_machine(found, "machine", "limits")["gates"]
    assert (gate["account"], gate["size"], gate["most"], gate["working"]) == (account, 1, 2, 1)
    (holder,) = of_machine(found, "machine", "limits", "--host")["holders"]
    assert holder["account"] == account
    go.touch()
    assert run.wait(timeout=240) == 0, found.log("machine")
    assert log.read_text().split() == ["begin", "end"] * 2
    assert found.landed() == ["a", "b"]
    assert [found.work.task(each).attempts for each in "ab"] == [1, 1]


def test_a_worker_without_its_server_goes_on_and_says_so_each_minute(
    fleet: Callable[..., Fleet], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """SC-55: it is back when the server is; on a signal it exits with 0."""
    with TemporalServer(tmp_path_factory.mktemp("away")) as server:
        found = Fleet(tmp_path_factory.mktemp("fleet"), server, job("a"))
        try:
            worker = found.worker("--slots", "1")
            until(lambda: "workers are waiting for jobs" in found.log())
            server.kill()
            away = f"127.0.0.1:{server.port} is unreachable; running jobs continue"
            until(lambda: found.log().count(away) >= 2)
            assert worker.poll() is None
            server.start()
            assert found.run(WORKS, 1).code == 0, found.log()
            assert found.landed() == ["a"]
            worker.terminate()
            assert worker.wait(timeout=60) == 0, found.log()
        finally:
            found.close()


def test_a_worker_says_by_its_exit_code_how_it_ended(fleet: Callable[..., Fleet], server: TemporalServer) -> None:
    """SC-55: 2 a wrong command line, 4 a missing part, 130 Ctrl-C before it could begin; 0 is asserted above."""
    found = fleet(job("a"))
    for words, code, told in [
        (("--engine", server.url), 2, "--remote"),
        (("--engine", server.url, "--remote", "*", "--slots", "0"), 2, "--slots"),
        (("--engine", "temporal://127.0.0.1:1", "--remote", "*"), 4, "127.0.0.1:1"),
        (("--engine", server.url.replace("/default", "/nowhere"), "--remote", "*"), 4, "no namespace 'nowhere'"),
    ]:
        ran = run_process((*HARNESS, "worker", *words), cwd=found.path)
        assert (ran.code, told in ran.text) == (code, True), ran
    with socket.create_server(("127.0.0.1", 0)) as mute:
        words = [*HARNESS, "worker", "--engine", f"temporal://127.0.0.1:{mute.getsockname()[1]}", "--remote", "*"]
        with subprocess.Popen(words, cwd=found.path, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as worker:
            connection, _ = mute.accept()
            worker.send_signal(signal.SIGINT)
            out, _ = worker.communicate(timeout=60)
            connection.close()
        assert (worker.returncode, b"Traceback" in out) == (130, False), out
