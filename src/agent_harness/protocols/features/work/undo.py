"""Undo of an accepted feature: what differs from the undo of other items (``parallel/undo.py``).

The commit also reopens the feature in features.json, and adds an entry to the progress log. The whole suite runs on the
commit: the tests of the other features must still pass. No feature may be unfinished. Then the baseline, the proven
features, the event log and the ledger follow. The next process that holds the project's lock completes an interrupted
undo before it does anything else. Source: ``faces.md`` F-STORY-2."""

import json
from dataclasses import replace

from agent_harness.errors import HarnessError, Refused, VerificationFailed
from agent_harness.kernel.git.status import matcher
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel import undo as shared
from agent_harness.parallel.undo import Reversal, UndoPlan
from agent_harness.protocols.features import overrides, progress, records, repository
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Feature
from agent_harness.protocols.features.verdict import proven
from agent_harness.protocols.features.verdict.project_judge import Judge
from agent_harness.session.ledger import ClaimVerdict

_RECENT = 40  # events among which the one of an undo that was killed is looked for


def _named(project: Project, what: str) -> Feature:
    """Return the feature for ``what``, which is a feature id or a session such as ``S8``."""
    features = project.store.features()

    def id_of(word: str) -> str | None:
        number = word.removeprefix("#")
        if not (number.isascii() and number.isdecimal()):
            return None
        # a long number may also be the beginning of a commit's id
        return number if len(number) < shared.SHORTEST or features.by_id(int(number)) else None

    item = shared.named(project.store.ledger(make=False), what, id_of, kind="feature", example="3")
    return overrides.feature_of(project, int(item))


def asked(project: Project, what: str) -> str:
    """Return the accepted feature's name. ``what`` is a feature id or a session such as ``S8``."""
    feature = _named(project, what)
    if shared.decided(project.store.reversal()) is None:  # else a killed one is completed first
        _accepted(project, feature)
    return feature.name


def interrupted(project: Project, what: str) -> Reversal | None:
    """Return the interrupted undo if it concerns the feature ``what``, otherwise None."""
    found = shared.decided(project.store.reversal())
    return found if found and found.item == str(_named(project, what).id) else None


def ended(project: Project, found: Reversal) -> JsonObject | None:
    """Return the undo's result if the branch already contains the undo's commit, otherwise None."""
    if not found.has_moved(project.git):
        return None
    known = {"feature_id": int(found.item), "head": found.head, "commit": found.commit}
    return {**known, "undone": True, "next": "harness status"}


def undo(project: Project, what: str, *, dry_run: bool = False) -> JsonObject:
    """Undo a feature with one new commit. With ``dry_run``, only print the planned changes."""
    plan = _planned(project, _named(project, what))
    found, verdict = plan.found, plan.verdict
    session = f"session {verdict.session} was " if verdict.session is not None else ""
    project.say(f"{found.what}: {session}accepted at {str(verdict.commit)[:10]}")
    many = f"{len(plan.paths)} file{'s' if plan.paths[1:] else ''}"
    project.say(f"The undo changes {many}: {', '.join(plan.paths[:6])}{', ...' if plan.paths[6:] else ''}")
    project.say(f"{len(found.tests)} tests are removed with the feature.")
    record: JsonObject = {"feature_id": int(found.item), "session": verdict.session, "accepted_at": verdict.commit}
    record |= {"paths": [*plan.paths], "tests": [*found.tests], "head": found.head}
    if dry_run:
        return {**record, "undone": False, "next": f"harness undo {what}"}
    _judge(project, found)
    _carry_out(project, found)
    project.say(f"Undid {found.what} in commit {found.commit[:10]}. The feature is open again.")
    return {**record, "undone": True, "commit": found.commit, "next": "harness status"}


# ---- plan ------------------------------------------------------------------------------------------------------------


def _planned(project: Project, feature: Feature) -> UndoPlan:
    overrides.refuse_unsafe(project)
    if project.store.state().next_prompt == "continuation":
        current = project.store.state().current_feature
        raise Refused(f"Feature #{current} is unfinished and must be finished first", hint="harness run")
    git, on = project.git, shared.stands_on(project.git)
    verdict = _accepted(project, feature)
    until = str(verdict.commit)
    told = f"A person undid {feature.name}, accepted at {until[:10]}. The feature is open again."
    contents = _contents(project, feature, told, head=on[1])
    plan = shared.planned(
        git,
        verdict,
        f"harness: take back {feature.name}\n\nThis reverts what {until[:12]} brought.\n",
        what=feature.name,
        told=told,
        on=on,
        own=matcher((project.features_name, project.progress_name)),
        free=(project.progress_name,),
        edit=lambda tree: repository.tree_with(git, tree, contents),
    )
    baseline = project.store.baseline().passing
    goes = (n for n in baseline if proven.belongs(n, feature.test_file) or n.partition("::")[0] in plan.gone)
    return replace(plan, found=replace(plan.found, tests=tuple(sorted(goes))))


def _accepted(project: Project, feature: Feature) -> ClaimVerdict:
    if not feature.passes:
        raise Refused(f"{feature.name} is not proven, so there is nothing to undo", hint=f"harness why {feature.id}")
    verdict = shared.accepted(project.git, project.store.ledger(make=False), str(feature.id))
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
        contents[project.progress_name] = log + (_entry(project, told).encode() if tells else b"")
    return contents


def _entry(project: Project, told: str) -> str:
    return progress.entry(project.store.state().last_session, [("HARNESS", [told])])


# ---- verify ----------------------------------------------------------------------------------------------------------


def _judge(project: Project, found: Reversal) -> None:
    """Run the suite on the undo's commit. Raise ``VerificationFailed`` if a baseline test fails that the undo keeps."""
    project.say(f"Running the whole suite without {found.what}...")
    facts = Judge(project).suite(found.commit)
    baseline = project.store.baseline()
    lost = sorted(baseline.passing - facts.passing - set(found.tests))
    if not (lost or (facts.problem and baseline.passing)):
        return
    listed = project.store.features().passing
    broken = [f.name for f in listed if any(proven.belongs(node, f.test_file) for node in lost)]
    of = f" of {', '.join(broken)}" if broken else ""
    why = (
        f"{len(lost)} tests{of} would break, first {lost[0]}" if lost else f"the suite gave no results: {facts.problem}"
    )
    hint = "harness undo ITEM  # the dependent work first"
    raise VerificationFailed(f"Could not undo {found.what}: {why}", hint=hint, broken=lost[:20])


# ---- carry out -------------------------------------------------------------------------------------------------------


def _carry_out(project: Project, found: Reversal) -> None:
    record, verdicts = project.store.reversal(), project.store.ledger()
    shared.carry_out(project.git, found, lambda: _follow(project, found), record=record, verdicts=verdicts)
    shared.over(record)


def _follow(project: Project, found: Reversal) -> None:
    store, feature_id = project.store, int(found.item)
    baseline = store.baseline()
    kept = [node for node in records.texts(baseline.record["passing_tests"]) if node not in found.tests]
    store.write_baseline(baseline.but(passing_tests=kept, total_passing=len(kept)))
    proven.vouch(project, feature_id, proven=False)
    if not any(found.told in each.text for each in progress.recent_entries(project.layout.progress)):
        progress.append(project.layout.progress, _entry(project, found.told))
    if all(row.get("commit") != found.commit for row in store.recent("events.jsonl", _RECENT)):
        store.event("feature_undone", "critical", feature_id=feature_id, commit=found.commit)


def finish(project: Project) -> None:
    """Complete an interrupted undo. Discard the undo if the branch has new commits."""
    record = project.store.reversal()
    found = shared.decided(record)
    if found is None or not found.can_go_on(project.git):
        shared.over(record)
        if found:
            project.say(f"The undo of {found.what} was interrupted, and the branch has moved. Nothing was undone.")
        return
    project.say(f"The undo of {found.what} was interrupted. Completing the undo.")
    try:
        _carry_out(project, found)
    except HarnessError as error:
        project.say(f"{found.what} could not be undone: {error.message}")
