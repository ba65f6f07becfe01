"""Functions that record a person's decision about a feature. Each decision is one commit, so features.json must have no
other uncommitted changes. The work on a feature of type hybrid or manual is merged first. The feature counts as done
only after `harness manual-verify`. Source: features.md UAH-059..063, UAH-403, UAH-449..451, C13, C53, C65."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from agent_harness.agents import usage
from agent_harness.errors import Refused, UnsafeTree
from agent_harness.kernel import clock, files
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import progress, questions, records, repository, selection
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Feature, FeatureList
from agent_harness.protocols.features.sessions import accept, actions
from agent_harness.protocols.features.sessions.checkpoints import SessionCheckpoint
from agent_harness.protocols.features.sessions.finalization import Finalization
from agent_harness.protocols.features.sessions.open_session import OpenSession
from agent_harness.protocols.features.verdict import proven
from agent_harness.protocols.features.verdict.project_judge import Ruling
from agent_harness.session import ledger
from agent_harness.session.ledger import ClaimVerdict


def feature_of(project: Project, feature_id: int) -> Feature:
    return selection.existing_feature(project.store.features(), feature_id)


def change(project: Project, message: str, edit: Callable[[FeatureList], None], *, also: Sequence[str] = ()) -> str:
    """Edit features.json with ``edit``, commit the file and the paths in ``also``, and return the commit."""
    refuse_unsafe(project)
    before = files.read_bytes(project.layout.features)
    document = project.store.features()
    edit(document)
    if "last_updated" in document.record:
        document.record["last_updated"] = clock.timestamp()
    try:
        files.write_json(project.layout.features, document.record)
        repository.commit_files(project.git, [project.features_name, *also], message)
    except BaseException:
        files.replace(project.layout.features, before)
        raise
    return str(project.git.head())


def refuse_unsafe(project: Project) -> None:
    """Raise an error if a git operation is in progress, HEAD is detached, or features.json has uncommitted changes."""
    if under_way := project.git.operation_under_way():
        raise UnsafeTree(f"{under_way.capitalize()} is in progress in this repository", hint="git status")
    if project.git.branch() is None:
        raise UnsafeTree("HEAD is detached, so the commit would not be on a branch", hint="git switch BRANCH")
    name = project.features_name
    if name in repository.dirty_paths(project.git):
        raise Refused(f"{name} has changes that are not committed", hint=f"git commit {name}")


def skip(project: Project, feature_id: int, reason: str | None) -> JsonObject:
    """Exclude a feature from later sessions (C53)."""
    feature = feature_of(project, feature_id)
    if feature.passes:
        raise Refused(f"Feature #{feature_id} is passing; there is nothing to skip", hint="harness status")
    rescue = None
    if not feature.skipped:
        rescue = set_work_aside(project, feature_id)
        mark = {"reason": reason or "skipped by a person", "at": clock.timestamp()}
        change(project, f"harness: Feature #{feature_id} skipped", _edit([feature_id], skipped=mark))
        project.store.event("feature_skipped", feature_id=feature_id, reason=mark["reason"])
        project.say(f"Skipped Feature #{feature_id}. Added to blocked list.")
    else:
        project.say(f"Feature #{feature_id} is already skipped.")
    _forget_question(project, feature_id)
    blocked = [i for i in accept.blocked_features(project.store.features(), [feature_id]) if i != feature_id]
    if blocked:
        project.say("This blocks: " + ", ".join(f"Feature {i}" for i in blocked))
    project.say("Continuing with next feature...")
    return {"feature_id": feature_id, "blocked": blocked, "rescue_ref": rescue, "next": "harness run"}


def unskip(project: Project, feature_id: int) -> JsonObject:
    feature = feature_of(project, feature_id)
    if not feature.skipped:
        raise Refused(f"Feature #{feature_id} is not skipped", hint="harness status")
    change(project, f"harness: Feature #{feature_id} no longer skipped", _edit([feature_id], "skipped"))
    project.store.event("feature_unskipped", feature_id=feature_id)
    project.say(f"Feature #{feature_id} queued.")
    return {"feature_id": feature_id, "next": "harness run"}


def mark(project: Project, feature_id: int, *, passes: bool, how: str) -> JsonObject:
    """Set the feature's ``passes`` as a person decided, and commit features.json."""
    feature_of(project, feature_id)
    word = "true" if passes else "false"
    message = f"harness: Feature #{feature_id} passes={word} ({how})"
    found = {"marked": {"by": "person", "how": how, "at": clock.timestamp()}} if passes else {}
    gone = ("skipped", "awaiting_manual") if passes else ("marked",)
    commit = change(project, message, _edit([feature_id], *gone, passes=passes, **found))
    proven.vouch(project, feature_id, proven=passes)
    if not passes:
        _leave_baseline(project, feature_id)
    elif project.store.state().current_feature == feature_id:
        project.store.update_state(**records.NOTHING_UNFINISHED, stuck_count=0)
    _forget_question(project, feature_id)
    project.store.event("feature_marked", "critical", feature_id=feature_id, passes=passes, how=how, commit=commit)
    say_word(project, feature_id, how, accepted=passes, commit=commit)
    return {"feature_id": feature_id, "passes": passes, "how": how, "commit": commit, "next": "harness run"}


def say_word(
    project: Project, feature_id: int, word: str, *, accepted: bool, commit: str | None = None, of: int | None = None
) -> None:
    """Write a person's decision about a feature to the verdict ledger. ``of`` is the number of the judged verdict."""
    path, item = project.store.ledger(), str(feature_id)
    if of is None and (last := ledger.last_about(path, item)):
        of = last.n
    said = ledger.ACCEPTED if accepted else ledger.REJECTED
    ledger.write(path, ClaimVerdict(item=item, verdict=said, commit=commit, by="person", word=word, of=of))


def override(project: Project, feature_id: int, *, passes: bool) -> JsonObject:
    """Set a feature's ``passes`` without running tests (UAH-060, UAH-061)."""
    # the caller has asked the user
    answer = mark(project, feature_id, passes=passes, how="override")
    project.say(f"Marked Feature #{feature_id} as passes: {'true' if passes else 'false'}.")
    if project.config.github.repo and project.config.github.sync_mode == "mirror":
        project.say("Will sync to GitHub at next session end.")
    return answer


def reset(project: Project, feature_ids: Sequence[int]) -> None:
    """In one commit, remove the passing mark from features whose tests fail (E9)."""
    names = ", ".join(f"#{i}" for i in feature_ids)
    change(project, f"harness: Feature {names} passes=false (tests fail)", _edit(feature_ids, "marked", passes=False))
    for feature_id in feature_ids:
        proven.vouch(project, feature_id, proven=False)
        _leave_baseline(project, feature_id)
    project.say(f"Reset to passes: false: {names}.")


def skip_broken(project: Project, feature_ids: Sequence[int], reason: str) -> None:
    """Skip the features that a session broke, without blocking their dependents (C53)."""
    mark = {"reason": reason, "at": clock.timestamp(), "unblocks": True}
    names = ", ".join(f"#{i}" for i in feature_ids)
    change(project, f"harness: Feature {names} skipped", _edit(feature_ids, "marked", passes=False, skipped=mark))
    for feature_id in feature_ids:
        proven.vouch(project, feature_id, proven=False)
        _leave_baseline(project, feature_id)
        project.store.event("feature_skipped", feature_id=feature_id, reason=reason, unblocks=True)
        say_word(project, feature_id, "skip", accepted=False)
        project.say(f"Skipped Feature #{feature_id}. Features that depend on it are not blocked.")


def set_work_aside(project: Project, feature_id: int) -> str | None:
    """Move the feature's unfinished work to a rescue ref. Return the ref, or None if no work was moved."""
    state = project.store.state()
    checkpoint = state.feature_checkpoint
    if not checkpoint or state.current_feature != feature_id:
        return None
    rescue = None
    if project.git.head() != state.wip_commit:
        project.say("You have commits on top of the unfinished work, so the work stays on the branch.")
    else:
        refuse_unsafe(project)
        if dirty := project.dirty():
            raise UnsafeTree(f"The work tree is not clean: {', '.join(dirty[:3])}", hint="git stash -u")
        to = SessionCheckpoint.from_record(checkpoint).snapshot
        ref = repository.free_ref(project.git, f"refs/harness/set-aside/{feature_id}")
        rescue = project.go_back(to, ref, f"feature-{feature_id}").ref
        told = f"A person took Feature #{feature_id} out of the way; its work is kept in {rescue}."
        entry = progress.entry(project.store.state().last_session, [("HARNESS", [told])])
        progress.append(project.layout.progress, entry)
        project.store.event("work_set_aside", feature_id=feature_id, ref=rescue)
        project.say(f"The feature's unfinished work is kept. To show it: git show {rescue}")
    project.store.update_state(**records.NOTHING_UNFINISHED)
    return rescue


def _leave_baseline(project: Project, feature_id: int) -> None:
    file = feature_of(project, feature_id).test_file
    baseline = project.store.baseline()
    passing = records.texts(baseline.record["passing_tests"])
    kept = [node for node in passing if not proven.belongs(node, file)]
    if len(kept) != len(passing):
        project.store.write_baseline(baseline.but(passing_tests=kept, total_passing=len(kept)))


def _forget_question(project: Project, feature_id: int) -> None:
    """Remove the stored questions about a feature, and reset the number of its failed sessions."""
    questions.let_go(project, feature_id)
    state = project.store.state()
    about = state.question is not None and state.question.feature_id == feature_id
    project.store.update_state(
        pending_escalation=None if about or state.question is None else state.question.record,
        verification_failures={k: n for k, n in state.failures.items() if k != str(feature_id)},
        stuck_count=0 if state.current_feature == feature_id else state.stuck_count,
    )


def _edit(feature_ids: Sequence[int], *gone: str, **members: object) -> Callable[[FeatureList], None]:
    def edit(document: FeatureList) -> None:
        for feature_id in feature_ids:
            if feature := document.by_id(feature_id):
                for name in gone:
                    feature.record.pop(name, None)
                feature.record.update(members)

    return edit


# -- features that need a person ---------------------------------------------------------------------------------------


def accepted_for_person(project: Project, under_way: OpenSession, ruling: Ruling, used: usage.Totals) -> Finalization:
    """Return the finalization that commits accepted work. A person must still confirm the feature."""
    accept.put_back_features(project, under_way)
    document = project.store.features()
    if feature := document.by_id(under_way.feature_id):
        feature.record["awaiting_manual"] = {"session": under_way.session, "at": clock.timestamp()}
    files.write_json(project.layout.features, document.record)
    commit = accept.candidate(project, under_way, f"{under_way.feature.name} awaits manual verification")
    return awaiting_person(under_way, accept.accepted(project, under_way, ruling.of(commit), used))


def awaiting_person(under_way: OpenSession, finalization: Finalization) -> Finalization:
    name = under_way.feature.name
    summary = {**(finalization.state.summary or {}), "completed": f"{name}, which awaits a person"}
    event = {
        "event_type": "awaiting_manual",
        "level": "important",
        "feature_id": under_way.feature_id,
        "commit": finalization.commit,
        "message": f"{name} awaits manual verification",
    }
    return replace(
        finalization,
        state=finalization.state.but(last_session_summary=summary, next_prompt="coding"),
        proven=[f.id for f in under_way.features.passing],
        session_record={**finalization.session_record, "feature_completed": False},
        events=[event, *(each for each in finalization.events if each["event_type"] != "feature_completed")],
    )


def ask_person(project: Project, feature: Feature, session: int) -> None:
    project.say(f"{feature.name} needs your verification ({feature.verification_type}).")
    for check in feature.manual_checks:
        project.say(f"- {check}")
    for path in actions.screenshots_of(project, session):
        project.say(f"Screenshot: {path}")
    project.say(f"Then: harness manual-verify --feature {feature.id}")
