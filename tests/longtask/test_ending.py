"""A task ends by itself, or asks for a person; a scheduler that goes on calling pays for nothing."""

import json
import shlex
import sys
from pathlib import Path

import pytest

from agent_harness.testing.long_task_project import LongTaskProject, book, program

HOLDS = {"id": "built", "description": "It is built.", "metric": "command", "target": "test -f artifacts/built"}
MANUAL = {"id": "seen", "description": "Somebody looked.", "metric": "manual"}
BUILDS = "touch artifacts/built; echo slice >> artifacts/slices"


def slices(project: LongTaskProject) -> int:
    """Return how many times a worker really ran."""
    return len((project.root / "artifacts/slices").read_text().splitlines())


def test_row_19_a_task_is_done_once_its_commands_hold_whatever_its_worker_may_write(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(successCriteria=[HOLDS])
    answer = project.run(BUILDS).json
    assert (answer["status"], answer["verification"]["status"]) == ("done", "pass")
    assert project.reasons()[-1] == "claim of done verified"
    assert project.lth("next").json["decision"] == "done"
    for _ in range(2):
        assert project.run(BUILDS).json["decision"] == "done"
    assert slices(project) == 1


def test_row_19_a_command_that_fails_leaves_the_task_open(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(successCriteria=[HOLDS])
    assert project.run("echo slice >> artifacts/slices").json["status"] == "paused"
    assert project.lth("next").json["decision"] == "run"


def test_row_19_where_only_a_persons_word_is_left_a_person_is_asked_and_no_slice_is_paid(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(successCriteria=[HOLDS, MANUAL])
    assert project.run(BUILDS).json["status"] == "needs-human"
    assert "seen" in project.checkpoint["nextStep"]
    assert project.run(BUILDS).json["decision"] == "needs-human"
    assert slices(project) == 1
    project.lth("evidence", "--type", "review-note", "--criterion-id", "seen", "--status", "passed", code=0)
    project.lth("record", "--status", "done", code=0)
    project.loads()


def test_row_19_a_task_that_only_persons_decide_ends_once_they_have(tmp_path: Path) -> None:
    """N8: criteria that all hold end a task, whoever decided them; before that a slice is no reason to ask."""
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(successCriteria=[MANUAL])
    assert project.run(BUILDS).json["status"] == "paused"
    project.lth("evidence", "--type", "review-note", "--criterion-id", "seen", "--status", "failed", code=0)
    assert project.run(BUILDS).json["status"] == "paused"
    project.lth("evidence", "--type", "review-note", "--criterion-id", "seen", "--status", "passed", code=0)
    assert project.run(BUILDS).json["status"] == "done"
    assert project.lth("next").json["decision"] == "done"


def test_row_19_no_more_slices_than_the_contract_allows(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    policy = {"preferred": "local-command", "maxSlices": 2}
    project.task = book(workerPolicy=policy)
    for _ in range(4):
        answer = project.run("echo slice >> artifacts/slices").json
    assert slices(project) == 2
    assert answer["decision"] == project.lth("next").json["decision"] == "needs-human"
    assert "maxSlices" in answer["reason"]
    project.task = book(workerPolicy={**policy, "maxSlices": 3})
    assert project.lth("next").json["decision"] == "run"


def test_row_19_no_more_money_than_the_contract_allows(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(workerPolicy={"preferred": "local-command", "maxTaskCostUsd": 2})
    ended = {"type": "worker_completed", "at": "2026-01-01T00:00:00.000Z", "usage": {"costUsd": 1.5}}
    log = project.root / "runs/2026-01-01.jsonl"
    log.write_text(json.dumps(ended) + "\n")
    assert project.lth("next").json["decision"] == "run"
    log.write_text(f"{json.dumps(ended)}\n{json.dumps(ended)}\n")
    assert "maxTaskCostUsd" in project.lth("next").json["reason"]


DENIED: dict[str, object] = {
    "type": "result",
    "subtype": "success",
    "is_error": False,
    "result": "I could not write the tests failed file.",
}
DENIED["permission_denials"] = [{"tool_name": "Write", "tool_use_id": "1"}] * 2


@pytest.mark.parametrize(("mode", "status"), [(None, "needs-human"), ("acceptEdits", "paused")])
def test_a_worker_that_was_not_allowed_to_write_says_so(tmp_path: Path, mode: str | None, status: str) -> None:
    (tmp_path / "task").mkdir()
    project = LongTaskProject.of_book(tmp_path / "task")
    project.task = book(claudeWorker={"cwd": str(tmp_path), **({"permissionMode": mode} if mode else {})})
    env = program(tmp_path / "bin", "claude", f"cat > /dev/null; echo '{json.dumps(DENIED)}'")
    done = project.lth("run", "--worker", "claude-code", env=env)
    assert (done.code, done.json["status"]) == (int(mode is None), status), done
    if mode:
        assert "not allowed to use Write" in done.err
        return
    assert "not allowed to use Write" in done.json["classification"]["summary"]
    assert "permissionMode" in project.checkpoint["nextStep"]
    assert "not allowed to use Write" in project.outputs()[0]


LTH = f"{shlex.quote(sys.executable)} -m agent_harness.cli.lth"
SAYS = f'{LTH} evidence "$LTH_TASK_DIR" --type review-note --criterion-id seen --status passed --summary looked'
EDITS = (
    f"{shlex.quote(sys.executable)} - <<'END'"
    """
import json, os
path = os.path.join(os.environ["LTH_TASK_DIR"], "checkpoint.json")
state = json.load(open(path))
state["evidence"].append({"type": "review-note", "criterionId": "seen", "status": "passed", "summary": "looked"})
json.dump(state, open(path, "w"))
END
"""
)


@pytest.mark.parametrize(
    "worker",
    [SAYS, f"env -u LTH_TASK_DIR -u LTH_RUN_ID {SAYS.replace('$LTH_TASK_DIR', '.')}", EDITS],
    ids=["said", "said without its environment", "written into the checkpoint"],
)
def test_a_worker_never_fulfils_a_manual_criterion(tmp_path: Path, worker: str) -> None:
    project = LongTaskProject.of_book(tmp_path / "task")
    project.task = book(successCriteria=[MANUAL])
    project.run(f"{worker}\n{LTH} record . --status done", code=1)
    assert [each["criterionId"] for each in project.checkpoint["evidence"] if "criterionId" in each] == ["seen"]
    (check,) = project.lth("verify", code=1).json["checks"]
    assert check["status"] == "fail" and "only a worker recorded evidence" in check["message"], check
    if worker is SAYS:
        assert "only a person's evidence counts for: seen" in project.outputs()[0]
    project.lth("evidence", "--type", "review-note", "--criterion-id", "seen", "--status", "passed", code=0)
    project.lth("record", "--status", "done", code=0)
    assert project.lth("next").json["decision"] == "done"


def test_what_a_worker_says_takes_no_word_of_a_person_away(tmp_path: Path) -> None:
    project = LongTaskProject.of_book(tmp_path / "task")
    project.task = book(successCriteria=[MANUAL])
    word = ("evidence", "--type", "review-note", "--criterion-id", "seen", "--status")
    project.lth(*word, "passed", code=0)  # before any slice
    project.run(SAYS)
    project.lth("verify", code=0)
    project.lth(*word, "failed", code=0)
    project.run(SAYS)
    assert "says failed" in project.lth("verify", code=1).json["checks"][0]["message"]


def test_evidence_without_a_type_names_the_option(tmp_path: Path) -> None:
    assert "--type" in LongTaskProject.of_book(tmp_path).lth("evidence", code=1).err


def test_a_task_that_is_done_names_no_next_step(tmp_path: Path) -> None:
    """FIX-19."""
    project = LongTaskProject.of_book(tmp_path)
    project.task = book(successCriteria=[HOLDS])
    assert "next step:" in project.lth("status", code=0).out
    assert project.run(BUILDS).json["status"] == "done"
    assert "next step:" not in project.lth("status", code=0).out
