"""The project in a person's hands: handed off, and taken back with a look at what they did.

Source: features.md UAH-064..066, UAH-075, C06, C40, C65.
"""

from collections.abc import Callable

from agent_harness.errors import Refused, UnsafeTree
from agent_harness.kernel import clock
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import marks, records, worktree
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Feature
from agent_harness.protocols.features.selection import next_feature
from agent_harness.protocols.features.verdict.judge import Judge, Suite

Ask = Callable[[str], bool]


def handoff(project: Project, feature_id: int | None = None) -> JsonObject:
    """No session starts until `harness takeback`; repeating it changes nothing."""
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
    """The project is the harness's again. What the person built is verified; they decide whether it counts."""
    state = project.store.state()
    handed = state.handoff
    if not isinstance(handed, dict):
        raise Refused("The project is not handed off", hint="harness handoff")
    dirty = [path for path in worktree.dirty_paths(project.git) if path != project.progress_name]
    if dirty:
        raise UnsafeTree(f"Not committed yet: {', '.join(dirty[:3])}", hint="git add -A && git commit")
    project.say("Scanning for changes...")
    commits = _commits(project, handed.get("git_ref"))
    project.say(f"Found: {len(commits)} new commits")
    feature = project.store.features().by_id(records.number(handed.get("feature_id"), -1))
    suite = Judge(project).suite(project.git.head() or "HEAD")
    verified = feature is not None and _verified(project, feature, suite)
    marked = verified and feature is not None and _offer(project, feature, ask)
    broken = _broken(project, suite)
    if broken:
        project.say(f"Regression: {', '.join(broken[:5])} now failing; the next run asks for them to be fixed first.")
    elif not suite.problem:
        _refresh(project, suite)
    project.store.update_state(handoff=None, stuck_count=0)
    project.store.event("taken_back", commits=len(commits), feature_id=feature and feature.id, marked=marked)
    project.say("Resuming autonomous operation...")
    return {
        "commits": commits,
        "feature_id": feature and feature.id,
        "verified": verified,
        "marked": marked,
        "regressions": broken,
        "next": "harness run",
    }


def _commits(project: Project, since: object) -> list[str]:
    head = project.git.head()
    if head is None or not isinstance(since, str) or project.git.commit_of(since) is None:
        return []
    return [found.sha for found in project.git.commits_between(since, head)]


def _verified(project: Project, feature: Feature, suite: Suite) -> bool:
    """Whether the harness's own run of the feature's tests is green, and nothing older is broken."""
    project.say(f"{feature.name} test file: {feature.test_file}")
    if feature.passes:
        project.say(f"{feature.name} is passing already.")
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
    marks.mark(project, feature.id, passes=True, how="takeback")
    project.say("Updated features.json.")
    return True


def _broken(project: Project, suite: Suite) -> list[str]:
    known = project.store.baseline().passing
    return [] if suite.problem else sorted(known - suite.passing)


def _refresh(project: Project, suite: Suite) -> None:
    project.say("Updating test baseline...")
    tree = project.git.tree_of("HEAD")
    baseline = project.store.baseline()
    project.store.write_baseline(baseline.measured(suite.passing, suite.total, timestamp=clock.timestamp(), tree=tree))
