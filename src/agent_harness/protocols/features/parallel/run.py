"""Parallel run of a feature project (``harness run --workers N``), from recovery to the coordinator's result."""

import os
from collections.abc import Sequence

from agent_harness.errors import HarnessError, UnsafeTree
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel import merge_queue
from agent_harness.parallel.ledger import Ledger
from agent_harness.parallel.people import read_preview
from agent_harness.parallel.run import (
    INTERRUPTED,
    PreparedRun,
    RunPreview,
    RunRequest,
    branch_to_land_on,
    existing_folder,
    made_folder,
    next_command,
)
from agent_harness.parallel.run import preview as preview_of
from agent_harness.parallel.run import preview_lines as lines_of
from agent_harness.protocols.features import costs, migrations, overrides, questions, repository
from agent_harness.protocols.features.parallel.project_port import FeatureProjectPort, features_at
from agent_harness.protocols.features.preflight import valid_features
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.records import FeatureList
from agent_harness.protocols.features.selection import finalized
from agent_harness.protocols.features.sessions import locking
from agent_harness.protocols.features.sessions.checkpoints import SessionCheckpoint
from agent_harness.protocols.features.sessions.locking import locked
from agent_harness.protocols.features.sessions.run import Runs, choose_agents
from agent_harness.protocols.features.store import jobs_of_run
from agent_harness.protocols.features.verdict import proven
from agent_harness.session.parallel_settings import ParallelSettings
from agent_harness.supervision import interruption


def run_parallel(project: Project, request: RunRequest) -> JsonObject:
    """Let several agents work on the project in parallel. Return the run's result."""
    project.require_initialised()
    kept = existing_folder(project.layout.git_dir, project.layout.root)
    target = branch_to_land_on(project.git, kept, request.branch, otherwise="harness run")
    is_here = target == project.git.branch()
    migrations.refuse_newer(project)
    locking.refuse_resting(project)
    accounts: list[str] = []
    if not request.only_land:
        questions.refuse_pending(project.store.state())
        accounts = [each.account for each in choose_agents(project, request.agents)]
    with interruption.watched(lambda: project.store.pause() is not None) as stop, locked(project):
        folder, settings = made_folder(project.layout.git_dir, project.layout.root), settings_of(project)
        begun = PreparedRun.of(request, project.git, target, folder, refs=settings.refs, say=project.say, stop=stop)
        begun.replace_unreadable_ledger(jobs_of_run(project.store.left_by_run() or {}))
        known = Ledger(folder, only_read=True).folded()
        Runs(project).put_in_order(marks=is_here and not known.moving)
        if known.moving and project.git.commit_of(known.branch) == known.moving[0]:
            with stop.held():  # its files may be there already, and are not changes of a person
                merge_queue.move(project.git, known.branch, *known.moving)
        valid_features(project, None if is_here else features_at(project, target))
        in_run = 0.0 if known.closed else known.spent_usd
        before = costs.counted(project.store.costs()) - in_run
        attempt = {**request.told_attempts(), "spent_before_usd": before}
        port = FeatureProjectPort(project, folder, request.workers, attempt, request.branch)
        begun.say_odd_touches({f"#{f.id}": f.record.get("touches") for f in port.document().features})
        if not request.only_land:
            port.ask_next()
            questions.refuse_pending(project.store.state())
            _adopt_unfinished(project, port, is_here=is_here)
        if is_here:
            if project.progress_name in repository.dirty_paths(project.git):  # it would block every merge
                repository.commit_files(project.git, [project.progress_name], "harness: the story so far")
        else:
            port.baseline()
        port.hold()
        try:
            done = begun.execute(
                port,
                settings,
                sandbox=project.config.sandbox.model_dump(mode="json"),
                max_attempts=request.max_attempts,
                max_cost_usd=max(0.0, project.budgets.total - before),
                accounts=accounts,
            )
        except KeyboardInterrupt:
            done = {**INTERRUPTED}
        if not request.only_land:
            port.ask_next()
            done |= _doubt(project) if is_here and done["exit_code"] in (0, 1, 7) else {}
        return _answer(project, done, port.document())


def settings_of(project: Project) -> ParallelSettings:
    wished = project.config.parallel.model_dump(by_alias=True)
    found: JsonObject = {name: wished[name] for name in ParallelSettings.__dataclass_fields__ if name in wished}
    found["links"] = found["links"] or project.config.verification.links
    return ParallelSettings(**found)


def _doubt(project: Project) -> JsonObject:
    """Return an error result if a feature is marked as passing without proof, otherwise {}."""
    try:
        proven.check(project)
    except HarnessError as error:
        project.say(error.message)
        return {"reason": error.code, "message": error.message, "hint": error.hint, "exit_code": error.exit_code}
    return {}


def _answer(project: Project, done: JsonObject, document: FeatureList) -> JsonObject:
    state = project.store.state()
    passing, total = project.store.believed(document).counts()
    waiting = questions.waiting(state, document)
    for asked in waiting[:1]:
        project.say(questions.text(asked))
    code = int(done["exit_code"])
    if code in (0, 1, 7) and waiting and (questions.stops(waiting[0]) or state.kept_candidates):
        code = 3
    elif state.next_prompt == "cleanup" and code in (0, 7):
        project.say("A cleanup session is due. To start it: harness run")
    follows = (
        questions.hint(waiting[0])
        if code == 3 and waiting
        else "harness run"
        if passing < total or done.get("unpushed")
        else "harness status"
    )
    follows = next_command(done, follows, paused=project.store.pause() is not None)
    more = {"features": {"passing": passing, "total": total}, "escalation": waiting[0].record if waiting else None}
    return {**done, **more, "exit_code": code, "next": follows}


def _adopt_unfinished(project: Project, port: FeatureProjectPort, *, is_here: bool) -> None:
    """Move a serial run's unfinished work from the branch to the parallel run (SC-10)."""
    state = project.store.state()
    kept, feature_id = state.feature_checkpoint, state.current_feature
    if state.next_prompt != "continuation" or not kept or feature_id is None:
        return
    if not is_here:
        told = f"Feature #{feature_id} is unfinished on the branch that is checked out"
        raise UnsafeTree(told, hint=f"harness run  # or harness skip --feature {feature_id}")
    base, head = SessionCheckpoint.from_record(kept).snapshot.head, project.git.head()
    if head != state.wip_commit:
        told = f"Feature #{feature_id} is unfinished, and you have commits on top of it"
        raise UnsafeTree(told, hint=f"harness run  # or harness skip --feature {feature_id}")
    left = {"commit": head, "base": base, "partial": state.partial, "failure": state.last_failure}
    port.keep_item(str(feature_id), wip=left)
    overrides.set_work_aside(project, feature_id)


def preview(
    project: Project,
    *,
    workers: int,
    branch: str | None = None,
    max_sessions: int | None = None,
    elsewhere: bool = False,
) -> JsonObject:
    """Return the jobs that a parallel run would start first. No job is started."""
    project.require_initialised()
    kept = existing_folder(project.layout.git_dir, project.layout.root)
    target = branch_to_land_on(project.git, kept, branch, otherwise="harness run --dry-run")
    folder = kept or os.path.join(project.layout.git_dir, "parallel")
    document, state = valid_features(project, features_at(project, target)), project.store.state()
    questions.refuse_pending(state)
    known = read_preview(folder, workers, elsewhere=elsewhere)
    items = FeatureProjectPort(project, folder, workers, {}, branch).items()
    named, done = {each.id for each in items}, finalized(document)
    waits = [f for f in document.features if f.is_open and str(f.id) not in named]
    left_usd = round(project.budgets.total - costs.counted(project.store.costs()), 4)
    return preview_of(
        known,
        RunPreview(
            git=project.git,
            folder=folder,
            branch=target,
            workers=workers,
            settings=settings_of(project),
            own=project.excluded,
            items=items,
            waits={str(f.id): _why_not([i for i in f.depends_on if i not in done]) for f in waits},
            most=max_sessions,
            limits={"sessions": max_sessions, "left_usd": left_usd},
        ),
    )


def _why_not(missing: Sequence[int]) -> str:
    needed = ", ".join(f"#{i}" for i in missing)
    return f"it needs {needed}, which is not merged yet" if needed else "it waits for a person's answer"


def preview_lines(found: JsonObject) -> list[str]:
    limits = found["limits"]
    most = f"{limits['sessions']} sessions and " if limits["sessions"] else ""
    return lines_of(found, f"{most}${limits['left_usd']:.2f} of the project's budget", named=lambda item: f"#{item}")
