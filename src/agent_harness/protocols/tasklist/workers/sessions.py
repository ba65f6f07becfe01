"""A session from its start to its end, and the switches a person has: pause, resume, the marker.

Source: ``tasklist.md`` 10.1, 12.2, 13.2.
"""

from __future__ import annotations

import os

from agent_harness.errors import LimitReached, PreflightFailed, StateDamaged
from agent_harness.kernel import clock, files
from agent_harness.protocols.tasklist import progress, selection
from agent_harness.protocols.tasklist.claims import claim
from agent_harness.protocols.tasklist.workers import session_lease, worker_sessions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.protocols.tasklist.records import State
    from agent_harness.protocols.tasklist.store import TaskListChange
    from agent_harness.protocols.tasklist.workers.worker import Worker

    Record = dict[str, Any]

__all__ = ["end", "halt", "log_stats", "pause", "resume", "start"]

INIT_SECONDS = 600.0


def start(worker: Worker, *, take_over: bool = False) -> Record:
    """Begins a session: takes the session lease, fixes what was left, sets the environment up, makes hooks act.

    The owner of a session that is under way gets it again. ``Busy``, ``PersonNeeded`` (halt), ``LimitReached``
    (``max_sessions``), ``PreflightFailed`` (``harness-init.sh`` failed twice), ``StateDamaged`` without a backup.
    """
    from agent_harness.protocols.tasklist import damage
    from agent_harness.protocols.tasklist.attempts import recover, reprove

    restored = damage.restore_if_needed(worker)
    with worker.store.lock():
        files.sweep(worker.layout.tasks)
    session_lease.bring_back(worker)
    begun = worker.store.change(lambda change: _begin(change, worker, take_over))
    if begun["used_up"]:
        log_stats(worker)
        raise LimitReached(begun["used_up"], hint="harness status; a person may raise session_config.max_sessions")
    worker.store.activate()
    recovered = [*recover.recover(worker), *reprove.confirm(worker)]
    environment = _set_up(worker)
    return {
        "session": begun["session"],
        "owner": begun["owner"],
        "mode": begun["mode"],
        "resumed": begun["resumed"],
        "restored": restored,
        "recovered": recovered,
        "environment": environment,
        "stats": selection.stats(worker.store.read()),
    }


def _begin(change: TaskListChange, worker: Worker, take_over: bool) -> Record:
    state, now = change.state, change.now
    claim.refuse_rest(worker, state)
    if not take_over:
        session_lease.refuse_other(state, worker, now)
    found = session_lease.holder(state, now)
    resumed = found is not None and found.get("owner") == worker.session_owner
    if resumed:
        session_lease.keep(state, worker, now)
    else:
        state.raw["session_count"] = state.session_count + 1
        _take(change, worker, found)
        worker_sessions.begin(state, worker, now)
    change.touch()
    used_up = None
    if state.sessions_used_up:
        used_up = f"max_sessions is reached ({state.session_count} of {state.max_sessions})"
        state.raw["session"] = None
    return {
        "session": state.session_count,
        "owner": worker.session_owner,
        "mode": "concurrent" if state.concurrent else "exclusive",
        "resumed": resumed,
        "used_up": used_up,
    }


def _take(change: TaskListChange, worker: Worker, found: Record | None) -> None:
    state, now = change.state, change.now
    number = state.session_count
    if state.concurrent:
        return
    if found:
        text = f"the session of {found.get('owner')} was taken over"
        change.log(progress.entry("WARN", number, at=now, text=text))
    session_lease.take(state, worker, now)
    pid = worker.process.pid if worker.process else os.getppid()
    change.log(progress.entry("LOCK", number, at=now, text=f"acquired (pid={pid})"))


def _set_up(worker: Worker) -> Record | None:
    """Runs ``harness-init.sh``, twice when it fails; ``None`` when there is none. A second failure halts the list."""
    if not os.path.isfile(worker.layout.init_script):
        return None
    for tries in (1, 2):
        found = _run_script(worker)
        session = worker.store.read().session_count
        if found["exit"] == 0:
            worker.store.log(progress.entry("INIT", session, text="Environment health check: PASS"))
            return {**found, "tries": tries}
        said = f"harness-init.sh failed ({_how(found)}): {found['tail'][-1] if found['tail'] else 'no output'}"
        worker.store.log(progress.entry("ERROR", session, category="ENV_SETUP", text=said))
    halt(worker, "ENV_SETUP", said)
    raise PreflightFailed(said, hint="fix it, then: harness resume", output=found["tail"])


def _how(found: Record) -> str:
    return "timed out" if found["exit"] is None else f"exit {found['exit']}"


def _run_script(worker: Worker) -> Record:
    from agent_harness.kernel import process

    script = worker.layout.init_script
    command = [script] if os.access(script, os.X_OK) else ["sh", script]
    done = process.run(
        command,
        cwd=worker.layout.root,
        env=process.scrubbed_environment(),
        timeout_seconds=clock.scaled(INIT_SECONDS),
    )
    from agent_harness.kernel.redact import redact

    lines = redact(done.output.decode("utf-8", "replace")).splitlines()
    return {"exit": None if done.timed_out else done.exit_code, "seconds": round(done.seconds, 3), "tail": lines[-40:]}


def end(worker: Worker) -> Record:
    """Ends the session: STATS into the log, the lease given back, hooks made to rest when all is done."""

    def act(change: TaskListChange) -> Record:
        state, now = change.state, change.now
        session_lease.refuse_other(state, worker, now)
        number = state.session_count
        numbers = selection.stats(state)
        change.log(progress.entry("STATS", number, at=now, text=progress.stats_text(numbers)))
        if state.session is not None:
            change.log(progress.entry("LOCK", number, at=now, text="released"))
        state.raw["last_session"] = clock.timestamp(now)
        state.raw["session"] = None
        change.touch()
        return {
            "session": number,
            "stats": numbers,
            "work_left": selection.work_left(state),
            "finished": selection.finished(state),
        }

    ended = worker.store.change(act)
    if ended["finished"]:
        worker.store.deactivate()
    return ended


def log_stats(worker: Worker) -> Record:
    """The numbers, also into the log."""
    state = worker.store.read()
    numbers = selection.stats(state)
    worker.store.log(progress.entry("STATS", state.session_count, text=progress.stats_text(numbers)))
    return {"stats": numbers}


def halt(worker: Worker, category: str, message: str, task_id: str | None = None) -> None:
    """Stops everything for a person: hooks let go, and no claim succeeds before ``resume``."""

    def act(change: TaskListChange) -> None:
        change.state.raw["halt"] = {
            "category": category,
            "task_id": task_id,
            "message": message,
            "at": clock.timestamp(change.now),
        }
        change.touch()

    worker.store.change(act)


def pause(worker: Worker, why: str = "") -> Record:
    """Makes hooks, claims and runs rest until ``resume``."""
    said = f"{clock.timestamp()} {why}".strip() + "\n"
    files.replace(worker.layout.pause, said.encode("utf-8", "replace"), follow=False)
    worker.store.log(progress.entry("WARN", _session_count(worker), text=f"paused by a person: {why}".rstrip(": ")))
    return {"paused": True}


def _session_count(worker: Worker) -> int:
    try:
        return worker.store.read().session_count
    except StateDamaged:
        return 0


def resume(worker: Worker) -> Record:
    """Takes back a pause and a halt; what they were."""

    def act(change: TaskListChange) -> Record | None:
        found = _halt_of(change.state)
        if found is not None:
            change.state.raw["halt"] = None
            change.touch()
            text = f"a person resumed after {found.get('category')}"
            change.log(progress.entry("WARN", change.state.session_count, at=change.now, text=text))
        return found

    was_paused = worker.store.paused()
    if was_paused:
        os.unlink(worker.layout.pause)
    return {"was_paused": was_paused, "halt": worker.store.change(act)}


def _halt_of(state: State) -> Record | None:
    return state.halt
