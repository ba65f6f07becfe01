"""Addition of features to a project: one feature by a person, or several that an agent plans. A plan may only append
features, each with one new test file. Source: features.md UAH-071, UAH-074, UAH-101..105, UAH-257, UAH-266, C48."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from agent_harness.agents.base import Agent
from agent_harness.errors import (
    ConfigurationError,
    HarnessError,
    Refused,
    StateDamaged,
    UnsafeTree,
    UsageError,
    VerificationFailed,
)
from agent_harness.kernel import files
from agent_harness.kernel.git import DETACHED
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import escalation, overrides, preflight, prompts, records
from agent_harness.protocols.features.planning import initializer
from agent_harness.protocols.features.planning.new_tests import NewTestFiles, stub
from agent_harness.protocols.features.preflight import valid_features
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Feature, FeatureList
from agent_harness.protocols.features.sessions import checkpoints, run
from agent_harness.protocols.features.sessions.checkpoints import SessionCheckpoint
from agent_harness.protocols.features.sessions.locking import finalized
from agent_harness.protocols.features.verdict import proven
from agent_harness.protocols.features.work import plan
from agent_harness.protocols.features.work.plan import PlanWork
from agent_harness.session.runner import walk
from agent_harness.supervision import interruption
from agent_harness.supervision.dispatch import Dispatcher, RefusalPolicy

MESSAGE = "Plan more features"


def extend(project: Project, spec: Path, *, agents: Sequence[str]) -> JsonObject:
    """Let an agent plan more features, commit the new features and return them."""
    text = initializer.specification(spec)
    allowed = run.choose_agents(project, agents)
    told: JsonObject = {"project": str(project.root), "item": "harness plan-features"}
    policy = RefusalPolicy(again="harness plan-features --spec FILE")
    with interruption.watched() as stop, Dispatcher(allowed, policy, project.say, told=told) as dispatcher:
        with stop.listening(waits=True):
            agent = dispatcher.chosen(stop.requested)
        with finalized(project):  # only now: a waiting process holds no lock
            return _planned(project, text, agent, stop)


def _planned(project: Project, text: str, agent: Agent, stop: interruption.Stop) -> JsonObject:
    _refuse_unsafe(project)
    before = valid_features(project)
    preflight.budget(project.store.costs(), project.budgets, None)
    checkpoint = checkpoints.create(project, 0, None, "manual")
    head = project.git.head()
    project.store.hold()
    try:
        project.say("Planning more features...")
        record: JsonObject = {}

        def problems() -> list[str]:
            plan.spent(project, record)
            return _problems(project, before, checkpoint)

        work = PlanWork(project, agent, stop, prompt=_prompt(project, before, text), problems=problems, what="The plan")
        record |= plan.begin(project, checkpoint, work.run_id)
        found = walk(work, work.turns)
        if found:
            raise VerificationFailed(f"The agent's plan is not valid: {found[0]}", problems=list(found))
        commit = _commit(project, checkpoint)
        plan.adopt(project, record, commit)
    except (HarnessError, KeyboardInterrupt) as error:
        ref = plan.take_back(project, checkpoint)
        if isinstance(error, HarnessError):
            error.hint = f"git show {ref}" if ref else "harness plan-features --help"
        raise
    return _tell(project, before, commit, str(head))


def _refuse_unsafe(project: Project) -> None:
    overrides.refuse_unsafe(project)
    if dirty := project.dirty():
        raise UnsafeTree(f"These files are not committed: {', '.join(dirty[:3])}", hint="git add -A && git commit")
    state = project.store.state()
    if state.next_prompt == "continuation":
        raise Refused(f"Feature #{state.current_feature} is unfinished and must be finished first", hint="harness run")


def _prompt(project: Project, before: FeatureList, text: str) -> str:
    rows = [f"- #{f.id} {f.description}"[:160] for f in before.features[-100:]]
    return prompts.render(
        "extend",
        {
            "specification": text.strip(),
            "features": "\n".join(rows) or "none yet",
            "features_file": project.features_name,
            "state_dir": project.state_name,
            "next_id": str(before.next_id()),
            "max_steps": str(project.config.features.max_verification_steps),
        },
    )


def _problems(project: Project, before: FeatureList, checkpoint: SessionCheckpoint) -> list[str]:
    if changed := project.store.tampered():
        return [f"the state of the harness was changed: {', '.join(changed)}"]
    try:
        after = project.store.features()
    except (StateDamaged, OSError) as error:
        return [str(error)]
    old = {f.id for f in before.features}
    new = [f for f in after.features if f.id not in old]
    changes = proven.compare_claims(before, after)
    found = [line for line in changes.violations if not line.endswith(": added")]
    found += [f"Feature #{i}: 'passes' was changed" for i in changes.claims]
    found += records.problems(after, require_test_file=True)
    if not new:
        found.append("no feature was added")
    found += [f"{f.name}: 'passes' is true before anything was built" for f in new if f.passes]
    return found or _wrong_files(project, new, checkpoint)


def _wrong_files(project: Project, new: list[Feature], checkpoint: SessionCheckpoint) -> list[str]:
    """Return one line for each missing test file and for each forbidden change to a file."""
    rollback_point = checkpoint.snapshot
    tests = {f.test_path for f in new}
    candidate = project.candidate("extend", MESSAGE, rollback_point)
    changed = list(project.git.changed_paths(rollback_point.head, candidate))
    free = {project.features_name, project.progress_name}
    lines = [f"{path} was changed" for kind, path in changed if path not in free and (path not in tests or kind != "A")]
    return lines + [
        f"the test file {file} does not exist" for file in sorted(tests) if not (project.root / file).is_file()
    ]


def _commit(project: Project, checkpoint: SessionCheckpoint) -> str:
    rollback_point = checkpoint.snapshot
    commit = project.candidate("extend", MESSAGE, rollback_point)
    if rollback_point.head is not None and not project.git.ancestor(rollback_point.head, commit):
        raise VerificationFailed("The agent rewrote the git history.")
    if project.git.look().branch not in (rollback_point.branch, DETACHED):
        raise VerificationFailed("The agent checked out another branch.")
    return commit


def _tell(project: Project, before: FeatureList, commit: str, head: str) -> JsonObject:
    old = {f.id for f in before.features}
    after = project.store.features()
    new = [f for f in after.features if f.id not in old]
    for feature in new:
        project.say(f"Added Feature #{feature.id}: {feature.description}")
    for line in records.flags(new, max_steps=project.config.features.max_verification_steps):
        project.say(f"Warning: {line}")
    escalation.offer_split(project)
    project.say("Ready for: harness run")
    project.store.event("features_added", features=[f.id for f in new], commit=commit, base=head)
    return {"added": [f.record for f in new], "commit": commit, "next": "harness run"}


# -- one feature, by a person ------------------------------------------------------------------------------------------


def add(
    project: Project,
    description: str,
    *,
    category: str | None = None,
    test_file: str | None = None,
    steps: Sequence[str] = (),
    depends_on: Sequence[int] = (),
    priority: int | None = None,
    size: str | None = None,
    requires_red: bool = True,
    verification_type: str | None = None,
    automated_checks: Sequence[str] = (),
    manual_checks: Sequence[str] = (),
    visual_steps: Sequence[str] = (),
    may_change: Sequence[str] = (),
) -> JsonObject:
    """Commit one new feature. Raise ``UsageError`` if the feature is not valid."""
    text = " ".join(description.split())
    if not text:
        raise UsageError("A feature needs a description", hint='harness add-feature "User can ..."')
    if (automated_checks or manual_checks) and verification_type in (None, "automated"):
        raise UsageError("Checks need --verification hybrid or manual", hint="add: --verification hybrid")
    overrides.refuse_unsafe(project)
    document = project.store.features()
    feature: JsonObject = {
        "id": document.next_id(),
        "category": category or "core",
        "description": text,
        "test_file": test_file or NewTestFiles.of(project, document).new(text),
        "verification_steps": list(steps),
        "size_estimate": size or _size(steps),
    }
    optional: JsonObject = {
        "depends_on": list(depends_on),
        "priority": priority,
        "requires_red": None if requires_red else False,
        "verification_type": verification_type if verification_type != "automated" else None,
        "automated_checks": list(automated_checks),
        "manual_checks": list(manual_checks),
        "visual_verification": {"enabled": True, "steps": list(visual_steps)} if visual_steps else None,
        "may_change": list(may_change),
    }
    feature |= {name: value for name, value in optional.items() if value not in (None, [])}
    feature["passes"] = False
    commit, stubs = _append(project, document, [feature], f"harness: {Feature(feature).name} added")
    added = Feature(feature)
    project.store.event("feature_added", feature_id=added.id, message=text)
    project.say(f"Added {added.name}: {text}\nTest file: {added.test_file}")
    if not stubs and not os.path.lexists(project.root / added.test_path):
        project.say("The test file does not exist yet. Write it, or let the agent write it.")
    for line in records.flags([added], max_steps=project.config.features.max_verification_steps):
        project.say(f"Warning: {line}")
    escalation.offer_split(project)
    return {"feature": feature, "stub": stubs, "commit": commit, "next": "harness run"}


def add_all(project: Project, wanted: Sequence[Mapping[str, Any]]) -> JsonObject:
    """Add imported features in one commit. Skip every feature from an earlier import."""
    overrides.refuse_unsafe(project)
    document = project.store.features()
    came = by_source(document)
    names, next_id = NewTestFiles.of(project, document), document.next_id()
    new: list[JsonObject] = []
    for each in wanted:
        if each["source"] in came:
            continue
        came[each["source"]] = next_id
        steps = list(each.get("verification_steps", ()))
        given = {name: value for name, value in each.items() if name not in ("depends_on", "test_file")}
        feature: JsonObject = {
            "id": next_id,
            "category": "core",
            "description": each["description"],
            "test_file": each.get("test_file") or names.new(each["description"]),
            "verification_steps": steps,
            "size_estimate": _size(steps),
        }
        new.append({**feature, **given, "passes": False})
        next_id += 1
    needs = {each["source"]: each.get("depends_on", ()) for each in wanted}
    for feature in new:
        if first := [came[need] for need in needs[feature["source"]] if need in came]:
            feature["depends_on"] = first
    if not new:
        return {"added": [], "commit": None, "next": "harness run"}
    commit, _ = _append(project, document, new, f"harness: {len(new)} features imported")
    project.store.event("features_added", features=[each["id"] for each in new], commit=commit)
    escalation.offer_split(project)
    return {"added": new, "commit": commit, "next": "harness run"}


def by_source(document: FeatureList) -> dict[str, int]:
    """Return the ids of imported features. The keys are the sources of the features."""
    listed = ((each.record.get("source"), each.id) for each in document.features if each.has_id)
    return {source: feature_id for source, feature_id in listed if isinstance(source, str)}


def _append(project: Project, document: FeatureList, new: list[JsonObject], message: str) -> tuple[str, list[str]]:
    before = records.problems(document, require_test_file=project.config.features.require_test_file)
    if before:
        raise ConfigurationError(before[0], hint=f"correct this in {project.features_name}", problems=before)
    after = records.problems(
        FeatureList({**document.record, "features": [*(f.record for f in document.features), *new]})
    )
    if after:
        raise UsageError(after[0], hint="harness add-feature --help  # shows the valid options")
    stubs: list[str] = []
    try:
        for feature in new:
            stubs += _stub(project, Feature(feature))
        commit = overrides.change(project, message, lambda found: found.record["features"].extend(new), also=stubs)
    except BaseException:
        for name in stubs:
            (project.root / name).unlink(missing_ok=True)
        raise
    return commit, stubs


def _size(steps: Sequence[str]) -> str:
    return next((word for most, word in ((3, "small"), (5, "medium")) if len(steps) <= most), "large")


def _stub(project: Project, feature: Feature) -> list[str]:
    file = feature.test_path
    path = project.root / file
    if path.exists() or path.is_symlink() or (text := stub(project, file, feature.description)) is None:
        return []
    path.parent.mkdir(parents=True, exist_ok=True)
    files.replace(path, text.encode())
    return [file]
