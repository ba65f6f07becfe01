"""Data that decides about a long task is out of a worker's reach: its contract, its proof, its costs."""

import json
import shlex
import shutil
import sys
import time
from pathlib import Path

import pytest

from agent_harness.testing.long_task_project import LongTaskProject, argv, book
from agent_harness.testing.repo import Repo

PROVEN = {"id": "proven", "description": "d", "metric": "command", "target": "test -f artifacts/proof"}
EASY = 'sed -i "s/test -f artifacts.proof/true/" task.json'
DONE = 'sed -i \'s/"status": "active"/"status": "done"/\' checkpoint.json'
FORGED = (
    '{"type":"checkpoint_written","at":"2999-03-01T12:00:00.000Z","status":"done","reason":"claim of done verified"}'
)


@pytest.fixture
def project(tmp_path: Path) -> LongTaskProject:
    made = LongTaskProject.of_book(tmp_path / "book")
    made.task = book(successCriteria=[PROVEN])
    return made


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_contract_that_a_worker_has_edited_asks_a_person(project: LongTaskProject) -> None:
    assert project.run(EASY).json["status"] == "paused"
    for words in (("next",), ("run", "--command", "touch ran")):
        due = project.lth(*words, code=0).json
        assert due["decision"] == "needs-human", due
        assert "task.json was changed (successCriteria)" in due["reason"]
        assert "lth accept" in due["reason"]
    assert not (project.root / "ran").exists()
    assert project.lth("accept").out == "Accepted task.json of book: successCriteria\n"
    assert project.run("true").json["status"] == "done"


def test_a_worker_that_says_done_by_a_contract_of_its_own_is_judged_by_the_one_before(project: LongTaskProject) -> None:
    answer = project.run(f"{EASY}; {DONE}").json
    assert (answer["status"], answer["verification"]["checks"][0]["exitCode"]) == ("paused", 1)
    assert project.checkpoint["status"] == "paused"


@pytest.mark.parametrize("words", ["accept", "init --force"])
def test_a_worker_cannot_accept_its_own_contract(project: LongTaskProject, words: str) -> None:
    command, _, rest = words.partition(" ")
    project.run(f"{EASY}; {shlex.join(argv(command, str(project.root)))} {rest} 2> said; echo $? > code")
    assert (project.root / "code").read_text() == "1\n"
    said = (project.root / "said").read_text()
    assert said.startswith(f"lth {command} is a decision for the user") and said.count("\n") == 1
    assert project.lth("next").json["decision"] == "needs-human"


@pytest.mark.parametrize("log", ["", FORGED], ids=["emptied", "forged"])
def test_a_log_that_a_worker_wrote_proves_nothing(project: LongTaskProject, log: str) -> None:
    project.run("true")
    for path in (project.root / "runs").glob("*.jsonl"):
        path.write_text("")
    (project.root / "runs/2999-03-01.jsonl").write_text(log + "\n" * bool(log))
    project.checkpoint = {**project.checkpoint, "status": "done"}
    assert project.lth("next").json["reason"] == "a claim of done is not verified"
    (project.root / "artifacts/proof").touch()
    assert project.run("true").json["status"] == "done"
    shutil.rmtree(project.root / "runs")
    assert project.lth("next").json["decision"] == "done"


@pytest.mark.scenario
def test_slices_and_cost_are_counted_also_when_the_log_is_gone(project: LongTaskProject) -> None:
    project.task = book(successCriteria=[PROVEN], workerPolicy={"preferred": "local-command", "maxSlices": 2})
    for _ in range(2):
        assert project.run("rm -rf runs").json["decision"] == "run"
    answer = project.run("touch ran").json
    assert (answer["decision"], "maxSlices" in answer["reason"]) == ("needs-human", True)
    project.lth("init", "--force", "--objective", "x", "--criterion-command", "true", "--worker", "local-command")
    assert project.run("true").json["decision"] == "run"  # another task in its place begins anew


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_person_may_edit_a_contract_that_no_worker_has_seen(project: LongTaskProject) -> None:
    project.write("task.json", {**project.task, "title": "Another title"})
    assert project.run("true").json["decision"] == "run"
    project.write("task.json", json.dumps(project.task, indent=8))  # another layout is the same contract
    assert project.run("true").json["decision"] == "run"


# ---- tests that cannot fail

EQUAL = """\
class Any(str):
    __hash__ = None

    def __eq__(self, other):
        return True


def four():
    return Any()
"""
FOUR = """\
from four import four


def test_one():
    pass


def test_four():
    assert four() == 'IV'
"""
SKIPS = "import unittest\n\n\ndef four():\n    raise unittest.SkipTest('hard')\n"


@pytest.mark.kept(
    "import unittest\\n\\n\\ndef four():\\n    raise unittest.SkipTest('hard')\\n-fast-skipped while they ran"
)
@pytest.mark.scenario
@pytest.mark.parametrize(
    ("work", "trust", "said"),
    [
        ("def four():\n    return 'IV'\n", "normal", None),
        (EQUAL, "normal", "The tests notice no change"),
        (EQUAL, "fast", None),
        (SKIPS, "fast", "skipped while they ran"),
    ],
)
def test_a_claim_of_tests_that_prove_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, work: str, trust: str, said: str | None
) -> None:
    monkeypatch.delenv("HARNESS_VERIFICATION__TRUST", raising=False)
    repo = Repo(tmp_path / "code")
    repo.write("test_four.py", FOUR)
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "First")
    (tmp_path / "work.py").write_text(work)
    project = LongTaskProject.of_book(tmp_path / "book")
    proof = {"command": f"{sys.executable} -m pytest --disable-plugin-autoload -q test_four.py", "cwd": str(repo.path)}
    project.task = book(
        successCriteria=[{"id": "four", "description": "d", "metric": "command", "target": proof}],
        workerPolicy={"preferred": "local-command", "trust": trust},
        context={"repoPath": str(repo.path)},
        localWorker={"cwd": str(repo.path)},
    )
    answer = project.run(f"cp {tmp_path}/work.py four.py").json
    assert answer["status"] == ("done" if said is None else "paused"), answer
    assert repo.git("for-each-ref", "--format=%(refname)", "refs/harness/slices/*-claimed") == ""
    if said:
        assert said in project.checkpoint["nextStep"] or said in json.dumps(answer)


@pytest.mark.scenario
def test_a_bent_script_is_seen_also_when_the_run_was_killed(project: LongTaskProject) -> None:
    project.task = book(successCriteria=[{**PROVEN, "target": "sh check.sh"}])
    project.write("check.sh", "test -f artifacts/proof\n")
    bends = f"echo true > check.sh; {DONE}; touch bent; exec sleep 60"
    running = project.start("run", "--worker", "local-command", "--command", bends, "--lock-ttl-seconds", "1")
    until = time.monotonic() + 60
    while not (project.root / "bent").exists() and time.monotonic() < until:
        time.sleep(0.05)
    running.kill()
    running.communicate()
    answer = project.run("true").json
    while answer["reason"] == "task lock is active" and time.monotonic() < until:
        answer = project.run("true").json
    assert answer["verification"]["checks"][0]["exitCode"] is None, answer
    assert "check.sh proves this task" in answer["verification"]["checks"][0]["message"]
