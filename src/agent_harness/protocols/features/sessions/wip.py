"""End of a session with unfinished work. A local WIP commit keeps the work, and the next session continues it. Source:
features.md C07, C15, C16, C66; rows UAH-341..346, UAH-368."""

from dataclasses import dataclass, replace

from agent_harness.agents import usage
from agent_harness.errors import HarnessError
from agent_harness.kernel import clock, files
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features import progress, repository
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import Feature, listed
from agent_harness.protocols.features.sessions import accept, actions
from agent_harness.protocols.features.sessions.finalization import Finalization
from agent_harness.protocols.features.sessions.open_session import OpenSession
from agent_harness.protocols.features.verdict.project_judge import Unfinished


@dataclass(frozen=True, kw_only=True)
class Wording:
    subject: str | None  # prefix of the WIP commit's subject; None: from the settings
    body: str
    told: str | None  # in the progress file, behind SESSION TERMINATED
    event: str
    why: str  # in one or two words, for the person
    recorded: str | None = None  # the reason in the records, if it differs (C05)
    quiet: bool = False  # nothing is written if nothing was changed


WORDINGS = {
    "complete": Wording(
        subject="WIP: Not finished - ",
        body="WIP: The agent ended its turn without a claim",
        told=None,
        event="handed_off",
        why="no claim",
    ),
    "context_limit": Wording(
        subject=None,
        body="WIP: Context limit reached",
        told="Context limit reached mid-implementation",
        event="context_limit",
        why="context limit",
    ),
    "timeout": Wording(
        subject=None,
        body="WIP: Session timeout",
        told="Time limit reached mid-implementation",
        event="timeout",
        why="time limit",
    ),
    "stuck": Wording(
        subject="WIP: Stuck - ",
        body="WIP: No progress",
        told="No progress for too long",
        event="stuck",
        why="no progress",
    ),
    "user_pause": Wording(
        subject="WIP: Paused - ",
        body="WIP: Paused by a person",
        told="Paused by a person",
        event="user_pause",
        why="paused",
    ),
    "error": Wording(
        subject="WIP: Session interrupted - ",
        body="WIP: The session was interrupted",
        told="Interrupted mid-implementation",
        event="session_interrupted",
        why="interrupted",
    ),
    "budget_exceeded": Wording(
        subject="WIP: Budget exceeded - ",
        body="WIP: Budget exceeded",
        told="Budget exceeded mid-implementation",
        event="budget_exceeded",
        why="budget exceeded",
    ),
    "over_limit": Wording(
        subject="WIP: Over a limit - ",
        body="WIP: The agent exceeded a machine limit",
        told="The agent exceeded a machine limit",
        event="over_limit",
        why="over a limit of the machine",
        recorded="stuck",
    ),
    "refused": Wording(
        subject="WIP: Provider trouble - ",
        body="WIP: The provider refused the agent's requests",
        told="The provider refused the agent's requests",
        event="provider_refused",
        why="the provider did not serve the agent",
        recorded="error",
        quiet=True,
    ),
    "rate_limited": Wording(
        subject="WIP: Rate limited - ",
        body="WIP: The provider temporarily refuses requests",
        told="The provider temporarily refused requests",
        event="rate_limited",
        why="rate limited",
        recorded="error",
        quiet=True,
    ),
    "overloaded": Wording(
        subject="WIP: Provider overloaded - ",
        body="WIP: The provider is overloaded",
        told="The provider is overloaded",
        event="provider_overloaded",
        why="the provider is overloaded",
        recorded="user_pause",
        quiet=True,
    ),
}


def recorded(reason: str) -> str:
    """Return the name under which records contain the session's end reason."""
    return (WORDINGS[reason].recorded or reason) if reason in WORDINGS else reason


NOT_RUN = Unfinished()


def handed_off(
    project: Project,
    under_way: OpenSession,
    reason: str,
    used: usage.Totals,
    *,
    unfinished: Unfinished | None = NOT_RUN,
    failure: str | None = None,
    message: str | None = None,
) -> Finalization:
    """Return the finalization that keeps a session's unfinished work for the next session (C66).

    If the agent left a git operation unfinished or rewrote history, return a rollback instead."""
    if waiting := accept.cannot_be_judged(project, under_way):
        return accept.rolled_back(project, under_way, waiting[1], used)
    accept.put_back_features(project, under_way)
    wanted = reason != "context_limit" or project.config.context.on_limit.append_to_progress  # UAH-173
    if wanted and not _passes_without_trace(project, under_way, reason):
        _tell_termination(project, under_way, reason)
    left = _what_is_left(project, under_way, reason)
    rollback_point = under_way.checkpoint.snapshot
    state = under_way.state_after(
        "partial",
        reason=recorded(reason),
        kept_work=left.kept,
        failure=failure,
        partial=_partial(project, under_way, reason, left, unfinished),
        red_tests=unfinished.red if unfinished else (),
        checkpoint=under_way.base.record,
        wip_commit=left.commit or left.own or under_way.state.wip_commit,
        summary={"completed": "nothing", "commits": left.commits, "status": f"partial ({reason.replace('_', ' ')})"},
    )
    if unfinished is None:
        state = state.but(wip_red_tests=None)
    return Finalization(
        kind="hand_off" if left.commit else "nothing",
        session=under_way.session,
        commit=left.commit,
        branch=rollback_point.branch,
        expected_head=project.tips[left.commit] if left.commit else None,
        state=state,
        costs=accept.costs_after(project, under_way, used),
        session_record=accept.session_record(under_way, used, recorded(reason), completed=False),
        events=[_event(under_way, reason, left.commit, message)],
    )


def overtaken(project: Project, under_way: OpenSession, finalization: Finalization) -> Finalization:
    """Keep the commit of a session whose branch has moved under a ref. Return the session's finalization."""
    commit = str(finalization.commit)
    wanted = f"refs/harness/unadopted/{under_way.session}"
    ref = wanted if project.git.commit_of(wanted) == commit else repository.free_ref(project.git, wanted)
    project.git.update_ref(ref, commit)
    name = under_way.feature.name
    told = f"The branch has moved since Session {under_way.session} ended; its work on {name} is kept in {ref}."
    project.say(told)
    _take_back_claim(project, commit)
    state = under_way.state_after(
        "partial",
        reason="error",
        failure=told,
        summary={"completed": "nothing", "commits": [], "status": f"partial (kept in {ref})"},
    )
    return replace(
        finalization,
        kind="nothing",
        commit=None,
        push=False,
        proven=None,
        state=state,
        baseline=under_way.baseline,
        file_sizes=None,
        quality=None,
        session_record={**finalization.session_record, "termination_reason": "error", "feature_completed": False},
        events=[
            {
                "event_type": "work_unadopted",
                "level": "critical",
                "session": under_way.session,
                "feature_id": under_way.feature_id,
                "ref": ref,
                "commit": commit,
                "message": told,
            }
        ],
    )


def _take_back_claim(project: Project, commit: str) -> None:
    theirs = project.git.show("HEAD", project.features_name)
    claimed = project.git.show(commit, project.features_name)
    try:
        found = files.read_bytes(project.layout.features)
    except (OSError, HarnessError):
        return
    if theirs is not None and found == claimed:
        files.replace(project.layout.features, theirs)


@dataclass(frozen=True, kw_only=True)
class _Left:
    commit: str | None  # the WIP commit, when there is anything to keep
    files: tuple[str, ...]  # changed since the checkpoint, the progress file aside
    commits: list[str]
    kept: bool  # the next session continues instead of starting afresh
    own: str | None  # the agent's last commit, if the harness makes none
    earlier: JsonObject | None  # left by earlier sessions of this feature


def _what_is_left(project: Project, under_way: OpenSession, reason: str) -> _Left:
    rollback_point = under_way.checkpoint.snapshot
    moved = project.git.head() != rollback_point.head
    commit = accept.candidate(project, under_way, _wip_message(project, reason, under_way.feature))
    changed = [path for _, path in project.git.changed_paths(rollback_point.head, commit)]
    files = tuple(path for path in changed if path != project.progress_name)
    is_told = reason != "complete" and not _passes_without_trace(project, under_way, reason)
    commits_it = _is_committed(project, reason)
    worth_keeping = bool(files) or moved or is_told
    commits = [found.sha for found in project.git.commits_between(rollback_point.head, commit)] if worth_keeping else []
    earlier = under_way.state.partial if under_way.prompt_type == "continuation" else None
    return _Left(
        commit=commit if worth_keeping and commits_it else None,
        files=files,
        commits=commits,
        kept=(bool(files) if commits_it else moved) or earlier is not None,
        own=project.git.head() if moved and not commits_it else None,
        earlier=earlier,
    )


def _is_committed(project: Project, reason: str) -> bool:
    # UAH-171, UAH-219
    if reason == "timeout":
        return project.config.session.on_timeout.auto_commit
    return reason != "context_limit" or project.config.context.on_limit.auto_commit


def what_became_of_it(project: Project, finalization: Finalization, reason: str) -> str:
    if finalization.kind == "hand_off":
        return "its work is kept in a WIP commit"
    left = project.dirty()
    if left and not _is_committed(project, reason):
        return "its work is left uncommitted, as the settings say"
    return "nothing was changed"


def _passes_without_trace(project: Project, under_way: OpenSession, reason: str) -> bool:
    quiet = reason in WORDINGS and WORDINGS[reason].quiet
    unmoved = project.git.head() == under_way.checkpoint.snapshot.head
    return quiet and unmoved and not repository.dirty_paths(project.git)


def _wip_message(project: Project, reason: str, feature: Feature) -> str:
    wording = WORDINGS.get(reason, WORDINGS["error"])
    subject = wording.subject
    if subject is None:
        config = project.config
        timeout = reason == "timeout"
        subject = config.session.on_timeout.message_prefix if timeout else config.context.on_limit.commit_message_prefix
    return f"{subject}{feature.name} ({feature.description})\n\n{wording.body}"


def _event(under_way: OpenSession, reason: str, commit: str | None, message: str | None) -> JsonObject:
    name = under_way.feature.name
    return {
        "event_type": WORDINGS.get(reason, WORDINGS["error"]).event,
        "level": "critical" if recorded(reason) == "error" else "important",
        "session": under_way.session,
        "feature_id": under_way.feature_id,
        "reason": reason,
        "commit": commit,
        "message": message or f"{name} handed off: {reason.replace('_', ' ')}",
    }


def _tell_termination(project: Project, under_way: OpenSession, reason: str) -> None:
    told = WORDINGS.get(reason, WORDINGS["error"]).told
    line = f"SESSION TERMINATED: {told} (Session {under_way.session})"
    if any(line in entry.text for entry in progress.recent_entries(project.layout.progress)):
        return
    unmoved = project.git.head() == under_way.checkpoint.snapshot.head
    if told is None and unmoved and not project.dirty():
        return
    accept.ensure_progress_entry(
        project,
        under_way,
        [
            ("FEATURE", f"#{under_way.feature_id} ({under_way.feature.description})"),
            *actions.told_by_traces(project, under_way),
            ("CURRENT STATE", ["not finished; the work so far is in the WIP commit"]),
        ],
    )
    if told:
        progress.append(project.layout.progress, f"\n{line}\n")


def _partial(
    project: Project, under_way: OpenSession, reason: str, left: _Left, unfinished: Unfinished | None
) -> JsonObject:
    """Return a record of the unfinished work for the next session."""
    entries = [e for e in progress.recent_entries(project.layout.progress) if e.session == under_way.session]
    told = entries[-1] if entries else None
    done = told.part("WHAT I DID") if told else []
    to_do = (told.part("NEXT") or told.part("WHAT'S LEFT")) if told else []
    earlier = left.earlier or {}
    files = [*(earlier.get("wip_files") or []), *left.files]
    found = _failing(under_way.feature, unfinished)
    if unfinished is None and (ran := actions.last_test_run(project, under_way.session)):
        found = [f"the last run of tests that the agent saw said: {ran}"]
    return {
        "feature_id": under_way.feature_id,
        "session": under_way.session,
        "reason": "no claim" if reason == "complete" else reason,
        "done": done or actions.commits_of(project, under_way) or earlier.get("done") or [],
        "left": [*(to_do or ([] if found else earlier.get("left") or [])), *found],
        "wip_files": list(dict.fromkeys(files))[:40],
    }


def _failing(feature: Feature, unfinished: Unfinished | None) -> list[str]:
    if unfinished is None or unfinished == NOT_RUN:
        return []
    lines = [f"these tests worked before, and fail now: {listed(unfinished.red, 5)}"] if unfinished.red else []
    if unfinished.failing:
        lines.append(f"{len(unfinished.failing)} of the feature's own tests fail: {listed(unfinished.failing, 5)}")
    elif unfinished.passing:
        lines.append(f"the tests of {feature.test_file} pass; the feature was not claimed")
    return lines


def rest(project: Project, reason: str) -> None:
    """Pause the project if a provider's overload ended the session (C28)."""
    if reason == "overloaded":
        project.store.write_pause({"reason": "overloaded", "at": clock.timestamp()})
