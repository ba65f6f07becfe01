"""``harness drive``: starts an interactive client again until the list is done. Source: ``tasklist.md`` 13.3."""

import os
import signal
import subprocess
from collections.abc import Callable, Sequence
from typing import Any

from agent_harness.agents import registry
from agent_harness.errors import HarnessError, LimitInForce, ToolMissing
from agent_harness.kernel import clock, signals
from agent_harness.protocols.tasklist import selection
from agent_harness.protocols.tasklist.claims import claim
from agent_harness.protocols.tasklist.records import ADD
from agent_harness.protocols.tasklist.workers import session_lease
from agent_harness.protocols.tasklist.workers.worker import Worker
from agent_harness.supervision.dispatch import Dispatcher, RefusalPolicy

__all__ = ["drive"]

Record = dict[str, Any]

IDLE_STARTS = 3
PAUSE_SECONDS = 2.0


def drive(
    worker: Worker,
    command: Sequence[str],
    *,
    times: int,
    say: Callable[[str], None],
    countdown: Callable[[str], None] = lambda line: None,
) -> Record:
    """Runs the command in this terminal, time after time; why it stopped, how often it ran, and the ``exit_code``.

    The client has the terminal and this process's environment, with ``HARNESS_STATE_ROOT`` for its hooks. While its
    account is known to be refused, it is not started.
    """
    worker.store.activate()
    idle = starts = 0
    while True:
        ending = _ending(worker, starts, times, idle)
        if ending:
            following = "harness status" if worker.store.read().tasks else ADD
            say(ending[1])
            say(f"next: {following}")
            return {"starts": starts, "exit_code": ending[0], "message": ending[1], "next": following}
        if starts:
            clock.sleep(PAUSE_SECONDS * idle)
        if not _is_let_in(worker, command, say, countdown):
            continue
        before = selection.signature(worker.store.read())
        code = _run(worker, command)
        starts += 1
        idle = idle + 1 if selection.signature(worker.store.read()) == before else 0
        if code in (130, -2):
            return {"starts": starts, "exit_code": 130, "message": "Interrupted.", "next": "harness status"}
        say(f"The client ended with exit {code}; {_left(worker)}.")


def _ending(worker: Worker, starts: int, times: int, idle: int) -> tuple[int, str] | None:
    state = worker.store.read()
    if not state.tasks:
        return 7, "There are no tasks yet."
    if not selection.work_left(state):
        failed = selection.counts(state).get("failed", 0)
        return (1, f"Nothing is left to do; {failed} failed for good.") if failed else (0, "Every task is completed.")
    try:
        claim.refuse_rest(worker, state)
        session_lease.refuse_other(state, worker, worker.store.now())
    except HarnessError as error:
        return error.exit_code, error.message
    if state.sessions_used_up:
        return 9, "max_sessions is reached."
    if idle >= IDLE_STARTS:
        return 1, f"{IDLE_STARTS} starts in a row moved nothing."
    return (9, f"It was started {starts} times.") if starts >= times else None


def _is_let_in(
    worker: Worker, command: Sequence[str], say: Callable[[str], None], countdown: Callable[[str], None]
) -> bool:
    """Whether the client may be started now, after a wait for its account; false when a pause ended the wait."""
    kind = registry.CLIENTS.get(os.path.basename(command[0]))
    if kind not in registry.KINDS:
        return True
    dispatcher = Dispatcher([registry.from_spec(kind)], RefusalPolicy(wait=True, countdown=countdown), say)
    try:
        dispatcher.choose()
    except LimitInForce as refusal:
        return dispatcher.wait(refusal, worker.store.paused)
    return True


def _run(worker: Worker, command: Sequence[str]) -> int:
    environment = {**os.environ, "HARNESS_STATE_ROOT": worker.layout.root}
    try:
        # Ctrl-C is the client's alone, which hears it too; a client inherits what is ignored, but no handler
        with (
            signals.handled([signal.SIGINT], lambda *_: None),
            subprocess.Popen(list(command), env=environment) as client,
        ):
            return client.wait()
    except OSError as error:
        raise ToolMissing(
            f"{command[0]} cannot be started: {error.strerror}", hint=f"command -v {command[0]}"
        ) from None


def _left(worker: Worker) -> str:
    found = selection.stats(worker.store.read())
    return f"{found['completed']} of {found['tasks_total']} tasks are completed"
