"""What a regression comes to once its session is rolled back: looked at again, and put before a person.

After the rollback the tests that broke are run once more. Where they pass, their features keep their marks; where they
still fail (the session has changed something outside of the repository), their features are opened again and come
first. Source: features.md UAH-394, UAH-402, UAH-457, UAH-458, C10.
"""

from dataclasses import replace

from agent_harness.errors import HarnessError
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import questions
from agent_harness.protocols.features.engine import accept
from agent_harness.protocols.features.engine.result import Result
from agent_harness.protocols.features.marks import override
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import FeatureList
from agent_harness.protocols.features.verdict import proven
from agent_harness.protocols.features.verdict.judge import Judge

NAMED = 10  # failing tests that are named to the person


def look_again(project: Project, judge: Judge, result: Result) -> Result:
    """The result with the features that fail after the rollback, too; they are open now and come first (C10)."""
    if not result.regressions or not result.broken_features:
        return result
    still = judge.still_failing(project.git.head() or "HEAD", result.regressions)
    document = project.store.features()
    found = [document.by_id(i) for i in result.broken_features]
    broken = [f.id for f in found if f and any(proven.belongs(node, f.test_file) for node in still)]
    if not broken:
        return result
    try:
        override.reset(project, broken)
    except HarnessError as error:
        project.say(f"Warning: still failing after the rollback, and not marked so: {error.message}")
        return result
    project.store.update_state(fix_first=broken)
    return replace(result, opened_again=tuple(broken))


def question(project: Project, result: Result) -> JsonObject:
    """E3; or the panel of UAH-402 where open features wait for what broke."""
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
    more = f" and {count - NAMED} more" if count > NAMED else ""
    failing = f"Failing: {', '.join(result.regressions[:NAMED])}{more}"
    return questions.question("regression", message, details=[failing], **facts)


def _of_a_dependency(document: FeatureList, result: Result, blocked: list[int], facts: JsonObject) -> JsonObject:
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
    """What became of the marks, and what the next session is for."""
    if result.opened_again:
        names = " and ".join(f"Feature {i}" for i in result.opened_again)
        return [f"2. Marking {names} as passes: false", f"3. Next session will fix {names} before continuing"]
    names = " and ".join(f"Feature {i}" for i in result.broken_features)
    return [
        f"2. Running the tests of {names} again: they pass after the rollback, passes: true stays",
        f"3. Next session is told what broke, and tries Feature #{result.feature_id} again",
    ]
