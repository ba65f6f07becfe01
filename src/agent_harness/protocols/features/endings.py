"""The three ways a session ends, each as a settlement: accepted, handed off, rolled back.

Source: features.md C03, C05, C07, C08, C15, C16, C20, C66; rows UAH-296..300, UAH-341..346.
"""

from collections.abc import Sequence
from typing import Any

from agent_harness.agents import usage
from agent_harness.kernel import clock, files, graph, snapshot
from agent_harness.kernel.git import DETACHED
from agent_harness.protocols.features import checkpoints, costs, lifecycle, progress, records
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.ruling import Ruling
from agent_harness.protocols.features.settle import Settlement
from agent_harness.protocols.features.underway import UnderWay, seconds_since

Record = dict[str, Any]

CANDIDATE_REF = "refs/harness/candidates"

_WIP = {  # reason: (how the subject begins, the body line, the line in the progress file)
    "complete": ("WIP: Not finished - ", "WIP: The agent ended its turn without a claim", None),
    "context_limit": (None, "WIP: Context limit reached", "Context limit reached mid-implementation"),
    "timeout": (None, "WIP: Session timeout", "Time limit reached mid-implementation"),
    "stuck": ("WIP: Stuck - ", "WIP: No progress", "No progress for too long"),
    "user_pause": ("WIP: Paused - ", "WIP: Paused by a person", "Paused by a person"),
    "error": ("WIP: Session interrupted - ", "WIP: The session was interrupted", "Interrupted mid-implementation"),
    "budget_exceeded": ("WIP: Budget exceeded - ", "WIP: Budget exceeded", "Budget exceeded mid-implementation"),
}


def feature_name(feature: Record) -> str:
    return f"Feature #{feature['id']}"


def put_back_features(project: Project, under_way: UnderWay) -> None:
    """features.json as it was before the agent: unverified claims and illegal edits are gone."""
    expected = files.dumps(under_way.features)
    kept = project.git.show(checkpoints.way_back(under_way.checkpoint).commit, project.features_name)
    files.replace(project.layout.features, kept if kept is not None else expected)


def candidate(project: Project, under_way: UnderWay, message: str) -> str:
    """The commit of everything the agent left, on a private ref; the branch is not touched.

    It always descends from the commit before the session: where the agent rewrote that history, its own commits stay
    under ``refs/harness/rewritten/N`` and the candidate is one commit on top of the true history.
    """
    way_back = checkpoints.way_back(under_way.checkpoint)
    ref = f"{CANDIDATE_REF}/{under_way.session}"
    commit = snapshot.candidate(project.git, ref, exclude=project.excluded, message=message, base=way_back)
    if way_back.head is None or project.git.ancestor(way_back.head, commit):
        return commit
    kept = f"refs/harness/rewritten/{under_way.session}"
    project.git.update_ref(kept, commit)
    project.store.event("history_rewritten", "critical", session=under_way.session, ref=kept, base=way_back.head)
    rebuilt = project.git.commit_tree(project.git.tree_of(commit), [way_back.head], message)
    project.git.update_ref(ref, rebuilt)
    return rebuilt


def ensure_progress_entry(project: Project, under_way: UnderWay, parts: Sequence[progress.Part]) -> None:
    """The session is told of in the progress file, by the agent or else by the harness (UAH-368)."""
    if not progress.has_entry(project.layout.progress, under_way.session):
        progress.append(project.layout.progress, progress.entry(under_way.session, parts))


def accepted(project: Project, under_way: UnderWay, ruling: Ruling, used: usage.Totals) -> Settlement:
    """The candidate becomes the branch's head; baseline, sizes and state follow; it is pushed."""
    feature = under_way.feature
    at = clock.timestamp()
    commit, proof = ruling.commit, ruling.proof
    way_back = checkpoints.way_back(under_way.checkpoint)
    commits = [found.sha for found in project.git.commits_between(way_back.head, commit)]
    completed = f"{feature_name(feature)} ({records.description(feature)})"
    ending = lifecycle.Ending(
        session=under_way.session,
        feature_id=under_way.feature_id,
        status="complete",
        at=at,
        summary={"completed": completed, "commits": commits, "status": "complete"},
    )
    return Settlement(
        kind="accept",
        session=under_way.session,
        commit=commit,
        branch=way_back.branch,
        expected_head=_tip(project, way_back.branch),
        state=lifecycle.after_session(under_way.state, ending),
        costs=_costs(project, under_way, used),
        session_record=_record(under_way, used, "complete", completed=True),
        baseline={
            **under_way.baseline,
            "session": under_way.session,
            "timestamp": at,
            "passing_tests": sorted(proof.passing),
            "total_passing": len(proof.passing),
            "total_tests": proof.total,
            "tree": project.git.tree_of(commit),
        },
        file_sizes=proof.file_sizes,
        quality={
            "lint_errors": proof.lint_errors,
            "max_lines": project.config.quality.max_file_lines,
            "session": under_way.session,
        },
        events=[
            {
                "event_type": "feature_completed",
                "level": "important",
                "session": under_way.session,
                "feature_id": under_way.feature_id,
                "commit": commit,
                "message": f"{completed} verified",
            }
        ],
        push=True,
    )


def handed_off(
    project: Project,
    under_way: UnderWay,
    reason: str,
    used: usage.Totals,
    *,
    red_tests: Sequence[str] | None = (),
    failure: str | None = None,
    message: str | None = None,
) -> Settlement:
    """What the agent left becomes a local WIP commit that the next session continues; claims are taken back.

    Nothing is committed when nothing changed (C66); then the next session starts the feature afresh.
    """
    feature = under_way.feature
    put_back_features(project, under_way)
    way_back = checkpoints.way_back(under_way.checkpoint)
    _tell_termination(project, under_way, reason)
    subject, body = _wip_message(project, reason, feature)
    commit = candidate(project, under_way, f"{subject}\n\n{body}")
    changed = [path for _, path in project.git.changed_paths(way_back.head, commit)]
    work = [path for path in changed if path != project.progress_name]
    commits = [found.sha for found in project.git.commits_between(way_back.head, commit)]
    moved = project.git.head() != way_back.head
    earlier = under_way.state.get("partial") if under_way.prompt_type == "continuation" else None
    kept = bool(work) or earlier is not None
    ending = lifecycle.Ending(
        session=under_way.session,
        feature_id=under_way.feature_id,
        status="partial",
        reason=reason,
        at=clock.timestamp(),
        kept_work=kept,
        failure=failure,
        partial=_partial(project, under_way, reason, work, earlier),
        red_tests=tuple(red_tests or ()),
        checkpoint=under_way.base,
        summary={
            "completed": "nothing",
            "commits": commits if work or moved else [],
            "status": f"partial ({reason.replace('_', ' ')})",
        },
    )
    kind = "hand_off" if work or moved or reason != "complete" else "nothing"
    state = lifecycle.after_session(under_way.state, ending)
    if red_tests is None:
        state["wip_red_tests"] = None
    return Settlement(
        kind=kind,
        session=under_way.session,
        commit=commit if kind == "hand_off" else None,
        branch=way_back.branch,
        expected_head=_tip(project, way_back.branch),
        state=state,
        costs=_costs(project, under_way, used),
        session_record=_record(under_way, used, reason, completed=False),
        events=[
            {
                "event_type": _HAND_OFF_EVENTS.get(reason, "handed_off"),
                "level": "critical" if reason == "error" else "important",
                "session": under_way.session,
                "feature_id": under_way.feature_id,
                "reason": reason,
                "commit": commit if kind == "hand_off" else None,
                "message": message or f"{feature_name(feature)} handed off: {reason.replace('_', ' ')}",
            }
        ],
    )


_HAND_OFF_EVENTS = {
    "error": "session_interrupted",
    "context_limit": "context_limit",
    "timeout": "timeout",
    "stuck": "stuck",
    "user_pause": "user_pause",
    "budget_exceeded": "budget_exceeded",
}


def rolled_back(project: Project, under_way: UnderWay, failure: str, used: usage.Totals) -> Settlement:
    """Everything goes back to before the feature's first session; what is taken away stays in a rescue ref (C08)."""
    feature = under_way.feature
    ending = lifecycle.Ending(
        session=under_way.session,
        feature_id=under_way.feature_id,
        status="failed",
        at=clock.timestamp(),
        failure=failure,
        summary={"completed": "nothing", "commits": [], "status": "failed, rolled back"},
    )
    entry = progress.entry(
        under_way.session,
        [
            ("FEATURE", f"#{feature['id']} ({records.description(feature)})"),
            ("HARNESS", ["The session was rejected and rolled back.", " ".join(failure.split())[:500]]),
        ],
    )
    return Settlement(
        kind="rollback",
        session=under_way.session,
        checkpoint=under_way.base,
        state=lifecycle.after_session(under_way.state, ending),
        costs=_costs(project, under_way, used),
        session_record=_record(under_way, used, "complete", completed=False) | {"rejected": failure},
        baseline=under_way.baseline,
        progress_entry=entry,
    )


def blocked_features(document: Record, feature_ids: Sequence[int]) -> list[int]:
    """Open features that wait, directly or not, for these ones."""
    work = {f["id"]: records.dependencies(f) for f in records.features_of(document)}
    waiting = {d for i in feature_ids for d in graph.dependents(work, i)}
    return [f["id"] for f in records.features_of(document) if f["id"] in waiting and not records.passes(f)]


def _tip(project: Project, branch: str) -> str | None:
    """Where the session's branch is now; the agent may have left it, or be on a detached HEAD."""
    return project.git.head() if branch == DETACHED else project.git.commit_of(branch)


def _wip_message(project: Project, reason: str, feature: Record) -> tuple[str, str]:
    start, body, _ = _WIP.get(reason, _WIP["error"])
    if reason == "context_limit":
        start = project.config.context.on_limit.commit_message_prefix
    elif reason == "timeout":
        start = project.config.session.on_timeout.message_prefix
    return f"{start}{feature_name(feature)} ({records.description(feature)})", body


def _tell_termination(project: Project, under_way: UnderWay, reason: str) -> None:
    told = _WIP.get(reason, _WIP["error"])[2]
    if told is None:
        return
    line = f"SESSION TERMINATED: {told} (Session {under_way.session})"
    if any(line in entry.text for entry in progress.recent_entries(project.layout.progress)):
        return
    ensure_progress_entry(
        project,
        under_way,
        [
            ("FEATURE", f"#{under_way.feature_id} ({records.description(under_way.feature)})"),
            ("CURRENT STATE", ["ended by the harness; the work so far is in the WIP commit"]),
        ],
    )
    progress.append(project.layout.progress, f"\n{line}\n")


def _partial(project: Project, under_way: UnderWay, reason: str, work: Sequence[str], earlier: Record | None) -> Record:
    entries = [e for e in progress.recent_entries(project.layout.progress) if e.session == under_way.session]
    told = entries[-1] if entries else None
    done = told.part("WHAT I DID") if told else []
    left = (told.part("NEXT") or told.part("WHAT'S LEFT")) if told else []
    earlier = earlier or {}
    wip = [*(earlier.get("wip_files") or []), *work]
    return {
        "feature_id": under_way.feature_id,
        "session": under_way.session,
        "reason": "no claim" if reason == "complete" else reason,
        "done": done or earlier.get("done") or [],
        "left": left or earlier.get("left") or [],
        "wip_files": list(dict.fromkeys(wip))[:40],
    }


def _costs(project: Project, under_way: UnderWay, used: usage.Totals) -> Record:
    spent = costs.Spent(
        session=under_way.session,
        started=under_way.started_at,
        feature_id=under_way.feature_id,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cached_tokens=used.cached_tokens,
        cost_usd=used.cost_usd,
        assumed_usd=used.budget_usd() if used.cost_usd is None else 0.0,
    )
    return costs.add_session(under_way.costs, spent, project.budgets)


def _record(under_way: UnderWay, used: usage.Totals, reason: str, *, completed: bool) -> Record:
    return {
        "session_id": under_way.session,
        "started_at": under_way.started_at,
        "ended_at": clock.timestamp(),
        "duration_seconds": round(seconds_since(under_way.started_at), 1),
        "termination_reason": reason,
        "feature_id": under_way.feature_id,
        "feature_completed": completed,
        "tokens_used": {"input": used.input_tokens, "output": used.output_tokens},
        "cost_usd": used.cost_usd,
    }
