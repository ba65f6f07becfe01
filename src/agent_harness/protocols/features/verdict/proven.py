"""Record of the features that the harness itself has accepted. Only these features count as proven.

``proven.json``, outside the project, lists these features and the commit that contains their work. The list can lack a
feature that features.json marks as passing: somebody may have edited features.json, or moved or copied the project. The
harness trusts such a feature only after the suite has run at HEAD and the feature's own tests have passed. If the
project has had sessions before, all changes since the feature was open are also verified like a session's work.

An agent may only change ``last_updated``, and ``passes`` from false to true. Any other change is a violation. Source:
features.md C14, C21, C31, UAH-110..112, UAH-301..303, UAH-489."""

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from agent_harness.errors import Escalated
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import preflight, questions
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Feature, FeatureList, listed
from agent_harness.protocols.features.verdict.project_judge import Judge, Suite
from agent_harness.session import ledger


def check(project: Project, facts: Suite | None = None) -> None:
    """Verify features that are marked as passing without a proof. Record the proven features (E9)."""
    marked = _marked(project.store.features())
    head = project.git.head()
    unproven = {i: file for i, file in sorted(marked.items()) if i not in _accepted(project, head)}
    if not unproven:
        return
    if facts is None:
        project.say(f"Features marked as passing without a proof: {_named(list(unproven))}; running the suite.")
        facts = Judge(project).suite(head or "HEAD")
    own = {node for node in facts.failing if any(belongs(node, file) for file in unproven.values())}
    empty = _without_tests(unproven, facts)
    if not facts.problem and (broken := _were_known(project, facts, own, [unproven[i] for i in empty])):
        raise preflight.baseline_broken(broken, str(project.config.testing.full))
    _refuse(project, facts, unproven, failing=own, empty=empty)
    if project.config.verification.trust != "fast" and next(ledger.newest_first(project.store.ledger()), None):
        _judge_marks(project, list(unproven), head or "HEAD")
    project.store.write_proven({"commit": head, "features": sorted(marked)})


def _judge_marks(project: Project, feature_ids: list[int], head: str) -> None:
    """Raise ``Escalated`` if tests do not prove a feature that no session accepted."""
    judge = Judge(project)
    for feature_id in feature_ids:
        feature = project.store.features().by_id(feature_id)
        if feature is None or not feature.test_file or feature.marked_by_person:
            continue
        if reason := judge.doubt(feature, head):
            message = f"Feature #{feature_id} is marked as passing, and no session has proven it: {reason}"
            asked = questions.question("false_positives", message, features=[feature_id], failing=[])
            questions.store(project, asked)
            hint = f"{questions.hint(asked)}; or harness override --feature {feature_id} --passes true"
            raise Escalated(message, hint=hint, escalation=asked.record, features=[feature_id])


def _accepted(project: Project, head: str | None) -> set[int]:
    """Return the feature ids in proven.json if HEAD contains the file's commit, otherwise an empty set."""
    found = project.store.proven()
    commit, accepted = found.get("commit"), found.get("features")
    if head is None or not isinstance(commit, str) or not isinstance(accepted, list):
        return set()
    known = project.git.commit_of(commit) is not None and project.git.ancestor(commit, head)
    return {i for i in accepted if isinstance(i, int)} if known else set()


def vouch(project: Project, feature_id: int, *, proven: bool) -> None:
    """Add the feature to proven.json if ``proven`` is true, otherwise remove it."""
    head = project.git.head()
    others = _accepted(project, head) - {feature_id}
    project.store.write_proven({"commit": head, "features": sorted(others | ({feature_id} if proven else set()))})


def require(project: Project, facts: Suite) -> None:
    """Raise ``Escalated`` if a baseline test or a marked feature's test fails."""
    document = project.store.features()
    marked = _marked(document)
    baseline = project.store.baseline().passing
    still_open = [f.test_file for f in document.features if f.id not in marked]
    by_word = {f.id: f.test_file for f in document.features if f.id in marked and f.marked_by_person}
    if by_word:
        project.say(f"Marked as passing by a person, not proven by tests: {_named(list(by_word))}")
    still_open += by_word.values()
    marked = {i: file for i, file in marked.items() if i not in by_word}
    counted = {node for node in facts.failing if not any(belongs(node, file) for file in still_open if file)}
    known_red = project.store.baseline().known_failures
    failing = (counted - known_red) | (baseline - facts.passing)
    _refuse(project, facts, marked, failing=failing, empty=_without_tests(marked, facts))


def _were_known(project: Project, facts: Suite, failing: set[str], empty: list[str]) -> list[str]:
    """Return the failing baseline tests if they account for all failures and a feature is open, otherwise []."""
    known = project.store.baseline().passing
    lost = known - facts.passing
    explained = failing <= known and all(any(belongs(node, file) for node in lost) for file in empty)
    passing, total = project.store.features().counts()
    # if all features are marked, a person must decide what is wrong (E9)
    return sorted(lost) if explained and passing < total else []


def _refuse(project: Project, facts: Suite, marked: Mapping[int, str], *, failing: set[str], empty: list[int]) -> None:
    """If the suite shows a failure, store a question about the marked features and raise ``Escalated`` (E9)."""
    if not (facts.problem or failing or empty):
        return
    passing, total = project.store.features().counts()
    why = f"no passing test for {_named(empty)}"
    if failing:
        why = f"{len(failing)} failures"
    if facts.problem:
        why = f"no report: {facts.problem}"
    broken = sorted({*empty, *(i for i, file in marked.items() if any(belongs(node, file) for node in failing))})
    message = f"{passing}/{total} features marked passing but the suite has {why}."
    asked = questions.question("false_positives", message, features=broken, failing=sorted(failing)[:20])
    questions.store(project, asked)
    raise Escalated(
        message, hint=questions.hint(asked), escalation=asked.record, failing=list(asked.failing), features=broken
    )


def not_open(document: FeatureList, nodes: Iterable[str]) -> list[str]:
    """Return the sorted tests that belong to no open feature."""
    still_open = [f.test_file for f in document.features if not f.passes]
    return sorted(node for node in nodes if not any(belongs(node, file) for file in still_open if file))


def _without_tests(marked: Mapping[int, str], facts: Suite) -> list[int]:
    return [i for i, file in sorted(marked.items()) if not any(belongs(node, file) for node in facts.passing)]


def _marked(document: FeatureList) -> dict[int, str]:
    return {f.id: f.test_file for f in document.features if f.passes}


def belongs(node: str, test_file: str) -> bool:
    return node == test_file or node.startswith((f"{test_file}::", f"{test_file}[", f"{test_file}/"))


def _named(ids: list[int]) -> str:
    return listed([f"Feature #{i}" for i in ids], 5)


# -- the agent's changes of features.json ------------------------------------------------------------------------------


_FREE_MEMBERS = frozenset({"features", "last_updated"})


@dataclass(frozen=True, kw_only=True)
class ClaimedChanges:
    """Features that an agent marked as passing, and forbidden changes to features.json by that agent."""

    claims: tuple[int, ...] = ()
    violations: tuple[str, ...] = ()


def compare_claims(before: FeatureList, after: FeatureList | None) -> ClaimedChanges:
    """Return the agent's changes to features.json."""
    if after is None:
        return ClaimedChanges(violations=("features.json does not parse, or is not a file",))
    entries = after.record.get("features")
    if not isinstance(entries, list):
        return ClaimedChanges(violations=("features.json: 'features' is not a list",))
    old, new = _by_id(before), _by_id(after)
    names = [name for name in {**before.record, **after.record} if name not in _FREE_MEMBERS]
    violations = [
        f"features.json: {name!r} was changed"
        for name in names
        if not _same(before.record.get(name), after.record.get(name))
    ]
    violations += [f"Feature #{i}: removed" for i in old if i not in new]
    violations += [f"Feature #{i}: added" for i in new if i not in old]
    if len(new) != len(entries):
        violations.append("features.json: an entry is not an object, has no id, or repeats one")
    elif [i for i in new if i in old] != [i for i in old if i in new]:
        violations.append("features.json: the order of the features was changed")
    claims: list[int] = []
    for feature_id in (i for i in old if i in new):
        if new[feature_id].passes and not old[feature_id].passes:
            claims.append(old[feature_id].id)
        violations += _fields(feature_id, old[feature_id].record, new[feature_id].record)
    return ClaimedChanges(claims=tuple(claims), violations=tuple(violations))


def _by_id(document: FeatureList) -> dict[object, Feature]:
    found: dict[object, Feature] = {}
    for feature in document.features:
        key = feature.record.get("id")
        found[key if isinstance(key, int | str) else repr(key)] = feature
    return found


def _fields(feature_id: object, old: JsonObject, new: JsonObject) -> list[str]:
    lines = []
    for name in {**old, **new}:
        if _same(old.get(name), new.get(name)) and (name in old) == (name in new):
            continue
        if name == "passes" and old.get(name) is not True and new.get(name) is True:
            continue
        lines.append(f"Feature #{feature_id}: {name!r} was changed")
    return lines


def _same(one: object, other: object) -> bool:
    return json.dumps(one, sort_keys=True, default=str) == json.dumps(other, sort_keys=True, default=str)
