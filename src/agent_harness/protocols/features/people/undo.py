"""Undo of an accepted feature. One new commit reverts the feature's changes and reopens the feature. The commit is
built from git objects, and the whole suite runs on it before the branch moves. History is never rewritten. An undo is
refused, and changes nothing, if it would break a test of another feature. It is also refused if later work changed the
same lines, or if uncommitted files are in the way. No feature may be unfinished. An undo cannot itself be undone.
Source: ``faces.md`` F-STORY-2."""

import json
from dataclasses import dataclass

from agent_harness.errors import Refused, UsageError, VerificationFailed
from agent_harness.kernel.git.status import matcher
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel import undo_commit
from agent_harness.parallel.undo_commit import Changed, Reversal
from agent_harness.protocols.features import overrides, repository
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Feature
from agent_harness.protocols.features.verdict import proven
from agent_harness.protocols.features.verdict.project_judge import Judge
from agent_harness.protocols.features.work import undo_steps
from agent_harness.session.ledger import ClaimVerdict


@dataclass(frozen=True, kw_only=True)
class UndoPlan:
    feature: Feature
    verdict: ClaimVerdict  # by which it was accepted
    changed: Changed  # by the commit, without the harness's own files
    tests: tuple[str, ...]  # of the baseline, removed with it
    told: str  # the sentence for the progress log
    branch: str
    head: str
    commit: str  # the new commit, on no branch yet

    def as_record(self) -> JsonObject:
        return {
            "feature_id": self.feature.id,
            "session": self.verdict.session,
            "accepted_at": self.verdict.commit,
            "paths": [*self.changed.paths],
            "tests": [*self.tests],
            "head": self.head,
        }

    def as_reversal(self) -> Reversal:
        return Reversal(
            item=str(self.feature.id),
            what=self.feature.name,
            branch=self.branch,
            head=self.head,
            commit=self.commit,
            of=self.verdict.n,
            told=self.told,
            tests=self.tests,
        )


def named(project: Project, what: str) -> int:
    """Return the feature id for ``what``, which is a feature id or a session such as ``S8``."""
    word, path = what.strip().removeprefix("#"), project.store.ledger(make=False)
    is_number = word.isascii() and word.isdecimal()
    if is_number and project.store.features().by_id(int(word)):
        return int(word)
    if found := [int(item) for item in undo_commit.of_session(path, word) if item.isdecimal()]:
        return found[0]
    undo_commit.refuse_undo(path, word)
    if is_number:
        return overrides.feature_of(project, int(word)).id
    raise UsageError(f"{what!r} is neither a feature nor a session", hint="harness undo 3  # or harness undo S8")


def asked(project: Project, what: str) -> str:
    """Return the accepted feature's name. ``what`` is a feature id or a session such as ``S8``."""
    feature = overrides.feature_of(project, named(project, what))
    if undo_commit.decided(project.store.reversal()) is None:  # else a killed one is completed first
        _accepted(project, feature)
    return feature.name


def interrupted(project: Project, what: str) -> Reversal | None:
    """Return the interrupted undo if it concerns the feature ``what``, otherwise None."""
    found = undo_commit.decided(project.store.reversal())
    if found is None:
        return None
    return found if found.item == str(named(project, what)) else None


def ended(project: Project, found: Reversal) -> JsonObject | None:
    """Return the undo's result if the branch already contains the undo's commit, otherwise None."""
    if not found.has_moved(project.git):
        return None
    known = {"feature_id": int(found.item), "head": found.head, "commit": found.commit}
    return {**known, "undone": True, "next": "harness status"}


def undo(project: Project, what: str, *, dry_run: bool = False) -> JsonObject:
    """Undo a feature with one new commit. With ``dry_run``, only print the planned changes."""
    plan = _planned(project, named(project, what))
    project.say(
        f"{plan.feature.name}: session {plan.verdict.session} was accepted at {str(plan.verdict.commit)[:10]}"
        if plan.verdict.session is not None
        else f"{plan.feature.name}: accepted at {str(plan.verdict.commit)[:10]}"
    )
    paths = plan.changed.paths
    many = f"{len(paths)} file{'s' if paths[1:] else ''}"
    project.say(f"The undo changes {many}: {', '.join(paths[:6])}{', ...' if paths[6:] else ''}")
    project.say(f"{len(plan.tests)} tests are removed with the feature.")
    if dry_run:
        return {**plan.as_record(), "undone": False, "next": f"harness undo {what}"}
    _judge(project, plan)
    undo_steps.carry_out(project, plan.as_reversal())
    project.say(f"Undid {plan.feature.name} in commit {plan.commit[:10]}. The feature is open again.")
    return {**plan.as_record(), "undone": True, "commit": plan.commit, "next": "harness status"}


# ---- plan ------------------------------------------------------------------------------------------------------------


def _planned(project: Project, feature_id: int) -> UndoPlan:
    overrides.refuse_unsafe(project)
    feature = overrides.feature_of(project, feature_id)
    if project.store.state().next_prompt == "continuation":
        current = project.store.state().current_feature
        raise Refused(f"Feature #{current} is unfinished and must be finished first", hint="harness run")
    git = project.git
    branch, head = undo_commit.stands_on(git)
    verdict = _accepted(project, feature)
    until, since = str(verdict.commit), undo_commit.before(git, verdict)
    own = matcher((project.features_name, project.progress_name))
    tree = undo_commit.tree_without(git, head, since=since, until=until, own=own)
    told = f"A person undid {feature.name}, accepted at {until[:10]}. The feature is open again."
    message = f"harness: take back {feature.name}\n\nThis reverts what {until[:12]} brought.\n"
    contents = _contents(project, feature, told, head=head)
    commit = git.commit_tree(repository.tree_with(git, tree, contents), [head], message)
    changed = undo_commit.changed_by(git, head, commit, own=own, free=(project.progress_name,))
    baseline = project.store.baseline().passing
    goes = (n for n in baseline if proven.belongs(n, feature.test_file) or n.partition("::")[0] in changed.gone)
    return UndoPlan(
        feature=feature,
        verdict=verdict,
        changed=changed,
        tests=tuple(sorted(goes)),
        told=told,
        branch=branch,
        head=head,
        commit=commit,
    )


def _accepted(project: Project, feature: Feature) -> ClaimVerdict:
    if not feature.passes:
        raise Refused(f"{feature.name} is not proven, so there is nothing to undo", hint=f"harness why {feature.id}")
    verdict = undo_commit.accepted(project.git, project.store.ledger(make=False), str(feature.id))
    if verdict is None:
        by_word = f"harness override --feature {feature.id} --passes false"
        raise Refused(f"No commit of {feature.name} is recorded in this project", hint=by_word)
    return verdict


def _contents(project: Project, feature: Feature, told: str, *, head: str) -> dict[str, bytes]:
    """Return the new contents of features.json and of the progress log for the undo's commit."""
    document = project.store.features()
    listed = [
        {name: value for name, value in each.items() if name != "marked"} | {"passes": False}
        if isinstance(each, dict) and each.get("id") == feature.id
        else each
        for each in document.record["features"]
    ]
    text = json.dumps({**document.record, "features": listed}, ensure_ascii=False, indent=2) + "\n"
    contents = {project.features_name: text.encode()}
    log = project.git.show(head, project.progress_name)
    if log is not None:
        tells = project.progress_name not in repository.dirty_paths(project.git)
        contents[project.progress_name] = log + (undo_steps.entry(project, told).encode() if tells else b"")
    return contents


# ---- verify ----------------------------------------------------------------------------------------------------------


def _judge(project: Project, plan: UndoPlan) -> None:
    """Run the suite on the undo's commit. Raise ``VerificationFailed`` if a baseline test fails that the undo keeps."""
    project.say(f"Running the whole suite without {plan.feature.name}...")
    facts = Judge(project).suite(plan.commit)
    baseline = project.store.baseline()
    lost = sorted(baseline.passing - facts.passing - set(plan.tests))
    if not (lost or (facts.problem and baseline.passing)):
        return
    listed = project.store.features().passing
    broken = [f.name for f in listed if any(proven.belongs(node, f.test_file) for node in lost)]
    of = f" of {', '.join(broken)}" if broken else ""
    why = (
        f"{len(lost)} tests{of} would break, first {lost[0]}" if lost else f"the suite gave no results: {facts.problem}"
    )
    hint = "harness undo ITEM  # the dependent work first"
    raise VerificationFailed(f"Could not undo {plan.feature.name}: {why}", hint=hint, broken=lost[:20])


__all__ = ["UndoPlan", "asked", "ended", "interrupted", "named", "undo"]
