"""Costs of agents, whoever is killed meanwhile: once in ``harness costs``, and as much as the budget counts."""

import json
import queue
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from agent_harness.engines.git_transport import Bundles
from agent_harness.kernel import clock
from agent_harness.kernel.git import Git
from agent_harness.parallel.budget import SharedBudget
from agent_harness.parallel.engine import LocalEngine
from agent_harness.parallel.items import Job
from agent_harness.parallel.ledger import project_id
from agent_harness.testing import HARNESS
from agent_harness.testing.repo import Repo
from agent_harness.testing.task_list_project import TaskListProject

from .test_parallel import WORKS, job, project, until
from .test_parallel_failures import events
from .test_parallel_fresh_start import DYING, folder_of, run_with

AGENT = """\
usage() {{ echo "{{\\"type\\": \\"usage\\", \\"input_tokens\\": 5, \\"output_tokens\\": 5, \\"cost_usd\\": $1}}"; }}
heard() {{ until grep -q "\\"spent\\": $1" "$PWD"/../../spending/*.json; do sleep 0.05; done; }}
if [ ! -e {folder}/once ]; then touch {folder}/once; usage 0.2; heard 0.2; {then}; fi
usage 0.3; {works}"""


def agent(work: TaskListProject, folder: Path, then: str) -> str:
    """Spends $0.20 and ``then`` does something; the next one spends $0.30 and works."""
    return work.agent(AGENT.format(folder=folder, then=then, works=WORKS))


def kill_worker(home: int) -> None:
    """Those of this coordinator: no agent can reach them."""
    for each in psutil.Process(home).children(recursive=True):
        with suppress(psutil.Error):  # it has ended meanwhile
            if "agent_harness.parallel.worker_process" in each.cmdline():
                each.kill()
                return
    raise AssertionError("no workers are at work")


def rows(work: TaskListProject) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(work.layout.costs).read_text().splitlines()]


MOMENTS = [
    *("after:ordered", "before:lost", "after:lost", "booked", "paid", "after:ordered@2"),
    *("booked@2", "before:ended", "after:ended", "paid@2", "before:landed", "before:closed"),
]


@pytest.mark.kept("after:lost", "paid")
@pytest.mark.parametrize(
    "moment",
    [pytest.param(each, marks=() if each == "paid" else pytest.mark.scenario) for each in (None, "home", *MOMENTS)],
)
def test_what_a_killed_agent_had_spent_is_in_the_costs_once_and_as_the_budget_counts_it(
    tmp_path: Path, moment: str | None
) -> None:
    """SC-42: workers are killed after $0.20; so is the coordinator, with them or at a moment of what follows."""
    work = project(tmp_path, job("a"))
    words = ["run", "--workers", "1", "--agent", agent(work, tmp_path, f"touch {tmp_path}/spent; sleep 600"), "--json"]
    command = [sys.executable, str(DYING), moment or "never", *words]
    with subprocess.Popen(command, cwd=work.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as first:
        if moment != "after:ordered":
            until((tmp_path / "spent").exists)
            first.kill() if moment == "home" else kill_worker(first.pid)
        out, err = first.communicate(timeout=120)
    assert first.returncode == (-9 if moment else 0), (out, err)
    if moment == "after:ordered":
        (tmp_path / "once").touch()
    if moment:
        ran = work.harness(*words)
        assert (ran.code, work.statuses()) == (0, ["completed"]), ran
    if moment == "after:ordered":
        assert [(each["result"], each["cost_usd"]) for each in rows(work)] == [("completed", 0.3)]
        return
    found = json.loads(work.harness("costs", "--json").out)
    assert (found["spent_usd"], found["sessions_of_unknown_cost"]) == (0.5, 0), rows(work)
    assert [(each["result"], each["cost_usd"]) for each in rows(work)] == [("interrupted", 0.2), ("completed", 0.3)]
    if moment != "before:closed":
        spent = {each["order"]: each["cost_usd"] for kind in ("lost", "ended") for each in events(work, kind)}
        assert {each["order"]: each["cost_usd"] for each in rows(work)} == {
            job: cost
            for job, cost in spent.items()
            if cost  # an order may die before its agent begins
        }
    assert work.harness("run", "--agent", work.agent("exit 1", name="none.sh")).code == 0
    assert len(rows(work)) == 2


@pytest.mark.kept("-True")
@pytest.mark.scenario
@pytest.mark.parametrize(
    ("moment", "is_gone"),
    [*((each, True) for each in ("", "booked", "paid", "before:batched")), ("after:ended", False), ("paid", False)],
)
def test_what_was_spent_counts_once_though_the_journal_is_damaged(tmp_path: Path, moment: str, is_gone: bool) -> None:
    """SC-42: in the costs and in the budget, also what left no file but the note of the budget."""
    work = project(tmp_path, job("a"))
    words = ["run", "--workers", "1", "--agent", agent(work, tmp_path, f"touch {tmp_path}/spent; sleep 600"), "--json"]
    if moment:
        (tmp_path / "once").touch()
    command = [sys.executable, str(DYING), moment or "never", *words]
    with subprocess.Popen(command, cwd=work.root, stdout=-1, stderr=-1) as first:
        if not moment:
            until((tmp_path / "spent").exists)
            first.kill()
        first.communicate(timeout=120)
    ledger = folder_of(work) / "ledger.jsonl"
    if is_gone:
        ledger.unlink()
    else:
        ledger.write_bytes(ledger.read_bytes() + b"torn\n")
    spent = [0.3] if moment else [0.2, 0.3]
    ran = work.harness(*words)
    assert (ran.code, work.statuses()) == (0, ["completed"]), ran
    assert [each["cost_usd"] for each in rows(work)] == spent
    assert ran.json["cost_usd"] == json.loads(work.harness("costs", "--json").out)["spent_usd"] == sum(spent)


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_an_attempt_has_spent_whose_candidate_cannot_be_taken_home_is_in_the_costs(tmp_path: Path) -> None:
    """Its workspace is destroyed behind it, so that nothing comes back of it but what the budget had heard."""
    work = project(tmp_path, job("a"))
    ran = work.harness("run", "--workers", "1", "--json", "--agent", agent(work, tmp_path, "rm -rf .git; exit 0"))
    assert (ran.code, ran.json["lost"], ran.json["cost_usd"]) == (0, 1, 0.5), ran
    assert json.loads(work.harness("costs", "--json").out)["spent_usd"] == 0.5
    assert [each["cost_usd"] for each in rows(work)] == [0.2, 0.3]


class LateEngine(LocalEngine):
    """Gives the first order up for lost, and brings its result when the next one is over; twice."""

    is_local = False

    def __init__(self, heard: bool) -> None:
        super().__init__()
        self._heard = heard
        self._late = ""
        self._folders: dict[str, Path] = {}

    def open(self, ended: "queue.SimpleQueue[str]") -> None:
        done: queue.SimpleQueue[str] = queue.SimpleQueue()
        super().open(done)
        threading.Thread(target=self._tell, args=(done, ended), daemon=True).start()

    def submit(self, job: Job, folder: str, environment: Mapping[str, str]) -> None:
        self._folders[job.id] = Path(folder)
        super().submit(job, folder, environment)

    def _tell(self, done: "queue.SimpleQueue[str]", told: "queue.SimpleQueue[str]") -> None:
        self._late = done.get()
        first = self._folders[self._late]
        (first / "result.json").rename(first / "late.json")
        if not self._heard:
            (first.parents[1] / "spending" / f"{self._late.replace('/', '.')}.json").unlink()
        told.put(self._late)
        second = done.get()
        (first / "late.json").rename(first / "result.json")
        for each in (self._late, self._late, second):
            told.put(each)


@pytest.mark.kept("True")
@pytest.mark.scenario
@pytest.mark.parametrize("heard", [True, False])
def test_what_a_lost_attempt_cost_that_comes_back_counts_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, heard: bool
) -> None:
    """SC-42: whether the run had heard of it when it gave it up, or not."""
    work = project(tmp_path, job("a"))
    usage = '{"type": "usage", "input_tokens": 5, "output_tokens": 5, "cost_usd": 0.3}'
    agent = work.agent(f"echo '{usage}'; {WORKS}")
    monkeypatch.chdir(work.root)
    ran = run_with(lambda git, folder, say, refs: LateEngine(heard), work, agent)
    assert (ran["exit_code"], ran["lost"], ran["cost_usd"]) == (0, 1, 0.6), ran
    assert [each["cost_usd"] for each in events(work, "late_result")] == [0.0 if heard else 0.3, 0.0]
    found = json.loads(work.harness("costs", "--json").out)
    assert found["spent_usd"] == 0.6, rows(work)
    (lost,) = {each["order"] for each in rows(work)} - {each["order"] for each in events(work, "ended")}
    assert sum(each["cost_usd"] for each in rows(work) if each["order"] == lost) == 0.3


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_what_recalled_and_dropped_attempts_cost_counts_once(tmp_path: Path) -> None:
    """SC-42: one is recalled after $0.20; the next, of $0.30, is held and dropped; the last lands."""
    work = project(tmp_path, job("a"))
    waits = f"{{ touch {tmp_path}/again; until [ -e {tmp_path}/go ]; do sleep 0.1; done; }}"
    first = agent(work, tmp_path, f"touch {tmp_path}/spent; exec sleep 600")
    script = Path(first.split()[-1])
    script.write_text(f"{script.read_text()}\n{waits}\n")
    words = ["run", "--workers", "1", "--agent", first, "--json"]
    with subprocess.Popen([*HARNESS, *words], cwd=work.root, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        try:
            until((tmp_path / "spent").exists)
            assert work.harness("cancel", "a").code == 0
            until((tmp_path / "again").exists)
            assert work.harness("queue", "hold", "a").code == 0
        finally:
            (tmp_path / "go").touch()
        out, err = run.communicate(timeout=120)
    assert (run.returncode, json.loads(out)["cost_usd"]) == (3, 0.5), (out, err)
    assert work.harness("queue", "drop", "a").code == 0
    ran = work.harness(*words)
    assert (ran.code, work.statuses(), json.loads(ran.out)["cost_usd"]) == (0, ["completed"], 0.3), ran
    assert json.loads(work.harness("costs", "--json").out)["spent_usd"] == 0.8
    assert [each["cost_usd"] for each in rows(work)] == [0.2, 0.3, 0.3]


class UnacceptedEngine(LocalEngine):
    """Gives the first order up for lost; its result lies at the remote, as of workers that nobody asks any more."""

    is_local = False

    def __init__(self, git: Git, folder: str, remote: Repo, away: Path) -> None:
        super().__init__()
        self.folder, self._away, self._loses = folder, away, not away.exists()
        self.bundles = Bundles(git=git, remote=str(remote.path), project=project_id(folder))
        self._jobs: dict[str, tuple[Job, str]] = {}

    def open(self, ended: "queue.SimpleQueue[str]") -> None:
        done: queue.SimpleQueue[str] = queue.SimpleQueue()
        super().open(done)
        threading.Thread(target=self._tell, args=(done, ended), daemon=True).start()

    def submit(self, job: Job, folder: str, environment: Mapping[str, str]) -> None:
        self._jobs[job.id] = (job, folder)
        super().submit(job, folder, environment)

    def known(self, jobs: Sequence[Job]) -> dict[str, str]:
        self.bundles.collect(SharedBudget(self.folder).note_late)
        return super().known(jobs)

    def _tell(self, done: "queue.SimpleQueue[str]", told: "queue.SimpleQueue[str]") -> None:
        while True:
            ended = done.get()
            if self._loses:
                self._loses = False
                job, folder = self._jobs[ended]
                subprocess.run(["git", "clone", "-q", job.home, str(self._away)], check=True)
                git = Git(self._away)
                replace(self.bundles, git=git).answer(job, 1, folder, clock.now())
                Path(folder, "result.json").unlink()
                Path(self.folder, "spending", f"{ended.replace('/', '.')}.json").unlink()
            told.put(ended)


def spent_by(work: TaskListProject) -> float:
    return float(json.loads(work.harness("costs", "--json").out)["spent_usd"])


@pytest.mark.scenario
def test_what_a_try_cost_whose_result_nobody_accepted_counts_once_when_it_comes_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SC-42, SC-51: collected by the next run, once more since that was killed in between, and told of once more."""
    work, remote = project(tmp_path, job("a")), Repo(tmp_path / "remote")
    usage = '{"type": "usage", "input_tokens": 5, "output_tokens": 5, "cost_usd": 0.3}'
    agent = work.agent(f"echo '{usage}'; {WORKS}")
    monkeypatch.chdir(work.root)
    engines: list[UnacceptedEngine] = []

    def made(git: Git, folder: str) -> UnacceptedEngine:
        engines.append(UnacceptedEngine(git, folder, remote, tmp_path / "away"))
        return engines[-1]

    def ran() -> dict[str, Any]:
        return run_with(lambda git, folder, say, refs: made(git, folder), work, agent)

    first = ran()
    assert (first["exit_code"], first["lost"], first["cost_usd"]) == (0, 1, 0.3), first
    assert spent_by(work) == 0.3
    bundle, ref = remote.git("for-each-ref", "--format=%(objectname) %(refname)", "refs/harness/results").split()
    work.add("b", validation="grep -q . out/b")
    second = ran()
    assert (second["exit_code"], second["cost_usd"]) == (0, 0.6), second
    assert spent_by(work) == 0.9, rows(work)
    assert remote.git("for-each-ref", "refs/harness") == ""
    remote.git("update-ref", ref, bundle)  # as if whoever counted it had been killed before it was cleared away
    work.repo.git("update-ref", ref, bundle)
    late = ref.split("/")
    SharedBudget(engines[-1].folder).note_late("/".join(late[4:7]), late[7], 0.3)
    work.add("c", validation="grep -q . out/c")
    third = ran()
    assert (third["exit_code"], third["cost_usd"]) == (0, 0.3), third
    assert spent_by(work) == 1.2, rows(work)
    assert sum(each["cost_usd"] for each in rows(work) if each.get("order") == "/".join(late[4:7])) == 0.3
