"""Which question a session's ending leaves for a person. Source: features.md section T, C15, C27, C35."""

from agent_harness.errors import PreflightFailed
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import lifecycle, questions, records
from agent_harness.protocols.features.engine.result import Result
from agent_harness.protocols.features.escalation import regressions
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import SessionState


def question_after(
    project: Project, state: SessionState, feature_id: int | None, result: Result | None
) -> JsonObject | None:
    """The question about this feature as the state stands, or ``None``; ``result`` is the session that just ended.

    One that stops the runs goes before one that does not.
    """
    asked = None if feature_id is None else _stopping(project, state, feature_id, result)
    offered = _offered(project, result) if result is not None else None
    if asked and offered and offered.get("blocks"):
        return {**asked, "details": [line for line in questions.details(offered) if line.startswith("This blocks")]}
    return asked or offered


def _stopping(project: Project, state: SessionState, feature_id: int, result: Result | None) -> JsonObject | None:
    most = project.config.features.max_stuck_sessions
    if result is not None and result.reason == "budget_exceeded":
        limit = result.told.partition(" ")[0]
        message = result.told.partition(". No price")[0].rstrip(".") + "."
        return questions.question("budget_exceeded", message, feature_id=feature_id, limit=limit)
    if lifecycle.is_stuck(state, most) and state.current_feature == feature_id:
        told = f"Feature #{feature_id} has failed to complete in {state.stuck_count} sessions."
        return questions.question("feature_stuck", told, feature_id=feature_id)
    failed = state.failures.get(str(feature_id), 0)
    if failed >= most:
        told = f"Feature #{feature_id} has failed verification {failed} times."
        return questions.question("verification_failed", told, feature_id=feature_id)
    if result is not None and _all_red(project, state):
        told = "App still broken after agent attempted fix."
        return questions.question("app_broken", told, feature_id=feature_id)
    return None


def _offered(project: Project, result: Result) -> JsonObject | None:
    """What a person may decide about a session that was rejected; else the next one tries again (E2, E3)."""
    if result.regressions:
        return regressions.question(project, result)
    if not result.rejected_as or result.feature_id is None:
        return None
    told = f"Agent claimed Feature #{result.feature_id} complete, but harness verification failed."
    facts = {"session": result.session, "rescue_ref": result.rescue_ref, "details": [f"It said: {result.message}"]}
    return questions.question("claim_rejected", told, feature_id=result.feature_id, **facts)


def about_size(project: Project) -> JsonObject | None:
    """Stores the question about the first feature that is larger than recommended, where no other one waits (E10)."""
    state = project.store.state()
    waiting = state.question
    if waiting and waiting.get("type") != "large_feature":
        return None
    most = project.config.features.max_verification_steps
    found = next(
        (
            f
            for f in project.store.features().features
            if f.is_open and len(f.steps) > most and f.id not in state.sizes_accepted
        ),
        None,
    )
    if found is None:
        if waiting:
            questions.forget(project)
        return None
    asked = questions.question("large_feature", records.too_large(found, most), feature_id=found.id)
    questions.store(project, asked)
    return asked


def offer_split(project: Project) -> JsonObject | None:
    """The same, said to the person who has just planned or added features."""
    asked = about_size(project)
    if asked:
        project.say(questions.text(asked))
    return asked


def _all_red(project: Project, state: SessionState) -> bool:
    """Whether the unfinished work leaves every known test failing: the tree cannot even be imported (C15)."""
    known = project.store.baseline().passing
    return len(known) > 1 and known.issubset(state.red_tests or ())


def after_preflight(project: Project, failed: PreflightFailed) -> None:
    """Keeps the question about an environment that reset.sh could not bring back (E6)."""
    if failed.data.get("resets"):
        told = "Could not recover clean state. Manual intervention needed."
        questions.store(project, questions.question("environment", told))
