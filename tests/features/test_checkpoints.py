"""Checkpoints: what they hold, how one goes back, and how long they stay."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from agent_harness.errors import StateDamaged, UnsafeTree
from agent_harness.kernel import clock, files
from agent_harness.protocols.features.records import Baseline, CostRecord, SessionState
from agent_harness.protocols.features.sessions import checkpoints, recover
from agent_harness.protocols.features.sessions import finalization as engine_finalization
from agent_harness.protocols.features.sessions.checkpoints import SessionCheckpoint
from agent_harness.protocols.features.work import plan
from agent_harness.testing.feature_list_project import FeatureListProject

Record = dict[str, Any]


def ids(calc: FeatureListProject) -> list[str]:
    return sorted(path.name for path in (calc.root / ".harness/checkpoints").iterdir())


def refs(calc: FeatureListProject) -> list[str]:
    listed = calc.git("for-each-ref", "--format=%(refname)", checkpoints.REFS)
    return sorted(ref.removeprefix(checkpoints.REFS) for ref in listed.splitlines())


def taken(calc: FeatureListProject, session: int, feature: int | None, *, days_ago: float = 0) -> Record:
    """A checkpoint that was taken some days ago."""
    record = checkpoints.create(calc.project, session, feature).record
    record["timestamp"] = clock.timestamp(clock.now() - timedelta(days=days_ago))
    path = calc.root / ".harness/checkpoints" / record["id"] / "checkpoint.json"
    path.write_text(json.dumps(record))
    return record


@pytest.fixture
def calc(tmp_path: Path) -> FeatureListProject:
    return FeatureListProject.made(
        tmp_path / "calc", False, False, settings="project:\n  name: calc\nlogging:\n  level: debug\n"
    )


def test_a_checkpoint_holds_the_commit_the_hashes_and_copies_of_the_state(calc: FeatureListProject) -> None:
    """UAH-088, UAH-137, UAH-138, UAH-463, UAH-464, UAH-465, UAH-466, UAH-467, C09, C31."""
    record = checkpoints.create(calc.project, 4, 2).record
    folder = calc.root / ".harness/checkpoints" / record["id"]
    assert json.loads((folder / "checkpoint.json").read_text()) == record
    assert record["session"] == 4
    assert record["reason"] == "pre_feature"
    assert clock.parse(record["timestamp"])
    assert record["git_ref"] == calc.git("rev-parse", "HEAD")
    assert record["features_json_hash"] == files.digest(calc.root / "features.json")
    assert record["progress_file_hash"] == files.digest(calc.root / "claude-progress.txt")
    for name in ("session_state.json", "test_baseline.json"):
        assert (folder / name).read_bytes() == (calc.root / ".harness" / name).read_bytes()
    told = next(row for row in calc.events() if row["type"] == "checkpoint_created")
    assert (told["checkpoint_id"], told["git_ref"], told["reason"]) == (record["id"], record["git_ref"], "pre_feature")
    assert refs(calc) == [record["id"]]


def finalization(
    calc: FeatureListProject, record: Record, **changes: Any
) -> tuple[Record, engine_finalization.Finalization]:
    """A rejected session that began at a checkpoint."""
    under_way = {"session": 1, "checkpoint": record, "phase": "judging"}
    made = engine_finalization.Finalization(
        kind="rollback",
        session=1,
        checkpoint=SessionCheckpoint.from_record({**record, **changes}),
        state=SessionState({"last_session": 1, "status": "failed", "stuck_count": 1, "next_prompt": "coding"}),
        baseline=Baseline({"passing_tests": ["t1.py::test_one"]}),
        costs=CostRecord({"total": 1}),
        session_record={"session_id": 1},
    )
    return under_way, made


def test_what_another_version_wrote_beside_it_survives(calc: FeatureListProject) -> None:
    """C09, C56: a checkpoint and a finalization are written as they were read, the unknown members too."""
    record = {**checkpoints.create(calc.project, 1, 1).record, "of_a_later_version": {"deep": [1]}}
    assert SessionCheckpoint.from_record(record).record == record
    _, made = finalization(calc, record)
    written = {**json.loads(json.dumps(made.record)), "of_a_later_version": 7}
    assert engine_finalization.Finalization.from_record(written).record == written
    assert written["checkpoint"] == record


@pytest.mark.parametrize("wrong", [{"kind": "accept"}, {"kind": "accept", "state": 7}])
def test_a_settlement_that_is_not_whole_says_so(wrong: Record) -> None:
    with pytest.raises(StateDamaged):
        engine_finalization.Finalization.from_record(wrong)


def test_a_rollback_brings_everything_back_and_keeps_what_it_took_away(calc: FeatureListProject) -> None:
    """Files, commits and hashes go back; logs, costs and checkpoints stay.

    UAH-468, UAH-469, UAH-470, UAH-471, UAH-472, UAH-473, UAH-480, UAH-481, C08, C09
    """
    record = checkpoints.create(calc.project, 1, 1).record
    before = {p.name: p.read_bytes() for p in calc.root.iterdir() if p.is_file()}
    calc.plan(True, True)
    (calc.root / "new.py").write_text("x = 1\n")
    calc.git("add", "-A")
    calc.git("commit", "-q", "-m", "Agent")
    commit = calc.git("rev-parse", "HEAD")
    (calc.root / "untracked.txt").write_text("y\n")
    (calc.root / "claude-progress.txt").write_text("lost\n")
    finalized = engine_finalization.finalize(calc.project, *finalization(calc, record))
    assert {p.name: p.read_bytes() for p in calc.root.iterdir() if p.is_file()} == before
    assert calc.git("rev-parse", "HEAD") == record["git_ref"]
    assert finalized.rolled_back_commits == (commit,)
    assert finalized.rescue_ref == "refs/harness/rolled-back/1"
    assert calc.git("show", f"{finalized.rescue_ref}:untracked.txt") == "y"
    assert calc.git("merge-base", "--is-ancestor", commit, finalized.rescue_ref) == ""
    state = json.loads((calc.root / ".harness/session_state.json").read_text())
    assert (state["last_session"], state["status"], state["stuck_count"]) == (1, "failed", 1)
    assert json.loads((calc.root / ".harness/test_baseline.json").read_text())["passing_tests"] == ["t1.py::test_one"]
    assert ids(calc) == [record["id"]]
    told = next(row for row in calc.events() if row["type"] == "rollback_completed")
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
def test_what_a_rollback_did_not_bring_back_is_an_error(calc: FeatureListProject, changed: Record, named: str) -> None:
    """UAH-471, C09: both hashes and HEAD are compared, and a difference is told; the session stays open."""
    record = checkpoints.create(calc.project, 1, 1).record
    under_way, made = finalization(calc, record, **changed)
    with pytest.raises(UnsafeTree, match=named):
        engine_finalization.finalize(calc.project, under_way, made)
    assert calc.project.store.session_copy()


def test_a_checkpoint_that_is_gone_is_known(calc: FeatureListProject) -> None:
    """UAH-390."""
    taken = checkpoints.create(calc.project, 1, 1)
    assert not taken.is_gone(calc.project)
    calc.git("update-ref", "-d", taken.snapshot.ref)
    calc.git("reflog", "expire", "--expire=now", "--all")
    calc.git("gc", "-q", "--prune=now")
    assert taken.is_gone(calc.project)


def test_old_checkpoints_go_and_what_is_needed_stays(calc: FeatureListProject) -> None:
    """UAH-232, UAH-477, UAH-478, UAH-479, C34."""
    calc.plan(True, False)
    done = [taken(calc, n, 1, days_ago=30 - n)["id"] for n in (1, 2)]
    tried = [taken(calc, n, 2, days_ago=30 - n)["id"] for n in range(3, 10)]
    cleanup = taken(calc, 10, None, days_ago=20)["id"]
    fresh = taken(calc, 11, None)["id"]
    orphan = checkpoints.create(calc.project, 12, 99).id
    (calc.root / ".harness/checkpoints" / orphan / "checkpoint.json").unlink()
    assert set(checkpoints.prune(calc.project)) == {done[0], *tried[:2], cleanup}
    assert ids(calc) == sorted([done[1], *tried[2:], fresh, orphan])
    assert refs(calc) == ids(calc)
    assert checkpoints.prune(calc.project) == []


def test_the_settings_say_how_many_and_how_long(calc: FeatureListProject) -> None:
    """UAH-232, UAH-479, C34: `checkpoints.max_age_days`, `checkpoints.keep_per_feature`."""
    for n in range(1, 5):
        taken(calc, n, 2, days_ago=10.5 - n)
    with (calc.root / ".harness.yaml").open("a") as file:
        file.write("checkpoints:\n  max_age_days: 8\n  keep_per_feature: 1\n")
    assert len(checkpoints.prune(calc.project)) == 2
    assert len(ids(calc)) == 2


def test_what_unfinished_work_goes_back_to_stays(calc: FeatureListProject) -> None:
    """C34, C64: the checkpoint from before the feature, however old and however many came since."""
    first = taken(calc, 1, 2, days_ago=90)
    open_one = taken(calc, 2, None, days_ago=80)
    later = [taken(calc, n, 2, days_ago=60 - n)["id"] for n in range(3, 10)]
    calc.project.store.write(calc.project.layout.session_state, {"last_session": 9, "feature_checkpoint": first})
    project = calc.project
    project.store.write_open_session({"session": 10, "checkpoint": open_one, "base": first, "rollback": first})
    assert set(checkpoints.prune(project)) == set(later[:2])
    assert {first["id"], open_one["id"]} <= set(ids(calc))


def test_what_is_no_checkpoint_of_ours_is_left_alone(calc: FeatureListProject) -> None:
    """C34: a folder without a record, a record of another name, a ref of somebody else."""
    place = calc.root / ".harness/checkpoints"
    kept = taken(calc, 1, None, days_ago=30)
    other = taken(calc, 2, None, days_ago=30)
    (place / kept["id"]).rename(place / "renamed")
    (place / "empty").mkdir()
    other["snapshot"]["ref"] = "refs/heads/main"
    (place / other["id"] / "checkpoint.json").write_text(json.dumps(other))
    checkpoints.prune(calc.project)
    assert calc.git("rev-parse", "refs/heads/main")
    assert {"renamed", "empty"} <= set(ids(calc))


@pytest.mark.parametrize("adopted", [False, True])
def test_a_plan_that_was_accepted_is_there_once(calc: FeatureListProject, adopted: bool) -> None:
    """UAH-003, UAH-074, C56: the harness died before, or right after, the commit went onto the branch."""
    project = calc.project
    project.store.finalize_in()
    record = plan.begin(project, checkpoints.create(project, 0, None, "manual"), "run")
    calc.plan(False, False, False)
    calc.git("commit", "-qam", "Plan")
    commit = calc.git("rev-parse", "HEAD")
    if not adopted:
        calc.git("reset", "-q", "--soft", "HEAD~1")
    project.store.write_open_session({**record, "phase": plan.PLANNED, "commit": commit})
    assert recover.recover(calc.project) == {"session": None, "step": "adopt"}
    assert calc.git("rev-parse", "HEAD") == commit
    assert calc.git("status", "--porcelain") == ""
    assert recover.recover(calc.project) is None


def test_a_plan_that_a_person_has_overtaken_is_kept_beside_their_commit(calc: FeatureListProject) -> None:
    """They committed after the harness had died, and before the next command."""
    project = calc.project
    project.store.finalize_in()
    start = calc.git("rev-parse", "HEAD")
    record = plan.begin(project, checkpoints.create(project, 0, None, "manual"), "run")
    calc.plan(False, False, False)
    calc.git("commit", "-qam", "Plan")
    commit = calc.git("rev-parse", "HEAD")
    calc.git("reset", "-q", "--soft", start)
    calc.git("reset", "-q")
    project.store.write_open_session({**record, "phase": plan.PLANNED, "commit": commit, "tip": start})
    calc.put({"mine.txt": "of the person\n"})
    calc.git("add", "mine.txt")
    calc.git("commit", "-q", "-m", "Mine")
    mine = calc.git("rev-parse", "HEAD")
    found = recover.recover(calc.project)
    assert found is not None
    assert (found["step"], calc.git("rev-parse", "HEAD")) == ("unadopted", mine)
    assert calc.git("rev-parse", str(found["rescue_ref"])) == commit
    assert recover.recover(calc.project) is None


def test_what_a_plan_has_cost_survives_its_end(calc: FeatureListProject) -> None:
    """UAH-007, UAH-415, C31: the state comes back as the harness wrote it, and the money stays spent."""
    project = calc.project
    project.store.finalize_in()
    record = plan.begin(project, checkpoints.create(project, 0, None, "manual"), "run")
    project.store.write(project.layout.costs, {"cumulative": {"total_cost_usd": 2.5}})
    plan.spent(project, record)
    (calc.root / ".harness/costs.yaml").write_text("{}")
    (calc.root / ".harness/session_state.json").write_text('{"stuck_count": 9}')
    found = recover.recover(calc.project)
    assert found
    assert found["step"] == "take_back"
    assert calc.project.store.costs().record == {"cumulative": {"total_cost_usd": 2.5}}
    assert calc.project.store.state().stuck_count == 0


@pytest.mark.parametrize("record", [{}, {"snapshot": None}, {"snapshot": []}, []])
def test_a_checkpoint_that_is_not_whole_says_so(record: Any) -> None:
    with pytest.raises(StateDamaged):
        SessionCheckpoint.from_record(record)
