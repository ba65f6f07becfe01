"""Nobody but the harness closes a task, and what proves it cannot change under way."""

import json
import sys
from pathlib import Path

import pytest

from agent_harness.errors import PersonNeeded, Refused
from agent_harness.protocols.tasklist import planning, proven
from agent_harness.protocols.tasklist.attempts import reprove, verbs

from .desk import Desk, Shop, task

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
    desk = Desk(tmp_path / "list", task("task-001", status="completed"))
    assert reprove.confirm(desk.worker()) == []
    assert proven.unproven(desk.layout, desk.store.read()) == []


def test_a_completion_by_hand_is_proven_or_taken_back(tmp_path: Path) -> None:
    desk = Desk(
        tmp_path / "list", task("task-001"), task("task-002", validation={"command": "false"}), task("task-003")
    )
    reprove.confirm(desk.worker())
    worker = desk.claim(task_id="task-003")
    verbs.complete(worker, "task-003")
    for name in ("task-001", "task-002"):
        desk.edit(name, status="completed")
    assert [each.id for each in proven.unproven(desk.layout, desk.store.read())] == ["task-001", "task-002"]
    found = reprove.confirm(desk.worker())
    assert [(each["task_id"], each["action"]) for each in found] == [
        ("task-001", "confirmed"),
        ("task-002", "reopened"),
    ]
    assert desk.statuses() == ["completed", "pending", "completed"]
    assert reprove.confirm(desk.worker()) == []
    assert any('RECOVERY [task-002] action="reopened"' in line for line in desk.log())


def test_the_proof_cannot_change_while_the_task_is_worked_on(tmp_path: Path) -> None:
    desk = Desk(tmp_path / "list", task("task-001", validation={"command": "false"}))
    worker = desk.claim()
    desk.edit("task-001", validation={"command": "true"})
    with pytest.raises(PersonNeeded, match=r"validation\.command of task-001 was changed"):
        verbs.complete(worker, "task-001")
    assert desk.statuses() == ["in_progress"]
    assert desk.store.read().halt
    with pytest.raises(Refused):
        planning.set_fields(desk.store, "task-001", {"validation.command": "true"})


def test_a_forged_pass_is_not_believed(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "list", task("task-001", validation={"command": "false"}), git=True)
    claimed = shop.harness("task", "claim", "--session", "s").json
    record = shop.root / ".harness/claims/task-001.json"
    forged = json.loads(record.read_text()) | {"passed": {"command": "false", "trees": [""], "claim": "x"}}
    record.write_text(json.dumps(forged))
    ran = shop.harness("task", "complete", "task-001", "--session", "s", "--token", claimed["token"])
    assert (ran.code, ran.json["error"]["code"]) == (1, "verification_failed")


def test_an_agent_that_writes_the_list_itself_gains_nothing(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "list", task("task-001", validation={"command": "test -e never"}), git=True)
    ran = shop.harness("run", "--agent", shop.agent(FORGE), "--json")
    assert ran.code == 3, ran
    assert [each["result"] for each in ran.json["attempts"]] == ["lost", "lost"]
    again = shop.harness("run", "--agent", shop.agent("touch never"), "--json")
    assert (again.code, again.json["stats"]["completed"]) == (0, 1), again
    assert shop.statuses() == ["completed"]


def test_status_names_what_is_not_proven(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "list", task("task-001"))
    shop.harness("session", "start")
    shop.edit("task-001", status="completed")
    assert shop.harness("status", "--json").json["unproven"] == ["task-001"]
    assert "not proven by the harness: task-001" in shop.harness("status").out


def test_a_crash_does_not_launder_a_changed_proof(tmp_path: Path) -> None:
    shop = Shop(tmp_path / "list", task("task-001", validation={"command": "false"}), git=True)
    shop.harness("task", "claim", "--session", "s")
    (shop.root / "work.txt").write_text("done\n")
    shop.edit("task-001", validation={"command": "true"}, lease_expires_at="2020-01-01T00:00:00Z")
    ran = shop.harness("session", "start", "--session", "later")
    assert shop.statuses() != ["completed"], ran
    assert shop.store.read().halt
