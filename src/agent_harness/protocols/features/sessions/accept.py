"""Finalizations of accepted and rolled-back sessions. State files are first restored from memory. The settings are
first restored from the commit before the session. Source: features.md C03, C05, C07, C08, C15, C16, C20, C31, C66, S09;
rows UAH-296..300, UAH-341..346."""

import os
from collections.abc import Sequence

from agent_harness.agents import usage
from agent_harness.errors import HarnessError
from agent_harness.kernel import clock, files, graph
from agent_harness.kernel.files import free_name, own_place
from agent_harness.kernel.git import DETACHED
from agent_harness.kernel.git.status import matcher
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.snapshot.restore import write_changes
from agent_harness.protocols.features import costs, progress, questions, repository
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Baseline, CostRecord, FeatureList, Question, listed
from agent_harness.protocols.features.sessions.finalization import Finalization
from agent_harness.protocols.features.sessions.open_session import OpenSession, seconds_since
from agent_harness.protocols.features.verdict.project_judge import Ruling
from agent_harness.session import turn_end


def put_back_features(project: Project, under_way: OpenSession) -> None:
    """Restore features.json to its content before the session."""
    own_place(project.layout.features, project.layout.root)
    expected = files.dumps(under_way.features.record)
    kept = project.git.show(under_way.checkpoint.snapshot.commit, project.features_name)
    files.replace(project.layout.features, kept if kept is not None else expected)


def cannot_be_judged(project: Project, under_way: OpenSession) -> tuple[str, str] | None:
    """Return an error code and a message if the agent's work cannot be verified, otherwise None."""
    if left := turn_end.left_unfinished(project.git):
        return turn_end.OPERATION, left
    base = under_way.checkpoint.snapshot.head
    found = turn_end.apart(project.git, base, leave=matcher(project.excluded, project.git.prefix())) if base else None
    return (turn_end.HISTORY, f"{found.reason[0].upper()}{found.reason[1:]}.") if found else None


def branch_tip(project: Project, branch: str) -> str | None:
    """Return the last commit of the session's branch, even if the agent switched to another branch."""
    return project.git.head() if branch == DETACHED else project.git.commit_of(branch)


def candidate(project: Project, under_way: OpenSession, message: str) -> str:
    """Commit the agent's files to a private ref and return the commit, which stands on the original history."""
    rollback_point = under_way.checkpoint.snapshot
    tip = branch_tip(project, rollback_point.branch)
    commit = project.candidate(str(under_way.session), message, rollback_point)
    project.tips[commit] = tip
    if rollback_point.head is None:
        return commit
    descends = turn_end.stands_on(rollback_point.head, commit, project.git.ancestor) == commit
    if descends and (tip == rollback_point.head or not _holds_state(project, rollback_point.head, commit)):
        return commit
    wanted = f"refs/harness/rewritten/{under_way.session}"
    _, kept = repository.named_ref(project.git, wanted, lambda ref: project.git.update_ref(ref, commit))
    told = "state_in_commits" if descends else "history_rewritten"
    project.store.event(told, "critical", session=under_way.session, ref=kept, base=rollback_point.head)
    tree = project.git.tree_of(commit)
    back = None if descends else turn_end.on_beginning(project.git, rollback_point.head, project.git.head(), tree)
    rebuilt = project.git.commit_tree(back.tree if back else tree, [rollback_point.head], message)
    if back and back.changes:
        write_changes(project.git, rebuilt, back.changes)
        project.say(f"The session rewrote git history; restored from {rollback_point.head[:10]}: {back.brought_back}")
    project.git.update_ref(project.candidate_refs[-1], rebuilt)
    project.tips[rebuilt] = tip
    return rebuilt


def _holds_state(project: Project, base: str, tip: str) -> bool:
    """Return True if any commit after ``base`` up to ``tip`` contains state files."""
    # also if a later commit removes them
    words = ("rev-list", "--max-count=1", "--full-history", tip, f"^{base}", "--", f"{project.state_name}/")
    return bool(project.git.run(*words, env={"GIT_LITERAL_PATHSPECS": "1"}).strip())


def ensure_progress_entry(project: Project, under_way: OpenSession, parts: Sequence[progress.Part]) -> None:
    # UAH-368
    own_place(project.layout.progress, project.layout.root)
    if not progress.has_entry(project.layout.progress, under_way.session):
        progress.append(project.layout.progress, progress.entry(under_way.session, parts))


def accepted(project: Project, under_way: OpenSession, ruling: Ruling, used: usage.Totals) -> Finalization:
    """Return the finalization that moves the branch to the accepted candidate and pushes the branch."""
    feature = under_way.feature
    rollback_point = under_way.checkpoint.snapshot
    completed = f"{feature.name} ({feature.description})"
    commits = [found.sha for found in project.git.commits_between(rollback_point.head, ruling.commit)]
    state = under_way.state_after(
        "complete", summary={"completed": completed, "commits": commits, "status": "complete"}
    )
    event = {
        "event_type": "feature_completed",
        "level": "important",
        "session": under_way.session,
        "feature_id": under_way.feature_id,
        "commit": ruling.commit,
        "message": f"{completed} verified",
    }
    done, interval = len(_proven(under_way)), project.config.quality.cleanup_interval
    if done // interval > state.cleaned_up_at // interval:  # enough features are complete (UAH-321, C36)
        state = state.but(next_prompt="cleanup")
    return Finalization(
        kind="accept",
        session=under_way.session,
        commit=ruling.commit,
        branch=rollback_point.branch,
        expected_head=project.tips[ruling.commit],
        state=state,
        proven=_proven(under_way),
        costs=costs_after(project, under_way, used),
        session_record=session_record(under_way, used, "complete", completed=True),
        baseline=next_baseline(project, under_way, ruling),
        file_sizes=ruling.proof.file_sizes,
        quality=quality_record(project, under_way, ruling),
        events=[event, *file_alerts(under_way, ruling)],
        push=True,
    )


def _proven(under_way: OpenSession) -> list[int]:
    return sorted(
        {*(f.id for f in under_way.features.passing), *([] if under_way.feature_id is None else [under_way.feature_id])}
    )


def quality_record(project: Project, under_way: OpenSession, ruling: Ruling) -> JsonObject:
    lint = ruling.proof.lint
    return {
        "lint_errors": lint and lint.errors,
        "lint_warnings": lint and lint.warnings,
        "lint_kinds": lint and dict(lint.kinds),
        "lint_files": lint and dict(lint.files),
        "lint_introduced": dict(ruling.proof.lint_introduced),
        "max_lines": project.config.quality.max_file_lines,
        "file_alerts": [alert["message"] for alert in ruling.proof.file_alerts],
        "session": under_way.session,
    }


def file_alerts(under_way: OpenSession, ruling: Ruling) -> list[JsonObject]:
    sizes = (ruling.proof.file_sizes or {}).get("files") or {}
    changed = [a for a in ruling.proof.file_alerts if sizes[a["path"]]["session_changed"] == under_way.session]
    return [{"event_type": "file_alert", "level": "important", **alert} for alert in changed]


def next_baseline(project: Project, under_way: OpenSession, ruling: Ruling) -> Baseline:
    proof = ruling.proof
    members: JsonObject = {
        "session": under_way.session,
        "timestamp": clock.timestamp(),
        "tree": project.git.tree_of(ruling.commit),
    }
    if proof.files_read is not None:
        members["files_read"] = list(proof.files_read)
    return under_way.baseline.measured(proof.passing, proof.total, **members)


def without_rollback_point(
    project: Project, under_way: OpenSession, failure: str, used: usage.Totals, asked: Question
) -> Finalization:
    """Return the finalization that leaves the session's work as it is (UAH-390)."""
    state = under_way.state_after(
        "failed",
        reason="error",
        failure=failure,
        summary={"completed": "nothing", "commits": [], "status": "failed, not rolled back"},
    )
    return Finalization(
        kind="nothing",
        session=under_way.session,
        state=state.but(pending_escalation=asked.record),
        costs=costs_after(project, under_way, used),
        session_record=session_record(under_way, used, "error", completed=False) | {"rejected": failure},
        baseline=under_way.baseline,
        progress_entry=progress.entry(under_way.session, [("HARNESS", [failure])]),
        events=[questions.as_event(asked)],
    )


def rolled_back(project: Project, under_way: OpenSession, failure: str, used: usage.Totals) -> Finalization:
    """Return the finalization that rolls back all sessions on the feature (C08).

    If a person has committed since the first of them, it rolls back only the last session."""
    feature = under_way.feature
    state = under_way.state_after(
        "failed", failure=failure, summary={"completed": "nothing", "commits": [], "status": "failed, rolled back"}
    )
    entry = progress.entry(
        under_way.session,
        [
            ("FEATURE", f"#{feature.id} ({feature.description})"),
            ("HARNESS", ["The session was rejected and rolled back.", " ".join(failure.split())[:500]]),
        ],
    )
    return Finalization(
        kind="rollback",
        session=under_way.session,
        checkpoint=under_way.rollback,
        state=state,
        costs=costs_after(project, under_way, used),
        session_record=session_record(under_way, used, "complete", completed=False) | {"rejected": failure},
        baseline=under_way.baseline,
        progress_entry=entry,
    )


def kept_for_person(project: Project, under_way: OpenSession, asked: Question, used: usage.Totals) -> Finalization:
    """Return the finalization that keeps the candidate until a person answers the question."""
    told = f"kept until a person answers ({asked.kind})"
    state = under_way.state_after(
        "failed",
        counted=False,
        summary={"completed": "nothing", "commits": [], "status": f"{under_way.feature.name} {told}"},
    )
    kept = [q.record for q in state.kept_candidates if q.feature_id != asked.feature_id]
    return Finalization(
        kind="rollback",
        session=under_way.session,
        checkpoint=under_way.rollback,
        state=state.but(kept_candidates=[*kept, asked.record]),
        costs=costs_after(project, under_way, used),
        session_record=session_record(under_way, used, "complete", completed=False) | {"asked": asked.kind},
        baseline=under_way.baseline,
        events=[questions.as_event(asked)],
    )


def blocked_features(document: FeatureList, feature_ids: Sequence[int]) -> list[int]:
    """Return the ids of unfinished features that depend, also indirectly, on a feature in ``feature_ids``."""
    work = {f.id: f.depends_on for f in document.features}
    waiting = {d for i in feature_ids for d in graph.dependents(work, i)}
    return [f.id for f in document.features if f.id in waiting and not f.passes]


def costs_after(project: Project, under_way: OpenSession, used: usage.Totals) -> CostRecord:
    spent = costs.Spent.by(
        used, session=under_way.session, started=under_way.started_at, feature_id=under_way.feature_id
    )
    return costs.add_session(under_way.costs, spent, project.budgets)


def session_record(under_way: OpenSession, used: usage.Totals, reason: str, *, completed: bool) -> JsonObject:
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
        "agent": under_way.agent_name or None,
        "model": under_way.model,
        "prompt_type": under_way.prompt_type,
        "base": under_way.checkpoint.snapshot.head,
        "turns": None,
        "interventions": [],
        "told": [],
    }


# -- restoring the harness's own files ---------------------------------------------------------------------------------


TAMPERED = "harness_state_tampered"


def put_back_state(project: Project, under_way: OpenSession) -> list[str]:
    """Restore the harness files that the agent changed. Return their names, or [] if only logs lost rows."""
    lost = project.store.put_back_histories()
    changed = [*_tampered_settings(project, under_way), *project.store.tampered()]
    if lost and not changed:
        tell_of_histories(project, under_way.session, lost)
    # lost log rows alone do not cause a rejection
    return [*changed, *lost] if changed else []


def tell_of_histories(project: Project, session: object, lost: list[str]) -> None:
    if lost:
        project.say(f"{tampering(lost)}. The harness restored these files.")
        project.store.event(TAMPERED, "critical", session=session, message=tampering(lost))


def tampering(changed: list[str]) -> str:
    return f"The agent changed files of the harness: {listed(changed, 5)}"


def report_tampering(project: Project, under_way: OpenSession) -> None:
    if changed := put_back_state(project, under_way):
        project.say(f"{tampering(changed)}. The harness restored these files.")
        under_way.event(project, TAMPERED, "critical", message=tampering(changed))


def put_back_settings(project: Project, under_way: OpenSession) -> str | None:
    """Restore the settings file. Return the path of a copy with the agent's changes, or None."""
    at = project.layout
    try:
        found = files.read_bytes(at.settings)
    except (OSError, HarnessError):
        found = b""
    if not _tampered_settings(project, under_way):
        return None
    kept = free_name(os.path.join(at.state_dir, f"settings-of-session-{under_way.session}.yaml"))
    own_place(kept, at.root)
    files.replace(kept, found)
    project.store.event(
        TAMPERED,
        "critical",
        session=under_way.session,
        message=tampering([at.relative(at.settings)]),
        kept=at.relative(kept),
    )
    return at.relative(kept)


def _tampered_settings(project: Project, under_way: OpenSession) -> list[str]:
    path = project.layout.settings
    name = project.layout.relative(path)
    expected = project.git.show(under_way.checkpoint.snapshot.commit, name)
    return [name] if expected is not None and project.store.restore(path, expected) else []
