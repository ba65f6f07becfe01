"""Closes a session that a crash, a kill or Ctrl-C left open, by the table in ``recovery.py``.

Source: features.md C56, S11; UAH-354.
"""

from typing import Any

from agent_harness.errors import Busy
from agent_harness.kernel import owner, process
from agent_harness.protocols.features import endings, handoff, recovery, settle, tree
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.result import Result
from agent_harness.protocols.features.underway import UnderWay, totals_of

Record = dict[str, Any]

NAMED = 10  # files of a WIP commit that are named to the person


def recover(project: Project) -> Record | None:
    """Makes an interrupted session whole; what was done, or ``None`` when nothing was open.

    ``Busy`` when the harness that opened it still lives (its lock file was taken away from it).
    """
    found = project.store.open_session()
    if found is None:
        return None
    who = owner.Owner.from_record(found.get("harness"))
    if who is not None and who != owner.current() and owner.state(who) == "alive":
        raise Busy(f"Another harness (pid {who.pid}) is in the middle of a session here", hint="harness status")
    number = found.get("session")
    action = recovery.action_for(str(found.get("phase")))
    ended = process.end_orphans(found.get("agent") or {"run_id": found.get("run_id")})
    if action.step == "forget":
        settle.forget(project)
        return {"session": number, "step": action.step}
    project.say(f"Session {number} was interrupted (while {action.phase}); recovering.")
    if ended:
        project.say(f"Ended {ended} process(es) that it had left running.")
    if action.step == "settle":
        settle.carry_out(project, found)
        return {"session": number, "step": action.step}
    under_way = UnderWay.from_record(found)
    _hand_off(project, under_way, "error", f"Session {number} was interrupted")
    project.say(f"Its work is kept; Session {number + 1 if isinstance(number, int) else ''} continues it.")
    return {"session": number, "step": action.step, "feature_id": under_way.feature_id}


def interrupted(project: Project, reason: str, message: str | None = None) -> Result:
    """Hands off the session that this very process has open: Ctrl-C, or a fault of the harness."""
    found = project.store.open_session()
    if found is None:
        return Result(session=0, feature_id=None, status="partial", reason=reason, message="", exit_code=130)
    process.end_orphans(found.get("agent") or {"run_id": found.get("run_id")})
    under_way = UnderWay.from_record(found)
    if found.get("phase") == "settling":
        settle.carry_out(project, found)
    else:
        _hand_off(project, under_way, reason, message or "Paused by a person")
    name = endings.feature_name(under_way.feature)
    return Result(
        session=under_way.session,
        feature_id=under_way.feature_id,
        status="partial",
        reason=reason,
        message=message or f"{name} handed off.",
        exit_code=130 if reason == "user_pause" else 1,
    )


def _hand_off(project: Project, under_way: UnderWay, reason: str, message: str) -> None:
    _restore_state(project, under_way)
    used = totals_of(project, under_way.session)
    found = [path for path in tree.dirty_paths(project.git) if path != project.progress_name]
    settlement = handoff.handed_off(project, under_way, reason, used, red_tests=None, message=message)
    settle.settle(project, under_way.as_record(), settlement)
    if settlement.kind == "hand_off" and found:
        more = f" and {len(found) - NAMED} more" if len(found) > NAMED else ""
        project.say(
            f"In the WIP commit, which is not pushed before its feature is proven: {', '.join(found[:NAMED])}{more}"
        )


def _restore_state(project: Project, under_way: UnderWay) -> None:
    """The state files as the session found them; the agent may have written to them (C31)."""
    for path, value in (
        (project.layout.session_state, under_way.state),
        (project.layout.baseline, under_way.baseline),
        (project.layout.costs, under_way.costs),
    ):
        if value:
            project.store.write(path, value)
