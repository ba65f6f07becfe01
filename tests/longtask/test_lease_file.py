"""The lease of a run: its forms, its end, its renewal, its loss, and who may take it away."""

import errno
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from agent_harness.kernel import owner
from agent_harness.protocols.longtask.layout import LongTaskLayout
from agent_harness.protocols.longtask.run.lease_file import UNREADABLE_SECONDS, RunLease
from agent_harness.testing.long_task_project import LongTaskProject, argv, book, from_now

Record = dict[str, Any]
NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)


class Clock:
    """A time that moves when it is told to."""

    def __init__(self) -> None:
        self.now = NOON

    def __call__(self) -> datetime:
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)


def lease(root: Path, clock: Clock, ttl: int = 60, owner: str | None = None) -> RunLease:
    return RunLease(LongTaskLayout(root), owner=owner, ttl_seconds=ttl, run_id="r" * 32, now=clock)


def place(project: LongTaskProject, form: str, content: str, age: float = 0.0) -> None:
    """Puts a lease there as another program would, or what is left of one."""
    path = project.lock
    if form == "folder":
        path.mkdir()
        path = path / "lock.json"
    if form != "empty folder":
        path.write_text(content)
    else:
        path.mkdir()
    changed = time.time() - age
    for each in (path, project.lock):
        os.utime(each, (changed, changed))


def other(seconds: float) -> str:
    """Return the text of a lease of another program."""
    return json.dumps({"owner": "1@linux", "pid": 1, "acquiredAt": from_now(-60), "expiresAt": from_now(seconds)})


def beside(project: LongTaskProject) -> list[str]:
    """Whatever is left of leases."""
    return sorted(each.name for each in project.root.iterdir() if each.name.startswith(".lth"))


# ---- the forms


@pytest.mark.parametrize("form", ["file", "folder"])
def test_a_lease_that_holds_is_waited_for(tmp_path: Path, form: str) -> None:
    project = LongTaskProject.of_book(tmp_path)
    place(project, form, other(50))
    before = {each: each.stat().st_mtime_ns for each in project.root.rglob("*")}
    answer = project.run("touch ran").json
    assert list(answer) == ["decision", "reason", "dryRun", "status", "waitSeconds", "worker", "lock"]
    assert (answer["decision"], answer["reason"], answer["worker"]) == ("wait", "task lock is active", None)
    assert 1 <= answer["waitSeconds"] <= 50
    assert answer["lock"]["owner"] == "1@linux"
    assert {each: each.stat().st_mtime_ns for each in project.root.rglob("*")} == before


@pytest.mark.parametrize("form", ["file", "folder"])
def test_a_lease_that_is_over_is_taken(tmp_path: Path, form: str) -> None:
    project = LongTaskProject.of_book(tmp_path)
    place(project, form, other(-1))
    assert project.run("cat .lth.lock").json["exitCode"] == 0
    content = json.loads(project.outputs()[0].split("## stdout\n")[1].split("## stderr")[0])
    assert list(content) == ["owner", "pid", "acquiredAt", "expiresAt", "token", "host", "runId", "process"]
    assert beside(project) == []


def test_the_lease_of_a_process_that_is_gone_is_not_waited_for(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.run("cat .lth.lock")
    content = json.loads(project.outputs()[0].split("## stdout\n")[1].split("## stderr")[0])
    mine, gone = owner.current().as_record(), {**content["process"], "start_time": "1"}
    for process, decision in ((mine, "wait"), ({**gone, "host": "elsewhere"}, "wait"), (gone, "run")):
        project.write(".lth.lock", {**content, "expiresAt": from_now(60), "process": process})
        assert project.run("true").json["decision"] == decision
    assert beside(project) == []


@pytest.mark.parametrize(
    ("form", "content"), [("file", ""), ("file", '{"owner": "1@linux", "exp'), ("folder", ""), ("empty folder", "")]
)
def test_row_05_what_a_crash_has_left_half_written_is_taken_within_seconds(
    tmp_path: Path, form: str, content: str
) -> None:
    project = LongTaskProject.of_book(tmp_path)
    place(project, form, content, age=0)
    assert project.run("true").json["waitSeconds"] <= 2, "its writer may be about to write it"
    shutil.rmtree(project.lock) if project.lock.is_dir() else project.lock.unlink()
    place(project, form, content, age=10)
    assert project.run("true").json["decision"] == "run"
    assert beside(project) == []


@pytest.mark.parametrize("form", ["file", "folder"])
@pytest.mark.parametrize("content", ["[]", '{"expiresAt": "soon"}', '{"owner": "x"}'])
def test_row_05_what_cannot_be_read_is_waited_for_until_it_is_old(tmp_path: Path, form: str, content: str) -> None:
    project = LongTaskProject.of_book(tmp_path)
    place(project, form, content, age=UNREADABLE_SECONDS - 100)
    clock = Clock()
    clock.now = datetime.now(UTC)
    held = lease(project.root, clock).acquire()
    assert held is not None
    assert 90 <= held.wait_seconds <= 100
    assert list(held.info) == ["path", "message"]
    clock.forward(held.wait_seconds)
    mine = lease(project.root, clock)
    assert mine.acquire() is None
    mine.release()
    assert beside(project) == []


def test_row_05_an_empty_folder_is_taken_in_the_end(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    place(project, "empty folder", "", age=10)
    assert project.run("true").json["decision"] == "run"


@pytest.mark.parametrize("kind", ["link", "loop", "pipe", "huge"])
def test_odd_leases_are_unreadable(tmp_path: Path, kind: str) -> None:
    project = LongTaskProject.of_book(tmp_path)
    target = tmp_path / "target"
    target.write_text(other(-100))
    if kind == "link":
        project.lock.symlink_to(target)
    elif kind == "loop":
        project.lock.symlink_to(project.lock)
    elif kind == "pipe":
        os.mkfifo(project.lock)
    else:
        project.lock.write_text("9" * 200_000)
    assert project.run("true").json["decision"] == "wait"
    past = time.time() - UNREADABLE_SECONDS - 1
    os.utime(project.lock, (past, past), follow_symlinks=False)
    assert project.run("true").json["decision"] == "run"
    assert target.exists()
    assert beside(project) == []


def test_dry_runs_look_at_no_lease(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    place(project, "file", other(50))
    assert project.run("true", "--dry-run").json["decision"] == "run"


# ---- how long


@pytest.mark.parametrize(
    ("words", "policy", "seconds"),
    [((), {}, 120), ((), {"lockTtlSeconds": 330}, 330), (("--lock-ttl-seconds", "70"), {"lockTtlSeconds": 330}, 70)],
)
def test_how_long_a_lease_lasts(tmp_path: Path, words: tuple[str, ...], policy: Record, seconds: int) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(workerPolicy=policy)
    project.run("cp .lth.lock kept", "--lock-owner", "me", "--timeout-seconds", "1000", *words)
    kept = json.loads((tmp_path / "kept").read_text())
    length = datetime.fromisoformat(kept["expiresAt"]) - datetime.fromisoformat(kept["acquiredAt"])
    assert length == timedelta(seconds=seconds)
    assert kept["owner"] == "me"


@pytest.mark.parametrize("word", ["0", "-1", "x", "1.5"])
def test_odd_lengths_are_refused(tmp_path: Path, word: str) -> None:
    project = LongTaskProject.of_book(tmp_path)
    assert "--lock-ttl-seconds" in project.run("true", f"--lock-ttl-seconds={word}", code=1).err
    assert project.untouched() == []


def test_row_06_a_worker_may_take_longer_than_the_lease(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    script = "cp .lth.lock kept; while cmp -s kept .lth.lock; do sleep 0.1; done; cp .lth.lock kept"
    answer = project.run(script, "--lock-ttl-seconds", "6").json
    assert answer["exitCode"] == 0
    kept = json.loads((tmp_path / "kept").read_text())
    assert datetime.fromisoformat(kept["expiresAt"]) - datetime.fromisoformat(kept["acquiredAt"]) > timedelta(seconds=7)
    assert beside(project) == []


# ---- one at a time


def test_a_lease_excludes_until_it_is_given_back(tmp_path: Path) -> None:
    project, clock = LongTaskProject.of_book(tmp_path), Clock()
    first, second = lease(project.root, clock), lease(project.root, clock)
    assert first.acquire() is None
    held = second.acquire()
    assert held is not None
    assert held.wait_seconds == 60
    first.release()
    first.release()
    assert second.acquire() is None
    assert second.retired is None


def test_the_end_belongs_to_the_next_run(tmp_path: Path) -> None:
    project, clock = LongTaskProject.of_book(tmp_path), Clock()
    first, second = lease(project.root, clock), lease(project.root, clock)
    first.acquire()
    clock.forward(59.999)
    assert second.acquire() is not None
    clock.forward(0.001)
    assert second.acquire() is None
    assert second.retired is not None
    assert second.retired["token"] == first.token


def test_row_06_a_lost_lease_is_not_renewed_and_not_given_back(tmp_path: Path) -> None:
    project, clock = LongTaskProject.of_book(tmp_path), Clock()
    first, second, third = (lease(project.root, clock) for _ in range(3))
    first.acquire()
    clock.forward(60)
    second.acquire()
    assert not first.renew()
    assert not first.check()
    assert first.lost
    first.release()
    assert second.check()
    assert third.acquire() is not None


def test_a_lease_is_lost_at_its_end_even_when_nobody_took_it(tmp_path: Path) -> None:
    project, clock = LongTaskProject.of_book(tmp_path), Clock()
    mine = lease(project.root, clock)
    mine.acquire()
    clock.forward(30)
    assert mine.renew()
    clock.forward(59)
    assert mine.in_time()
    clock.forward(1)
    assert not mine.in_time()
    assert not mine.renew()
    mine.release()
    assert beside(project) == []


def test_a_renewal_that_the_disk_refuses_moves_no_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Others go by the file: a run that goes on beyond the end in it is not alone."""
    project, clock = LongTaskProject.of_book(tmp_path), Clock()
    mine = lease(project.root, clock)
    mine.acquire()

    def full(source: str, target: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), target)

    clock.forward(30)
    with monkeypatch.context() as disk:
        disk.setattr(os, "replace", full)
        assert mine.renew()
    clock.forward(30)
    assert not mine.in_time()
    assert lease(project.root, clock).acquire() is None


def test_a_lease_that_was_removed_or_replaced_is_lost(tmp_path: Path) -> None:
    project, clock = LongTaskProject.of_book(tmp_path), Clock()
    mine = lease(project.root, clock)
    mine.acquire()
    project.lock.unlink()
    assert not mine.check()
    again = lease(project.root, clock)
    again.acquire()
    project.lock.write_text(other(100))
    assert not again.renew()
    again.release()
    assert json.loads(project.lock.read_text())["owner"] == "1@linux"


def test_a_lease_that_changed_after_it_was_judged_is_put_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    project, clock = LongTaskProject.of_book(tmp_path), Clock()
    place(project, "file", other(-1))
    clock.now = datetime.now(UTC)
    rename, swapped = os.rename, json.dumps({"owner": "swift", "expiresAt": from_now(100)})

    def late(source: str, target: str) -> None:
        if source == str(project.lock) and not swapped_once:
            swapped_once.append(True)
            project.lock.unlink()
            project.lock.write_text(swapped)
        rename(source, target)

    swapped_once: list[bool] = []
    monkeypatch.setattr(os, "rename", late)
    held = lease(project.root, clock).acquire()
    assert held is not None
    assert project.lock.read_text() == swapped
    assert beside(project) == [".lth.lock"]


def test_one_of_many_takes_a_lease_that_is_over(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    place(project, "file", other(-1))
    clock = Clock()
    clock.now = datetime.now(UTC)
    leases = [lease(project.root, clock) for _ in range(8)]
    together = threading.Barrier(8)
    won: list[RunLease] = []

    def race(mine: RunLease) -> None:
        together.wait()
        if mine.acquire() is None:
            won.append(mine)

    threads = [threading.Thread(target=race, args=(each,)) for each in leases]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert len(won) == 1
    assert won[0].check()
    won[0].release()
    assert beside(project) == []


def test_leftovers_of_killed_runs_are_cleared_away(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    (tmp_path / ".lth.lock.abc.new").write_text("x")
    (tmp_path / ".lth.lock.abc.old").mkdir()
    (tmp_path / ".lth.lock.tmp.1.ab").write_text("x")
    (tmp_path / ".lth.lock.mine").write_text("a person's")
    project.run("true")
    assert beside(project) == [".lth.lock.mine"]


@pytest.mark.parametrize("form", ["file", "folder"])
def test_row_06_of_runs_at_the_same_time_one_at_a_time_works(tmp_path: Path, form: str) -> None:
    project = LongTaskProject.of_book(tmp_path)
    place(project, form, other(-1))
    command = "mkdir busy || echo TWO > two; sleep 0.3; rmdir busy; echo one >> ran"
    line = argv("run", str(project.root), "--worker", "local", "--command", command)
    running = [subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE) for _ in range(8)]
    answers = []
    for each in running:
        out, said = each.communicate(timeout=120)
        assert each.returncode == 0, said
        answers.append(json.loads(out))
    assert not (tmp_path / "two").exists()
    worked = [each for each in answers if each["decision"] == "run"]
    waited = [each for each in answers if each["decision"] == "wait"]
    assert worked
    assert len(worked) + len(waited) == 8
    assert len((tmp_path / "ran").read_text().splitlines()) == len(worked)
    assert len(project.checkpoint["evidence"]) == len(worked) == len(project.events("worker_completed"))
    assert beside(project) == []


# ---- a run that was suspended


def begun(project: LongTaskProject, *words: str) -> "subprocess.Popen[bytes]":
    """`lth run` with a worker that has started."""
    command = "touch started; exec sleep 300"
    line = argv("run", str(project.root), "--worker", "local", "--command", command, *words)
    running = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until = time.monotonic() + 60
    while not (project.root / "started").exists():
        assert running.poll() is None
        assert time.monotonic() < until
        time.sleep(0.01)
    return running


@pytest.mark.scenario
def test_row_06_a_run_that_was_suspended_past_its_lease_leaves_the_checkpoint_alone(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    running = begun(project, "--lock-ttl-seconds", "4")
    os.kill(running.pid, signal.SIGSTOP)
    while datetime.fromisoformat(json.loads(project.lock.read_text())["expiresAt"]) > datetime.now(UTC):
        time.sleep(0.05)
    second = project.run("echo the second; echo $LTH_RUN_ID", "--lock-owner", "second")
    assert second.json["exitCode"] == 0
    state = project.checkpoint
    os.kill(running.pid, signal.SIGCONT)
    out, err = running.communicate(timeout=60)
    assert running.returncode == 1
    assert json.loads(out)["exitCode"] != 0
    assert b"lease lost" in err
    assert project.checkpoint == state
    assert [each["reason"] for each in project.events("worker_failed")] == ["lease lost"]
    assert beside(project) == []
    project.loads()


@pytest.mark.scenario
def test_the_worker_of_a_run_that_lost_its_lease_is_ended_before_the_next_one_starts(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    running = begun(project, "--lock-ttl-seconds", "4")
    os.kill(running.pid, signal.SIGSTOP)
    run_id = json.loads(project.lock.read_text())["runId"]
    while datetime.fromisoformat(json.loads(project.lock.read_text())["expiresAt"]) > datetime.now(UTC):
        time.sleep(0.05)
    script = f"grep -las HARNESS_RUN_ID={run_id} /proc/[0-9]*/environ; echo looked"
    project.run(script)
    if os.path.isdir("/proc/self"):
        assert project.outputs()[0].split("## stdout\n")[1].startswith("looked\n")
    os.kill(running.pid, signal.SIGCONT)
    running.communicate(timeout=60)
