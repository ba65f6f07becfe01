"""Functions that select the question to ask the user after a session. After a rollback, tests that failed because of
the session run again. If a test still fails, its feature is reopened. Source: features.md section T, UAH-394, UAH-402,
UAH-457, UAH-458, C10, C15, C27, C35."""

from dataclasses import replace

from agent_harness.errors import HarnessError, PreflightFailed
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import lifecycle, overrides, questions, records
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import FeatureList, Question, SessionState
from agent_harness.protocols.features.sessions import accept
from agent_harness.protocols.features.sessions.finalization import Result
from agent_harness.protocols.features.verdict import proven
from agent_harness.protocols.features.verdict.project_judge import Judge


def question_after(
    project: Project, state: SessionState, feature_id: int | None, result: Result | None
) -> Question | None:
    """Return the question to ask after a session, or None if no question is needed."""
    asked = None if feature_id is None else _stopping(project, state, feature_id, result)
    offered = _offered(project, result) if result is not None else None
    if asked and offered and offered.record.get("blocks"):
        blocked = [line for line in offered.details if line.startswith("This blocks")]
        return Question({**asked.record, "details": blocked})
    return asked or offered


def _stopping(project: Project, state: SessionState, feature_id: int, result: Result | None) -> Question | None:
    most = project.config.features.max_stuck_sessions
    if result is not None and result.reason == "budget_exceeded":
        limit = result.told.partition(" ")[0]
        message = result.told.partition(". No price")[0].rstrip(".") + "."
        return questions.question("budget_exceeded", message, feature_id=feature_id, limit=limit)
    if lifecycle.is_stuck(state, most) and state.current_feature == feature_id:
        told = f"Feature #{feature_id} has failed to complete in {state.stuck_count} sessions."
        return questions.question("feature_stuck", told, feature_id=feature_id)
    if used_up := project.starts(feature_id).used_up():
        return questions.question("too_many_starts", used_up.message, feature_id=feature_id)
    failed = state.failures.get(str(feature_id), 0)
    if failed >= most:
        told = f"Feature #{feature_id} has failed verification {failed} times."
        return questions.question("verification_failed", told, feature_id=feature_id)
    known = project.store.baseline().passing
    if result is not None and len(known) > 1 and known.issubset(state.red_tests or ()):  # C15: not even imported
        told = "App still broken after agent attempted fix."
        return questions.question("app_broken", told, feature_id=feature_id)
    return None


def _offered(project: Project, result: Result) -> Question | None:
    """Return the question about the rejected session, or None if the session was not rejected (E2, E3)."""
    if result.regressions:
        return question(project, result)
    if not result.rejected_as or result.feature_id is None:
        return None
    told = f"Agent claimed Feature #{result.feature_id} complete, but harness verification failed."
    facts = {"session": result.session, "rescue_ref": result.rescue_ref, "details": [f"It said: {result.message}"]}
    return questions.question("claim_rejected", told, feature_id=result.feature_id, **facts)


def about_size(project: Project) -> Question | None:
    """Store and return a question about the first open feature with too many verification steps (E10).

    Return None if there is none, or if another question waits."""
    state = project.store.state()
    waiting = state.question
    if waiting and waiting.kind != "large_feature":
        return None
    most = project.config.features.max_verification_steps
    accepted = {*state.sizes_accepted}
    open_features = (f for f in project.store.features().features if f.is_open and f.id not in accepted)
    found = next((f for f in open_features if len(f.steps) > most), None)
    if found is None:
        if waiting:
            questions.forget(project)
        return None
    asked = questions.question("large_feature", records.too_large(found, most), feature_id=found.id)
    questions.store(project, asked)
    return asked


def offer_split(project: Project) -> Question | None:
    asked = about_size(project)
    if asked:
        project.say(questions.text(asked))
    return asked


def after_preflight(project: Project, failed: PreflightFailed) -> None:
    if failed.data.get("resets"):
        told = "Could not recover clean state. Manual intervention needed."
        questions.store(project, questions.question("environment", told))


# -- regressions -------------------------------------------------------------------------------------------------------

NAMED = 10  # failing tests that are named to the person


def look_again(project: Project, judge: Judge, result: Result) -> Result:
    """After a rollback, test the broken features again. Reopen each feature that still fails (C10)."""
    if not result.regressions or not result.broken_features:
        return result
    still = judge.still_failing(project.git.head() or "HEAD", result.regressions)
    document = project.store.features()
    found = [document.by_id(i) for i in result.broken_features]
    broken = [f.id for f in found if f and any(proven.belongs(node, f.test_file) for node in still)]
    if not broken:
        return result
    try:
        overrides.reset(project, broken)
    except HarnessError as error:
        project.say(f"Warning: features still fail after the rollback, but are not marked so: {error.message}")
        return result
    project.store.update_state(fix_first=broken)
    return replace(result, opened_again=tuple(broken))


def question(project: Project, result: Result) -> Question:
    """Return the question about the tests that a session broke (E3, UAH-402)."""
    document = project.store.features()
    waiting = accept.blocked_features(document, result.broken_features)
    blocked = [i for i in waiting if i not in (result.feature_id, *result.broken_features)]
    facts = {
        "feature_id": result.feature_id,
        "features": list(result.broken_features),
        "failing": list(result.regressions[:NAMED]),
        "session": result.session,
        "rescue_ref": result.rescue_ref,
    }
    if blocked:
        return _of_a_dependency(document, result, blocked, facts)
    count = len(result.regressions)
    words = "tests now fail" if count != 1 else "test now fails"
    message = f"{count} previously-passing {words} after Session {result.session}."
    failing = f"Failing: {records.listed(result.regressions, NAMED)}"
    return questions.question("regression", message, details=[failing], **facts)


def _of_a_dependency(document: FeatureList, result: Result, blocked: list[int], facts: JsonObject) -> Question:
    broken = [f for i in result.broken_features if (f := document.by_id(i))]
    message = " ".join(f"Feature {f.id} ({f.description}) now failing." for f in broken)
    details = [
        "This blocks: " + ", ".join(f"Feature {i}" for i in blocked),
        "",
        "Actions taken:",
        f"1. Rolling back Session {result.session} changes",
        *_marks(result),
    ]
    title = "REGRESSION DETECTED"
    return questions.question("dependency_regression", message, title=title, details=details, blocks=blocked, **facts)


def _marks(result: Result) -> list[str]:
    if result.opened_again:
        names = " and ".join(f"Feature {i}" for i in result.opened_again)
        return [f"2. Marking {names} as passes: false", f"3. Next session will fix {names} before continuing"]
    names = " and ".join(f"Feature {i}" for i in result.broken_features)
    return [
        f"2. Running the tests of {names} again: they pass after the rollback, passes: true stays",
        f"3. Next session is told what broke, and tries Feature #{result.feature_id} again",
    ]
