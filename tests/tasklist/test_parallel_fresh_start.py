"""A journal that is damaged, gone or another project's is set aside, and the run starts anew."""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent_harness.kernel.json import JsonObject
from agent_harness.parallel.engine import RUNNING, EngineFactory, LocalEngine
from agent_harness.parallel.items import Job
from agent_harness.protocols.tasklist.api import TaskList
from agent_harness.supervision.dispatch import RefusalPolicy
from agent_harness.testing import HARNESS
from agent_harness.testing.task_list_project import TaskListProject, task

from .test_parallel import WORKS, job, landed, project, together

DYING = Path(__file__).parents[1] / "parallel/dying.py"


def folder_of(work: TaskListProject) -> Path:
    found = Path(os.environ["XDG_STATE_HOME"], "agent-harness/projects").glob("*/parallel")
    return next(each for each in found if str(work.root).replace("/", "%") in each.parent.name)


def killed(work: TaskListProject, moment: str, starts: Path) -> list[str]:
    """Kill a run of three tasks at a moment, and return the command that continues it."""
    tools = starts.parent / "rendezvous"
    tools.mkdir()
    agent = f"echo $HARNESS_TASK_ID >> {starts}; {together(tools, 'abc', 'echo x > $HARNESS_TASK_ID')}"
    words = ["run", "--workers", "3", "--agent", work.agent(agent)]
    die(work, moment, words)
    return words


def die(work: TaskListProject, moment: str, words: list[str]) -> None:
    died = subprocess.run([sys.executable, str(DYING), moment, *words], cwd=work.root, capture_output=True, check=False)
    assert died.returncode == -9, died.stdout + died.stderr


def run_with(engine_factory: EngineFactory, work: TaskListProject, agent: str) -> JsonObject:
    """Run one worker in this process, with the given engine, and return the result."""
    return TaskList.open(str(work.root)).run(
        agents=[agent],
        policy=RefusalPolicy(),
        say=lambda _line: None,
        workers=1,
        engine_factory=engine_factory,
    )


def three(path: Path, name: str = "one") -> TaskListProject:
    return project(path / name, *[job(each, f"test -e {each}") for each in "abc"])


def damage(work: TaskListProject, how: str, path: Path) -> None:
    ledger = folder_of(work) / "ledger.jsonl"
    lines = ledger.read_bytes().splitlines(keepends=True)
    if how == "torn":
        ledger.write_bytes(b"".join([lines[0], lines[1][:40], b"\n", *lines[2:]]))
    elif how == "gone":
        ledger.unlink()
    elif how == "cut":
        ledger.write_bytes(lines[0][:20])
    elif how == "impossible":
        ledger.write_bytes(b'{"n":1,"type":"landed","batch":1,"item":"a"}\n{"n":2,"type":"first","item":"a"}\n')
    else:
        other = project(path / "other", task("a", validation={"command": "test -e a", "timeout_seconds": 60}))
        assert other.harness("run", "--workers", "1", "--agent", other.agent("echo x > a")).code == 0
        ledger.write_bytes((folder_of(other) / "ledger.jsonl").read_bytes())


def told(out: str) -> list[str]:
    return [line for line in out.splitlines() if "The run starts anew." in line]


def aside(work: TaskListProject) -> list[Path]:
    return sorted(folder_of(work).glob("runs/damaged-*"))


def rescues(work: TaskListProject) -> dict[str, str]:
    found = work.harness("rescue", "list", "--json").json["rescues"]
    return {each["ref"]: each["commit"] for each in found}


@pytest.mark.kept("gone", "impossible")
@pytest.mark.parametrize(
    "how",
    ["gone", *(pytest.param(each, marks=pytest.mark.scenario) for each in ("torn", "foreign", "impossible", "cut"))],
)
def test_a_journal_that_cannot_be_read_is_set_aside_and_what_was_proven_lands_once(tmp_path: Path, how: str) -> None:
    """SC-14, SC-29: commands that only read end with exit 6; the next run says in one line what becomes of all."""
    work, starts = three(tmp_path), tmp_path / "starts"
    words = killed(work, "before:batched", starts)
    proven, begun = {each.id for each in work.state.tasks if each.raw.get("landing")}, starts.read_text().split()
    assert proven
    damage(work, how, tmp_path)
    ledger = folder_of(work) / "ledger.jsonl"
    content = [path.read_bytes() for path in [ledger] if path.exists()]
    before = work.files()
    looked = work.harness("queue")
    assert (looked.code, "sets the journal aside and starts anew" in looked.err) == (6, True), looked
    assert work.harness("queue", "hold", "a").code == 6
    assert work.files() == before
    ran = work.harness(*words)
    assert (ran.code, work.statuses()) == (0, ["completed"] * 3), ran
    (line,) = told(ran.out)
    assert [path.read_bytes() for path in aside(work)] == content
    assert all(str(path) in line for path in (ledger, *aside(work)))
    assert all(f" {item}" in line.partition("Proven, and merged next:")[2] for item in proven)
    assert "Not known any more" in line
    assert sorted(landed(work)) == ["a", "b", "c"]
    assert not {*starts.read_text().split()[len(begun) :]} & proven
    assert len([each for each in work.log() if "] Completed [" in each]) == 3
    assert work.status() == []
    again = work.harness(*words)
    assert (again.code, told(again.out), len(landed(work))) == (0, [], 3), again


@pytest.mark.kept("moved")
@pytest.mark.scenario
@pytest.mark.parametrize("moment", ["moved", "settled", "after:landing"])
def test_what_a_dead_run_had_merged_is_not_done_again_though_its_journal_is_gone(tmp_path: Path, moment: str) -> None:
    """SC-14: what is on the branch is only recorded; of all others, each lands once."""
    work, starts = three(tmp_path), tmp_path / "starts"
    words = killed(work, moment, starts)
    merged, begun = landed(work), starts.read_text().split()
    assert bool(merged) == (moment != "after:landing")
    damage(work, "gone", tmp_path)
    ran = work.harness(*words)
    assert (ran.code, work.statuses()) == (0, ["completed"] * 3), ran
    assert not {*starts.read_text().split()[len(begun) :]} & {*merged}
    assert sorted(landed(work)) == ["a", "b", "c"]
    assert len([line for line in work.log() if "] Completed [" in line]) == 3
    assert all(work.repo.git("rev-parse", f"{work.task(name).completed_commit}^{{commit}}") for name in "abc")
    assert work.status() == []


@pytest.mark.scenario
@pytest.mark.parametrize(
    ("moment", "content"),
    [("files", "date +%N"), ("before:ended", "echo x"), ("booked", "echo x"), ("after:landing", "echo x")],
)
def test_what_is_proven_is_proven_once_though_the_journal_is_gone(tmp_path: Path, moment: str, content: str) -> None:
    """SC-14: also what nobody has recorded yet, and a merge whose files are there, but whose branch has not moved."""
    work, starts = project(tmp_path, job("a", "test -e a")), tmp_path / "starts"
    words = ["run", "--workers", "1", "--agent", work.agent(f"echo x >> {starts}; {content} > a")]
    die(work, moment, words)
    damage(work, "gone", tmp_path)
    ran = work.harness(*words)
    assert (ran.code, work.statuses(), landed(work), work.status()) == (0, ["completed"], ["a"], []), ran
    assert (starts.read_text(), rescues(work), len(told(ran.out))) == ("x\n", {}, 1)


@pytest.mark.scenario
@pytest.mark.parametrize("moment", ["moved", "before:batched"])
def test_what_a_dead_run_had_for_another_branch_lands_there(tmp_path: Path, moment: str) -> None:
    """SC-36: the run names that branch, and nothing is merged to the one that is checked out by now."""
    work = project(tmp_path, job("a"))
    words = ["run", "--workers", "1", "--agent", work.agent(WORKS)]
    die(work, moment, words)
    damage(work, "gone", tmp_path)
    work.repo.git("switch", "-q", "-c", "other", "HEAD^" if moment == "moved" else "HEAD")
    ran = work.harness(*words)
    assert (ran.code, "git switch main" in ran.err) == (4, True), ran
    work.repo.git("switch", "-q", "main")
    assert work.harness(*words).code == 0
    assert (work.statuses(), landed(work)) == (["completed"], ["a"])


@pytest.mark.scenario
def test_a_run_that_died_between_two_journals_goes_on_with_the_first(tmp_path: Path) -> None:
    """SC-14: there is a journal at any moment, so what was proven lands, and no agent begins again."""
    work, starts = project(tmp_path, job("a")), tmp_path / "starts"
    agent = work.agent(f"echo x >> {starts}; {WORKS}")
    words = ["run", "--workers", "1", "--agent", agent]
    die(work, "before:batched", words)
    assert work.harness("queue", "hold", "a").code == 0
    assert subprocess.run([*HARNESS, *words], cwd=work.root, capture_output=True, check=False).returncode == 3
    die(work, "before:run", words)
    assert work.harness("queue").code == 0
    ran = work.harness(*words)
    assert (ran.code, told(ran.out), aside(work)) == (3, [], []), ran
    assert work.harness("queue", "release", "a").code == 0
    assert work.harness(*words).code == 0
    assert (landed(work), starts.read_text(), rescues(work)) == (["a"], "x\n", {})


@pytest.mark.scenario
def test_what_a_run_carried_and_merged_lands_once_though_its_own_journal_is_gone(tmp_path: Path) -> None:
    """SC-14: the journal of the run before does not know the merge, but the branch does."""
    work, starts = project(tmp_path, job("a", "test -e a")), tmp_path / "starts"
    words = ["run", "--workers", "1", "--agent", work.agent(f"echo x | tee -a {starts} > a")]
    die(work, "before:batched", words)
    assert work.harness("queue", "hold", "a").code == 0
    assert subprocess.run([*HARNESS, *words], cwd=work.root, capture_output=True, check=False).returncode == 3
    assert work.harness("queue", "release", "a").code == 0
    die(work, "moved", words)
    (work.root / "a").write_text("y\n")
    work.repo.git("commit", "-qam", "By a person")
    damage(work, "gone", tmp_path)
    ran = work.harness(*words)
    assert (ran.code, work.statuses(), landed(work), starts.read_text()) == (0, ["completed"], ["a"], "x\n"), ran


@pytest.mark.scenario
def test_a_plain_run_after_a_torn_journal_loses_nothing_and_does_nothing_twice(tmp_path: Path) -> None:
    """SC-14: one agent; what was proven lands first, and each task is completed once."""
    work, starts = three(tmp_path), tmp_path / "starts"
    killed(work, "before:batched", starts)
    proven = {each.id for each in work.state.tasks if each.raw.get("landing")}
    damage(work, "torn", tmp_path)
    starts.unlink()
    ran = work.harness("run", "--agent", work.agent(f"echo $HARNESS_TASK_ID | tee -a {starts} > $HARNESS_TASK_ID"))
    assert (ran.code, work.statuses(), len(told(ran.out))) == (0, ["completed"] * 3, 1), ran
    assert not proven & {*(starts.read_text().split() if starts.exists() else ())}
    assert len([line for line in work.log() if "] Completed [" in line]) == 3


def test_the_journal_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    work = project(tmp_path, job("a"))
    assert work.harness("run", "--workers", "1", "--agent", work.agent("exit 1")).code
    ledger = folder_of(work) / "ledger.jsonl"
    lines = ledger.read_bytes()
    newer = lines + b'{"n":%d,"type":"unheard"}\n' % (lines.count(b"\n") + 1)
    ledger.write_bytes(newer)
    ran = work.harness("run", "--workers", "1", "--agent", work.agent(WORKS))
    assert (ran.code, "install that version" in ran.err) == (6, True), ran
    assert (ledger.read_bytes(), aside(work)) == (newer, [])


@pytest.mark.scenario
def test_a_journal_that_is_no_file_and_rubbish_in_results_stop_nobody(tmp_path: Path) -> None:
    """Wrong parts of a result count as missing; anything in the journal's workspace is kept."""
    work, starts = three(tmp_path), tmp_path / "starts"
    words = killed(work, "before:batched", starts)
    folder = folder_of(work)
    rubbish = {"cost_usd": "much", "costs": "x", "verdicts": [1, None], "rescues": 7, "output": 5, "sessions": 7}
    for path in folder.glob("orders/*/result.json"):
        path.write_text(json.dumps({**json.loads(path.read_text()), **rubbish, "task": [], "outputs": "x"}))
    (folder / "ledger.jsonl").unlink()
    (folder / "ledger.jsonl").mkdir()
    ran = work.harness(*words)
    assert (ran.code, work.statuses(), len(told(ran.out))) == (0, ["completed"] * 3, 1), ran
    assert [path.is_dir() for path in aside(work)] == [True]
    assert sorted(landed(work)) == ["a", "b", "c"]
    work.edit(tasks=[*work.raw["tasks"], job("d", "test -e d")])
    assert work.harness("run", "--workers", "1", "--agent", work.agent("echo x > d")).code == 0


@pytest.mark.scenario
@pytest.mark.parametrize("moment", ["before:run", "after:run", "after:run@2"])
def test_a_fresh_start_that_is_killed_is_made_again(tmp_path: Path, moment: str) -> None:
    """Nothing is lost or done twice, whatever part of it is there already."""
    work, starts = three(tmp_path), tmp_path / "starts"
    words = killed(work, "before:batched", starts)
    proven, begun = {each.id for each in work.state.tasks if each.raw.get("landing")}, starts.read_text().split()
    damage(work, "torn", tmp_path)
    die(work, moment, words)
    ran = work.harness(*words)
    assert (ran.code, work.statuses()) == (0, ["completed"] * 3), ran
    assert not {*starts.read_text().split()[len(begun) :]} & proven
    assert len(aside(work)) == 1
    assert sorted(landed(work)) == ["a", "b", "c"]


class FarEngine(LocalEngine):
    """Engine that still has the jobs of a dead coordinator."""

    is_local = False

    def known(self, jobs: Sequence[Job]) -> dict[str, str]:
        return {each.id: RUNNING for each in jobs}


@pytest.mark.scenario
def test_what_is_under_way_elsewhere_is_not_begun_again_though_the_journal_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SC-14: its job keeps the item, and what comes back of it lands."""
    work, starts = project(tmp_path, job("a")), tmp_path / "starts"
    agent = work.agent(f"echo x >> {starts}; {WORKS}")
    die(work, "before:ended", ["run", "--workers", "1", "--agent", agent])
    starts.unlink()
    (result,) = folder_of(work).glob("orders/*/result.json")
    result.unlink()
    (folder_of(work) / "ledger.jsonl").unlink()
    order = work.task("a").claim_token
    monkeypatch.chdir(work.root)
    ran = run_with(lambda git, folder, say, refs: FarEngine(), work, agent)
    assert (ran["exit_code"], work.statuses(), landed(work)) == (0, ["completed"], ["a"]), ran
    lines = (folder_of(work) / "ledger.jsonl").read_text().splitlines()
    assert [each["order"] for each in map(json.loads, lines) if each["type"] == "ordered"] == [order]
    assert starts.read_text() == "x\n"
