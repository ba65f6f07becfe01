"""Functions that inspect a project: health, verification, preview, checks for `harness doctor`, and maintenance. No
agent is started. Source: features.md UAH-048..052, UAH-062, UAH-063, UAH-072, UAH-438..442, UAH-484, UAH-485, UAH-488,
C36, C51, C52."""

import os
import shlex
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from agent_harness.agents import usage
from agent_harness.errors import Busy, HarnessError, Refused
from agent_harness.kernel import clock, files, lock, owner
from agent_harness.kernel.files import own_place
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import (
    costs,
    lifecycle,
    migrations,
    overrides,
    preflight,
    prompts,
    questions,
    records,
    repository,
    selection,
    status,
)
from agent_harness.protocols.features.config import load
from agent_harness.protocols.features.config.mcp_servers import demand_programs, switched_on
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Feature, FeatureList
from agent_harness.protocols.features.sessions import actions, locking
from agent_harness.protocols.features.sessions.locking import locked
from agent_harness.protocols.features.sessions.open_session import CLEANUP
from agent_harness.protocols.features.verdict import proven, quality
from agent_harness.protocols.features.verdict.project_judge import Judge
from agent_harness.session import ledger
from agent_harness.supervision import interruption
from agent_harness.verification.checkout import clear_leftovers


def measure(project: Project) -> JsonObject:
    """Print and return all health metrics of the project (C23)."""
    project.require_initialised()
    clear_leftovers(project.root)
    document = project.store.believed(project.store.features())
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
        "lint": {
            "errors": lint.errors,
            "warnings": lint.warnings,
            "kinds": dict(lint.kinds),
            "files": dict(lint.files),
            "by_lines": lint.by_lines,
            "problem": lint.problem,
        },
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
        f"LINT: {records.lint_line(*(lint[name] for name in ('errors', 'warnings', 'kinds', 'files')))}",
    ]
    if lint["by_lines"]:
        rows.append("  the numbers count lines of output, because the harness does not know the linter's format")
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
    """Test one feature on a copy of the work tree and return the report (UAH-051)."""
    project.require_initialised()
    clear_leftovers(project.root)
    return Judge(project).report(selection.existing_feature(preflight.valid_features(project), feature_id))


def verify_all(project: Project) -> JsonObject:
    """Run the whole suite on the work tree, and return the results of each feature."""
    project.require_initialised()
    clear_leftovers(project.root)
    document = preflight.valid_features(project)
    project.say(f"Running the whole suite...\n\n$ {project.config.testing.full}")
    facts = Judge(project).suite_of_tree()
    rows = [_row(feature, facts.passing, facts.failing) for feature in document.features]
    for row in rows:
        project.say(f"Feature #{row['feature_id']} ({row['description']}): {row['said']}")
    known = project.store.baseline().passing
    lost = sorted(known - facts.passing)
    for node in lost[:20]:
        project.say(f"Regression: {node} is in the test baseline and does not pass now")
    if facts.problem:
        project.say(f"No result: {facts.problem}")
    chain = _chain(project)
    if chain.state != "ok":
        project.say(f"Warning: {chain.message}: {chain.fix}")
    wrong = [row["feature_id"] for row in rows if row["marked"] and not row["green"] and not row["by_word"]]
    good = not (wrong or lost or facts.problem)
    project.say(f"\n{len(facts.passing)} of {facts.total} tests pass. Verification: {'PASSED' if good else 'FAILED'}")
    return {
        "passed": good,
        "problem": facts.problem,
        "features": rows,
        "wrongly_marked": wrong,
        "regressions": lost,
        "verdicts": chain.message,
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
        said += "; marked as passing" + (" by a person" if by_word else ", WRONGLY")
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
    """Ask a person whether the feature works. If so, mark the feature as passing (UAH-062, UAH-063)."""
    feature = overrides.feature_of(project, feature_id)
    if feature.passes:
        raise Refused(f"Feature #{feature_id} already passes", hint="harness status")
    file = feature.test_file
    project.say(f"Please verify Feature #{feature_id} manually.\n\nTest file: {file}")
    project.say(f"Run: {project.config.test_command(file)}")
    for check in feature.manual_checks:
        project.say(f"- {check}")
    session = feature.accepted_in
    for path in actions.screenshots_of(project, session) if session is not None else ():
        project.say(f"Screenshot: {path}")
    if not ask("Did all tests pass?"):
        project.say(f"Feature #{feature_id} stays open.")
        return {"feature_id": feature_id, "recorded": False, "next": "harness status"}
    answer = overrides.mark(project, feature_id, passes=True, how="manual")
    project.say(f"Recorded manual verification for Feature #{feature_id}.")
    return {**answer, "recorded": True}


# -- the next session --------------------------------------------------------------------------------------------------


def preview(project: Project, feature_id: int | None = None) -> JsonObject:
    """Describe the next session, and change no file (UAH-048, UAH-049)."""
    project.require_initialised()
    migrations.refuse_newer(project)
    state = project.store.state()
    document = preflight.valid_features(project)
    choice = selection.next_feature(document, state)
    if feature_id is not None:
        choice = selection.Choice(selection.chosen_feature(document, state, feature_id))
    prompt_type, reason = lifecycle.prompt_type(state)
    if prompt_type == "cleanup":
        choice = selection.Choice(CLEANUP)
    passing, total = document.counts()
    if total and passing == total and prompt_type != "cleanup" and feature_id is None:
        project.say(f"Nothing left: {passing} of {total} proven. To run every test again: harness verify --all")
        return {"session": None, "feature_id": None, "complete": True, "next": "harness verify --all"}
    number = project.store.next_session()
    text = prompts.orientation_of(project, state, choice, number)
    feature = choice.feature
    say = project.say
    say(f"Would run Session {number} with:")
    say(f"  Prompt type: {prompt_type} ({reason})")
    if feature and feature is not CLEANUP:
        say(f"  Feature: #{feature.id} ({feature.description})")
        say(f"  Test file: {feature.test_file}")
    expected = _estimate(project, document)
    say(f"\n{usage.estimate_line(expected, 'feature')}")
    say(f"  Budget left: ${expected['budget_left_usd']:.2f} of the project")
    say("\nOrientation summary that would be injected:\n")
    say(text)
    say("No changes made.")
    return {
        "session": number,
        "estimate": expected,
        "prompt_type": prompt_type,
        "reason": reason,
        "feature_id": feature and feature.feature_id,
        "test_file": feature and feature.test_file,
        "orientation": text,
    }


def _estimate(project: Project, document: FeatureList) -> JsonObject:
    spent = project.store.costs()
    rows = {row.get("feature_id"): row for row in spent.by_feature}
    proven_costs: list[float | None] = []
    for feature in document.passing:
        row = rows.get(feature.id, {})
        proven_costs.append(
            None if records.amount(row.get("assumed_cost_usd")) else records.amount(row.get("cost_usd"))
        )
    found = usage.estimate(
        left=sum(1 for each in document.features if not each.passes and not each.skipped),
        proven=proven_costs,
        spent_usd=spent.total_usd,
        tried=bool(rows),
    )
    return {**found, "budget_left_usd": round(max(0.0, project.budgets.total - costs.counted(spent)), 4)}


# -- checks before a session -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ProjectCheck:
    """Result of one check of the project. ``fix`` is a command for the user, ``repair`` an automatic repair."""

    name: str
    state: str  # ok, warning, wrong
    message: str
    fix: str | None = None
    repair: Callable[[], object] | None = field(default=None, compare=False)


def checks(folder: Path) -> Iterator[ProjectCheck]:
    """Yield the result of each check of the project's settings, state, features, scripts and locks."""
    config = load(folder)
    yield ProjectCheck("settings", "ok", ".harness.yaml is valid")
    for warning in config.warnings:
        yield ProjectCheck("settings", "warning", warning, "harness config --show-origin")
    project = Project.open(folder, config)
    if not os.path.exists(project.layout.session_state):
        fix = "harness init --spec FILE  # or harness init --adopt"
        yield ProjectCheck("state", "warning", "not initialised here", fix)
        return
    document = project.store.features()
    passing, total = document.counts()
    if problems := records.problems(document, require_test_file=config.features.require_test_file):
        yield ProjectCheck("features", "wrong", problems[0], f"edit {project.features_name}")
    else:
        yield ProjectCheck("features", "ok", f"{passing} of {total} are passing")
    found = migrations.version(project)
    if found["migration_needed"]:
        message = f"the state has the older schema {found['state_schema']}"
        yield ProjectCheck("schema", "warning", message, "harness migrate", lambda: _migrate(project))
    if project.git.is_repository and not project.git.ok("check-ignore", "--quiet", f"{project.state_name}/state"):
        message = f"git does not ignore {project.state_name}/, which belongs to this machine only"
        fix = f"echo '/{project.state_name}/' >> .git/info/exclude"
        hide = lambda: repository.keep_out_of_sight(project.git, project.state_name)  # noqa: E731
        yield ProjectCheck("ignored", "warning", message, fix, hide)
    try:
        preflight.harness_files(project.layout, list(filter(None, (config.environment.init, config.environment.reset))))
    except HarnessError as error:
        yield ProjectCheck("files", "wrong", error.message, error.hint)
    try:
        servers = switched_on(config.tools.mcp_servers)
        demand_programs(servers, folder)
        if servers:
            yield ProjectCheck("mcp servers", "ok", f"{', '.join(servers)} can be started")
    except HarnessError as error:
        yield ProjectCheck("mcp servers", "wrong", error.message, error.hint)
    yield _chain(project)
    yield from _waiting(project)


def _chain(project: Project) -> ProjectCheck:
    path = project.store.ledger(make=False)
    found = ledger.check(path)
    fix = None if found.whole else f"less {shlex.quote(path)}"
    return ProjectCheck("verdicts", "ok" if found.whole else "wrong", found.sentence, fix)


def _migrate(project: Project) -> None:
    with locked(project):
        migrations.migrate(project, backup=True)


def _waiting(project: Project) -> Iterator[ProjectCheck]:
    state = project.store.state()
    for asked in questions.waiting(state, project.store.features()):
        yield ProjectCheck("question", "wrong", asked.message, questions.hint(asked))
    if state.handoff is not None:
        yield ProjectCheck(
            "handoff", "warning", "the project is handed off to a person; no session starts", "harness hand-back"
        )
    if paused := locking.found(project):
        yield ProjectCheck("pause", "warning", f"paused: {paused.get('reason')}", "harness resume")
    holder = lock.holder(project.root, project.layout.relative(project.layout.lock))
    if holder:
        yield ProjectCheck("lock", "ok", f"a harness is running: {holder}")
    elif project.store.open_session() is not None:
        yield ProjectCheck("session", "warning", "a session was interrupted; the next run recovers it", "harness run")
    else:
        yield ProjectCheck("lock", "ok", "no harness is running")


# -- maintenance mode --------------------------------------------------------------------------------------------------


LOOK_SECONDS = 0.5


def maintain(project: Project) -> JsonObject:
    """Run the test suite at intervals until a person ends maintenance mode. Raise ``Escalated`` if the suite fails."""
    path = project.layout.maintenance
    own_place(path, project.layout.root)
    files.write_json(path, {"since": clock.timestamp(), "harness": owner.current().as_record()})
    project.store.event("maintenance_started")
    project.say("Entering maintenance mode...\nHarness will run periodic health checks. End it with: harness stop")
    checks = 0
    try:
        with interruption.watched(lambda: not os.path.lexists(path)) as stop, stop.listening(waits=True):
            while _wait(project, stop):
                checks += _check(project)
    except KeyboardInterrupt:
        pass  # the second Ctrl-C ends it like the first
    finally:
        if os.path.lexists(path):
            os.unlink(path)
        project.store.event("maintenance_ended", checks=checks)
    project.say("Maintenance mode ended.")
    return {"checks": checks, "next": "harness status"}


def stop(project: Project) -> JsonObject:
    """End maintenance mode."""
    path = project.layout.maintenance
    there = os.path.lexists(path)
    if there:
        os.unlink(path)
    project.say("Maintenance mode stopped." if there else "Maintenance mode is not on.")
    return {"stopped": there, "next": "harness status"}


def _wait(project: Project, stop: interruption.Stop) -> bool:
    until = time.monotonic() + project.config.maintenance.interval_minutes * 60 * clock.time_scale()
    while stop.requested() is None:
        left = until - time.monotonic()
        if left <= 0:
            return True
        time.sleep(min(LOOK_SECONDS, left))
    return False


def _check(project: Project) -> bool:
    try:
        with locked(project):
            questions.forget_passing(project)
            facts = Judge(project).suite(project.git.head() or "HEAD")
            proven.require(project, facts)
    except Busy:
        return False
    project.store.event("maintenance_check", "routine", passing=len(facts.passing))
    project.say(f"{clock.timestamp()} Health check: {len(facts.passing)} tests pass.")
    return True
