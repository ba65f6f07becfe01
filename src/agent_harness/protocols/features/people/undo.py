"""An accepted feature that a person takes back: its work is reverted in one new commit, and the feature is open again.

The commit is made as objects: what its session changed is taken out of what is there now, features.json says so. The
whole suite runs on it before the branch moves; nothing is rewritten, so what was pushed stays. Refused,
with everything as it was: where another feature's tests would break, where later work has changed the same lines, where
files of a person are in the way, while a feature is unfinished. Source: ``faces.md`` F-STORY-2.
"""

import json
import os
from dataclasses import dataclass

from agent_harness.errors import Refused, UnsafeTree, UsageError, VerificationFailed
from agent_harness.kernel.git.objects import ABSENT
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel import landing
from agent_harness.protocols.features import marks, progress, records, repository
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Feature
from agent_harness.protocols.features.verdict import proven
from agent_harness.protocols.features.verdict.judge import Judge
from agent_harness.session import ledger
from agent_harness.session.ledger import ClaimVerdict


@dataclass(frozen=True, kw_only=True)
class UndoPlan:
    """What would be taken back."""

    feature: Feature
    verdict: ClaimVerdict  # by which it was accepted
    paths: tuple[str, ...]  # that the commit would change, the harness's own files aside
    tests: tuple[str, ...]  # of the baseline, that go with it
    branch: str
    head: str
    commit: str  # the commit that takes it back, on no branch yet

    def as_record(self) -> JsonObject:
        """The members of the answer."""
        return {
            "feature_id": self.feature.id,
            "session": self.verdict.session,
            "accepted_at": self.verdict.commit,
            "paths": [*self.paths],
            "tests": [*self.tests],
            "head": self.head,
        }


def named(project: Project, what: str) -> int:
    """The id of the feature that ``3``, ``#3`` or ``S8``, the session that was accepted, names; ``UsageError``."""
    word = what.strip().lstrip("#")
    if word.isdecimal():
        return int(word)
    path = project.store.ledger(make=False)
    if word[:1] in "sS" and word[1:].isdecimal():
        found = (each for each in ledger.newest_first(path) if each.accepted and each.session == int(word[1:]))
        item = next((each.item for each in found if each.item.isdecimal()), None)
        if item is not None:
            return int(item)
        raise UsageError(f"Session {word[1:]} had no feature accepted", hint="harness log sessions")
    raise UsageError(f"{what!r} is neither a feature nor a session", hint="harness undo 3   or   harness undo S8")


def undo(project: Project, feature_id: int, *, dry_run: bool = False) -> JsonObject:
    """Takes the feature back; with ``dry_run`` only says what that would change, and runs no test."""
    plan = _planned(project, feature_id)
    shown = plan.as_record()
    project.say(f"{plan.feature.name}: session {plan.verdict.session} was accepted at {str(plan.verdict.commit)[:10]}")
    project.say(f"Changes {len(plan.paths)} files: {', '.join(plan.paths[:6])}{', ...' if plan.paths[6:] else ''}")
    project.say(f"{len(plan.tests)} tests go with it.")
    if dry_run:
        return {**shown, "undone": False, "next": f"harness undo {feature_id}"}
    _refuse_breaking(project, plan)
    _settle(project, plan)
    project.say(f"Took back {plan.feature.name}: {plan.commit[:10]}. It is open again.")
    return {**shown, "undone": True, "commit": plan.commit, "next": "harness run"}


def _planned(project: Project, feature_id: int) -> UndoPlan:
    marks.refuse_unsafe(project)
    feature = marks.feature_of(project, feature_id)
    if project.store.state().next_prompt == "continuation":
        current = project.store.state().current_feature
        raise Refused(f"Feature #{current} is unfinished and comes first", hint="harness run")
    if not feature.passes:
        raise Refused(f"{feature.name} is not proven; there is nothing to take back", hint=f"harness why {feature_id}")
    git, path = project.git, project.store.ledger(make=False)
    listed = (each for each in ledger.newest_first(path) if each.item == str(feature_id) and each.accepted)
    verdict = next((each for each in listed if not each.by_person), None)
    head, branch = str(git.head()), str(git.branch())
    if verdict is None or not verdict.commit or not verdict.base or not git.ancestor(verdict.commit, head):
        raise Refused(f"No commit of {feature.name} is on record here", hint=f"harness override --feature {feature_id}")
    own = (project.features_name, project.progress_name)
    merged = landing.merged(git, head, verdict.commit, verdict.base)
    if conflicts := [each for each in merged.conflicts if each not in own]:
        raise Refused(
            f"Later work has changed the same lines: {', '.join(conflicts[:5])}",
            hint=f"git revert {verdict.commit[:12]}",
        )
    commit = _commit(project, feature, verdict, tree=merged.tree, head=head)
    changed = git.differences(head, commit)
    gone = {os.fsdecode(each) for each, (_, new) in changed.items() if new == ABSENT}
    paths = tuple(sorted(name for each in changed if (name := os.fsdecode(each)) not in own))
    if dirty := sorted({*paths, *own} & {*repository.dirty_paths(git)} - {project.progress_name}):
        raise UnsafeTree(f"These files are not committed: {', '.join(dirty[:5])}", hint="git commit, or git stash")
    baseline = project.store.baseline().passing
    tests = sorted(n for n in baseline if proven.belongs(n, feature.test_file) or n.partition("::")[0] in gone)
    return UndoPlan(
        feature=feature, verdict=verdict, paths=paths, tests=tuple(tests), branch=branch, head=head, commit=commit
    )


def _commit(project: Project, feature: Feature, verdict: ClaimVerdict, *, tree: str, head: str) -> str:
    """What takes it back, on top of the head; the progress log stays as it is there."""
    git, document = project.git, project.store.features()
    listed = [
        {name: value for name, value in each.items() if name != "marked"} | {"passes": False}
        if isinstance(each, dict) and each.get("id") == feature.id
        else each
        for each in document.record["features"]
    ]
    text = json.dumps({**document.record, "features": listed}, ensure_ascii=False, indent=2) + "\n"
    contents = {project.features_name: text.encode()}
    log = git.show(head, project.progress_name)
    if log is not None:
        tells = project.progress_name not in repository.dirty_paths(git)  # else its line is added to the file alone
        contents[project.progress_name] = log + (_entry(project, feature, verdict).encode() if tells else b"")
    message = f"harness: take back {feature.name}\n\nThis reverts what {str(verdict.commit)[:12]} brought.\n"
    return git.commit_tree(repository.tree_with(git, tree, contents), [head], message)


def _refuse_breaking(project: Project, plan: UndoPlan) -> None:
    """``VerificationFailed`` where a test that passes now and does not go with the feature would not pass."""
    project.say("Running the whole suite without it...")
    facts = Judge(project).suite(plan.commit)
    baseline = project.store.baseline()
    lost = sorted(baseline.passing - facts.passing - set(plan.tests))
    if not (lost or (facts.problem and baseline.passing)):
        return
    listed = project.store.features().passing
    broken = [f.name for f in listed if any(proven.belongs(node, f.test_file) for node in lost)]
    named = f" of {', '.join(broken)}" if broken else ""
    why = (
        f"{len(lost)} tests{named} would break, first {lost[0]}"
        if lost
        else f"the suite gives no report: {facts.problem}"
    )
    raise VerificationFailed(
        f"{plan.feature.name} was not taken back: {why}", hint="harness undo what stands on it first", broken=lost[:20]
    )


def _settle(project: Project, plan: UndoPlan) -> None:
    """What counts is written before the branch moves: a crash between leaves a feature that is judged anew."""
    baseline = project.store.baseline()
    kept = [node for node in records.texts(baseline.record["passing_tests"]) if node not in plan.tests]
    project.store.write_baseline(baseline.but(passing_tests=kept, total_passing=len(kept)))
    proven.vouch(project, plan.feature.id, proven=False)
    landing.move(project.git, plan.branch, plan.head, plan.commit)
    marks.say_word(project, plan.feature.id, "undo", accepted=False, commit=plan.commit, of=plan.verdict.n)
    if project.progress_name in repository.dirty_paths(project.git) or not project.git.show(
        plan.commit, project.progress_name
    ):
        progress.append(project.layout.progress, _entry(project, plan.feature, plan.verdict))
    project.store.event("feature_undone", "critical", feature_id=plan.feature.id, commit=plan.commit)


def _entry(project: Project, feature: Feature, verdict: ClaimVerdict) -> str:
    told = f"A person took back {feature.name}, accepted in session {verdict.session}; it is open again."
    return progress.entry(project.store.state().last_session, [("HARNESS", [told])])


__all__ = ["UndoPlan", "named", "undo"]
