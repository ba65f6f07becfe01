"""Checkpoints: what they hold, how one goes back, and how long they stay."""

import json
import subprocess
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agent_harness.errors import UnsafeTree
from agent_harness.kernel import clock, files
from agent_harness.protocols.features.config import load
from agent_harness.protocols.features.engine import checkpoints, recover
from agent_harness.protocols.features.engine import settlement as engine_settlement
from agent_harness.protocols.features.logs import retention
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.work import plan

Record = dict[str, Any]


class Yard:
    """A small feature project in a real repository."""

    def __init__(self, root: Path) -> None:
        self.root = root
        root.mkdir()
        self.git("init", "-q", "-b", "main")
        (root / ".harness.yaml").write_text("project:\n  name: calc\nlogging:\n  level: debug\n")
        (root / ".gitignore").write_text(".harness/\n")
        (root / "claude-progress.txt").write_text("SESSION 0\n")
        self.features(False, False)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", "Start")
        state = root / ".harness"
        (state / "logs").mkdir(parents=True)
        (state / "session_state.json").write_text('{"last_session": 0, "stuck_count": 0}')
        (state / "test_baseline.json").write_text('{"passing_tests": []}')
        (state / "costs.yaml").write_text("{}")

    def git(self, *words: str) -> str:
        return subprocess.run(["git", *words], cwd=self.root, capture_output=True, text=True, check=True).stdout.strip()

    def features(self, *passes: bool) -> None:
        rows = [
            {"id": n, "description": f"f{n}", "test_file": f"t{n}.py", "passes": p} for n, p in enumerate(passes, 1)
        ]
        (self.root / "features.json").write_text(json.dumps({"project": "calc", "features": rows}))

    @property
    def project(self) -> Project:
        return Project.open(self.root, load(self.root))

    def ids(self) -> list[str]:
        return sorted(path.name for path in (self.root / ".harness/checkpoints").iterdir())

    def refs(self) -> list[str]:
        listed = self.git("for-each-ref", "--format=%(refname)", retention.REFS)
        return sorted(ref.removeprefix(retention.REFS) for ref in listed.splitlines())

    def taken(self, session: int, feature: int | None, *, days_ago: float = 0) -> Record:
        """A checkpoint that was taken some days ago."""
        record = checkpoints.create(self.project, session, feature)
        record["timestamp"] = clock.timestamp(clock.now() - timedelta(days=days_ago))
        path = self.root / ".harness/checkpoints" / record["id"] / "checkpoint.json"
        path.write_text(json.dumps(record))
        return record

    def events(self) -> list[Record]:
        path = self.root / ".harness/logs/events.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def yard(tmp_path: Path) -> Yard:
    return Yard(tmp_path / "calc")


def test_a_checkpoint_holds_the_commit_the_hashes_and_copies_of_the_state(yard: Yard) -> None:
    """UAH-088, UAH-137, UAH-138, UAH-463..467, C09, C31."""
    record = checkpoints.create(yard.project, 4, 2)
    folder = yard.root / ".harness/checkpoints" / record["id"]
    assert json.loads((folder / "checkpoint.json").read_text()) == record
    assert record["session"] == 4
    assert record["reason"] == "pre_feature"
    assert clock.parse(record["timestamp"])
    assert record["git_ref"] == yard.git("rev-parse", "HEAD")
    assert record["features_json_hash"] == files.digest(yard.root / "features.json")
    assert record["progress_file_hash"] == files.digest(yard.root / "claude-progress.txt")
    for name in ("session_state.json", "test_baseline.json"):
        assert (folder / name).read_bytes() == (yard.root / ".harness" / name).read_bytes()
    told = next(row for row in yard.events() if row["type"] == "checkpoint_created")
    assert (told["checkpoint_id"], told["git_ref"], told["reason"]) == (record["id"], record["git_ref"], "pre_feature")
    assert yard.refs() == [record["id"]]


def settlement(yard: Yard, record: Record, **changes: Any) -> tuple[Record, engine_settlement.Settlement]:
    """A rejected session that began at a checkpoint."""
    under_way = {"session": 1, "checkpoint": record, "phase": "judging"}
    made = engine_settlement.Settlement(
        kind="rollback",
        session=1,
        checkpoint={**record, **changes},
        state={"last_session": 1, "status": "failed", "stuck_count": 1, "next_prompt": "coding"},
        baseline={"passing_tests": ["t1.py::test_one"]},
        costs={"total": 1},
        session_record={"session_id": 1},
    )
    return under_way, made


def test_a_rollback_brings_everything_back_and_keeps_what_it_took_away(yard: Yard) -> None:
    """UAH-468..473, UAH-480, UAH-481, C08, C09: files, commits and hashes go back; logs, costs and checkpoints stay."""
    record = checkpoints.create(yard.project, 1, 1)
    before = {p.name: p.read_bytes() for p in yard.root.iterdir() if p.is_file()}
    yard.features(True, True)
    (yard.root / "new.py").write_text("x = 1\n")
    yard.git("add", "-A")
    yard.git("commit", "-q", "-m", "Agent")
    commit = yard.git("rev-parse", "HEAD")
    (yard.root / "untracked.txt").write_text("y\n")
    (yard.root / "claude-progress.txt").write_text("lost\n")
    settled = engine_settlement.settle(yard.project, *settlement(yard, record))
    assert {p.name: p.read_bytes() for p in yard.root.iterdir() if p.is_file()} == before
    assert yard.git("rev-parse", "HEAD") == record["git_ref"]
    assert settled.rolled_back_commits == (commit,)
    assert settled.rescue_ref == "refs/harness/rolled-back/1"
    assert yard.git("show", f"{settled.rescue_ref}:untracked.txt") == "y"
    assert yard.git("merge-base", "--is-ancestor", commit, settled.rescue_ref) == ""
    state = json.loads((yard.root / ".harness/session_state.json").read_text())
    assert (state["last_session"], state["status"], state["stuck_count"]) == (1, "failed", 1)
    assert json.loads((yard.root / ".harness/test_baseline.json").read_text())["passing_tests"] == ["t1.py::test_one"]
    assert yard.ids() == [record["id"]]
    told = next(row for row in yard.events() if row["type"] == "rollback_completed")
    assert told["checkpoint_id"] == record["id"]
    assert told["rolled_back_commits"] == [commit]
    assert told["restored_to_session"] == 1


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"features_json_hash": "0" * 64}, "features.json"),
        ({"progress_file_hash": "0" * 64}, "claude-progress.txt"),
        ({"git_ref": "0" * 40}, "HEAD"),
    ],
)
def test_what_a_rollback_did_not_bring_back_is_an_error(yard: Yard, changed: Record, named: str) -> None:
    """UAH-471, C09: both hashes and HEAD are compared, and a difference is told; the session stays open."""
    record = checkpoints.create(yard.project, 1, 1)
    under_way, made = settlement(yard, record, **changed)
    with pytest.raises(UnsafeTree, match=named):
        engine_settlement.settle(yard.project, under_way, made)
    assert yard.project.store.session_copy()


def test_a_checkpoint_that_is_gone_is_known(yard: Yard) -> None:
    """UAH-390."""
    record = checkpoints.create(yard.project, 1, 1)
    assert not checkpoints.is_gone(yard.project, record)
    yard.git("update-ref", "-d", record["snapshot"]["ref"])
    yard.git("reflog", "expire", "--expire=now", "--all")
    yard.git("gc", "-q", "--prune=now")
    assert checkpoints.is_gone(yard.project, record)


def test_old_checkpoints_go_and_what_is_needed_stays(yard: Yard) -> None:
    """UAH-232, UAH-477, UAH-478, UAH-479, C34."""
    yard.features(True, False)
    done = [yard.taken(n, 1, days_ago=30 - n)["id"] for n in (1, 2)]
    tried = [yard.taken(n, 2, days_ago=30 - n)["id"] for n in range(3, 10)]
    cleanup = yard.taken(10, None, days_ago=20)["id"]
    fresh = yard.taken(11, None)["id"]
    orphan = checkpoints.create(yard.project, 12, 99)["id"]
    (yard.root / ".harness/checkpoints" / orphan / "checkpoint.json").unlink()
    assert set(retention.prune_checkpoints(yard.project)) == {done[0], *tried[:2], cleanup}
    assert yard.ids() == sorted([done[1], *tried[2:], fresh, orphan])
    assert yard.refs() == yard.ids()
    assert retention.prune_checkpoints(yard.project) == []


def test_the_settings_say_how_many_and_how_long(yard: Yard) -> None:
    """UAH-232, UAH-479, C34: `checkpoints.max_age_days`, `checkpoints.keep_per_feature`."""
    for n in range(1, 5):
        yard.taken(n, 2, days_ago=10.5 - n)
    with (yard.root / ".harness.yaml").open("a") as file:
        file.write("checkpoints:\n  max_age_days: 8\n  keep_per_feature: 1\n")
    assert len(retention.prune_checkpoints(yard.project)) == 2
    assert len(yard.ids()) == 2


def test_what_unfinished_work_goes_back_to_stays(yard: Yard) -> None:
    """C34, C64: the checkpoint from before the feature, however old and however many came since."""
    first = yard.taken(1, 2, days_ago=90)
    open_one = yard.taken(2, None, days_ago=80)
    later = [yard.taken(n, 2, days_ago=60 - n)["id"] for n in range(3, 10)]
    yard.project.store.write(yard.project.layout.session_state, {"last_session": 9, "feature_checkpoint": first})
    project = yard.project
    project.store.write_open_session({"session": 10, "checkpoint": open_one, "base": first, "rollback": first})
    assert set(retention.prune_checkpoints(project)) == set(later[:2])
    assert {first["id"], open_one["id"]} <= set(yard.ids())


def test_what_is_no_checkpoint_of_ours_is_left_alone(yard: Yard) -> None:
    """C34: a folder without a record, a record of another name, a ref of somebody else."""
    place = yard.root / ".harness/checkpoints"
    kept = yard.taken(1, None, days_ago=30)
    other = yard.taken(2, None, days_ago=30)
    (place / kept["id"]).rename(place / "renamed")
    (place / "empty").mkdir()
    other["snapshot"]["ref"] = "refs/heads/main"
    (place / other["id"] / "checkpoint.json").write_text(json.dumps(other))
    retention.prune_checkpoints(yard.project)
    assert yard.git("rev-parse", "refs/heads/main")
    assert {"renamed", "empty"} <= set(yard.ids())


@pytest.mark.parametrize("adopted", [False, True])
def test_a_plan_that_was_accepted_is_there_once(yard: Yard, adopted: bool) -> None:
    """UAH-003, UAH-074, C56: the harness died before, or right after, the commit went onto the branch."""
    project = yard.project
    project.store.settle_in()
    record = plan.begin(project, checkpoints.create(project, 0, None, "manual"), "run")
    yard.features(False, False, False)
    yard.git("commit", "-qam", "Plan")
    commit = yard.git("rev-parse", "HEAD")
    if not adopted:
        yard.git("reset", "-q", "--soft", "HEAD~1")
    project.store.write_open_session({**record, "phase": plan.PLANNED, "commit": commit})
    assert recover.recover(yard.project) == {"session": None, "step": "adopt"}
    assert yard.git("rev-parse", "HEAD") == commit
    assert yard.git("status", "--porcelain") == ""
    assert recover.recover(yard.project) is None


def test_what_a_plan_has_cost_survives_its_end(yard: Yard) -> None:
    """UAH-007, UAH-415, C31: the state comes back as the harness wrote it, and the money stays spent."""
    project = yard.project
    project.store.settle_in()
    record = plan.begin(project, checkpoints.create(project, 0, None, "manual"), "run")
    project.store.write(project.layout.costs, {"cumulative": {"total_cost_usd": 2.5}})
    plan.spent(project, record)
    (yard.root / ".harness/costs.yaml").write_text("{}")
    (yard.root / ".harness/session_state.json").write_text('{"stuck_count": 9}')
    found = recover.recover(yard.project)
    assert found
    assert found["step"] == "take_back"
    assert yard.project.store.costs().record == {"cumulative": {"total_cost_usd": 2.5}}
    assert yard.project.store.state().stuck_count == 0
