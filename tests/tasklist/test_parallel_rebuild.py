"""``harness queue rebuild``: a journal that is damaged, gone or another project's is made anew, and the run goes on."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from agent_harness.testing.task_list_project import TaskListProject, task

from .test_parallel import job, landed, project, together

DYING = Path(__file__).parents[1] / "parallel/dying.py"


def folder_of(work: TaskListProject) -> Path:
    found = Path(os.environ["XDG_STATE_HOME"], "agent-harness/projects").glob("*/parallel")
    return next(each for each in found if str(work.root).replace("/", "%") in each.parent.name)


def killed(work: TaskListProject, moment: str, starts: Path) -> list[str]:
    """Kills a run of three at a moment; the command that goes on with it."""
    tools = starts.parent / "rendezvous"
    tools.mkdir()
    agent = f"echo $HARNESS_TASK_ID >> {starts}; {together(tools, 'abc', 'echo x > $HARNESS_TASK_ID')}"
    words = ["run", "--workers", "3", "--agent", work.agent(agent)]
    died = subprocess.run([sys.executable, str(DYING), moment, *words], cwd=work.root, capture_output=True, check=False)
    assert died.returncode == -9, died
    return words


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


@pytest.mark.kept("gone", "impossible")
@pytest.mark.parametrize(
    "how",
    ["gone", *(pytest.param(each, marks=pytest.mark.scenario) for each in ("torn", "foreign", "impossible"))],
)
def test_a_journal_that_cannot_be_read_is_made_anew_and_what_was_proven_lands_once(tmp_path: Path, how: str) -> None:
    """SC-14, SC-29: exit 6 names the command; what was proven is not asked for again, and each task lands once."""
    work, starts = three(tmp_path), tmp_path / "starts"
    words = killed(work, "before:batched", starts)
    proven = [each.id for each in work.state.tasks if each.raw.get("landing")]
    assert proven
    damage(work, how, tmp_path)
    before = work.files()
    looked = work.harness("queue")
    assert (looked.code, "harness queue rebuild" in looked.err) == (6, True), looked
    if how != "gone":
        ran = work.harness(*words)
        assert (ran.code, "harness queue rebuild" in ran.err) == (6, True), ran
        assert {*work.files()} == {*before}
        assert [each.id for each in work.state.tasks if each.raw.get("landing")] == proven
    made = work.harness("queue", "rebuild", "--json")
    assert (made.code, made.json["next"]) == (0, "harness run --workers 3"), made
    assert {*proven} <= {*made.json["items"]}
    assert any("Unknown" in line for line in made.json["said"])
    assert bool(made.json["kept"]) == (how != "gone")
    assert work.harness("queue", "rebuild").code == 7
    begun = starts.read_text().split()
    ran = work.harness(*words)
    assert (ran.code, work.statuses()) == (0, ["completed"] * 3), ran
    assert sorted(landed(work)) == ["a", "b", "c"]
    assert not {*starts.read_text().split()[len(begun) :]} & {*proven}
    assert len([line for line in work.log() if "] Completed [" in line]) == 3


@pytest.mark.kept("moved-gone")
@pytest.mark.scenario
@pytest.mark.parametrize(
    ("moment", "how"), [("moved", "gone"), ("settled", "gone"), ("after:landing", "gone"), ("before:batched", "cut")]
)
def test_a_run_whose_journal_is_gone_goes_on_by_itself(tmp_path: Path, moment: str, how: str) -> None:
    """SC-14: also where a landing was under way, which is not landed again, and where its first line was cut off."""
    work, starts = three(tmp_path), tmp_path / "starts"
    words = killed(work, moment, starts)
    proven, begun = [each.id for each in work.state.tasks if each.raw.get("landing")], starts.read_text().split()
    damage(work, how, tmp_path)
    ran = work.harness(*words)
    assert (ran.code, work.statuses()) == (0, ["completed"] * 3), ran
    assert not {*starts.read_text().split()[len(begun) :]} & {*proven}
    assert sorted(landed(work)) == ["a", "b", "c"]
    assert len([line for line in work.log() if "] Completed [" in line]) == 3
    assert all(work.repo.git("rev-parse", f"{work.task(name).completed_commit}^{{commit}}") for name in "abc")
    assert work.status() == []


def test_there_is_nothing_to_make_anew_where_no_run_has_been_or_an_agent_asks(tmp_path: Path) -> None:
    work = three(tmp_path)
    before = work.files()
    refused = work.harness("queue", "rebuild")
    assert (refused.code, "No parallel run in this project" in refused.err) == (7, True), refused
    asked = work.harness("queue", "rebuild", HARNESS_HOME_REPOSITORY=str(work.root), HARNESS_RUN_ID="r")
    assert (asked.code, "a decision for the user" in asked.err) == (4, True), asked
    assert (work.files(), json.loads(work.harness("queue", "rebuild", "--json").out)["ok"]) == (before, False)


@pytest.mark.exhaustive
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
    looked = work.harness("queue")
    assert (looked.code, "harness queue rebuild" in looked.err) == (6, True), looked
    made = work.harness("queue", "rebuild", "--json")
    assert (made.code, Path(made.json["kept"]).is_dir()) == (0, True), made
    ran = work.harness(*words)
    assert (ran.code, work.statuses()) == (0, ["completed"] * 3), ran
    assert sorted(landed(work)) == ["a", "b", "c"]
    work.edit(tasks=[*work.raw["tasks"], job("d", "test -e d")])
    assert work.harness("run", "--workers", "1", "--agent", work.agent("echo x > d")).code == 0
