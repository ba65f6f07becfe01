"""The last steps of a session, written down before the first of them is done, so that a crash repeats them.

A settlement says in data what the session comes to: which commit the branch gets, or which snapshot comes back, and
the new contents of every state file. Each step can be repeated without a second effect (features.md UAH-003, C08, C56).
"""

import os
from dataclasses import asdict, dataclass, field, replace

from agent_harness.errors import HarnessError, UnsafeTree
from agent_harness.kernel import snapshot
from agent_harness.kernel.git import DETACHED, Pushed
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.redact import redact
from agent_harness.protocols.features import private_refs, progress, worktree
from agent_harness.protocols.features.engine import checkpoints
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.store import own_place


@dataclass(frozen=True, kw_only=True)
class Result:
    """One session's ending; ``exit_code`` is one of ``docs/exit-codes.md``."""

    session: int
    feature_id: int | None
    status: str  # complete, partial, failed
    reason: str
    message: str
    accepted: bool = False
    commit: str | None = None
    rescue_ref: str | None = None
    cost_usd: float | None = None
    exit_code: int = 0
    told: str = ""  # what the monitor said that ended the agent's turn
    rejected_as: str = ""  # the code of the finding for which the harness did not believe a claim
    regressions: tuple[str, ...] = ()  # tests of the baseline that the session broke
    broken_features: tuple[int, ...] = ()  # those whose tests these are
    opened_again: tuple[int, ...] = ()  # those of them that fail after the rollback, too, and count no more

    def as_json(self) -> JsonObject:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, kw_only=True)
class Settlement:
    """What a session comes to. JSON values only."""

    kind: str  # accept, hand_off, rollback, nothing
    session: int
    state: JsonObject
    costs: JsonObject
    session_record: JsonObject
    commit: str | None = None  # the branch's new head, for accept and hand_off
    branch: str | None = None
    expected_head: str | None = None
    checkpoint: JsonObject | None = None  # the way back, for rollback
    baseline: JsonObject | None = None
    file_sizes: JsonObject | None = None
    quality: JsonObject | None = None
    proven: list[int] | None = None  # the features that count from now on, for accept (``verdict.proven``)
    progress_entry: str | None = None  # for rollback: what the harness tells the next reader
    events: list[JsonObject] = field(default_factory=list)
    push: bool = False


@dataclass(frozen=True, kw_only=True)
class Settled:
    """What the settlement did to the repository."""

    rescue_ref: str | None = None
    rolled_back_commits: tuple[str, ...] = ()
    pushed: bool = False
    push_problem: str | None = None
    push_rejected: bool = False  # the remote answered, and said no


def settle(project: Project, open_session: JsonObject, settlement: Settlement) -> Settled:
    """Writes the settlement down, then carries it out."""
    record = {**open_session, "phase": "settling", "settlement": asdict(settlement)}
    project.store.write_open_session(record)
    return carry_out(project, record)


def carry_out(project: Project, open_session: JsonObject) -> Settled:
    """Does every step of a settlement that was written down; safe to repeat after a crash at any point."""
    settlement = Settlement(**open_session["settlement"])
    _free_the_index(project)
    rescue = _tree(project, open_session, settlement)
    _files(project, settlement)
    _logs(project, settlement, rescue)
    pushed = _push(project, settlement, open_session.get("git_config"))
    _forget_candidates(project, settlement.session)
    project.store.close_session()
    return Settled(
        rescue_ref=rescue.get("ref"),
        rolled_back_commits=tuple(rescue.get("commits") or ()),
        pushed=pushed is not None and pushed.ok,
        push_problem=None if pushed is None or pushed.ok else pushed.message,
        push_rejected=pushed is not None and pushed.rejected,
    )


def _tree(project: Project, open_session: JsonObject, settlement: Settlement) -> JsonObject:
    if settlement.kind == "rollback":
        return _roll_back(project, open_session, settlement)
    if settlement.commit and settlement.branch and not _is_on_branch(project, settlement):
        snapshot.adopt(
            project.git,
            settlement.commit,
            branch=settlement.branch,
            expected_head=settlement.expected_head,
            base=checkpoints.rollback_point(open_session["checkpoint"]),
        )
    return {}


def is_overtaken(project: Project, settlement: Settlement) -> bool:
    """Whether somebody has moved the branch since the settlement was written down, so that its commit fits no more."""
    if not settlement.commit or not settlement.branch:
        return False
    detached = settlement.branch == DETACHED
    tip = project.git.head() if detached else project.git.commit_of(settlement.branch)
    return tip not in (settlement.commit, settlement.expected_head) and not _is_on_branch(project, settlement)


def _is_on_branch(project: Project, settlement: Settlement) -> bool:
    """Whether an earlier try has adopted the commit, and somebody has committed on top of it since."""
    tip = project.git.commit_of("HEAD" if settlement.branch in (None, DETACHED) else settlement.branch)
    commit = settlement.commit or ""
    return tip not in (None, commit, settlement.expected_head) and project.git.ancestor(commit, str(tip))


def _free_the_index(project: Project) -> None:
    """Removes a lock on git's index that outlived its process: preflight saw none, and the agent is gone."""
    if lock := worktree.index_lock(project.git):
        os.unlink(lock)
        project.store.event("index_lock_removed", path=lock)


def _roll_back(project: Project, open_session: JsonObject, settlement: Settlement) -> JsonObject:
    done = open_session.get("rescue")
    if done is not None:
        return done
    checkpoint = settlement.checkpoint or open_session["checkpoint"]
    earlier_try = open_session.get("rescue_ref")
    ref = private_refs.free(project.git, f"refs/harness/rolled-back/{settlement.session}")
    project.store.write_open_session({**open_session, "rescue_ref": earlier_try or ref})
    rescued = snapshot.restore(
        project.git,
        checkpoints.rollback_point(checkpoint),
        ref,
        exclude=project.excluded,
        rescue_files=project.root / project.excluded[0] / "rescue-files" / str(settlement.session),
        set_aside_operation=True,  # there was none when the session began: whatever waits is the agent's
    )
    if different := checkpoints.differences(project, checkpoint):
        raise UnsafeTree(
            f"The rollback did not bring back {', '.join(different)}",
            hint=f"git show {rescued.ref}" if rescued.ref else "git status",
        )
    rescue = {
        "ref": rescued.ref or (earlier_try if earlier_try and project.git.commit_of(earlier_try) else None),
        "commits": [sha for sha, _ in rescued.rolled_back_commits],
        "left_in_place": list(rescued.left_in_place),
    }
    project.store.write_open_session({**open_session, "rescue": rescue})
    return rescue


def _files(project: Project, settlement: Settlement) -> None:
    at = project.layout
    own_place(at.progress, at.root)
    if settlement.progress_entry and not progress.has_entry(at.progress, settlement.session):
        progress.append(at.progress, settlement.progress_entry)
    for path, value in (
        (at.baseline, settlement.baseline),
        (at.file_sizes, settlement.file_sizes),
        (at.quality, settlement.quality),
        (at.costs, settlement.costs),
        (at.session_state, settlement.state),
    ):
        if value is not None:
            project.store.write(path, value)
    if settlement.proven is not None:
        project.store.write_proven({"commit": settlement.commit, "features": settlement.proven})


def _logs(project: Project, settlement: Settlement, rescue: JsonObject) -> None:
    if settlement.session in project.store.recorded_sessions():
        return
    if settlement.kind == "rollback":
        checkpoint = settlement.checkpoint or {}
        project.store.event(
            "rollback_completed",
            session=settlement.session,
            checkpoint_id=checkpoint.get("id"),
            rolled_back_commits=rescue.get("commits") or [],
            restored_to_session=checkpoint.get("session"),
            rescue_ref=rescue.get("ref"),
            left_in_place=rescue.get("left_in_place") or [],
        )
    for event in [*settlement.events, {"event_type": "session_ended", **settlement.session_record}]:
        fields: JsonObject = {**event, "session": settlement.session}
        if not _is_told(project, settlement.session, str(fields["event_type"])):
            project.store.event(**fields)
    project.store.log("sessions.jsonl", settlement.session_record)


def _is_told(project: Project, session: int, event_type: str) -> bool:
    """Whether a try before a crash has written this event already."""
    rows = project.store.recent("events.jsonl", 40)
    return any(row.get("session") == session and row.get("type") == event_type for row in rows)


def _push(project: Project, settlement: Settlement, recorded: JsonObject | None) -> Pushed | None:
    """How the push ended; ``None`` where nothing is to be pushed."""
    upstream = project.git.upstream(settlement.branch) if settlement.push else None
    if upstream is None or project.config.git.push != "auto":
        return None
    try:
        pushed = project.git.push(upstream.remote, f"{settlement.commit}:{upstream.branch}", recorded=recorded)
    except HarnessError as error:
        pushed = Pushed(ok=False, rejected=False, message=error.message)
    if pushed.ok:
        project.store.event("pushed", "routine", session=settlement.session, commit=settlement.commit)
        return pushed
    message = redact(pushed.message).strip()[-500:]
    project.store.event("push_failed", "important", session=settlement.session, message=message)
    return replace(pushed, message=message)


def _forget_candidates(project: Project, session: int) -> None:
    """The private refs of what was judged: by now the commit is on the branch, or in the rescue."""
    usual = (f"refs/harness/candidates/{session}", f"refs/harness/candidates/{session}-wip")
    for ref in dict.fromkeys((*usual, *project.candidate_refs)):
        if project.git.commit_of(ref):
            project.git.update_ref(ref, None)
    project.candidate_refs.clear()


def forget(project: Project) -> None:
    """Closes a session that had not started anything."""
    project.store.close_session()
