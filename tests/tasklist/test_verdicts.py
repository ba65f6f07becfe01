"""Verdicts on each claim of a task list: one line a claim, for ever, whoever was killed in between."""

import json
import signal
from pathlib import Path

import pytest

from agent_harness.errors import LockBusy, VerificationFailed
from agent_harness.protocols.tasklist import proven
from agent_harness.protocols.tasklist.attempts import recover, verbs
from agent_harness.session import ledger
from agent_harness.session.ledger import ClaimVerdict
from agent_harness.testing.task_list_project import TASK, TaskListProject

from .test_killed import left_alone, start, until


def verdicts(project: TaskListProject) -> list[ClaimVerdict]:
    """Every line, oldest first; the chain is whole."""
    path = proven.ledger(project.layout)
    assert not path.startswith(str(project.root)), "where an agent does not look"
    assert ledger.check(path).whole
    return list(ledger.newest_first(path))[::-1]


@pytest.fixture
def project(tmp_path: Path) -> TaskListProject:
    return TaskListProject.with_sources(tmp_path).add()


CHECKS = "test -f new && ! grep -q broken new"


def test_a_claim_that_is_refused_and_then_believed(project: TaskListProject) -> None:
    """F-REC-1 F-REC-2: a line each, with what the command printed."""
    project.edit(TASK, validation={"command": CHECKS + " && echo proven || { echo not yet; exit 3; }"})
    caller = project.hold()
    base = project.repo.head
    with pytest.raises(VerificationFailed):
        verbs.complete(caller, TASK)
    project.repo.write("new", "x")
    done = verbs.complete(caller, TASK)
    first, second = verdicts(project)
    assert (first.item, first.claim, first.attempt, first.verdict) == (TASK, (TASK,), 1, "rejected")
    assert (first.codes, first.base, first.commit) == (("proof_failed",), base, None)
    (proof,) = [step for step in first.steps if step.step == "proof"]
    assert (proof.exit, proof.result, proof.log) == (3, "failed", ".harness/logs/verdicts/1-proof.txt")
    assert "not yet" in (project.root / str(proof.log)).read_text()
    assert (second.verdict, second.commit, second.red_base) == ("accepted", done["commit"], base)
    assert {step.step: step.result for step in second.steps} == dict.fromkeys(("guard", "proof", "red"), "passed")
    assert "proven" in (project.root / ".harness/logs/verdicts/2-proof.txt").read_text()
    assert second.isolation == "worktree"
    assert set(second.tools) == {"git"}


def test_the_same_files_claimed_again_are_another_claim(project: TaskListProject) -> None:
    project.edit(TASK, validation={"command": "false"})
    caller = project.hold()
    project.repo.write("new", "x")
    for _ in range(2):
        with pytest.raises(VerificationFailed):
            verbs.complete(caller, TASK)
    assert [each.verdict for each in verdicts(project)] == ["rejected", "rejected"]


def test_looking_is_no_claim_and_a_pass_before_is_told_with_the_claim(project: TaskListProject) -> None:
    project.edit(TASK, validation={"command": f"{CHECKS} && echo it holds"})
    caller = project.hold()
    project.repo.write("new", "x")
    assert verbs.validate(caller, TASK)["result"] == "PASS"
    assert verdicts(project) == []
    assert verbs.complete(caller, TASK)["validation"] is None
    (found,) = verdicts(project)
    assert (found.verdict, [step.step for step in found.steps]) == ("accepted", ["proof"])
    assert found.steps[0].seconds is not None
    assert "it holds" in (project.root / str(found.steps[0].log)).read_text()


def test_what_the_guard_refuses_is_not_run(project: TaskListProject) -> None:
    project.repo.write("check.sh", "test -f new\n").stage("check.sh").commit("Check", stage=False)
    project.edit(TASK, validation={"command": "sh check.sh"})
    caller = project.hold()
    project.repo.write("check.sh", "true\n")
    with pytest.raises(VerificationFailed):
        verbs.complete(caller, TASK)
    (found,) = verdicts(project)
    assert [(step.step, step.result) for step in found.steps] == [("guard", "failed")]
    assert found.verdict == "rejected"
    assert "proof_failed" not in found.codes


def test_a_command_that_passed_before_is_told_of(project: TaskListProject) -> None:
    project.edit(TASK, validation={"command": "true"})
    caller = project.hold()
    project.repo.write("new", "x")
    verbs.complete(caller, TASK)
    (found,) = verdicts(project)
    assert (found.verdict, found.codes, found.red_base) == ("accepted", ("green_before",), None)
    assert {step.step: step.result for step in found.steps} == {"guard": "passed", "proof": "passed", "red": "warned"}


def test_a_task_that_is_marked_in_the_file_is_looked_at_and_told_of(project: TaskListProject) -> None:
    """A mark in the file is a claim as well; who made it is not known."""
    project.edit(TASK, validation={"command": "test -f new"})
    caller = project.hold()
    project.repo.write("other", "x")
    verbs.release(caller, TASK, "no time")
    assert recover.confirm(project.caller("first")) == []
    project.edit(TASK, status="completed")
    assert recover.confirm(project.caller("next"))[0]["action"] == "reopened"
    (found,) = verdicts(project)
    assert (found.verdict, found.codes, found.claim) == ("rejected", ("marked_by_hand", "proof_failed"), (TASK,))


def test_what_a_person_takes_back_is_their_word(project: TaskListProject) -> None:
    project.edit(TASK, validation={"command": CHECKS})
    caller = project.hold()
    project.repo.write("new", "x")
    verbs.complete(caller, TASK)
    ran = project.harness("task", "set", TASK, "status=pending")
    assert ran.code == 0, ran
    first, word = verdicts(project)
    assert (word.by, word.word, word.of, word.verdict) == ("person", "status=pending", first.n, "rejected")


# -- killed ------------------------------------------------------------------------------------------------------------


def test_killed_between_the_verdict_and_the_state(project: TaskListProject) -> None:
    """F-REC-1: judged and committed, killed before the state says so: one line, written by the recovery."""
    project.edit(TASK, validation={"command": CHECKS})
    caller = project.hold()
    base = project.repo.head
    project.repo.write("new", "x")
    with caller.store.lock():
        child = start(project, str(caller.token), "complete")
        until(lambda: project.repo.head != base)
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert verdicts(project) == []
    left_alone(project)
    recover.recover(project.caller("next"), TASK)
    (found,) = verdicts(project)
    assert (found.verdict, found.commit) == ("accepted", project.repo.head)


def test_a_line_that_was_written_before_the_kill_stays_alone(project: TaskListProject) -> None:
    """The line is there and the state is not: neither the agent that asks again nor a recovery adds another one."""
    project.edit(TASK, validation={"command": CHECKS})
    caller = project.hold()
    project.repo.write("new", "x")
    caller.store.lock_timeout_seconds = 0.3
    with project.caller().store.lock(), pytest.raises(LockBusy):
        verbs.complete(caller, TASK)
    own = project.task()
    line = verbs.on_record(caller, own, verbs.proof_of(caller, own), claimed=True)
    ledger.write(proven.ledger(project.layout), line)
    left_alone(project)
    recover.recover(project.caller("next"), TASK)
    assert project.task().status == "completed"
    assert [each.id for each in verdicts(project)] == [line.id]


def test_a_rejection_that_was_told_before_the_kill_is_not_told_again(project: TaskListProject) -> None:
    project.edit(TASK, validation={"command": "false"})
    caller = project.hold()
    project.repo.write("new", "x")
    with pytest.raises(VerificationFailed):
        verbs.complete(caller, TASK)
    left_alone(project)
    recover.recover(project.caller("next"), TASK)
    assert project.task().status == "failed"
    assert [each.verdict for each in verdicts(project)] == ["rejected"]


# -- `harness run` -----------------------------------------------------------------------------------------------------


AGENT = """
echo x >> "$COUNTED"
case $(wc -l < "$COUNTED") in 1) echo broken > new; cost=0.5;; 4) echo x > new; cost=0.125;; *) cost=0.25;; esac
echo '{"type": "usage", "input_tokens": 10, "output_tokens": 10, "model": "m-1", "cost_usd": '$cost'}'
"""


@pytest.mark.exhaustive
@pytest.mark.scenario
def test_a_run_tells_agent_and_cost_and_each_attempt_has_its_row(tmp_path: Path) -> None:
    """F-REC-1 F-REC-3: agent, model and cost of each claim; base, head, rescue and turns of each attempt."""
    project = TaskListProject.with_sources(tmp_path).add(validation=CHECKS, max_attempts=2)
    base = project.repo.head
    ran = project.harness("run", "--agent", project.agent(AGENT), COUNTED=str(tmp_path / "count"))
    assert ran.code == 0, ran
    found = verdicts(project)
    assert [(each.verdict, each.attempt, each.cost_usd) for each in found] == [
        ("rejected", 1, 0.5),
        ("rejected", 1, 0.75),
        ("rejected", 1, 1.0),
        ("accepted", 2, 0.125),
    ]
    assert {(each.agent, each.model, each.session) for each in found} == {("command", "m-1", 2)}
    first, second = [json.loads(line) for line in Path(project.layout.costs).read_text().splitlines()]
    assert (first["result"], first["attempt"], first["base"], first["head"]) == ("failed", 1, base, base)
    assert (first["turns"], first["interventions"], first["model"]) == (3, [], "m-1")
    assert first["rescue_ref"] == f"refs/harness/rescue/{TASK}/1"
    assert (second["result"], second["head"], second["rescue_ref"]) == ("completed", project.repo.head, None)
    for row in (first, second):
        assert row["started_at"] <= row["at"]
        assert row["seconds"] > 0
    assert [f"{each['seconds']}" for each in project.harness("log", "sessions", "--json").json["sessions"]] == [
        f"{row['seconds']}" for row in (first, second)
    ]
    assert (second["prompt_type"], second["agent"], second["cost_usd"]) == ("coding", "command", 0.125)


def test_many_workers_share_one_chain(tmp_path: Path) -> None:
    project = TaskListProject.with_sources(tmp_path, mode="concurrent")
    for number in range(3):
        project.add(f"t-{number}", validation="true")
        verbs.complete(project.hold(f"t-{number}", name=f"worker-{number}"), f"t-{number}")
    assert [each.n for each in verdicts(project)] == [1, 2, 3]


def test_doctor_says_when_a_verdict_was_altered(project: TaskListProject) -> None:
    project.edit(TASK, validation={"command": "true"})
    verbs.complete(project.hold(), TASK)
    path = Path(proven.ledger(project.layout))
    path.write_text(path.read_text().replace('"n":1', '"n":2'))
    told = project.harness("doctor", "--json").json["checks"]
    assert [each["state"] for each in told if each["name"] == "verdicts"] == ["wrong"]
