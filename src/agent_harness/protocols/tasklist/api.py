"""Public API of a task list, with one method per command. Each method's answer contains the next command to type.

An agent starts a new process for every step, so each method imports only the modules that it needs. Source:
``tasklist.md`` 13.3."""

from __future__ import annotations

import time

from agent_harness.errors import HarnessError, NothingEligible, StateDamaged
from agent_harness.kernel import owner, root
from agent_harness.protocols.tasklist.layout import TaskListLayout
from agent_harness.protocols.tasklist.records import ADD, CATEGORIES, DEFAULT_LEASE_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from agent_harness.kernel.json import JsonObject
    from agent_harness.parallel.engine import EngineFactory
    from agent_harness.parallel.people import ParallelRuns
    from agent_harness.protocols.tasklist.claims.caller import Caller
    from agent_harness.session.log_rows import FollowedLog
    from agent_harness.session.project_view import AskedQuestion, ProjectReader
    from agent_harness.supervision.dispatch import RefusalPolicy

__all__ = [
    "ADD",
    "CATEGORIES",
    "TaskList",
    "check",
    "followed",
    "lines",
    "log_rows",
    "read_lines",
    "reader",
    "restore",
    "status",
    "traces",
]

CLAIM = "harness task claim"
END = "harness session end"
TRY_SECONDS = 60.0
"""Maximum time, in seconds, for running the checks of all tasks that one command adds."""


def _with_next(answer: JsonObject, command: str) -> JsonObject:
    return {**answer, "next": command}


class TaskList:
    """Access to a task list for one worker or the user. Every error is a ``HarnessError``."""

    def __init__(self, caller: Caller) -> None:
        self.caller = caller
        self.layout = caller.layout
        self.store = caller.store

    @classmethod
    def open(
        cls,
        start: str | None = None,
        *,
        worker: str | None = None,
        session: str | None = None,
        token: str | None = None,
        lock_timeout: float = 5.0,
        now: datetime | None = None,
        cwd: str | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> TaskList:
        """Return the task list in the folder ``start`` or above. Raise ``NotAProject`` if there is none."""
        from agent_harness.protocols.tasklist.claims.caller import Caller

        found = root.find(start, kind="tasklist", pin=start is None)
        if found is None:
            raise root.not_here(
                "tasklist", "No task list in this folder or above: no harness-tasks.json", "harness init ."
            )
        opened = Caller.open(
            TaskListLayout(found.path),
            worker_id=worker,
            session_id=session,
            token=token,
            lock_timeout_seconds=lock_timeout,
            cwd=cwd,
            now=now,
            environ=environ,
        )
        return cls(opened)

    # -- planning ----------------------------------------------------------------------------------------------------

    @staticmethod
    def init(folder: str, **options: Any) -> JsonObject:
        from agent_harness.protocols.tasklist import planning

        answer = planning.create(folder, **options)
        return _with_next(answer, ADD)

    @classmethod
    def begin(cls, folder: str, tasks: Sequence[Mapping[str, Any]]) -> tuple[TaskList, JsonObject]:
        """Create a task list with these tasks. If a task is invalid, create nothing."""
        from agent_harness.protocols.tasklist import planning

        planning.check_first(tasks)
        made = planning.create(folder)
        begun = cls.open(folder)
        return begun, {**begun.add(tasks), "made": made}

    def add(self, tasks: Sequence[Mapping[str, Any]]) -> JsonObject:
        """Add tasks to the task list. If a task is invalid, add none."""
        from agent_harness.protocols.tasklist import planning
        from agent_harness.protocols.tasklist import status as list_status

        ids = planning.add(self.store, tasks)
        following = list_status.next_command(self.store.read(), paused=self.store.paused())
        return _with_next({"task_id": ids[0] if ids else None, "task_ids": ids}, following)

    def tried(self, task_ids: Sequence[str], *, seconds: float = TRY_SECONDS) -> dict[str, bool | None]:
        """Return for each task whether its check passes now, or ``None`` after a timeout."""
        from agent_harness.protocols.tasklist.attempts import validation

        known, ends = self.store.read().by_id, time.monotonic() + seconds
        found: dict[str, bool | None] = {}
        for task in (known[each] for each in task_ids):
            left = ends - time.monotonic()
            if task.validation_command:
                found[task.id] = validation.passes_now(self.caller, task, within_seconds=left) if left > 1 else None
        return found

    def sources(self) -> dict[str, str]:
        from agent_harness.protocols.tasklist import planning

        return planning.by_source(self.store.read())

    def set(self, task_id: str, changes: Mapping[str, str]) -> JsonObject:
        """Change fields of one task. Agents may not call this method."""
        owner.refuse_agents(self.layout.root, "harness task set")
        from agent_harness.protocols.tasklist import planning

        return _with_next({"task": planning.set_fields(self.store, task_id, changes)}, "harness status")

    def reset(self, task_ids: Sequence[str] = (), *, failed: bool = False) -> JsonObject:
        """Make failed tasks pending, and set their attempt counts to 0. Agents may not call this method."""
        owner.refuse_agents(self.layout.root, "harness task reset")
        from agent_harness.protocols.tasklist import planning

        return _with_next({"reset": planning.reset(self.store, task_ids, failed=failed)}, "harness run")

    def status(self, *, tail: int = 5) -> JsonObject:
        return status(self.layout.root, tail=tail)

    def stats(self) -> JsonObject:
        """Return the number of tasks with each status, and write these numbers to the log."""
        from agent_harness.protocols.tasklist.claims import sessions

        return _with_next(sessions.log_stats(self.caller), "harness status")

    # -- sessions ----------------------------------------------------------------------------------------------------

    def session_start(self, *, take_over: bool = False) -> JsonObject:
        """Start a session, or return the running session of this worker."""
        if take_over:
            owner.refuse_agents(self.layout.root, "harness session start --take-over")
        from agent_harness.protocols.tasklist.claims import sessions

        answer = sessions.start(self.caller, take_over=take_over)
        return _with_next(answer, self._after_recovery(answer["recovered"]) if answer["recovered"] else CLAIM)

    def _after_recovery(self, found: Sequence[Mapping[str, Any]]) -> str:
        for each in found:
            if each.get("action") == "resume" and not each.get("decided"):
                return f"harness task recover {each['task_id']} --decide resume"
            if each.get("action") in ("resume", "blocked"):
                return f"harness task complete {each['task_id']}"
        return self._go_on()

    def session_end(self) -> JsonObject:
        from agent_harness.protocols.tasklist.claims import sessions

        answer = sessions.end(self.caller)
        return _with_next(answer, "harness session start" if answer["work_left"] else "harness status")

    def pause(self, why: str = "", *, by: str | None = None) -> JsonObject:
        """Pause the task list until ``resume`` is called."""
        from agent_harness.protocols.tasklist.claims import sessions

        return _with_next(sessions.pause(self.caller, why, by=by), "harness resume")

    def resume(self, *, by: str | None = None, shown: AskedQuestion | None = None) -> JsonObject:
        """End a pause and a halt. Raise ``Superseded`` if the halt is not the one in ``shown``."""
        owner.refuse_agents(self.layout.root, "harness resume")
        from agent_harness.protocols.tasklist.claims import sessions

        return _with_next(sessions.resume(self.caller, by=by, shown=shown), "harness run")

    def activate(self) -> JsonObject:
        self.store.activate()
        return _with_next({"active": True}, "harness status")

    @property
    def active(self) -> bool:
        return self.store.active()

    def deactivate(self) -> JsonObject:
        return _with_next({"active": False, "was_active": self.store.deactivate()}, "harness activate")

    # -- running agents ----------------------------------------------------------------------------------------------

    def run(
        self,
        *,
        agents: Sequence[str],
        policy: RefusalPolicy,
        say: Callable[[str], None],
        workers: int | None = None,
        branch: str | None = None,
        engine_factory: EngineFactory | None = None,
        **limits: Any,
    ) -> JsonObject:
        """Run agents on the tasks. ``limits`` may contain ``max_tasks``, ``max_minutes`` of each attempt, and
        ``max_cost_usd``."""
        import os
        from contextlib import suppress
        from pathlib import Path

        from agent_harness.agents import registry
        from agent_harness.protocols.tasklist import run
        from agent_harness.supervision.dispatch import Dispatcher, startable

        self._refuse_empty()
        try:
            found = registry.resolve_all(tuple(agents), configured=None, environ=os.environ)
            allowed = startable(found, say, "harness run --agent SPEC", Path(self.caller.layout.root))
        except HarnessError:
            self._refuse_resting()  # the state of the list is the more useful reason
            raise
        if workers is not None:
            from agent_harness.parallel.run import RunRequest
            from agent_harness.protocols.tasklist.parallel.run import run_parallel

            most = limits.pop("max_tasks", None)
            request = RunRequest(
                workers=workers,
                agents=agents,
                policy=policy,
                branch=branch,
                engine_factory=engine_factory,
                max_attempts=most,
            )
            return run_parallel(self.caller, request, accounts=[each.account for each in allowed], say=say, **limits)
        more: JsonObject = {}
        if left := self._left_by_run() or self._unpushed():
            from agent_harness.parallel.run import RunRequest
            from agent_harness.protocols.tasklist.parallel.run import run_parallel

            say("An earlier run with several agents left work to merge or push. This run does that first.")
            workers, branch = left
            request = RunRequest(workers=workers, agents=agents, policy=policy, branch=branch, only_land=True)
            landed = run_parallel(self.caller, request, accounts=(), say=say)
            if landed["exit_code"]:
                return landed
            more = {"unpushed": landed["unpushed"]}
        elif not self.layout.linked():
            with suppress(OSError):  # of a run of several agents that is dead, and has left nothing
                os.unlink(self.layout.parallel)
        taken_slot = {"project": self.layout.root, "item": "harness run"}
        return {**run.run(self.caller, Dispatcher(allowed, policy, say, told=taken_slot), say=say, **limits), **more}

    @property
    def workers(self) -> int | None:
        """Configured number of concurrent agents, or ``None`` if the agents do not run concurrently."""
        import os

        try:
            config = self.store.read().raw.get("session_config")
        except StateDamaged:
            return None  # a run reports it
        given = config.get("parallel") if isinstance(config, dict) else None
        if not given and "HARNESS_PARALLEL__WORKERS" not in os.environ:
            return None
        from agent_harness.session import parallel_settings

        known = given if isinstance(given, dict) else {}
        found = parallel_settings.read(known, os.environ, where="session_config.parallel").workers
        return found if found > 1 else None

    def parallel_runs(self) -> ParallelRuns:
        import os

        from agent_harness.kernel import trusted_state
        from agent_harness.parallel.people import ParallelRuns
        from agent_harness.protocols.tasklist.attempts.attempt import place_of

        place = place_of(self.caller)
        folder = trusted_state.existing(self.layout.tasks, self.layout.root, writable=False)
        return ParallelRuns(
            root=self.layout.root,
            folder=os.path.join(folder or self.layout.root, "parallel"),
            git=place.git if place else None,
            own=place.exclude if place else (),
            snapshot=None if self.layout.linked() else self.layout.parallel,
        )

    def now(self) -> list[str]:
        """Return one line for each running attempt, about its current activity. This method is thread-safe."""
        import os

        from agent_harness.protocols.tasklist import proven
        from agent_harness.session import now

        path = proven.now_path(self.layout)
        return [each.line() for each in now.running(path and os.path.dirname(path))]

    def reader(self) -> ProjectReader:
        return reader(self.layout.root)

    @property
    def reports(self) -> bool:
        try:
            return self.store.read().config.report_after_run
        except StateDamaged:
            return False  # a run reports it

    def keep_said(self, text: str) -> None:
        from agent_harness.session import now

        if not self.layout.linked():
            now.keep_said(self.layout.run_log, text)

    def _left_by_run(self) -> tuple[int, str | None] | None:
        """Return the worker count and the branch of a dead run that still has claims on tasks, or None."""
        from agent_harness.protocols.tasklist.claims import leases

        try:
            left = leases.left_by_run(self.store.read())
        except StateDamaged:
            return None
        return leases.terms_of_run(left) if left else None

    def _unpushed(self) -> tuple[int, None] | None:
        """Return the worker count of a finished run whose merged commits were not pushed, or None."""
        import os

        if self.layout.linked() or not os.path.lexists(self.layout.parallel):
            return None
        found = self.parallel_runs().unpushed_here()
        return (found, None) if found else None

    def _refuse_empty(self) -> None:
        try:
            state = self.store.read()
        except StateDamaged:
            return
        if not state.tasks:
            raise NothingEligible("there are no tasks yet", hint=ADD)

    def _refuse_resting(self) -> None:
        from agent_harness.protocols.tasklist.claims import claim

        claim.preview(self.caller, self.store.read(), self.store.now())

    def drive(
        self, command: Sequence[str], *, times: int, say: Callable[[str], None], countdown: Callable[[str], None]
    ) -> JsonObject:
        """Start an interactive client repeatedly, until no work is left."""
        from agent_harness.protocols.tasklist import run

        return run.drive(self.caller, command, times=times, say=say, countdown=countdown)

    # -- the work ----------------------------------------------------------------------------------------------------

    def next(self) -> JsonObject:
        from agent_harness.protocols.tasklist.claims import claim

        task = claim.preview(self.caller, self.store.read(), self.store.now())
        return _with_next({"task": dict(task.raw), "task_id": task.id, "title": task.title}, CLAIM)

    def preview(self, *, workers: int | None = None, **limits: Any) -> JsonObject:
        """Return the next task and the estimated cost of the open tasks. Change nothing."""
        from agent_harness.agents import usage
        from agent_harness.protocols.tasklist import costs

        found: JsonObject = {}
        try:
            found = self.next()
        except NothingEligible:
            if workers is None or not self._left_by_run():  # the next run begins with the tasks of a dead one
                raise
        lines = [f"Next: {found.get('task_id')}: {found.get('title')}"]
        following = "harness run"
        if workers is not None:
            from agent_harness.protocols.tasklist.parallel.run import preview, preview_lines

            given = {name: value for name, value in limits.items() if name in ("max_tasks", "max_cost_usd", "branch")}
            found["parallel"] = preview(self.caller, workers=workers, elsewhere="engine_factory" in limits, **given)
            lines, following = preview_lines(found["parallel"]), f"harness run --workers {workers}"
        expected = costs.estimate(self.layout, self.store.read())
        line = usage.estimate_line(expected, "task")
        return {**found, "estimate": expected, "estimate_line": line, "lines": [*lines, line], "next": following}

    def claim(
        self,
        task_id: str | None = None,
        *,
        lease_seconds: float = DEFAULT_LEASE_SECONDS,
        dirty: str = "remember",
    ) -> JsonObject:
        from agent_harness.protocols.tasklist.claims import claim

        answer = claim.claim(self.caller, task_id, lease_seconds=lease_seconds, dirty=dirty)
        return _with_next(answer, f'harness task checkpoint {answer["task_id"]} 1/3 "what was done"')

    def checkpoint(self, task_id: str, step: int, total: int, text: str) -> JsonObject:
        from agent_harness.protocols.tasklist.claims.caller import checkpoint

        answer = checkpoint(self.caller, task_id, step, total, text)
        further = f'harness task checkpoint {task_id} {step + 1}/{total} "what was done"'
        return _with_next(answer, f"harness task complete {task_id}" if step >= total else further)

    def renew(self, task_id: str, *, lease_seconds: float = DEFAULT_LEASE_SECONDS) -> JsonObject:
        from agent_harness.protocols.tasklist.claims.caller import renew

        answer = renew(self.caller, task_id, lease_seconds=lease_seconds)
        return _with_next(answer, f"harness task complete {task_id}")

    def run_step(self, task_id: str, command: Sequence[str], *, timeout_seconds: float = 3600.0) -> JsonObject:
        """Run a long command for a task, and renew the claim meanwhile."""
        from agent_harness.protocols.tasklist.claims.caller import run_step

        answer = run_step(self.caller, task_id, command, timeout_seconds=timeout_seconds)
        return _with_next(answer, f'harness task checkpoint {task_id} M/N "what was done"')

    def validate(self, task_id: str) -> JsonObject:
        from agent_harness.protocols.tasklist.attempts import verbs

        answer = verbs.validate(self.caller, task_id)
        passed = answer["result"] == "PASS"
        return _with_next(answer, f"harness task complete {task_id}" if passed else f"harness task validate {task_id}")

    def complete(self, task_id: str, *, commit: bool = True, message: str | None = None) -> JsonObject:
        from agent_harness.protocols.tasklist.attempts import verbs

        answer = verbs.complete(self.caller, task_id, commit=commit, message=message)
        return _with_next(answer, "harness status" if answer.get("requested") else self._go_on())

    def accept(self, task_id: str, patterns: Sequence[str] = ()) -> JsonObject:
        """Complete a task after a new verification that allows changes to files matching ``patterns``."""
        owner.refuse_agents(self.layout.root, "harness task accept")
        from agent_harness.protocols.tasklist.attempts import accept_change

        return _with_next(accept_change.accept(self.caller, task_id, patterns), "harness status")

    def fail(
        self, task_id: str, *, category: str, message: str, rollback: bool = True, allow_pushed: bool = False
    ) -> JsonObject:
        from agent_harness.protocols.tasklist.attempts import verbs

        answer = verbs.fail(self.caller, task_id, category, message, rollback=rollback, allow_pushed=allow_pushed)
        return _with_next(answer, self._go_on())

    def release(self, task_id: str, why: str) -> JsonObject:
        from agent_harness.protocols.tasklist.attempts import verbs

        return _with_next(verbs.release(self.caller, task_id, why), self._go_on())

    def _go_on(self) -> str:
        from agent_harness.protocols.tasklist import selection

        state = self.store.read()
        if state.halt:
            return "harness status"
        return CLAIM if selection.next_task(state) else END

    # -- rollback ----------------------------------------------------------------------------------------------------

    def recover(self, task_id: str | None = None, *, decide: str | None = None) -> JsonObject:
        from agent_harness.protocols.tasklist import recovery
        from agent_harness.protocols.tasklist.attempts import recover

        restored = recovery.restore_if_needed(self.caller)
        found = recover.recover(self.caller, task_id, decide=decide)
        return _with_next({"restored": restored, "tasks": found}, self._after_recovery(found))

    def rollback(self, task_id: str, *, dry_run: bool = False, allow_pushed: bool = False) -> JsonObject:
        """Restore the work tree to its state at the claim. With ``dry_run``, only return the changes."""
        from agent_harness.protocols.tasklist.attempts import verbs

        answer = verbs.roll_back(self.caller, task_id, dry_run=dry_run, allow_pushed=allow_pushed)
        further = (
            f"harness task rollback {task_id}" if dry_run else f'harness task fail {task_id} --category TASK_EXEC "why"'
        )
        return _with_next(answer, further)

    def accepted(self, what: str) -> str:
        """Return the completed task's id for ``what``, a task id or the name of a session."""
        from agent_harness.protocols.tasklist.attempts import undo

        return undo.asked(self.caller, what)

    def undo(self, what: str, *, dry_run: bool = False, say: Callable[[str], None]) -> JsonObject:
        """Undo the work of a completed task with one new commit."""
        owner.refuse_agents(self.layout.root, "harness undo")
        from agent_harness.protocols.tasklist.attempts import undo

        return undo.undo(self.caller, what, dry_run=dry_run, say=say)

    def rescue_list(self) -> JsonObject:
        from agent_harness.protocols.tasklist.attempts import rescue

        found = rescue.entries(self.caller)
        return _with_next({"rescues": found}, f"harness rescue show {found[0]['ref']}" if found else "harness status")

    def rescue_show(self, ref: str) -> JsonObject:
        from agent_harness.protocols.tasklist.attempts import rescue

        return _with_next(rescue.show(self.caller, ref), f"harness rescue restore {ref} --to DIR")

    def rescue_restore(self, ref: str, *, to: str | None = None) -> JsonObject:
        """Restore rolled-back work from ``ref`` into the work tree, or into the new folder ``to``."""
        from agent_harness.protocols.tasklist.attempts import rescue

        return _with_next(rescue.restore(self.caller, ref, to=to), "harness status")

    def rescue_prune(self, *, older_than_days: float) -> JsonObject:
        """Delete refs of rolled-back work that are older than this number of days."""
        owner.refuse_agents(self.layout.root, "harness rescue prune")
        from agent_harness.protocols.tasklist.attempts import rescue

        return _with_next(rescue.prune(self.caller, older_than_days=older_than_days), "harness rescue list")


# ---- for readers: no worker, no lock -------------------------------------------------------------------------------


def status(folder: str, *, tail: int = 5) -> JsonObject:
    """Return the progress of the task list in ``folder``, with the last ``tail`` lines of its log. Raise
    ``StateDamaged`` if the list cannot be parsed."""
    from agent_harness.protocols.tasklist import status

    return status.read(TaskListLayout(folder), tail=tail)


def reader(folder: str) -> ProjectReader:
    """Return the reader that all views of the task list use."""
    from agent_harness.protocols.tasklist.reader import TaskListSource
    from agent_harness.session.project_view import ProjectReader

    return ProjectReader(TaskListSource(TaskListLayout(folder)))


def log_rows(folder: str) -> Iterator[JsonObject]:
    from agent_harness.protocols.tasklist import progress

    return progress.rows(TaskListLayout(folder))


def followed(folder: str) -> list[FollowedLog]:
    """Return the logs that ``harness log --follow`` shows: the log with the messages of runs, and the progress log."""
    from agent_harness.protocols.tasklist import progress
    from agent_harness.session.log_rows import FollowedLog
    from agent_harness.session.now import said_at

    layout = TaskListLayout(folder)
    return [
        FollowedLog("run", lambda: [layout.run_log], said_at),
        FollowedLog("progress", lambda: [layout.progress], progress.told),
    ]


def transcript(folder: str, item: str, workspace: str | None = None) -> str | None:
    from agent_harness.protocols.tasklist import reader as readers

    return readers.transcript(TaskListLayout(folder), item, workspace)


def parallel_file(folder: str) -> str:
    return TaskListLayout(folder).parallel


def lines(
    found: JsonObject, *, everything: bool = False, columns: int = 0, hooks: Callable[[], bool] = lambda: True
) -> list[str]:
    from agent_harness.protocols.tasklist import status

    return status.lines(found, everything=everything, columns=columns, hooks=hooks)


def glance(found: JsonObject) -> str:
    from agent_harness.protocols.tasklist import status

    return status.glance(found)


def check(folder: str) -> JsonObject:
    """Return the facts that ``harness doctor`` reports about a list. Raise ``StateDamaged`` if it cannot be parsed."""
    from agent_harness.protocols.tasklist import proven, selection, store
    from agent_harness.session import ledger

    layout = TaskListLayout(folder)
    state = store.read(layout)
    verdicts = proven.ledger(layout, make=False)
    chain = ledger.check(verdicts)
    return {
        "root": layout.root,
        "tasks": len(state.tasks),
        "revision": state.revision,
        "findings": [each.as_json() for each in state.findings()],
        "without_validation": [
            task.id for task in state.tasks if task.status != "completed" and not task.validation_command
        ],
        "isolation": state.config.isolation,
        "halt": state.halt,
        "verdicts": {"path": verdicts, "whole": chain.whole, "message": chain.sentence},
        "work_left": selection.work_left(state),
        "active": store.TaskStore(layout).active(),
    }


def restore(folder: str) -> JsonObject | None:
    """Replace a damaged state file by its backup. Return ``None`` if the file is not damaged."""
    from agent_harness.protocols.tasklist import recovery
    from agent_harness.protocols.tasklist.claims.caller import Caller

    return recovery.restore_if_needed(Caller.open(TaskListLayout(folder), environ={}))


def traces(folder: str) -> JsonObject:
    """Return the files and ignore lines that the harness added to a folder, for an uninstall."""
    from agent_harness.protocols.tasklist import planning

    return planning.traces(TaskListLayout(folder))


def read_lines(text: str) -> list[JsonObject]:
    """Parse a text with one JSON object per line, and return these tasks. Raise ``UsageError`` if a line is invalid."""
    from agent_harness.protocols.tasklist import planning

    return planning.read_lines(text)
