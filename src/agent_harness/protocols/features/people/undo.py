"""An accepted feature that a person takes back: its work is reverted in one new commit, and the feature is open again.

The commit is made as objects: what its session changed is taken out of what is there now, features.json says so. The
whole suite runs on it before the branch moves; nothing is rewritten, so what was pushed stays. Refused,
with everything as it was: where another feature's tests would break, where later work has changed the same lines, where
files of a person are in the way, while a feature is unfinished. Source: ``faces.md`` F-STORY-2.
"""

import json
from dataclasses import dataclass

from agent_harness.errors import Refused, UsageError, VerificationFailed
from agent_harness.kernel.git.status import matcher
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel import landing, reversal
from agent_harness.protocols.features import marks, progress, records, repository
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Feature
from agent_harness.protocols.features.verdict import proven
from agent_harness.protocols.features.verdict.judge import Judge
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
    found = [int(item) for item in reversal.of_session(project.store.ledger(make=False), word) if item.isdecimal()]
    if found:
        return found[0]
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
    verdict = reversal.accepted(git, path, str(feature_id))
    branch, head = reversal.stands_on(git)
    if verdict is None:
        raise Refused(f"No commit of {feature.name} is on record here", hint=f"harness override --feature {feature_id}")
    own = matcher((project.features_name, project.progress_name))
    since = reversal.before(git, verdict)
    tree = reversal.tree_without(git, head, since=since, until=str(verdict.commit), own=own)
    commit = _commit(project, feature, verdict, tree=tree, head=head)
    changed = reversal.changed_by(git, head, commit, own=own, free=(project.progress_name,))
    baseline = project.store.baseline().passing
    tests = sorted(n for n in baseline if proven.belongs(n, feature.test_file) or n.partition("::")[0] in changed.gone)
    return UndoPlan(
        feature=feature,
        verdict=verdict,
        paths=changed.paths,
        tests=tuple(tests),
        branch=branch,
        head=head,
        commit=commit,
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
    marks.say_word(project, plan.feature.id, reversal.UNDO, accepted=False, commit=plan.commit, of=plan.verdict.n)
    if project.progress_name in repository.dirty_paths(project.git) or not project.git.show(
        plan.commit, project.progress_name
    ):
        progress.append(project.layout.progress, _entry(project, plan.feature, plan.verdict))
    project.store.event("feature_undone", "critical", feature_id=plan.feature.id, commit=plan.commit)


def _entry(project: Project, feature: Feature, verdict: ClaimVerdict) -> str:
    told = f"A person took back {feature.name}, accepted in session {verdict.session}; it is open again."
    return progress.entry(project.store.state().last_session, [("HARNESS", [told])])


__all__ = ["UndoPlan", "named", "undo"]
