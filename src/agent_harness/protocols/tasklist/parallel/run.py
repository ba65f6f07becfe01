"""Run of ``harness run --workers N`` on a task list, from the recovery of earlier work to the coordinator's answer."""

import os
from collections.abc import Callable, Sequence
from contextlib import suppress

from agent_harness.errors import HarnessError, UnsafeTree
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel import workspaces
from agent_harness.parallel.people import read_preview
from agent_harness.parallel.plan import LANDING, READY
from agent_harness.parallel.run import (
    INTERRUPTED,
    PreparedRun,
    RunPreview,
    RunRequest,
    branch_to_land_on,
    existing_folder,
    made_folder,
    next_command,
    shown_target,
)
from agent_harness.parallel.run import preview as preview_of
from agent_harness.parallel.run import preview_lines as lines_of
from agent_harness.protocols.tasklist import lifecycle, publish, run
from agent_harness.protocols.tasklist.attempts import recover
from agent_harness.protocols.tasklist.attempts.attempt import place_of
from agent_harness.protocols.tasklist.claims import environment_inventory, leases, sessions
from agent_harness.protocols.tasklist.claims.caller import Caller
from agent_harness.protocols.tasklist.parallel.project_port import (
    TaskListProjectPort,
    open_items,
    settings_of,
)
from agent_harness.protocols.tasklist.records import State, Task
from agent_harness.supervision import interruption


def run_parallel(
    caller: Caller,
    request: RunRequest,
    *,
    accounts: Sequence[str],
    say: Callable[[str], None],
    max_minutes: float = run.MAX_MINUTES,
    max_cost_usd: float = run.MAX_COST_USD,
) -> JsonObject:
    """Run several agents concurrently. Raise ``UnsafeTree`` if there is no branch to merge into."""
    caller = run.own_caller(caller)
    workspace, kept = place_of(caller), existing_folder(caller.layout.tasks, caller.layout.root)
    target = branch_to_land_on(workspace.git if workspace else None, kept, request.branch, otherwise="harness run")
    assert workspace is not None
    if not workspace.exclude:
        raise UnsafeTree("the task list is outside this work tree", hint=f"cd {caller.layout.root}")
    before = settings_of(caller.store.read())
    publish.target_of(workspace.git, before.push, target)
    with interruption.watched(caller.store.paused) as stop:
        folder = made_folder(caller.layout.tasks, caller.layout.root)
        begun = PreparedRun.of(request, workspace.git, target, folder, refs=before.refs, say=say, stop=stop)
        session = sessions.start(caller)
        for found in session["recovered"]:
            is_open = found["action"] == "resume"  # no agent here can compare its checkpoints with the files
            done = recover.recover(caller, found["task_id"], "fail")[0] if is_open else found
            say(f"{done['task_id']}: {done['action']} ({done.get('reason') or 'it was interrupted'})")
        if not request.only_land:
            say(f"Session {session['session']} starting with {request.workers} workers...")
        caller.store.change(lambda change: publish.setting_of_run(folder, change))
        state = caller.store.read()
        settings = settings_of(state, say)
        begun.say_odd_touches({task.id: task.raw.get("touches") for task in state.tasks})
        begun.replace_unreadable_ledger(leases.jobs_of_run(leases.left_by_run(state)))
        limits = {"max_minutes": max_minutes, "max_cost_usd": max_cost_usd}
        attempt = {**request.told_attempts(), **limits, "parallel": folder, "is_closed_later": begun.engine is None}
        claimed = {"workers": request.workers, **({"branch": request.branch} if request.branch else {})}
        try:
            push_target = publish.target_of(workspace.git, settings.push, target, folder)
            done = begun.execute(
                TaskListProjectPort(caller, int(session["session"]), claimed, attempt, push_target),
                settings,
                sandbox=state.config.sandbox,
                max_attempts=_most(state, request.workers, request.max_attempts),
                max_cost_usd=max_cost_usd,
                accounts=accounts,
            )
            publish.forget(folder)
        except KeyboardInterrupt:
            done = {**INTERRUPTED}
            with stop.held():
                sessions.end(caller)
        except HarnessError:
            with stop.held(), suppress(HarnessError):
                sessions.end(caller)
            raise
        finally:
            _close_looks(folder, os.path.relpath(workspace.folder, workspace.git.top()))
    otherwise = "harness run" if done.get("unpushed") else run.next_command(caller)
    following = next_command(done, otherwise, paused=caller.store.paused())
    return {"session": session["session"], **done, "next": following}


def _close_looks(folder: str, prefix: str) -> None:
    for workspace in workspaces.existing(os.path.join(folder, "places")):
        environment_inventory.close(os.path.join(workspace.folder, prefix), workspace.name)


def _most(state: State, workers: int, asked: int | None) -> int | None:
    of_sessions = state.config.max_tasks * workers or None
    return min((each for each in (asked, of_sessions) if each is not None), default=None)


# ---- preview ---------------------------------------------------------------------------------------------------------


def preview(
    caller: Caller,
    *,
    workers: int,
    branch: str | None = None,
    max_tasks: int | None = None,
    max_cost_usd: float | None = None,
    elsewhere: bool = False,
) -> JsonObject:
    """Return the first jobs that ``run_parallel`` would start, and change nothing."""
    workspace, state = place_of(caller), caller.store.read()
    kept = existing_folder(caller.layout.tasks, caller.layout.root)
    target = branch_to_land_on(workspace.git if workspace else None, kept, branch, otherwise="harness run --dry-run")
    assert workspace is not None
    folder = kept or os.path.join(caller.layout.root, "parallel")
    state.raw["session_config"] = publish.config_of_run(folder, state)
    settings = settings_of(state)
    known = read_preview(folder, workers, elsewhere=elsewhere)
    for task in leases.left_by_run(state):
        if known.plan.work(task.id).state not in (READY, LANDING) and task.id not in known.unsure:
            lifecycle.release(task)
    items = open_items(caller, state)
    named = {each.id for each in items}
    waits = [task for task in state.tasks if task.status == "pending" and task.id not in named]
    most = _most(state, workers, max_tasks)
    return preview_of(
        known,
        RunPreview(
            git=workspace.git,
            folder=folder,
            branch=target,
            workers=workers,
            settings=settings,
            own=workspace.exclude,
            items=items,
            waits={task.id: f"it needs {_needed(state, task)}, which is not merged yet" for task in waits},
            most=most,
            limits={"max_tasks": most, "max_cost_usd": max_cost_usd or run.MAX_COST_USD},
            more={"push": shown_target(publish.target_of(workspace.git, settings.push, target))},
        ),
    )


def preview_lines(found: JsonObject) -> list[str]:
    limits = found["limits"]
    most = f"{limits['max_tasks']} attempts and " if limits["max_tasks"] else ""
    return lines_of(found, f"{most}${limits['max_cost_usd']:.2f}")


def _needed(state: State, task: Task) -> str:
    needs = (
        need for need in task.depends_on or [] if need not in state.by_id or state.by_id[need].status != "completed"
    )
    return ", ".join(needs) or "something"
