"""Undo of an accepted feature: one new commit reverts the feature's changes and reopens the feature.

The commit is built from git objects, and the whole suite runs on the commit before the branch moves. History is never
rewritten. An undo is refused, and nothing changes, if tests of another feature would break or later work changed the
same lines. It is also refused if uncommitted files are in the way or if a feature is unfinished. The commit of an undo
can be undone in the same way; the feature's own tests must then pass. Source: ``faces.md`` F-STORY-2.
"""

import json
from dataclasses import dataclass, replace

from agent_harness.errors import Refused, UsageError, VerificationFailed
from agent_harness.kernel.git.status import matcher
from agent_harness.kernel.json import JsonObject, jsontext
from agent_harness.parallel import reversal
from agent_harness.parallel.reversal import Changed, Reversal
from agent_harness.protocols.features import overrides, questions, records, repository, selection
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Feature, FeatureList
from agent_harness.protocols.features.verdict import proven
from agent_harness.protocols.features.verdict.judge import Judge, Suite
from agent_harness.protocols.features.work import undoing
from agent_harness.session.ledger import ClaimVerdict
from agent_harness.verification.verdict import passed


@dataclass(frozen=True, kw_only=True)
class UndoPlan:
    """Plan to undo a feature, or to restore a feature that was undone."""

    feature: Feature
    verdict: ClaimVerdict  # by which it was accepted; or the person's line that took it back
    again: bool  # brought back
    by_word: bool  # it counted by a person's decision, regardless of its tests
    changed: Changed  # by the commit, without the harness's own files
    tests: tuple[str, ...]  # of the baseline, removed with it; those that are added are known once they have run
    told: str  # the sentence for the progress log
    branch: str
    head: str
    commit: str  # the new commit, on no branch yet

    @property
    def what(self) -> str:
        """Readable name of the work that is undone or restored."""
        return _what(self.feature.name, again=self.again)

    def as_record(self) -> JsonObject:
        """Return the members of the JSON result that describe the plan."""
        return {
            "feature_id": self.feature.id,
            "again": self.again,
            "session": self.verdict.session,
            "accepted_at": None if self.again else self.verdict.commit,
            "paths": [*self.changed.paths],
            "tests": [*self.tests],
            "head": self.head,
        }

    def as_reversal(self) -> Reversal:
        """Return the plan as a stored reversal, which is carried out after verification."""
        return Reversal(
            item=str(self.feature.id),
            again=self.again,
            what=self.what,
            branch=self.branch,
            head=self.head,
            commit=self.commit,
            of=self.verdict.n,
            told=self.told,
            tests=self.tests,
        )


def _what(name: str, *, again: bool) -> str:
    return f"the undo of {name}" if again else name


def named(project: Project, what: str) -> tuple[int, ClaimVerdict | None]:
    """Return the feature id that ``3``, ``#3`` or ``S8`` (a session on the feature) refers to.

    For the commit of an undo, return its feature id and its verdict. Raise ``UsageError`` for anything else.
    """
    word, path = what.strip().removeprefix("#"), project.store.ledger(make=False)
    is_number = word.isascii() and word.isdecimal()
    if is_number and project.store.features().by_id(int(word)):
        return int(word), None
    if found := [int(item) for item in reversal.of_session(path, word) if item.isdecimal()]:
        return found[0], None
    if (said := reversal.undone_by(path, word)) and said.item.isdecimal():
        return int(said.item), said
    if is_number:
        return overrides.feature_of(project, int(word)).id, None
    told = f"{what!r} is neither a feature, nor a session, nor the commit of an undo"
    raise UsageError(told, hint="harness undo 3  # or harness undo S8")


def asked(project: Project, what: str) -> str:
    """Return a description of the feature or undo that ``what`` refers to. Raise ``UsageError`` if there is none."""
    feature_id, taken = named(project, what)
    feature = overrides.feature_of(project, feature_id)
    if taken is None and reversal.decided(project.store.reversal()) is None:  # else a killed one is completed first
        _accepted(project, feature)
    return _what(feature.name, again=taken is not None)


def interrupted(project: Project, what: str) -> Reversal | None:
    """Return the undo that ``what`` refers to if this undo was decided on but interrupted, otherwise None."""
    found = reversal.decided(project.store.reversal())
    if found is None:
        return None
    feature_id, taken = named(project, what)
    return found if (found.item, found.again) == (str(feature_id), taken is not None) else None


def ended(project: Project, found: Reversal) -> JsonObject | None:
    """Return the result of an interrupted undo if the undo is complete by now, otherwise ``None``."""
    if not found.has_moved(project.git):
        return None
    known = {"feature_id": int(found.item), "again": found.again, "head": found.head, "commit": found.commit}
    return {**known, "undone": True, "next": _following(found.commit, again=found.again)}


def undo(project: Project, what: str, *, dry_run: bool = False) -> JsonObject:
    """Undo a feature, or restore a feature that was undone. With ``dry_run``, only print the changes.

    Raise ``Refused``, ``UnsafeTree`` or ``VerificationFailed`` if that is not possible; nothing is changed then.
    """
    plan = _planned(project, *named(project, what))
    if plan.again:
        project.say(f"{plan.feature.name} was undone by {str(plan.verdict.commit)[:10]}")
    else:
        project.say(
            f"{plan.feature.name}: session {plan.verdict.session} was accepted at {str(plan.verdict.commit)[:10]}"
            if plan.verdict.session is not None
            else f"{plan.feature.name}: accepted at {str(plan.verdict.commit)[:10]}"
        )
    paths = plan.changed.paths
    many = f"{len(paths)} file{'s' if paths[1:] else ''}"
    project.say(f"The undo changes {many}: {', '.join(paths[:6])}{', ...' if paths[6:] else ''}")
    if not plan.again:
        project.say(f"{len(plan.tests)} tests are removed with the feature.")
    if dry_run:
        return {**plan.as_record(), "undone": False, "next": f"harness undo {what}"}
    facts = _judged(project, plan)
    found = plan.as_reversal()
    if plan.again:
        found = replace(found, tests=_coming(plan, facts), files_read=facts.files_read)
    undoing.carry_out(project, found)
    ends = "The feature counts as proven again." if plan.again else "The feature is open again."
    project.say(f"Undid {plan.what} in commit {plan.commit[:10]}. {ends}")
    following = _following(plan.commit, again=plan.again)
    return {**plan.as_record(), "tests": [*found.tests], "undone": True, "commit": plan.commit, "next": following}


def _following(commit: str, *, again: bool) -> str:
    return "harness status" if again else f"harness undo {commit[:12]}"


# ---- plan ------------------------------------------------------------------------------------------------------------


def _planned(project: Project, feature_id: int, taken: ClaimVerdict | None) -> UndoPlan:
    overrides.refuse_unsafe(project)
    feature = overrides.feature_of(project, feature_id)
    if project.store.state().next_prompt == "continuation":
        current = project.store.state().current_feature
        raise Refused(f"Feature #{current} is unfinished; the harness works on it first", hint="harness run")
    git = project.git
    branch, head = reversal.stands_on(git)
    verdict = _taken_back(project, feature, taken) if taken else _accepted(project, feature)
    until = str(verdict.commit)
    since = str(git.commit_of(f"{until}^1")) if taken else reversal.before(git, verdict)
    own = matcher((project.features_name, project.progress_name))
    tree = reversal.tree_without(git, head, since=since, until=until, own=own)
    before = _entry_at(project, since, feature_id) if taken else {}
    told = (
        f"A person brought {feature.name} back, which {until[:10]} had taken; it counts as proven again."
        if taken
        else f"A person took back {feature.name}, accepted at {until[:10]}; it is open again."
    )
    entry = {"passes": True, **({"marked": before["marked"]} if "marked" in before else {})} if taken else {}
    message = (
        f"harness: take back the undo of {feature.name}\n\nThis brings back what {until[:12]} took.\n"
        if taken
        else f"harness: take back {feature.name}\n\nThis reverts what {until[:12]} brought.\n"
    )
    contents = _contents(project, feature, entry or {"passes": False}, told, head=head)
    commit = git.commit_tree(repository.tree_with(git, tree, contents), [head], message)
    changed = reversal.changed_by(git, head, commit, own=own, free=(project.progress_name,))
    baseline = project.store.baseline().passing
    goes = (n for n in baseline if proven.belongs(n, feature.test_file) or n.partition("::")[0] in changed.gone)
    return UndoPlan(
        feature=feature,
        verdict=verdict,
        again=taken is not None,
        by_word="marked" in before and feature.verification_type != "hybrid",
        changed=changed,
        tests=() if taken else tuple(sorted(goes)),
        told=told,
        branch=branch,
        head=head,
        commit=commit,
    )


def _accepted(project: Project, feature: Feature) -> ClaimVerdict:
    """Return the verdict that accepted a proven feature. Raise ``Refused`` if no such verdict is recorded."""
    if not feature.passes:
        raise Refused(f"{feature.name} is not proven: nothing to undo", hint=f"harness why {feature.id}")
    verdict = reversal.accepted(project.git, project.store.ledger(make=False), str(feature.id))
    if verdict is None:
        by_word = f"harness override --feature {feature.id} --passes false"
        raise Refused(f"No commit of {feature.name} is recorded in this project", hint=by_word)
    return verdict


def _taken_back(project: Project, feature: Feature, taken: ClaimVerdict) -> ClaimVerdict:
    """Return the verdict of an open feature's undo if the feature can be restored.

    Raise ``Refused`` if, for example, a dependency of the feature is not proven.
    """
    if feature.passes:
        raise Refused(f"{feature.name} is proven again; there is no undo to reverse", hint=f"harness why {feature.id}")
    if feature.skipped:
        raise Refused(f"{feature.name} is skipped", hint=f"harness skip --feature {feature.id} --undo")
    if feature.awaits_person:
        hint = f"harness manual-verify --feature {feature.id}"
        raise Refused(f"{feature.name} has been built again and waits for manual verification", hint=hint)
    questions.refuse_kept(project.store.state(), feature.id)
    if not project.git.ancestor(str(taken.commit), str(project.git.head())):
        raise Refused(f"{str(taken.commit)[:10]} is not part of this branch", hint="git log --oneline")
    done = selection.finalized(project.store.features())
    if missing := [i for i in feature.depends_on if i not in done]:
        said = f"{feature.name} depends on Feature #{missing[0]}, which is not proven"
        raise Refused(said, hint=f"harness why {missing[0]}")
    return taken


def _entry_at(project: Project, commit: str, feature_id: int) -> JsonObject:
    """Return the feature's entry in features.json at a commit; an empty record if the entry cannot be read."""
    try:
        listed = records.json_object(jsontext.loads(project.git.show(commit, project.features_name) or b""))
        found = FeatureList(listed or {}).by_id(feature_id)
    except (ValueError, TypeError, KeyError):
        return {}
    return found.record if found else {}


def _contents(project: Project, feature: Feature, entry: JsonObject, told: str, *, head: str) -> dict[str, bytes]:
    """Return the new content of features.json, with the feature's changed entry, and of the progress log.

    A progress log that someone has edited stays unchanged.
    """
    document = project.store.features()
    listed = [
        {name: value for name, value in each.items() if name != "marked"} | entry
        if isinstance(each, dict) and each.get("id") == feature.id
        else each
        for each in document.record["features"]
    ]
    text = json.dumps({**document.record, "features": listed}, ensure_ascii=False, indent=2) + "\n"
    contents = {project.features_name: text.encode()}
    log = project.git.show(head, project.progress_name)
    if log is not None:
        tells = project.progress_name not in repository.dirty_paths(project.git)
        contents[project.progress_name] = log + (undoing.entry(project, told).encode() if tells else b"")
    return contents


# ---- verify ----------------------------------------------------------------------------------------------------------


def _judged(project: Project, plan: UndoPlan) -> Suite:
    """Run the test suite on the undo's commit and return the result.

    Raise ``VerificationFailed`` if a passing test would break, unless the test is removed with the feature. Raise it
    also if the tests of a restored feature fail.
    """
    judge, feature = Judge(project), plan.feature
    if plan.again and feature.test_file and not plan.by_word:
        project.say(f"Running the tests of {feature.name}...")
        run = judge.own_tests(feature, plan.commit)
        if run is None or not passed(run):
            why = (
                f"{feature.test_file} does not exist in the restored commit"
                if run is None
                else run.problem or "its tests would not pass"
            )
            raise VerificationFailed(
                f"Could not undo {plan.what}: {why}",
                hint=f"harness run --feature {feature.id}",
                output=run.output[-4000:] if run else "",
            )
    project.say(f"Running the whole suite with{'' if plan.again else 'out'} {plan.feature.name}...")
    facts = judge.suite(plan.commit)
    baseline = project.store.baseline()
    lost = sorted(baseline.passing - facts.passing - set(plan.tests))
    if not (lost or (facts.problem and baseline.passing)):
        return facts
    listed = project.store.features().passing
    broken = [f.name for f in listed if any(proven.belongs(node, f.test_file) for node in lost)]
    of = f" of {', '.join(broken)}" if broken else ""
    why = (
        f"{len(lost)} tests{of} would break, first {lost[0]}" if lost else f"the suite gave no results: {facts.problem}"
    )
    hint = f"harness run --feature {feature.id}" if plan.again else "harness undo ITEM  # the dependent work first"
    raise VerificationFailed(f"Could not undo {plan.what}: {why}", hint=hint, broken=lost[:20])


def _coming(plan: UndoPlan, facts: Suite) -> tuple[str, ...]:
    """Return the passing tests that come back with a restored feature."""
    file, new = plan.feature.test_file, plan.changed.come
    return tuple(sorted(n for n in facts.passing if proven.belongs(n, file) or n.partition("::")[0] in new))


__all__ = ["UndoPlan", "asked", "ended", "interrupted", "named", "undo"]
