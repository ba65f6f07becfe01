"""How a session ends well or badly, each as a settlement: accepted, or rolled back (handed off: ``wip.py``).

Source: features.md C03, C05, C07, C08, C15, C16, C20, C66; rows UAH-296..300, UAH-341..346.
"""

from collections.abc import Sequence

from agent_harness.agents import usage
from agent_harness.kernel import clock, files, graph
from agent_harness.kernel.git import DETACHED
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import (
    costs,
    lifecycle,
    private_refs,
    progress,
)
from agent_harness.protocols.features.engine import checkpoints
from agent_harness.protocols.features.engine.open_session import OpenSession, seconds_since
from agent_harness.protocols.features.engine.settlement import Settlement
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import FeatureList, SessionState
from agent_harness.protocols.features.store import own_place
from agent_harness.protocols.features.verdict.judge import Ruling


def put_back_features(project: Project, under_way: OpenSession) -> None:
    """features.json as it was before the agent: unverified claims and illegal edits are gone."""
    own_place(project.layout.features, project.layout.root)
    expected = files.dumps(under_way.features.record)
    kept = project.git.show(checkpoints.rollback_point(under_way.checkpoint).commit, project.features_name)
    files.replace(project.layout.features, kept if kept is not None else expected)


def branch_tip(project: Project, branch: str) -> str | None:
    """Where the session's branch is now; the agent may have left it, or be on a detached HEAD."""
    return project.git.head() if branch == DETACHED else project.git.commit_of(branch)


def candidate(project: Project, under_way: OpenSession, message: str) -> str:
    """The commit of everything the agent left, on a private ref; the branch is not touched.

    It always descends from the commit before the session: where the agent rewrote that history, its own commits stay
    under ``refs/harness/rewritten/N`` and the candidate is one commit on top of the true history.
    """
    rollback_point = checkpoints.rollback_point(under_way.checkpoint)
    commit = project.candidate(str(under_way.session), message, rollback_point)
    if rollback_point.head is None or project.git.ancestor(rollback_point.head, commit):
        return commit
    wanted = f"refs/harness/rewritten/{under_way.session}"
    _, kept = private_refs.named(project.git, wanted, lambda ref: project.git.update_ref(ref, commit))
    project.store.event("history_rewritten", "critical", session=under_way.session, ref=kept, base=rollback_point.head)
    rebuilt = project.git.commit_tree(project.git.tree_of(commit), [rollback_point.head], message)
    project.git.update_ref(project.candidate_refs[-1], rebuilt)
    return rebuilt


def ensure_progress_entry(project: Project, under_way: OpenSession, parts: Sequence[progress.Part]) -> None:
    """The session is told of in the progress file, by the agent or else by the harness (UAH-368)."""
    own_place(project.layout.progress, project.layout.root)
    if not progress.has_entry(project.layout.progress, under_way.session):
        progress.append(project.layout.progress, progress.entry(under_way.session, parts))


def accepted(project: Project, under_way: OpenSession, ruling: Ruling, used: usage.Totals) -> Settlement:
    """The candidate becomes the branch's head; baseline, sizes and state follow; it is pushed."""
    feature = under_way.feature
    rollback_point = checkpoints.rollback_point(under_way.checkpoint)
    completed = f"{feature.name} ({feature.description})"
    commits = [found.sha for found in project.git.commits_between(rollback_point.head, ruling.commit)]
    ending = lifecycle.SessionEnding(
        session=under_way.session,
        feature_id=under_way.feature_id,
        status="complete",
        at=clock.timestamp(),
        summary={"completed": completed, "commits": commits, "status": "complete"},
    )
    event = {
        "event_type": "feature_completed",
        "level": "important",
        "session": under_way.session,
        "feature_id": under_way.feature_id,
        "commit": ruling.commit,
        "message": f"{completed} verified",
    }
    return Settlement(
        kind="accept",
        session=under_way.session,
        commit=ruling.commit,
        branch=rollback_point.branch,
        expected_head=branch_tip(project, rollback_point.branch),
        state=_with_cleanup(project, under_way, lifecycle.after_session(under_way.state, ending)).record,
        proven=_proven(under_way),
        costs=costs_after(project, under_way, used),
        session_record=session_record(under_way, used, "complete", completed=True),
        baseline=next_baseline(project, under_way, ruling),
        file_sizes=ruling.proof.file_sizes,
        quality=quality_record(project, under_way, ruling),
        events=[event],
        push=True,
    )


def _with_cleanup(project: Project, under_way: OpenSession, state: SessionState) -> SessionState:
    """The state after an accepted feature: a cleanup comes next when enough features are complete (UAH-321, C36)."""
    completed = len(_proven(under_way))
    interval = project.config.quality.cleanup_interval
    due = completed // interval > state.cleaned_up_at // interval
    return state.but(next_prompt="cleanup") if due else state


def _proven(under_way: OpenSession) -> list[int]:
    """The features accepted so far, with this one; those marked before it were proven when the run began."""
    return sorted(
        {*(f.id for f in under_way.features.passing), *([] if under_way.feature_id is None else [under_way.feature_id])}
    )


def quality_record(project: Project, under_way: OpenSession, ruling: Ruling) -> JsonObject:
    """quality.json after an accepted session."""
    return {
        "lint_errors": ruling.proof.lint_errors,
        "max_lines": project.config.quality.max_file_lines,
        "session": under_way.session,
    }


def next_baseline(project: Project, under_way: OpenSession, ruling: Ruling) -> JsonObject:
    """test_baseline.json after an accepted session (UAH-130)."""
    proof = ruling.proof
    members = {"session": under_way.session, "timestamp": clock.timestamp(), "tree": project.git.tree_of(ruling.commit)}
    return under_way.baseline.measured(proof.passing, proof.total, **members).record


def without_rollback_point(
    project: Project, under_way: OpenSession, failure: str, used: usage.Totals, asked: JsonObject
) -> Settlement:
    """Nothing is accepted and nothing can go back: the question about it is stored (UAH-390)."""
    ending = lifecycle.SessionEnding(
        session=under_way.session,
        feature_id=under_way.feature_id,
        status="failed",
        reason="error",
        at=clock.timestamp(),
        failure=failure,
        summary={"completed": "nothing", "commits": [], "status": "failed, not rolled back"},
    )
    state = lifecycle.after_session(under_way.state, ending)
    return Settlement(
        kind="nothing",
        session=under_way.session,
        state=state.but(pending_escalation=asked).record,
        costs=costs_after(project, under_way, used),
        session_record=session_record(under_way, used, "error", completed=False) | {"rejected": failure},
        baseline=under_way.baseline.record,
        progress_entry=progress.entry(under_way.session, [("HARNESS", [failure])]),
        events=[{"event_type": "escalation", "level": "critical", **asked}],
    )


def rolled_back(project: Project, under_way: OpenSession, failure: str, used: usage.Totals) -> Settlement:
    """What the feature's sessions did goes back; what is taken away stays in a rescue ref (C08).

    Where a person has committed since, only this session goes back: their commits stay on the branch.
    """
    feature = under_way.feature
    ending = lifecycle.SessionEnding(
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
            ("FEATURE", f"#{feature.id} ({feature.description})"),
            ("HARNESS", ["The session was rejected and rolled back.", " ".join(failure.split())[:500]]),
        ],
    )
    return Settlement(
        kind="rollback",
        session=under_way.session,
        checkpoint=under_way.rollback,
        state=lifecycle.after_session(under_way.state, ending).record,
        costs=costs_after(project, under_way, used),
        session_record=session_record(under_way, used, "complete", completed=False) | {"rejected": failure},
        baseline=under_way.baseline.record,
        progress_entry=entry,
    )


def blocked_features(document: FeatureList, feature_ids: Sequence[int]) -> list[int]:
    """Open features that wait, directly or not, for these ones."""
    work = {f.id: f.depends_on for f in document.features}
    waiting = {d for i in feature_ids for d in graph.dependents(work, i)}
    return [f.id for f in document.features if f.id in waiting and not f.passes]


def costs_after(project: Project, under_way: OpenSession, used: usage.Totals) -> JsonObject:
    """The cost record with this session in it, counted from the record as it was before the session."""
    spent = costs.Spent(
        session=under_way.session,
        started=under_way.started_at,
        feature_id=under_way.feature_id,
        input_tokens=used.input_tokens,
        output_tokens=used.output_tokens,
        cached_tokens=used.cached_tokens,
        cache_write_tokens=used.cache_write_tokens,
        cost_usd=used.cost_usd,
        assumed_usd=used.budget_usd() if used.cost_usd is None else 0.0,
    )
    return costs.add_session(under_way.costs, spent, project.budgets).record


def session_record(under_way: OpenSession, used: usage.Totals, reason: str, *, completed: bool) -> JsonObject:
    """The row of sessions.jsonl (UAH-124)."""
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
