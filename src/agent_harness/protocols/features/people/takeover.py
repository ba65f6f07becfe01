"""Hand-off to a person, hand-back, abort, and creation of new state after an abort or in a clone. An abort moves the
state away, and keeps commits, logs and costs. Source: features.md UAH-064..067, UAH-075, C06, C39, C40, C48, C65."""

import os
from collections.abc import Callable, Sequence

from agent_harness.errors import NotAProject, Refused, UnsafeTree
from agent_harness.kernel import clock
from agent_harness.kernel.files import free_name
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import overrides, progress, records
from agent_harness.protocols.features.preflight import running, valid_features
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Feature
from agent_harness.protocols.features.selection import next_feature
from agent_harness.protocols.features.sessions import locking, recover
from agent_harness.protocols.features.sessions.locking import locked
from agent_harness.protocols.features.verdict import proven, quality
from agent_harness.protocols.features.verdict.project_judge import Judge, Suite

Ask = Callable[[str], bool]


def handoff(project: Project, feature_id: int | None = None) -> JsonObject:
    """Hand the project over to the user. No session starts until `harness hand-back`."""
    state = project.store.state()
    document = project.store.features()
    passing, total = document.counts()
    handed = state.handoff
    if not isinstance(handed, dict):
        if feature_id is None:
            feature = next_feature(document, state).feature
            feature_id = feature.id if feature else None
        handed = {"git_ref": project.git.head(), "feature_id": feature_id, "at": clock.timestamp()}
        project.store.update_state(handoff=handed)
        project.store.event("handed_to_person", feature_id=feature_id, git_ref=handed["git_ref"])
    project.say("Harness paused.\n\nCurrent state:")
    if handed.get("feature_id") is not None:
        project.say(f"- Feature #{handed['feature_id']} in progress (not complete)")
    project.say(f"- {passing}/{total} features passing\n\nWhen done, run: harness takeback")
    return {"handoff": handed, "features": {"passing": passing, "total": total}, "next": "harness takeback"}


def takeback(project: Project, ask: Ask) -> JsonObject:
    """End the hand-off and verify the person's work. Offer to mark each feature that passes."""
    handed = project.store.state().handoff
    if not isinstance(handed, dict):
        raise Refused("The project is not handed off", hint="harness handoff")
    dirty = project.dirty()
    if dirty:
        raise UnsafeTree(f"These files are not committed: {', '.join(dirty[:3])}", hint="git add -A && git commit")
    project.say("Scanning for changes...")
    commits = _commits(project, handed.get("git_ref"))
    project.say(f"Found: {len(commits)} new commits")
    feature = project.store.features().by_id(records.number(handed.get("feature_id"), -1))
    suite = Judge(project).suite(project.git.head() or "HEAD")
    looked_at = [] if feature is None else [feature]
    looked_at += [f for f in project.store.features().features if f is not feature and _is_green(f, suite)]
    looked_at = list({f.id: f for f in looked_at}.values())
    verified = [f.id for f in looked_at if _verified(project, f, suite)]
    marked = [f.id for f in looked_at if f.id in verified and _offer(project, f, ask)]
    broken = _broken(project, suite)
    if broken:
        project.say(f"Regression: {', '.join(broken[:5])} now failing; the next run starts only when these tests pass.")
    elif not suite.problem:
        project.say("Updating test baseline...")
        baseline = project.store.baseline()
        tree, at = project.git.tree_of("HEAD"), clock.timestamp()
        project.store.write_baseline(baseline.measured(suite.passing, suite.total, timestamp=at, tree=tree))
    project.store.update_state(handoff=None, stuck_count=0)
    project.store.event("taken_back", commits=len(commits), feature_id=feature and feature.id, marked=marked)
    project.say("Resuming autonomous operation...")
    return {
        "commits": commits,
        "feature_id": feature and feature.id,
        "verified": feature is not None and feature.id in verified,
        "marked": feature is not None and feature.id in marked,
        "features": [{"id": f.id, "verified": f.id in verified, "marked": f.id in marked} for f in looked_at],
        "regressions": broken,
        "next": "harness run",
    }


def _commits(project: Project, since: object) -> list[str]:
    head = project.git.head()
    if head is None or not isinstance(since, str) or project.git.commit_of(since) is None:
        return []
    return [found.sha for found in project.git.commits_between(since, head)]


def _is_green(feature: Feature, suite: Suite) -> bool:
    own, failing = (
        {n for n in nodes if proven.belongs(n, feature.test_file)} for nodes in (suite.passing, suite.failing)
    )
    return feature.is_open and bool(feature.test_file and own) and not failing


def _verified(project: Project, feature: Feature, suite: Suite) -> bool:
    project.say(f"{feature.name} test file: {feature.test_file}")
    if feature.passes:
        project.say(f"{feature.name} already passes.")
        return True
    quiet = Project.open(project.root, project.config)
    good = bool(Judge(quiet).report(feature)["passed"]) and not _broken(project, suite)
    project.say(f"Running verification... {'PASSED' if good else 'FAILED'}")
    return good


def _offer(project: Project, feature: Feature, ask: Ask) -> bool:
    if feature.passes:
        return True
    if not ask(f"Mark Feature #{feature.id} as passes: true?"):
        project.say(f"{feature.name} stays open.")
        return False
    overrides.mark(project, feature.id, passes=True, how="takeback")
    project.say("Updated features.json.")
    return True


def _broken(project: Project, suite: Suite) -> list[str]:
    known = project.store.baseline().passing
    return [] if suite.problem else sorted(known - suite.passing)


# -- abort, and a new beginning ----------------------------------------------------------------------------------------


def abort(project: Project) -> JsonObject:
    """End the running session and keep its work. Move the project's state to another folder."""
    # the caller has asked the user
    project.require_initialised()
    project.store.finalize_in()
    project.store.write_pause({"reason": "aborted by a person", "at": clock.timestamp()})
    answer: JsonObject = {}

    def act() -> None:
        recover.recover(project)
        answer.update(clear_state(project))

    locking.wait_and(project, act)
    return answer


def clear_state(project: Project) -> JsonObject:
    """Move the project's state to ``.harness/aborted-TIME/``. The caller must hold the lock."""
    at = project.layout
    folder = free_name(os.path.join(at.state_dir, f"aborted-{clock.now():%Y%m%dT%H%M%S}"))
    os.makedirs(folder)
    for path in (at.session_state, at.baseline, at.file_sizes, at.quality, at.checkpoints):
        for each in (path, f"{path}.bak"):
            if os.path.lexists(each):
                os.rename(each, os.path.join(folder, os.path.basename(each)))
    project.store.write_pause(None)
    name = at.relative(folder)
    project.store.event("aborted", "critical", kept_in=name)
    project.say(f"Harness stopped. Its state is kept in {name}; `harness resume` creates new state from features.json.")
    return {"kept_in": name, "next": "harness resume"}


def was_aborted(project: Project) -> bool:
    try:
        names = os.listdir(project.layout.state_dir)
    except OSError:
        return False
    return not project.store.initialised() and any(name.startswith("aborted-") for name in names)


def can_begin_anew(project: Project) -> bool:
    """Return True after an abort, or if features.json and the settings are committed but no state exists."""
    at, git = project.layout, project.git
    if was_aborted(project):
        return True
    if project.store.initialised() or not git.is_repository or not (head := git.head()):
        return False
    return all(git.show(head, at.relative(path)) is not None for path in (at.features, at.settings))


def is_clone(project: Project) -> bool:
    """Return True if the project is a fresh clone, so that a run may create its state."""
    at = project.layout
    if os.path.islink(at.state_dir) or (os.path.lexists(at.state_dir) and not os.path.isdir(at.state_dir)):
        return False
    return not was_aborted(project) and not os.path.lexists(at.baseline) and can_begin_anew(project)


def begin_anew(project: Project) -> JsonObject:
    """Create the state of a fresh clone or an aborted project from features.json, session logs and a suite run (E9)."""
    if not can_begin_anew(project):
        raise NotAProject(f"{project.root} is not an initialised project", hint="harness init --spec FILE")
    with locked(project):
        if project.store.initialised():  # another process was faster
            return {"answered": None, "next": "harness run"}
        project.store.finalize_in()
        document = valid_features(project)
        project.say("This project has features but no state, as in a fresh clone. Creating the state from the files.")
        with running(project) as environment:
            environment.up(auto_reset=False, max_reset_attempts=0)
            facts = suite_at_head(project)
        passing, total = document.counts()
        if facts.problem and passing:
            raise Refused(
                f"{passing} of {total} features are marked as passing, and the tests could not be run: {facts.problem}",
                hint=f"make this command work: {project.config.testing.full}   then: harness run",
            )
        if facts.problem:
            project.say(f"Warning: the test command gave no results ({facts.problem})")
        files = [f.test_file for f in document.features if f.test_file]
        strangers = [node for node in facts.failing if not any(proven.belongs(node, file) for file in files)]
        fresh_state(project, facts, known_failures=sorted(strangers))
        proven.check(project, facts)
    project.say(
        f"Rebuilt the state from features.json and a fresh test baseline: {passing} of {total} features are proven.\n"
        "Ready for: harness run"
    )
    return {"answered": None, "next": "harness run"}


def suite_at_head(project: Project) -> Suite:
    commit = project.git.head()
    if commit is None:
        raise Refused("The repository has no commit yet", hint="git commit")
    return Judge(project).suite(commit)


def fresh_state(project: Project, facts: Suite, *, known_failures: Sequence[str] = ()) -> None:
    """Write a new baseline, file sizes and session state for HEAD."""
    at, document, commit = project.layout, project.store.features(), str(project.git.head())
    told = (entry.session for entry in progress.recent_entries(at.progress))
    last = max([0, *project.store.recorded_sessions(), *told])
    baseline = records.Baseline({}).measured(
        facts.passing,
        facts.total,
        session=last,
        timestamp=clock.timestamp(),
        known_failures=list(known_failures),
        tree=project.git.tree_of(commit),
    )
    tests = [f.test_file for f in document.features]
    project.store.write_baseline(baseline)
    project.store.write(at.file_sizes, quality.file_sizes(project.git, commit, last, {}, tests))
    # last, because the session state shows that the project is initialised
    state = records.SessionState({**records.NOTHING_UNFINISHED, "last_session": last, "timestamp": clock.timestamp()})
    project.store.write_state(state)
