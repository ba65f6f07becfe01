"""Final steps of a session, as data. The data is recorded before the steps begin, so that the steps can be repeated
after a crash. A repeated step has no second effect. Source: features.md UAH-003, C08, C56."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from agent_harness.errors import HarnessError, StateDamaged, UnsafeTree
from agent_harness.kernel import snapshot
from agent_harness.kernel.files import own_place
from agent_harness.kernel.git import DETACHED, Pushed
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.redact import redact
from agent_harness.protocols.features import progress, repository
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Baseline, CostRecord, SessionState
from agent_harness.protocols.features.sessions import checkpoints
from agent_harness.protocols.features.sessions.checkpoints import SessionCheckpoint
from agent_harness.session import ledger
from agent_harness.session.ledger import ClaimVerdict


@dataclass(frozen=True, kw_only=True)
class Result:
    """Result of one session."""

    session: int
    feature_id: int | None
    status: str  # complete, partial, failed
    reason: str
    message: str
    accepted: bool = False
    commit: str | None = None
    rescue_ref: str | None = None
    cost_usd: float | None = None
    # explained in docs/exit-codes.md
    exit_code: int = 0
    told: str = ""  # message of the monitor that ended the agent's turn
    asked: str = ""  # the kind of the question for which its candidate is kept
    rejected_as: str = ""  # the code of the finding for which the harness did not believe a claim
    regressions: tuple[str, ...] = ()  # tests of the baseline that the session broke
    broken_features: tuple[int, ...] = ()  # those whose tests these are
    opened_again: tuple[int, ...] = ()  # those of them that fail after the rollback too, and no longer count

    def as_json(self) -> JsonObject:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, kw_only=True)
class Finalization:
    """Description of the final actions of a session."""

    kind: str  # accept, hand_off, rollback, nothing
    session: int
    state: SessionState
    costs: CostRecord
    session_record: JsonObject  # the row of sessions.jsonl
    commit: str | None = None  # the branch's new head, for accept and hand_off
    branch: str | None = None
    expected_head: str | None = None
    checkpoint: SessionCheckpoint | None = None  # of a rollback
    baseline: Baseline | None = None
    file_sizes: JsonObject | None = None
    quality: JsonObject | None = None
    proven: list[int] | None = None  # the features that count from now on, for accept (``verdict.proven``)
    progress_entry: str | None = None  # for rollback: what the harness tells the next reader
    events: list[JsonObject] = field(default_factory=list)
    push: bool = False
    kept_ref: str | None = None  # kept the commit until now, for accept: the files are not the commit's yet
    # members of the record that this version does not know
    rest: JsonObject = field(default_factory=dict)

    @classmethod
    def from_record(cls, record: JsonObject) -> "Finalization":
        try:
            known: JsonObject = {name: record[name] for name in cls.__dataclass_fields__.keys() & record.keys()}
            known |= {name: parse(known[name]) for name, parse in PARSERS.items() if known.get(name) is not None}
            known["rest"] = {name: value for name, value in record.items() if name not in known}
            return cls(**known)
        except (TypeError, AttributeError) as error:
            raise StateDamaged(f"The record of a finalization is incomplete: {error}") from None

    @property
    def record(self) -> JsonObject:
        known = {name: getattr(self, name) for name in self.__dataclass_fields__ if name != "rest"}
        return {name: getattr(each, "record", each) for name, each in known.items()} | self.rest


PARSERS: Mapping[str, Callable[[JsonObject], Any]] = {
    "state": SessionState,
    "costs": CostRecord,
    "baseline": Baseline,
    "checkpoint": SessionCheckpoint.from_record,
}


@dataclass(frozen=True, kw_only=True)
class Finalized:
    rescue_ref: str | None = None
    rolled_back_commits: tuple[str, ...] = ()
    pushed: bool = False
    push_problem: str | None = None
    push_rejected: bool = False  # the remote answered and refused


def finalize(project: Project, open_session: JsonObject, finalization: Finalization) -> Finalized:
    """Record the finalization in the open session, carry it out, and return the result."""
    record = {**open_session, "phase": "settling", "settlement": finalization.record}
    project.store.write_open_session(record)
    return carry_out(project, record)


def carry_out(project: Project, open_session: JsonObject) -> Finalized:
    """Carry out the recorded finalization. After a crash, call this function again."""
    finalization = Finalization.from_record(open_session["settlement"])
    if lock := repository.index_lock(project.git):  # left by a dead process: preflight saw none, and the agent is gone
        os.unlink(lock)
        project.store.event("index_lock_removed", path=lock)
    rescue = _tree(project, open_session, finalization)
    _files(project, finalization)
    _verdict(project, open_session, finalization)
    _logs(project, finalization, rescue)
    pushed = push(project, finalization, open_session.get("git_config"))
    _forget_candidates(project, finalization)
    project.store.close_session()
    return Finalized(
        rescue_ref=rescue.get("ref"),
        rolled_back_commits=tuple(rescue.get("commits") or ()),
        pushed=pushed is not None and pushed.ok,
        push_problem=None if pushed is None or pushed.ok else pushed.message,
        push_rejected=pushed is not None and pushed.rejected,
    )


def _tree(project: Project, open_session: JsonObject, finalization: Finalization) -> JsonObject:
    if finalization.kind == "rollback":
        return _roll_back(project, open_session, finalization)
    if finalization.commit and finalization.branch and not _is_on_branch(project, finalization):
        if finalization.kept_ref:
            repository.write_changes(
                project.git,
                finalization.expected_head,
                finalization.commit,
                now=project.tree_now(),
                free=(project.progress_name,),
            )
        snapshot.adopt(
            project.git,
            finalization.commit,
            branch=finalization.branch,
            expected_head=finalization.expected_head,
            base=SessionCheckpoint.from_record(open_session["checkpoint"]).snapshot,
        )
    return {}


def is_overtaken(project: Project, finalization: Finalization) -> bool:
    """Return True if the branch moved elsewhere after the finalization was recorded."""
    if not finalization.commit or not finalization.branch:
        return False
    detached = finalization.branch == DETACHED
    tip = project.git.head() if detached else project.git.commit_of(finalization.branch)
    return tip not in (finalization.commit, finalization.expected_head) and not _is_on_branch(project, finalization)


def _is_on_branch(project: Project, finalization: Finalization) -> bool:
    """Return True if newer commits on the branch follow the finalization's commit."""
    tip = project.git.commit_of("HEAD" if finalization.branch in (None, DETACHED) else finalization.branch)
    commit = finalization.commit or ""
    return tip not in (None, commit, finalization.expected_head) and project.git.ancestor(commit, str(tip))


def _roll_back(project: Project, open_session: JsonObject, finalization: Finalization) -> JsonObject:
    done = open_session.get("rescue")
    if done is not None:
        return done
    checkpoint = finalization.checkpoint or SessionCheckpoint.from_record(open_session["checkpoint"])
    earlier_try = open_session.get("rescue_ref")
    ref = repository.free_ref(project.git, f"refs/harness/rolled-back/{finalization.session}")
    project.store.write_open_session({**open_session, "rescue_ref": earlier_try or ref})
    # no operation was in progress when the session began: whatever waits is the agent's
    rescued = project.go_back(checkpoint.snapshot, ref, str(finalization.session), set_aside_operation=True)
    if different := checkpoints.differences(project, checkpoint):
        raise UnsafeTree(
            f"The rollback did not restore {', '.join(different)}",
            hint=f"git show {rescued.ref}" if rescued.ref else "git status",
        )
    rescue = {
        "ref": rescued.ref or (earlier_try if earlier_try and project.git.commit_of(earlier_try) else None),
        "commits": [sha for sha, _ in rescued.rolled_back_commits],
        "left_in_place": list(rescued.left_in_place),
    }
    project.store.write_open_session({**open_session, "rescue": rescue})
    return rescue


def _files(project: Project, finalization: Finalization) -> None:
    at = project.layout
    own_place(at.progress, at.root)
    if finalization.progress_entry and not progress.has_entry(at.progress, finalization.session):
        progress.append(at.progress, finalization.progress_entry)
    for path, value in (
        (at.baseline, finalization.baseline.record if finalization.baseline else None),
        (at.file_sizes, finalization.file_sizes),
        (at.quality, finalization.quality),
        (at.costs, finalization.costs.record),
        (at.session_state, finalization.state.record),
    ):
        if value is not None:
            project.store.write(path, value)
    if finalization.proven is not None:
        project.store.write_proven({"commit": finalization.commit, "features": finalization.proven})


def _verdict(project: Project, open_session: JsonObject, finalization: Finalization) -> None:
    if found := open_session.get("verdict"):
        commit = finalization.commit if finalization.kind == "accept" else None
        ledger.write(project.store.ledger(), replace(ClaimVerdict.from_record(found), commit=commit))


def _logs(project: Project, finalization: Finalization, rescue: JsonObject) -> None:
    if finalization.session in project.store.recorded_sessions():
        return
    if finalization.kind == "rollback":
        checkpoint = finalization.checkpoint
        project.store.event(
            "rollback_completed",
            session=finalization.session,
            checkpoint_id=checkpoint and checkpoint.id,
            rolled_back_commits=rescue.get("commits") or [],
            restored_to_session=checkpoint and checkpoint.session,
            rescue_ref=rescue.get("ref"),
            left_in_place=rescue.get("left_in_place") or [],
        )
    # a try before a crash may have written some of them already
    head = finalization.commit or project.git.head()
    record = {**finalization.session_record, "head": head, "rescue_ref": rescue.get("ref")}
    written = [
        (row.get("session"), row.get("type"), row.get("path")) for row in project.store.recent("events.jsonl", 40)
    ]
    for event in [*finalization.events, {"event_type": "session_ended", **record}]:
        fields: JsonObject = {**event, "session": finalization.session}
        if (finalization.session, fields.get("type", fields["event_type"]), fields.get("path")) not in written:
            project.store.event(**fields)
    project.store.log("sessions.jsonl", record)


def push(project: Project, finalization: Finalization, recorded: JsonObject | None) -> Pushed | None:
    """Push the accepted session's commit. Return the outcome, or None without a push."""
    upstream = project.git.upstream(finalization.branch) if finalization.push else None
    if upstream is None or project.config.git.push != "auto":
        return None
    try:
        pushed = project.git.push(upstream.remote, f"{finalization.commit}:{upstream.branch}", recorded=recorded)
    except HarnessError as error:
        pushed = Pushed(ok=False, rejected=False, message=error.message)
    if pushed.ok:
        project.store.event("pushed", "routine", session=finalization.session, commit=finalization.commit)
        return pushed
    message = redact(pushed.message).strip()[-500:]
    project.store.event("push_failed", "important", session=finalization.session, message=message)
    return replace(pushed, message=message)


def _forget_candidates(project: Project, finalization: Finalization) -> None:
    usual = (f"refs/harness/candidates/{finalization.session}", f"refs/harness/candidates/{finalization.session}-wip")
    kept = filter(None, [finalization.kept_ref])
    for ref in dict.fromkeys((*usual, *kept, *project.candidate_refs)):
        if project.git.commit_of(ref):
            # the branch or a rescue ref now keeps the work
            project.git.update_ref(ref, None)
    project.candidate_refs.clear()
