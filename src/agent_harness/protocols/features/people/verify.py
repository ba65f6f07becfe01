"""Looking at proofs outside of a session: one feature's tests, all of them, or a person's own look.

Source: features.md UAH-050, UAH-051, UAH-062, UAH-063.
"""

from collections.abc import Callable

from agent_harness.errors import Refused, UsageError
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features.marks import override
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Feature
from agent_harness.protocols.features.validity import valid_features
from agent_harness.protocols.features.verdict import proven, screenshots
from agent_harness.protocols.features.verdict.judge import Judge
from agent_harness.verification.workspace import clear_leftovers


def verify(project: Project, feature_id: int) -> JsonObject:
    """Runs one feature's tests on a clean checkout of what is in the work tree; flips nothing (UAH-051)."""
    project.require_initialised()
    clear_leftovers(project.root)
    document = valid_features(project)
    feature = document.by_id(feature_id)
    if feature is None:
        known = ", ".join(str(f.id) for f in document.features)
        raise UsageError(f"There is no Feature #{feature_id}; known ids: {known}", hint="harness status")
    return Judge(project).report(feature)


def verify_all(project: Project) -> JsonObject:
    """One run of the whole suite on what is in the work tree, feature by feature; flips nothing.

    It passes when every feature that is marked as passing has a passing test and none that fails, and every test of
    the baseline passes. A feature that passes by a person's word is named and does not count.
    """
    project.require_initialised()
    clear_leftovers(project.root)
    document = valid_features(project)
    project.say(f"Running the whole suite...\n\n$ {project.config.testing.full}")
    facts = Judge(project).suite_of_tree()
    rows = [_row(feature, facts.passing, facts.failing) for feature in document.features]
    for row in rows:
        project.say(f"Feature #{row['feature_id']} ({row['description']}): {row['said']}")
    known = project.store.baseline().passing
    lost = sorted(known - facts.passing)
    for node in lost[:20]:
        project.say(f"Regression: {node} is known to pass and does not")
    if facts.problem:
        project.say(f"No result: {facts.problem}")
    wrong = [row["feature_id"] for row in rows if row["marked"] and not row["green"] and not row["by_word"]]
    good = not (wrong or lost or facts.problem)
    project.say(f"\n{len(facts.passing)} of {facts.total} tests pass. Verification: {'PASSED' if good else 'FAILED'}")
    return {
        "passed": good,
        "problem": facts.problem,
        "features": rows,
        "wrongly_marked": wrong,
        "regressions": lost,
        "tests": {"passing": len(facts.passing), "total": facts.total},
    }


def _row(feature: Feature, passing: frozenset[str], failing: frozenset[str]) -> JsonObject:
    file = feature.test_file
    own = sum(1 for node in passing if proven.belongs(node, file))
    bad = sum(1 for node in failing if proven.belongs(node, file))
    marked, green = feature.passes, own > 0 and bad == 0
    by_word = feature.marked_by_person
    said = f"{own} passed, {bad} failed"
    if marked and not green:
        said += "; marked as passing" + (" by a person's word" if by_word else ", WRONGLY")
    elif not marked:
        said += "; open" + (" (its tests pass; no session has proven it)" if green else "")
    return {
        "feature_id": feature.id,
        "description": feature.description,
        "marked": marked,
        "green": green,
        "by_word": by_word,
        "passing": own,
        "failing": bad,
        "said": said,
    }


def manual_verify(project: Project, feature_id: int, ask: Callable[[str], bool]) -> JsonObject:
    """Asks the person for what they saw; only their yes is recorded, as a commit (UAH-062, UAH-063)."""
    feature = override.feature_of(project, feature_id)
    if feature.passes:
        raise Refused(f"Feature #{feature_id} is passing already", hint="harness status")
    file = feature.test_file
    project.say(f"Please verify Feature #{feature_id} manually.\n\nTest file: {file}")
    project.say(f"Run: {project.config.test_command(file)}")
    for check in feature.manual_checks:
        project.say(f"- {check}")
    waiting = feature.awaits_person
    session = waiting.get("session") if isinstance(waiting, dict) else None
    for path in screenshots.of_session(project, session) if isinstance(session, int) else ():
        project.say(f"Screenshot: {path}")
    if not ask("Did all tests pass?"):
        project.say(f"Feature #{feature_id} stays open.")
        return {"feature_id": feature_id, "recorded": False, "next": "harness status"}
    answer = override.mark(project, feature_id, passes=True, how="manual")
    project.say(f"Recorded manual verification for Feature #{feature_id}.")
    return {**answer, "recorded": True}
