"""Nobody but the harness closes a task, and what proves it cannot change under way."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import agent_harness
from agent_harness.errors import PersonNeeded, Refused, VerificationFailed
from agent_harness.kernel import trusted_state
from agent_harness.protocols.tasklist import planning, proven
from agent_harness.protocols.tasklist.attempts import recover, verbs
from agent_harness.protocols.tasklist.claims import sessions
from agent_harness.testing.task_list_project import TaskListProject, task

FORGE = f"""
{sys.executable} - <<'END'
import json
state = json.load(open("harness-tasks.json"))
for each in state["tasks"]:
    each["status"] = "completed"
json.dump(state, open("harness-tasks.json", "w"))
END
"""


def test_a_list_that_is_seen_first_is_believed(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list", task("task-001", status="completed"))
    assert recover.confirm(project.caller()) == []
    assert proven.unproven(project.layout, project.store.read()) == []


def test_a_completion_by_hand_is_proven_or_taken_back(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(
        tmp_path / "list", task("task-001"), task("task-002", validation={"command": "false"}), task("task-003")
    )
    recover.confirm(project.caller())
    caller = project.claim(task_id="task-003")
    verbs.complete(caller, "task-003")
    for name in ("task-001", "task-002"):
        project.edit(name, status="completed")
    assert [each.id for each in proven.unproven(project.layout, project.store.read())] == ["task-001", "task-002"]
    found = recover.confirm(project.caller())
    assert [(each["task_id"], each["action"]) for each in found] == [
        ("task-001", "confirmed"),
        ("task-002", "reopened"),
    ]
    assert project.statuses() == ["completed", "pending", "completed"]
    assert recover.confirm(project.caller()) == []
    assert any('RECOVERY [task-002] action="reopened"' in line for line in project.log())


def test_the_proof_cannot_change_while_the_task_is_worked_on(tmp_path: Path) -> None:
    project = TaskListProject.at_noon(tmp_path / "list", task("task-001", validation={"command": "false"}))
    caller = project.claim()
    project.edit("task-001", validation={"command": "true"})
    with pytest.raises(PersonNeeded, match=r"validation\.command of task-001 was changed"):
        verbs.complete(caller, "task-001")
    assert project.statuses() == ["in_progress"]
    assert project.store.read().halt
    with pytest.raises(Refused):
        planning.set_fields(project.store, "task-001", {"validation.command": "true"})
    sessions.resume(project.caller())  # the person's way out; what proves the task is again what it was
    assert task_of(project)["validation"]["command"] == "false"
    with pytest.raises(VerificationFailed):
        verbs.complete(caller, "task-001")


def task_of(project: TaskListProject) -> dict[str, Any]:
    return project.store.read().tasks[0].raw


def test_a_proof_that_was_swapped_before_the_claim_is_put_back(tmp_path: Path) -> None:
    """N2: also the permission to change what decides; what a person corrects by the command counts."""
    project = TaskListProject(tmp_path / "list", git=True)
    assert project.harness("add", "One", "--validate", "test -e one").code == 0
    whole = json.loads((project.root / "harness-tasks.json").read_text())
    whole["tasks"][0]["validation"] |= {"command": "true", "may_change": ["*"]}
    (project.root / "harness-tasks.json").write_text(json.dumps(whole))
    claimed = project.harness("task", "claim", "--session", "s")
    assert claimed.code == 0, claimed
    task = json.loads((project.root / "harness-tasks.json").read_text())["tasks"][0]
    assert (task["validation"]["command"], "may_change" in task["validation"]) == ("test -e one", False)
    ran = project.harness("task", "complete", "task-001", "--session", "s", "--token", claimed.json["token"])
    assert ran.code == 1, ran
    assert "restored to: test -e one" in (project.root / "harness-progress.txt").read_text()
    assert project.harness("task", "release", "task-001", "wrong proof", "--session", "s").code == 0
    assert project.harness("task", "set", "task-001", "validation.command=test -e two").code == 0
    assert "validation.command was: test -e one" in (project.root / "harness-progress.txt").read_text()
    assert project.harness("task", "claim", "--session", "s").code == 0
    task = json.loads((project.root / "harness-tasks.json").read_text())["tasks"][0]
    assert task["validation"]["command"] == "test -e two"


def test_what_is_proven_where_the_state_folder_cannot_be_written_is_said_and_proven_again_outside(
    tmp_path: Path,
) -> None:
    project = TaskListProject(tmp_path / "list", git=True)
    (tmp_path / "tmp").mkdir()
    sandbox = {"XDG_STATE_HOME": "/dev/null", "TMPDIR": str(tmp_path / "tmp")}
    assert project.harness("add", "One", "--validate", "echo run >> ../runs; true").code == 0
    claimed = project.harness("task", "claim", "--session", "s", **sandbox)
    words = ("task", "complete", "task-001", "--session", "s", "--token", claimed.json["token"])
    done = project.harness(*words, **sandbox)
    assert done.code == 0, done
    assert "A session that can use that folder proves the task again." in done.json["warning"]
    assert project.harness("status", "--json").json["unproven"] == ["task-001"]
    assert project.harness("session", "start", "--session", "t").code == 0
    assert project.harness("status", "--json").json["unproven"] == []


def test_what_is_kept_of_claims_goes_to_no_folder_that_an_agent_has_linked_there(tmp_path: Path) -> None:
    """Neither what a new claim writes and removes, nor what an attempt notes; a link for one file is none either."""
    project = TaskListProject.at_noon(tmp_path / "list", task("a"), task("b"))
    recover.confirm(project.caller())
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "a.0.json").write_text("mine")
    home = Path(trusted_state.existing(project.layout.tasks, project.layout.root) or "")
    shutil.rmtree(home / "claims", ignore_errors=True)
    (home / "claims").symlink_to(precious)
    project.claim(task_id="a")
    assert [each.name for each in precious.iterdir()] == ["a.0.json"]
    (kept,) = (home / "claims").glob("a.*.json")
    claimed = project.store.read().by_id["a"]
    kept.unlink()
    kept.symlink_to(precious / "new")
    proven.note_claim(project.layout, claimed, passed={"files": {}})
    shutil.move(home / "claims", tmp_path / "moved")
    (home / "claims").symlink_to(tmp_path / "moved")
    assert proven.noted(project.layout, claimed, "passed") == {}
    proven.note_claim(project.layout, claimed, other={"x": 1})
    assert (proven.noted(project.layout, claimed, "other"), (home / "claims").is_symlink()) == ({"x": 1}, False)
    assert {each.name: each.read_text() for each in precious.iterdir()} == {"a.0.json": "mine"}


def test_a_fresh_list_that_an_agent_closes_by_hand_is_not_finished(tmp_path: Path) -> None:
    """N1: neither the Stop hook nor a claim believes it, though no command has proven anything in it before."""
    project = TaskListProject(tmp_path / "list", git=True)
    assert project.harness("add", "One", "--validate", "false").code == 0
    path = project.root / "harness-tasks.json"
    path.write_text(path.read_text().replace('"status": "pending"', '"status": "completed"'))
    (project.root / ".harness-active").touch()
    script = Path(agent_harness.__file__).parent / "plugin/hooks/harness-stop.py"
    stop = subprocess.run(
        [sys.executable, script], cwd=project.root, input=b'{"session_id": "s"}', capture_output=True, check=False
    )
    assert json.loads(stop.stdout)["decision"] == "block", stop
    assert b"not proven: task-001" in stop.stdout
    claimed = project.harness("task", "claim", "--session", "s")
    assert (claimed.code, claimed.json["task"]["id"]) == (0, "task-001")
    assert json.loads(path.read_text())["tasks"][0]["status"] == "in_progress"


def test_a_forged_pass_is_not_believed(tmp_path: Path) -> None:
    project = TaskListProject(tmp_path / "list", task("task-001", validation={"command": "false"}), git=True)
    claimed = project.harness("task", "claim", "--session", "s").json
    record = project.root / ".harness/claims/task-001.json"
    forged = json.loads(record.read_text()) | {"passed": {"command": "false", "trees": [""], "claim": "x"}}
    record.write_text(json.dumps(forged))
    ran = project.harness("task", "complete", "task-001", "--session", "s", "--token", claimed["token"])
    assert (ran.code, ran.json["error"]["code"]) == (1, "verification_failed")


@pytest.mark.scenario
def test_an_agent_that_writes_the_list_itself_gains_nothing(tmp_path: Path) -> None:
    project = TaskListProject(
        tmp_path / "list", task("task-001", max_attempts=1, validation={"command": "test -e never"}), git=True
    )
    ran = project.harness("run", "--agent", project.agent(FORGE), "--json")
    assert (ran.code, project.statuses()) == (1, ["failed"]), ran
    assert {each["result"] for each in ran.json["attempts"]} == {"failed"}
    project.harness("task", "reset", "--failed")
    again = project.harness("run", "--agent", project.agent("touch never"), "--json")
    assert (again.code, again.json["stats"]["completed"]) == (0, 1), again
    assert project.statuses() == ["completed"]


LOOSENS = """
python3 - <<'END'
import json
state = json.load(open("harness-tasks.json"))
state["session_config"] |= {"isolation": "in_place", "requires_red": "off"}
json.dump(state, open("harness-tasks.json", "w"))
END
echo done > work.txt
"""


@pytest.mark.kept("")
@pytest.mark.scenario
@pytest.mark.parametrize("ends", ["", "exit 1"])
def test_how_proofs_are_judged_outlives_an_attempt_that_changes_it(tmp_path: Path, ends: str) -> None:
    """Completed or given back: the next task is judged as a person has said."""
    terms = {"isolation": "worktree", "requires_red": "reject"}
    proof = {"command": "test -f work.txt" if not ends else "test -f never", "timeout_seconds": 60}
    project = TaskListProject(
        tmp_path / "list", task("a", validation=proof, max_attempts=1), git=True, session_count=0, session_config=terms
    )
    project.harness("run", "--agent", project.agent(LOOSENS + ends))
    kept = json.loads(Path(project.layout.tasks).read_text())["session_config"]
    assert {name: kept[name] for name in terms} == terms
    assert any("session_config" in line and "restored" in line for line in project.log()), project.log()


@pytest.mark.parametrize("given", [{}, {"sandbox": "required"}])
def test_a_sandbox_that_is_switched_off_during_an_attempt_comes_back(tmp_path: Path, given: dict[str, str]) -> None:
    """An agent claims and completes by itself, as with hooks."""
    project = TaskListProject(tmp_path / "list", task("a", validation={"command": "true"}), session_config=given)
    caller = project.claim()
    project.edit(session_config={**given, "sandbox": "off"})
    verbs.release(caller, "a", "later")
    assert project.raw["session_config"] == given
    assert any("session_config.sandbox was changed in the file; restored to" in line for line in project.log())


def test_status_names_what_is_not_proven(tmp_path: Path) -> None:
    project = TaskListProject(tmp_path / "list", task("task-001"))
    project.harness("session", "start")
    project.edit("task-001", status="completed")
    assert project.harness("status", "--json").json["unproven"] == ["task-001"]
    assert "not proven by the harness: task-001" in project.harness("status").out


def test_a_crash_does_not_launder_a_changed_proof(tmp_path: Path) -> None:
    project = TaskListProject(tmp_path / "list", task("task-001", validation={"command": "false"}), git=True)
    project.harness("task", "claim", "--session", "s")
    (project.root / "work.txt").write_text("done\n")
    project.edit("task-001", validation={"command": "true"}, lease_expires_at="2020-01-01T00:00:00Z")
    ran = project.harness("session", "start", "--session", "later")
    assert project.statuses() != ["completed"], ran
    assert project.store.read().halt
