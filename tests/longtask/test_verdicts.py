"""Verdicts on each claim of a long task: one line a claim, for ever, whoever was killed in between."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from agent_harness.cli import main
from agent_harness.protocols.longtask.layout import LongTaskLayout
from agent_harness.session import ledger
from agent_harness.session.ledger import ClaimVerdict
from agent_harness.testing import run_in_process
from agent_harness.testing.long_task_project import LongTaskProject, book

BUILT = {"id": "built", "description": "It is built.", "metric": "command", "target": "cat artifacts/built"}
SAID = {"id": "said", "description": "It is said.", "metric": "output_contains", "target": "finished"}
MANUAL = {"id": "seen", "description": "Somebody looked.", "metric": "manual"}
SAYS_DONE = (
    f"{shlex.quote(sys.executable)} -c \"import json; p = 'checkpoint.json'; d = json.load(open(p)); "
    "d['status'] = 'done'; json.dump(d, open(p, 'w'))\""
)
BUILDS = "echo bricks > artifacts/built"


def verdicts(project: LongTaskProject) -> list[ClaimVerdict]:
    """Every line, oldest first; the chain is whole."""
    path = LongTaskLayout(project.root).ledger()
    assert not path.startswith(str(project.root)), "where a worker does not look"
    assert ledger.check(path).whole
    return list(ledger.newest_first(path))[::-1]


def a_book(tmp_path: Path, *criteria: dict[str, Any]) -> LongTaskProject:
    project = LongTaskProject.of_book(tmp_path / "task")
    project.task = book(successCriteria=list(criteria), context={"repoPath": "."})
    return project


def test_a_claim_that_does_not_hold_and_one_that_does(tmp_path: Path) -> None:
    """F-REC-1 F-REC-2: each criterion is a step; what its command printed is kept."""
    project = a_book(tmp_path, BUILT, SAID)
    assert project.run(f"cd {project.root}; {SAYS_DONE}").json["status"] == "paused"
    assert project.run(f"cd {project.root}; {BUILDS}; echo finished; {SAYS_DONE}").json["status"] == "done"
    first, second = verdicts(project)
    assert (first.item, first.claim, first.attempt, first.agent) == ("book", ("book",), 1, "local-command")
    assert (first.verdict, first.codes) == ("rejected", ("criteria_unmet",))
    assert [(step.step, step.name, step.result) for step in first.steps] == [
        ("criterion", "built", "failed"),
        ("criterion", "said", "failed"),
    ]
    assert first.steps[0].command == "cat artifacts/built"
    assert first.steps[0].log == "runs/verdicts/1-criterion-built.txt"
    assert "No such file" in (project.root / first.steps[0].log).read_text()
    assert (second.verdict, second.attempt, second.codes) == ("accepted", 2, ())
    assert "bricks" in (project.root / str(second.steps[0].log)).read_text()


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_work_that_holds_is_accepted_without_a_claim(tmp_path: Path) -> None:
    project = a_book(tmp_path, BUILT)
    assert project.run("true").json["status"] == "paused"
    assert verdicts(project) == [], "nobody said that it is done, and it is not"
    assert project.run(BUILDS).json["status"] == "done"
    (found,) = verdicts(project)
    assert (found.verdict, found.claim) == ("accepted", ())


def test_the_claim_of_a_worker_that_failed_is_refused(tmp_path: Path) -> None:
    project = a_book(tmp_path, BUILT)
    project.run(f"cd {project.root}; {BUILDS}; {SAYS_DONE}; exit 3", code=3)
    (found,) = verdicts(project)
    assert (found.verdict, found.codes, found.claim) == ("rejected", ("worker_failed",), ("book",))


def test_the_claim_of_a_worker_that_was_stopped_is_refused(tmp_path: Path) -> None:
    project = a_book(tmp_path, BUILT)
    ready = tmp_path / "ready"
    command = f"cd {project.root}; {BUILDS}; {SAYS_DONE}; touch {ready}; sleep 600"
    with project.start("run", "--worker", "local-command", "--command", command) as running:
        while not ready.exists():
            assert running.poll() is None
            time.sleep(0.02)
        running.send_signal(signal.SIGTERM)
        running.communicate()
    (found,) = verdicts(project)
    assert (found.verdict, found.codes, found.claim) == ("rejected", ("cut_short",), ("book",))


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_persons_word(tmp_path: Path) -> None:
    """Verdicts of a person on a criterion, and on the task as done, each about the line before."""
    project = a_book(tmp_path, BUILT, MANUAL)
    assert project.run(BUILDS).json["status"] == "needs-human"
    project.lth("record", "--status", "done", code=1)
    project.lth("evidence", "--type", "review-note", "--criterion-id", "seen", "--status", "passed", code=0)
    project.lth("record", "--status", "done", code=0)
    found = verdicts(project)
    assert [(each.by, each.word, each.verdict, each.of) for each in found] == [
        ("person", "record done", "rejected", None),
        ("person", "evidence", "accepted", 1),
        ("person", "record done", "accepted", 2),
    ]
    assert [step.name for step in found[1].steps] == ["seen"]


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_slice_has_its_row(tmp_path: Path) -> None:
    """F-REC-3: what it began and ended with, its turns, and its cost where that is known."""
    project = a_book(tmp_path, BUILT)
    git = ("git", "-C", str(project.root))
    for words in (("init", "-q"), ("add", "task.json"), ("commit", "-q", "-m", "Begin")):
        subprocess.run([*git, *words], check=True)
    base = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    script = tmp_path / "script.json"
    steps = [{"run": f"{BUILDS}; git add artifacts; git commit -q -m Built"}]
    steps += [{"usage": {"input_tokens": 10, "output_tokens": 5, "cost_usd": 0.25}}]
    script.write_text(json.dumps({"turns": [{"do": steps}]}))
    answer = project.lth("run", "--worker", f"scripted:{script}").json
    assert answer["status"] == "done", answer
    head = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    (row,) = project.events("worker_completed")
    assert (row["base"], row["head"], row["turns"], row["interventions"], row["told"]) == (base, head, 1, [], [])
    assert row["rescueRef"].startswith("refs/harness/slices/book/")
    assert row["promptType"] == "coding"
    assert row["usage"]["costUsd"] == 0.25
    (found,) = verdicts(project)
    assert (found.base, found.commit, found.cost_usd) == (base, head, 0.25)


def test_what_a_person_said_to_a_worker_is_on_record(tmp_path: Path) -> None:
    """F-REC-3: with who and when, in the row of the slice that was told."""
    project = a_book(tmp_path, BUILT)
    project.run("true")
    told = run_in_process(main.main, "harness", "say", "Use bricks.", "--json", cwd=project.root)
    assert told.code == 0, told
    said = told.json
    project.run(BUILDS)
    before, row = project.events("worker_completed")
    assert before["told"] == []
    assert row["told"] == [{"at": said["at"], "by": said["by"], "text": "Use bricks."}]


# -- killed ------------------------------------------------------------------------------------------------------------

DIES = """
import os, signal, sys

real_open, real_fsync = os.open, os.fsync


def opened(path, *words, **more):
    if os.environ["DIES"] == "judged" and str(path).endswith("/verdicts.jsonl"):
        os.kill(os.getpid(), signal.SIGKILL)
    return real_open(path, *words, **more)


def synced(descriptor):
    real_fsync(descriptor)
    if os.environ["DIES"] == "written" and os.readlink(f"/proc/self/fd/{descriptor}").endswith("/verdicts.jsonl"):
        os.kill(os.getpid(), signal.SIGKILL)


os.open, os.fsync = opened, synced
from agent_harness.cli.lth import main

sys.exit(main())
"""


@pytest.mark.kept("True-judged", "False-written")
@pytest.mark.scenario
@pytest.mark.kill
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
@pytest.mark.parametrize("when", ["judged", "written"])
@pytest.mark.parametrize("builds", [True, False])
def test_a_claim_of_a_killed_run_is_told_of_once(tmp_path: Path, when: str, builds: bool) -> None:
    """F-REC-1: killed between the judgement and the checkpoint; the next run judges again and writes no second line."""
    project = a_book(tmp_path, BUILT)
    script = tmp_path / "dies.py"
    script.write_text(DIES)
    command = f"cd {project.root}; {BUILDS if builds else 'true'}; {SAYS_DONE}"
    words = [sys.executable, str(script), "run", str(project.root), "--worker", "local-command", "--command", command]
    died = subprocess.run([*words, "--lock-ttl-seconds", "1"], env={**os.environ, "DIES": when}, check=False)
    assert died.returncode == -signal.SIGKILL
    time.sleep(1.1)  # its lease has run out
    for _ in range(2):
        project.lth_process("run", "--worker", "local-command", "--command", "true")
    claimed = [each for each in verdicts(project) if each.claim]
    assert [each.verdict for each in claimed] == ["accepted" if builds else "rejected"]


def test_health_says_when_a_verdict_was_altered(tmp_path: Path) -> None:
    project = a_book(tmp_path, BUILT)
    assert "verdicts" not in {each["name"] for each in project.lth("health").json["checks"]}
    project.run(BUILDS)
    path = Path(LongTaskLayout(project.root).ledger())
    path.write_text(path.read_text().replace('"n":1', '"n":2'))
    (told,) = [each for each in project.lth("health").json["checks"] if each["name"] == "verdicts"]
    assert told["status"] == "fail"
