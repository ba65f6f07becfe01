"""Criteria that held before a worker came that changed nothing: a person says whether the task is done."""

import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from agent_harness.protocols.longtask.layout import LongTaskLayout
from agent_harness.session import ledger
from agent_harness.testing import LTH
from agent_harness.testing.long_task_project import LongTaskProject, book

BUILT = {"id": "built", "description": "It is built.", "metric": "command", "target": "test -f wall"}
QUESTION = "built: the check already passes and nothing was changed: was the item already done?"
CLAIMS = f'{shlex.join(LTH)} record "$LTH_TASK_DIR" --status done'


def a_repository(tmp_path: Path, *, built: bool, policy: dict[str, Any] | None = None) -> LongTaskProject:
    """A task beside its working copy, which has the wall or not."""
    code = tmp_path / "code"
    code.mkdir()
    (code / "plan").write_text("a wall\n")
    if built:
        (code / "wall").write_text("bricks\n")
    for words in (("init", "-q"), ("add", "."), ("commit", "-q", "-m", "Begin")):
        subprocess.run(["git", "-C", str(code), *words], check=True)
    project = LongTaskProject.of_book(tmp_path / "task")
    policy = {"preferred": "local-command", **(policy or {})}
    project.task = book(successCriteria=[BUILT], context={"repoPath": str(code)}, workerPolicy=policy)
    return project


def last_verdict(project: LongTaskProject) -> ledger.ClaimVerdict:
    found = ledger.last_about(LongTaskLayout(project.root).ledger(), "book")
    assert found
    return found


@pytest.mark.parametrize("says", ["true", CLAIMS], ids=["silent", "claims"])
def test_a_worker_that_changes_nothing_is_not_done(tmp_path: Path, says: str) -> None:
    project = a_repository(tmp_path, built=True)
    answer = project.run(says).json
    assert answer["status"] == "needs-human", answer
    assert answer["verification"]["checks"][0]["grade"] == "unchanged"
    assert project.checkpoint["blocker"]["message"] == QUESTION
    assert "lth record" in project.checkpoint["nextStep"]
    assert (last_verdict(project).verdict, last_verdict(project).codes) == ("rejected", ("unchanged",))
    assert project.run("touch ran").json["decision"] == "needs-human"
    assert QUESTION in project.lth("status").out


def test_a_person_says_that_it_is_done(tmp_path: Path) -> None:
    project = a_repository(tmp_path, built=True)
    project.run("true")
    project.lth("record", "--status", "done", code=0)
    assert project.lth("next").json["decision"] == "done"
    assert (last_verdict(project).verdict, last_verdict(project).by) == ("accepted", "person")


def test_a_person_says_that_it_is_not_and_the_work_goes_on(tmp_path: Path) -> None:
    project = a_repository(tmp_path, built=True)
    project.run("true")
    project.lth("record", "--status", "active", "--note", "higher", code=0)
    assert project.run("echo more >> wall").json["status"] == "done"
    assert last_verdict(project).grade == "checked"


def test_a_person_has_accepted_it_beforehand(tmp_path: Path) -> None:
    project = a_repository(tmp_path, built=True, policy={"unchanged": "accept"})
    assert project.run("true").json["status"] == "done"
    assert last_verdict(project).grade == "checked"


def test_work_is_no_question(tmp_path: Path) -> None:
    project = a_repository(tmp_path, built=False)
    assert project.run("echo bricks > wall").json["status"] == "done"


@pytest.mark.parametrize("says", ["echo more >> wall", f"echo more >> wall; {CLAIMS}"], ids=["silent", "claims"])
def test_a_task_may_need_a_proof(tmp_path: Path, says: str) -> None:
    project = a_repository(tmp_path, built=True, policy={"requires": "proven"})
    answer = project.run(says).json
    assert answer["status"] == "paused", answer
    assert "requires: proven" in project.checkpoint["nextStep"]


def test_what_is_done_has_its_word_everywhere(tmp_path: Path) -> None:
    """The word of the record of verdicts, in the text and as members of JSON; none before the task is done."""
    project = a_repository(tmp_path, built=True)
    assert "proof:" not in project.lth("status").out and "grade" not in project.lth("summary").json
    project.run("echo more >> wall")
    basis = "the check already passed before the work"
    assert f"proof:      checked: built: {basis}" in project.lth("status").out
    assert [project.lth("summary").json[name] for name in ("grade", "basis")] == ["checked", f"built: {basis}"]
    (row,) = project.lth("ls", "--json").json["tasks"]
    assert (row["grade"], row["basis"]) == ("checked", f"built: {basis}")
    assert "done, checked" in project.lth("ls").out
    last = project.lth("tail").json["events"][-1]
    assert (last["reason"], last["grade"]) == ("claim of done verified", "checked")


def test_a_persons_word_is_named_as_that(project: LongTaskProject) -> None:
    project.run("true")
    project.lth("evidence", "--type", "review-note", "--criterion-id", "it-works", "--status", "passed", code=0)
    project.lth("record", "--status", "done", code=0)
    assert "proof:      a person's word" in project.lth("status").out
    assert project.lth("summary").json["grade"] is None
