"""What a person looks at outside of a session: the project's health, its proofs, and what the next session would get.

    measure         features, tests, lint and file sizes, measured now on what is in the work tree
    verify          one feature's tests, or all of them; flips nothing
    manual_verify   a person's own look, recorded when they say yes
    preview         the next session, without running it: `harness run --dry-run`

Source: features.md UAH-048..052, UAH-062, UAH-063, UAH-438..442, C36, C52.
"""

from collections.abc import Callable

from agent_harness.errors import Refused, UsageError
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import (
    lifecycle,
    marks,
    migrations,
    records,
    selection,
    status,
)
from agent_harness.protocols.features.engine.open_session import CLEANUP
from agent_harness.protocols.features.preflight import valid_features
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.prompts import orientation_facts
from agent_harness.protocols.features.records import Feature
from agent_harness.protocols.features.verdict import proven, quality, screenshots
from agent_harness.protocols.features.verdict.judge import Judge
from agent_harness.verification.workspace import clear_leftovers


def measure(project: Project) -> JsonObject:
    """Every figure, and the lines for a person; changes nothing in the project.

    Tests of features that are still open do not count (C23).
    """
    project.require_initialised()
    clear_leftovers(project.root)
    document = project.store.features()
    passing, total = document.counts()
    judge = Judge(project)
    with judge.tree() as commit:
        suite, lint = judge.suite(commit), judge.lint(commit)
        tests = [f.test_file for f in document.features]
        sizes = quality.file_sizes(project.git, commit, 0, {}, tests)["files"]
    counted = proven.not_open(document, suite.failing)
    most = project.config.quality.max_file_lines
    score = status.weigh(
        features=(passing, total),
        tests=(len(suite.passing), len(suite.passing) + len(counted)),
        lint_errors=lint.errors,
        lines=[row["lines"] for row in sizes.values()],
        max_lines=most,
    )
    found = {
        "project": str(document.project or project.config.project.name),
        "features": {"passing": passing, "total": total, "percent": records.percent(passing, total)},
        "tests": {
            "passing": len(suite.passing),
            "total": len(suite.passing) + len(counted),
            "percent": records.percent(len(suite.passing), len(suite.passing) + len(counted)),
            "problem": suite.problem,
        },
        "lint": {"errors": lint.errors, "warnings": lint.warnings, "problem": lint.problem},
        "files": {"count": len(sizes), "large": quality.large_files(sizes, most), "max_lines": most},
        "score": round(score, 3),
        "word": status.health_word(score),
        "next_cleanup_after": quality.next_cleanup(passing, project.config.quality.cleanup_interval),
    }
    project.say("\n".join(_lines(found)))
    return found


def _lines(found: JsonObject) -> list[str]:
    features, tests, lint, files = found["features"], found["tests"], found["lint"], found["files"]
    rows = [
        f"Project: {found['project']}\n",
        f"FEATURES: {features['passing']}/{features['total']} passing ({features['percent']}%)",
        f"TESTS: {tests['passing']}/{tests['total']} passing ({tests['percent']}%)",
        f"LINT: {lint['errors']} errors, {lint['warnings']} warnings",
    ]
    rows += [f"  {part['problem']}" for part in (tests, lint) if part["problem"]]
    rows.append("\nFILE HEALTH:")
    for row in files["large"]:
        advice = "too large, split it" if row["lines"] > files["max_lines"] else "consider splitting"
        rows.append(f"  ⚠ {row['path']} ({row['lines']} lines, {advice})")
    rest = files["count"] - len(files["large"])
    rows.append(f"  ✓ {'All other' if files['large'] else 'All'} files under the limit ({rest})")
    rows.append(f"\nOVERALL HEALTH: {found['word']}")
    rows.append(f"Next cleanup due: After Feature #{found['next_cleanup_after']}")
    return rows


# -- proofs ------------------------------------------------------------------------------------------------------------


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
    feature = marks.feature_of(project, feature_id)
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
    answer = marks.mark(project, feature_id, passes=True, how="manual")
    project.say(f"Recorded manual verification for Feature #{feature_id}.")
    return {**answer, "recorded": True}


# -- the next session --------------------------------------------------------------------------------------------------


def preview(project: Project, feature_id: int | None = None) -> JsonObject:
    """What the next session would get; nothing on disk changes (UAH-048, UAH-049)."""
    project.require_initialised()
    migrations.refuse_newer(project)
    state = project.store.state()
    document = valid_features(project)
    choice = selection.next_feature(document, state)
    if feature_id is not None:
        choice = selection.Choice(selection.chosen_feature(document, state, feature_id))
    prompt_type, reason = lifecycle.prompt_type(state)
    if prompt_type == "cleanup":
        choice = selection.Choice(CLEANUP)
    number = project.store.next_session()
    text = orientation_facts.orientation(project, state, choice, number)
    feature = choice.feature
    say = project.say
    say(f"Would run Session {number} with:")
    say(f"  Prompt type: {prompt_type} ({reason})")
    if feature and feature is not CLEANUP:
        say(f"  Feature: #{feature.id} ({feature.description})")
        say(f"  Test file: {feature.test_file}")
    say("\nOrientation summary that would be injected:\n")
    say(text)
    say("No changes made.")
    return {
        "session": number,
        "prompt_type": prompt_type,
        "reason": reason,
        "feature_id": feature and feature.feature_id,
        "test_file": feature and feature.test_file,
        "orientation": text,
    }
