"""Recovery of a session that was left open. The table in ``recovery.py`` gives the step. Only the record outside the
project is trusted. If only a record inside the project exists, its work is kept, but no decision is carried out.
Source: features.md C31, C56, S11; UAH-354."""

import os
from dataclasses import replace

from agent_harness.agents.command import forget_servers_files
from agent_harness.errors import Busy, Refused, StateDamaged
from agent_harness.kernel import owner, process
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import recovery
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.publish import push_retry
from agent_harness.protocols.features.records import listed
from agent_harness.protocols.features.sessions import accept, actions, wip
from agent_harness.protocols.features.sessions import finalization as engine_finalization
from agent_harness.protocols.features.sessions.checkpoints import SessionCheckpoint
from agent_harness.protocols.features.sessions.finalization import Result
from agent_harness.protocols.features.sessions.open_session import OpenSession, totals_of
from agent_harness.protocols.features.verdict.project_judge import Judge
from agent_harness.protocols.features.work import plan
from agent_harness.protocols.features.work.cleanup import ended_early as cleanup_ended_early

NAMED = 10  # files of a WIP commit that are named to the person


def recover(project: Project) -> JsonObject | None:
    """Recover an interrupted session. Return a report, or None if no session was interrupted.

    Raise ``Busy`` if its process is alive, ``Refused`` after the recovery if the settings were edited."""
    project.store.clear_places()
    project.store.sweep()
    if (left_open := project.store.reversal()) and os.path.lexists(left_open):
        from agent_harness.protocols.features.work import undo

        undo.finish(project)
    found = project.store.open_session()
    if found is not None and not _is_of_this_repository(project, found):
        project.say(f"The session record of another repository at this path was renamed to {_set_aside(project)}.")
        found = None
    if found is None:
        return _recover_copy(project)
    who = owner.Owner.from_record(found.get("harness"))
    if who is not None and who != owner.current() and owner.state(who) == "alive":
        raise Busy(f"Another harness (pid {who.pid}) is in the middle of a session here", hint="harness status")
    number = found.get("session")
    action = recovery.action_for(str(found.get("phase")))
    accept.tell_of_histories(project, number, project.store.put_back_histories())
    ended = process.end_orphans(found.get("agent") or {"run_id": found.get("run_id")})
    forget_servers_files(found.get("run_id"))
    if action.phase in (plan.PLANNING, plan.PLANNED):
        return plan.recover(project, found, lambda: _restore_state(project, found))
    if action.step == "forget":
        project.store.close_session()
        return {"session": number, "step": action.step}
    project.say(f"Session {number} was interrupted (while {action.phase}); recovering.")
    if ended:
        project.say(f"Ended {ended} process(es) that it had left running.")
    if action.step == "settle":
        return {"session": number, "step": _finalize(project, found)}
    under_way = OpenSession.from_record(found)
    _restore_state(project, found)
    settings = accept.put_back_settings(project, under_way)
    _hand_off(project, under_way, "error", f"Session {number} was interrupted")
    continues = f"Session {number + 1 if isinstance(number, int) else ''} continues it"
    project.say(f"Its work is kept; {continues}." if under_way.feature_id else "The cleanup is still due.")
    if settings:
        name = project.layout.relative(project.layout.settings)
        raise Refused(
            f"{name} was edited during Session {number}. The file was restored, and the edit is kept in {settings}",
            hint=f"diff {name} {settings}, then run again",
        )
    return {"session": number, "step": action.step, "feature_id": under_way.feature_id}


def _finalize(project: Project, found: JsonObject) -> str:
    finalization = engine_finalization.Finalization.from_record(found["settlement"])
    if not engine_finalization.is_overtaken(project, finalization):
        finalized = engine_finalization.carry_out(project, found)
        if finalized.rescue_ref:
            project.say(f"Rolled back. The removed work is kept: git show {finalized.rescue_ref}")
        push_retry.after_push(project, lambda: Judge(project), finalization, finalized, found.get("git_config"))
        return "settle"
    engine_finalization.finalize(project, found, wip.overtaken(project, OpenSession.from_record(found), finalization))
    return "unadopted"


def _recover_copy(project: Project) -> JsonObject | None:
    """Recover a session from its untrusted record if the trusted record is lost."""
    found = project.store.session_copy()
    if found is None:
        return None
    number = found.get("session")
    if found.get("phase") == "preparing" or number == project.store.state().last_session:
        project.store.close_session()
        return None
    under_way = None if project.git.operation_under_way() else _session_in(project, found)
    if under_way is None:
        project.say(f"The session record does not match this project, so it was renamed to {_set_aside(project)}.")
        return {"session": number, "step": "set_aside"}
    project.say(
        f"Session {number} was interrupted, and its record is only in the project, so its work is kept unverified."
    )
    project.store.event("record_not_believed", "critical", session=number, phase=str(found.get("phase")))
    _hand_off(project, under_way, "error", f"Session {number} was interrupted, its record is in the project alone")
    return {"session": number, "step": "hand_off", "feature_id": under_way.feature_id}


def _session_in(project: Project, found: JsonObject) -> OpenSession | None:
    """Return the session in an untrusted record, or None if the record does not fit this project."""
    state = project.store.state()
    try:
        under_way = OpenSession.from_record(found)
        rollback_point = under_way.checkpoint.snapshot
        feature_id = under_way.feature.id
        base = SessionCheckpoint.from_record(state.feature_checkpoint) if state.feature_checkpoint else None
    except StateDamaged:
        return None
    head = project.git.head()
    fits = (
        under_way.session == project.store.next_session()
        and project.store.features().by_id(feature_id) is not None
        and rollback_point.branch == project.git.branch()
        and project.git.commit_of(rollback_point.commit) is not None
        and None not in (head, rollback_point.head)
        and project.git.ancestor(str(rollback_point.head), str(head))
    )
    if not fits:
        return None
    checkpoint = under_way.checkpoint
    return replace(
        under_way,
        base=base or checkpoint,
        rollback=checkpoint,
        state=state,
        baseline=project.store.baseline(),
        costs=project.store.costs(),
        verdict=None,
    )


def _is_of_this_repository(project: Project, found: JsonObject) -> bool:
    try:
        commit = SessionCheckpoint.from_record(found.get("checkpoint") or {}).snapshot.commit
    except StateDamaged:
        return False
    return project.git.commit_of(commit) is not None


def _set_aside(project: Project) -> str:
    kept = project.store.set_session_aside()
    project.store.event("record_set_aside", "critical", path=kept)
    return kept


def interrupted(project: Project, reason: str, message: str | None = None) -> Result:
    """End this process's session after Ctrl-C or an error. The unfinished work is kept."""
    project.store.clear_places()
    found = project.store.open_session()
    if found is None:
        return Result(session=0, feature_id=None, status="partial", reason=reason, message="", exit_code=130)
    process.end_orphans(found.get("agent") or {"run_id": found.get("run_id")})
    forget_servers_files(found.get("run_id"))
    under_way = OpenSession.from_record(found)
    if found.get("phase") == "settling":
        _finalize(project, found)
    else:
        _restore_state(project, found)
        accept.report_tampering(project, under_way)
        _hand_off(project, under_way, reason, message or "Paused by a person")
    name = under_way.feature.name
    return Result(
        session=under_way.session,
        feature_id=under_way.feature_id,
        status="partial",
        reason=reason,
        message=message or f"{name} handed off.",
        exit_code=130 if reason == "user_pause" else 1,
    )


def _hand_off(project: Project, under_way: OpenSession, reason: str, message: str) -> None:
    used = totals_of(project, under_way.session)
    found = project.dirty()
    if under_way.feature_id is None:
        finalization = cleanup_ended_early(project, under_way, reason, used)
    else:
        finalization = wip.handed_off(project, under_way, reason, used, unfinished=None, message=message)
    actions.log_from_git(project, under_way, finalization.commit)
    engine_finalization.finalize(project, under_way.as_record(), finalization)
    if finalization.kind == "hand_off" and found:
        project.say(f"In the WIP commit, which is not pushed before its feature is proven: {listed(found, NAMED)}")


def _restore_state(project: Project, found: JsonObject) -> None:
    # the agent may have changed these files (C31)
    for path, value in (
        (project.layout.session_state, found.get("state")),
        (project.layout.baseline, found.get("baseline")),
        (project.layout.costs, found.get("costs")),
    ):
        if value:
            project.store.write(path, value)
