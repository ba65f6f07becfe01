"""The record of an agent that plans more features, so that a harness that is killed leaves nothing half done.

    planning   the agent may have written anything: taken back, kept in a rescue ref
    planned    the plan was valid and its commit is written down: it goes onto the branch

Source: features.md UAH-003, UAH-074, C31, C56.
"""

from collections.abc import Callable

from agent_harness.kernel import owner, snapshot
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import private_refs
from agent_harness.protocols.features.engine import accept, checkpoints
from agent_harness.protocols.features.project import Project

PLANNING, PLANNED = "planning", "planned"


def begin(project: Project, checkpoint: JsonObject, run_id: str) -> JsonObject:
    """Writes down that an agent plans, and the state as it was; durable before this returns."""
    store = project.store
    record = {
        "session": 0,
        "feature_id": None,
        "phase": PLANNING,
        "checkpoint": checkpoint,
        "features": store.features().record,
        "state": store.state().record,
        "baseline": store.baseline().record,
        "costs": store.costs().record,
        "run_id": run_id,
        "harness": owner.current().as_record(),
        "agent": None,
    }
    store.write_open_session(record)
    return record


def spent(project: Project, record: JsonObject) -> None:
    """Keeps in the record what a turn of the agent has cost, which the harness has just written."""
    record["costs"] = project.store.costs().record
    project.store.write_open_session(record)


def adopt(project: Project, record: JsonObject, commit: str) -> None:
    """The plan's commit becomes the branch's head; safe to repeat after a crash."""
    planned = {**record, "phase": PLANNED, "commit": commit}
    project.store.write_open_session(planned)
    _adopt(project, planned)
    close(project)


def _adopt(project: Project, record: JsonObject) -> None:
    rollback_point = checkpoints.rollback_point(record["checkpoint"])
    tip = accept.branch_tip(project, rollback_point.branch)
    commit = str(record["commit"])
    if tip is None or not project.git.ancestor(commit, tip):
        snapshot.adopt(project.git, commit, branch=rollback_point.branch, expected_head=tip)


def take_back(project: Project, checkpoint: JsonObject) -> str | None:
    """Everything as it was before the agent; what it did is in the rescue ref that is returned."""
    ref = private_refs.free(project.git, f"refs/harness/rolled-back/plan-{checkpoint['id']}")
    rescued = snapshot.restore(
        project.git,
        checkpoints.rollback_point(checkpoint),
        ref,
        exclude=project.excluded,
        rescue_files=project.root / project.excluded[0] / "rescue-files" / str(checkpoint["id"]),
        set_aside_operation=True,
    )
    close(project)
    return rescued.ref


def close(project: Project) -> None:
    """Forgets the plan under way: all of its effects are on disk."""
    for ref in dict.fromkeys(("refs/harness/candidates/extend", *project.candidate_refs)):
        if project.git.commit_of(ref):
            project.git.update_ref(ref, None)
    project.candidate_refs.clear()
    project.store.close_session()


def recover(project: Project, found: JsonObject, put_back: Callable[[], None]) -> JsonObject:
    """Makes a plan whole that a dead harness left open; ``put_back`` brings the state files back."""
    project.say("Planning more features was interrupted; recovering.")
    put_back()
    if found.get("phase") == PLANNED:
        _adopt(project, found)
        close(project)
        project.say("The plan was valid; its features are there.")
        return {"session": None, "step": "adopt"}
    ref = take_back(project, found["checkpoint"])
    kept = f" What the agent did is kept: git show {ref}" if ref else ""
    project.say(f"It was taken back; run harness add-features again.{kept}")
    return {"session": None, "step": "take_back", "rescue_ref": ref}
