"""Exclusive access to a project. The pause request is stored outside the project, where no agent can remove it.
``paused`` in the session state is a copy for readers. Source: features.md UAH-004, UAH-056..058, UAH-075, C06, C56."""

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from agent_harness.errors import Busy
from agent_harness.kernel import clock, trusted_state
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.lock import Lock, LockFile, await_free
from agent_harness.protocols.features import migrations, repository
from agent_harness.protocols.features.project import Project
from agent_harness.protocols.features.sessions import recover

LOCK_SECONDS = 0.5
RUN_LOCK = "run.lock"


@contextmanager
def locked(project: Project) -> Iterator[None]:
    """Hold the project's lock. Raise ``Busy`` if another process holds it."""
    name = project.layout.relative(project.layout.lock)
    lock = Lock(project.root, file=name, compatible=False, timeout_seconds=LOCK_SECONDS)
    kept = trusted_state.make(project.layout.git_dir, project.layout.root)[0]
    with ExitStack() as held:
        held.callback(lock.release)
        try:
            lock.acquire()
            # a second lock outside the project, because an agent can remove the first
            if kept:
                beside = LockFile(os.path.join(kept, RUN_LOCK))
                held.callback(beside.release)
                with suppress(OSError):  # a disk that knows no such locks
                    if who := await_free(beside.try_take, time.monotonic() + LOCK_SECONDS):
                        raise Busy(who)
        except Busy:
            raise Busy("Another harness is running in this project", hint="harness status") from None
        project.store.refresh()
        yield


@contextmanager
def finalized(project: Project) -> Iterator[None]:
    """Hold the project's lock. First migrate old state and recover an interrupted session."""
    project.require_initialised()
    with locked(project):
        if note := project.store.finalize_in():
            project.say(note)
        repository.keep_out_of_sight(project.git, project.state_name)
        migrations.bring_up_to_date(project)
        recover.recover(project)
        yield


# -- a person's pause --------------------------------------------------------------------------------------------------

WAIT_SECONDS = 600.0
LOOK_SECONDS = 0.2


def pause(project: Project, reason: str | None) -> JsonObject:
    """Request a pause, and wait until the running session has ended.

    After ten minutes, raise ``Busy``. The request stays in force."""
    project.require_initialised()
    project.store.finalize_in()
    paused = {"reason": reason or "paused by a person", "at": clock.timestamp(), **project.store.by}
    project.store.write_pause(paused)
    project.say("Pausing after current operation...")
    wait_and(project, lambda: keep(project, paused))
    project.say("State saved. Resume with: harness resume")
    return {"paused": paused, "next": "harness resume"}


def wait_and(project: Project, act: Any) -> None:
    until = time.monotonic() + WAIT_SECONDS * clock.time_scale()
    while True:
        try:
            with locked(project):
                act()
            return
        except Busy:
            if time.monotonic() > until:
                raise Busy("The session has not finished its current operation yet", hint="harness status") from None
            time.sleep(LOOK_SECONDS)


def keep(project: Project, paused: JsonObject) -> None:
    state = project.store.state()
    if state.paused != paused:
        project.store.update_state(paused=paused)
        told = {name: paused[name] for name in ("reason", "by") if name in paused}
        project.store.event("paused", session=state.last_session, **told)


def found(project: Project) -> JsonObject | None:
    return project.store.pause() or project.store.state().paused


def refuse_resting(project: Project) -> None:
    """Raise ``Busy`` if the project is paused or handed over to a person (UAH-075)."""
    handed = project.store.state().handoff
    if handed is not None:
        since = handed.get("at")
        raise Busy(f"Handed off to a person{f' at {since}' if since else ''}", hint="harness hand-back")
    if paused := found(project):
        raise Busy(f"Paused: {paused.get('reason')}", hint="harness resume")


def end(project: Project) -> bool:
    """End the pause. Return True if a pause existed. The caller must hold the lock."""
    there = found(project) is not None
    project.store.write_pause(None)
    state = project.store.state()
    if state.paused:
        project.store.update_state(paused=None)
    if there:
        project.store.event("resumed", session=state.last_session)
    return there
