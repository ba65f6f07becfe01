"""Row 11 beyond the end of a run: a claim of `done` that nobody verified is `done` for nobody who looks."""

import json
import os
import random
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from agent_harness.errors import HarnessError
from agent_harness.protocols.longtask import claim, records
from agent_harness.protocols.longtask.layout import LongTaskLayout
from agent_harness.protocols.longtask.run.lease_file import RunLease
from agent_harness.protocols.longtask.store import LongTaskStore
from agent_harness.supervision.interruption import Stop
from agent_harness.testing.long_task_project import NEXT, LongTaskProject, argv, book, book_checkpoint, from_now

Record = dict[str, Any]
PROVEN = {"id": "proven", "description": "d", "metric": "command", "target": "test -f artifacts/proof"}
CLAIM = (
    "import json, os; p = os.environ['LTH_TASK_DIR'] + '/checkpoint.json'; s = json.load(open(p)); "
    "s['status'] = 'done'; open(p, 'w').write(json.dumps(s)); open('claimed', 'w').close()"
)
CLAIMS = f"{shlex.quote(sys.executable)} -c {shlex.quote(CLAIM)}"
WORKER = f"{CLAIMS}; exec sleep 300"
STARTED = '{"type":"worker_started","at":"2026-03-01T12:00:00.000Z","worker":"local-command"}\n'


def appears(path: Path) -> None:
    """Waits for a file."""
    until = time.monotonic() + 60
    while not path.exists():
        assert time.monotonic() < until, f"{path} does not appear"
        time.sleep(0.02)


@contextmanager
def claiming(tmp_path: Path) -> Iterator[tuple[LongTaskProject, "subprocess.Popen[bytes]"]]:
    """A run whose worker has claimed `done` and goes on."""
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(successCriteria=[PROVEN], localWorker={"command": WORKER})
    running = subprocess.Popen(argv("run", str(tmp_path)), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        appears(tmp_path / "claimed")
        yield project, running
    finally:
        running.kill()
        running.wait()


def left_behind(tmp_path: Path) -> LongTaskProject:
    """A claim whose run died before it could verify anything."""
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(successCriteria=[PROVEN])
    project.checkpoint = book_checkpoint(status="done")
    (tmp_path / "runs/2026-03-01.jsonl").write_text(STARTED)
    return project


def nobody_says_done(project: LongTaskProject) -> None:
    """Every verb that looks sees a task that goes on, and leaves the files as they are."""
    before = (project.root / "checkpoint.json").read_bytes()
    due = project.lth("next", code=0).json
    assert (due["decision"], due["reason"], due["status"]) == ("run", "a claim of done is not verified", "paused")
    dry = project.lth("tick", "--dry-run", code=0).json
    assert (dry["decision"], dry["status"]) == ("run", "paused") and NEXT in dry["workerPrompt"]
    assert project.lth("tick", code=0).json["status"] == "paused"
    shown = project.lth("status", code=0).out
    assert "status:     paused" in shown and "due:        run: a claim of done is not verified" in shown
    decision = next(each for each in project.lth("health").json["checks"] if each["name"] == "run-decision")
    assert decision["decision"] == "run"
    assert project.lth("summary", code=0).json["status"] == "paused"
    assert project.lth("validate", code=0).out == f"OK book: paused -> {NEXT}\n"
    plan = project.run("true", "--dry-run").json
    assert (plan["decision"], plan["status"]) == ("run", "paused")
    assert (project.root / "checkpoint.json").read_bytes() == before


def test_row_11_a_claim_is_no_proof_while_its_run_goes_on_nor_after_it_was_killed(tmp_path: Path) -> None:
    with claiming(tmp_path) as (project, running):
        nobody_says_done(project)
        held = project.run("true").json
        assert (held["reason"], held["status"]) == ("task lock is active", "paused")
        running.kill()
        running.wait()
        nobody_says_done(project)
    assert (
        "verify first: a worker claimed that the task is done, and the claim is not verified"
        in project.lth("status").out
    )


def test_row_06_a_run_that_lost_its_lease_records_no_verdict(tmp_path: Path) -> None:
    project = left_behind(tmp_path)
    (tmp_path / "artifacts/proof").touch()
    store = LongTaskStore(LongTaskLayout(tmp_path))
    mine = RunLease(store.layout, owner=None, ttl_seconds=600, run_id="r" * 32)
    assert mine.acquire() is None
    refused: list[str] = []

    def verify() -> None:
        with pytest.raises(HarnessError) as error:
            claim.finalize(store, mine, Stop())
        refused.append(error.value.message)

    before, verifying = (tmp_path / "checkpoint.json").read_bytes(), threading.Thread(target=verify)
    with store.exclusive():
        verifying.start()
        appears(tmp_path / "runs/verdicts/1-criterion-proven.txt")  # the verdict waits only for this lock
        project.lock.write_text(json.dumps({"owner": "another", "token": "t", "expiresAt": from_now(60)}))
    verifying.join()
    assert refused == ["the lease was lost before the worker started"]
    assert (tmp_path / "checkpoint.json").read_bytes() == before
    assert project.reasons() == []
    assert claim.proof_of(store.layout, "book") is None


def test_row_11_the_next_run_verifies_a_claim_that_holds(tmp_path: Path) -> None:
    project = left_behind(tmp_path)
    nobody_says_done(project)
    assert (
        "next run:   verify first: a worker claimed that the task is done, and the claim is not verified"
        in project.lth("status").out
    )
    (tmp_path / "artifacts/proof").touch()
    answer = project.run("touch ran").json
    assert (answer["decision"], answer["status"], answer["worker"]) == ("done", "done", None)
    assert answer["verification"]["status"] == "pass"
    assert not (tmp_path / "ran").exists()
    assert project.reasons() == ["claim of done verified"]
    (tmp_path / "artifacts/proof").unlink()
    assert project.lth("next").json["decision"] == "done"
    assert project.run("touch ran").json == {
        "decision": "done",
        "reason": "task is complete",
        "dryRun": False,
        "status": "done",
        "waitSeconds": 0,
        "worker": None,
    }


def test_a_clock_that_was_set_back_hides_no_proof(tmp_path: Path) -> None:
    """The log goes on with its last day; else a task that is done is run for ever, by an older start of a worker."""
    project = left_behind(tmp_path)
    (tmp_path / "runs/2026-03-01.jsonl").rename(tmp_path / "runs/2999-03-01.jsonl")
    (tmp_path / "artifacts/proof").touch()
    answer = project.run("true").json
    assert (answer["status"], answer["verification"]["status"]) == ("done", "pass")
    assert project.lth("next", code=0).json["decision"] == "done"
    assert [each.name for each in (tmp_path / "runs").glob("*.jsonl")] == ["2999-03-01.jsonl"]


def test_row_11_the_next_run_takes_a_claim_back_that_does_not_hold_and_goes_on(tmp_path: Path) -> None:
    project = left_behind(tmp_path)
    answer = project.run("cat checkpoint.json").json
    assert (answer["decision"], answer["status"], answer["exitCode"]) == ("run", "paused", 0)
    assert answer["verification"]["checks"][0]["exitCode"] == 1
    assert '"nextStep": "The claim of done was not verified. Meet and prove: proven."' in project.outputs()[0]
    assert project.reasons()[0] == "worker claimed done without verification"
    project.loads()


def test_row_11_a_signal_during_the_verification_leaves_the_claim_what_it_is(tmp_path: Path) -> None:
    project = left_behind(tmp_path)
    project.task = book(successCriteria=[{**PROVEN, "target": "touch artifacts/verifying; exec sleep 300"}])
    line = argv("run", str(tmp_path), "--command", "touch ran")
    running = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    appears(tmp_path / "artifacts/verifying")
    running.terminate()
    _, said = running.communicate(timeout=60)
    assert running.returncode == 128 + signal.SIGTERM, said
    answered, ended = said.strip().splitlines()
    assert answered.startswith("lth: stopping within seconds")
    assert ended.startswith("interrupted while the harness verified the claim")
    assert project.checkpoint["status"] == "done" and not project.lock.exists()
    nobody_says_done(project)


def test_what_a_person_verified_during_a_run_that_was_killed_stays_done(tmp_path: Path) -> None:
    project = left_behind(tmp_path)
    (tmp_path / "artifacts/proof").touch()
    project.lth("record", "--status", "done", code=0)
    assert project.lth("next").json["decision"] == "done"
    assert project.lth("summary").json["status"] == "done"


def test_an_end_whose_output_could_not_be_kept_proves_nothing(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(successCriteria=[PROVEN])
    (tmp_path / "evidence").rmdir()
    done = project.run(f"{CLAIMS}; touch evidence", code=1)
    assert "evidence" in done.err
    assert [each["type"] for each in project.events()][-1] == "worker_failed"
    (tmp_path / "evidence").unlink()
    assert project.checkpoint["status"] == "done"
    nobody_says_done(project)


DONE: Record = {"type": "checkpoint_written", "status": "done"}


@pytest.mark.parametrize(
    ("events", "proven"),
    [
        ([], True),
        ([{"type": "tick_started"}, {"type": "worker_prompt_generated"}], True),
        ([{"type": "worker_started"}], False),
        ([{"type": "worker_started"}, {"type": "worker_completed"}], False),
        ([{"type": "worker_started"}, {"type": "worker_failed", "reason": "lease lost"}], False),
        ([{"type": "worker_started"}, {**DONE, "reason": "evidence recorded"}], False),
        ([{"type": "worker_started"}, {**DONE, "reason": "worker output recorded"}], True),
        ([{"type": "worker_started"}, {**DONE, "reason": "fallback evidence recorded"}], True),
        ([{"type": "worker_started"}, {**DONE, "reason": "claim of done verified"}], True),
        ([{"type": "worker_started"}, {**DONE, "status": "paused", "reason": "worker output recorded"}], False),
        ([{**DONE, "reason": "worker output recorded"}, {"type": "worker_started"}], False),
        (
            [{**DONE, "reason": "worker output recorded"}, {"type": "checkpoint_written", "reason": records.WITHDRAWN}],
            False,
        ),
        ([{"type": "worker_started"}, {"type": "progress_recorded", "status": "done"}], True),
        ([{"type": "worker_started"}, {"type": "progress_recorded", "status": "active"}], False),
    ],
)
def test_what_proves_a_claim(events: list[Record], proven: bool) -> None:
    assert claim.is_proven(map(records.LogEvent, reversed(events))) is proven


def test_a_log_counts_in_the_order_in_which_it_was_written(tmp_path: Path) -> None:
    """The clock of a machine may go back; damaged lines are passed over, without a word."""
    project = left_behind(tmp_path)
    earlier = {**DONE, "at": "2026-03-01T13:00:00.000Z", "reason": "worker output recorded"}
    (tmp_path / "runs/2026-03-01.jsonl").write_text(f"{json.dumps(earlier)}\n{STARTED}torn")
    (tmp_path / "runs/2026-03-02.jsonl").write_text("{}\n")
    done = project.lth("next", code=0)
    assert (done.json["decision"], done.err) == ("run", "")
    assert os.listdir(tmp_path / "evidence") == []


def kill_many_claims(tmp_path: Path, kills: int) -> None:
    """Kills so many runs whose workers say `done` for nothing: nobody who looks ever believes it."""
    moments = random.Random(11)
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(successCriteria=[PROVEN], localWorker={"command": CLAIMS})
    project.lth("run", code=0)
    began = time.monotonic()
    project.lth("run", code=0)
    longest = time.monotonic() - began
    done = claims = 0
    while done < kills:
        line = argv("run", str(tmp_path), "--lock-ttl-seconds", "1")
        running = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            running.wait(timeout=moments.uniform(0, longest))
        except subprocess.TimeoutExpired:
            running.kill()
        running.wait()
        done += running.returncode == -signal.SIGKILL
        due = project.lth("next", code=0).json
        assert (due["decision"], due["status"]) in (("run", "paused"), ("run", "active")), due
        claims += project.checkpoint["status"] == "done"
    assert claims > 0, "no kill came between a claim and its verification"


@pytest.mark.kill
@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_row_11_a_run_that_is_killed_at_any_moment_leaves_no_claim_that_is_believed(tmp_path: Path) -> None:
    kill_many_claims(tmp_path, 60)
