"""Start and end of a session, and the user's controls: pause, resume and the marker file that enables hooks. Source:
``tasklist.md`` 10.1, 12.2, 13.2."""

from __future__ import annotations

import os

from agent_harness.errors import LimitReached, PreflightFailed, Superseded
from agent_harness.kernel import clock, files
from agent_harness.protocols.tasklist import progress, proven, selection
from agent_harness.protocols.tasklist.claims import claim, leases

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.tasklist.claims.caller import Caller
    from agent_harness.protocols.tasklist.store import TaskListChange
    from agent_harness.session.project_view import AskedQuestion


INIT_SECONDS = 600.0


def start(caller: Caller, *, take_over: bool = False) -> JsonObject:
    """Start or resume the session. Raise ``Busy`` while another session is running."""
    from agent_harness.protocols.tasklist import recovery
    from agent_harness.protocols.tasklist.attempts import recover

    restored = recovery.restore_if_needed(caller)
    with caller.store.lock():
        files.sweep(caller.layout.tasks)
    leases.bring_back(caller)
    begun = caller.store.change(lambda change: _begin(change, caller, take_over))
    if begun["used_up"]:
        log_stats(caller)
        raise LimitReached(begun["used_up"], hint="harness status  # a person may raise session_config.max_sessions")
    caller.store.activate()
    if os.path.isdir(caller.layout.verdicts):
        from agent_harness.session import ledger

        ledger.prune_outputs(caller.layout.verdicts)
    _sweep(caller.layout.claims, os.path.dirname(caller.layout.validation_log("", 0)))
    recovered = [*recover.recover(caller), *recover.confirm(caller)]
    environment = _set_up(caller)
    return {
        "session": begun["session"],
        "owner": begun["owner"],
        "mode": begun["mode"],
        "resumed": begun["resumed"],
        "restored": restored,
        "recovered": recovered,
        "environment": environment,
        "stats": selection.stats(caller.store.read()),
    }


def _begin(change: TaskListChange, caller: Caller, take_over: bool) -> JsonObject:
    state, now = change.state, change.now
    claim.refuse_rest(caller, state)
    if not take_over:
        leases.refuse_other(state, caller, now)
    found = leases.holder(state, now)
    resumed = found is not None and found.owner == caller.session_owner
    if not resumed and not take_over and not state.config.concurrent:
        leases.refuse_living(state, caller, now)
    if resumed:
        leases.keep(state, caller, now)
    else:
        state.raw["session_count"] = state.session_count + 1
        if not state.config.concurrent:
            if found:
                change.note("WARN", f"the session of {found.owner} was taken over")
            leases.take(state, caller, now)
            change.note("LOCK", f"acquired (pid={caller.process.pid if caller.process else os.getppid()})")
        leases.begin_outcomes(state, caller, now)
    change.touch()
    used_up = None
    if state.sessions_used_up:
        used_up = f"max_sessions is reached ({state.session_count} of {state.config.max_sessions})"
        state.raw["session"] = None
    return {
        "session": state.session_count,
        "owner": caller.session_owner,
        "mode": "concurrent" if state.config.concurrent else "exclusive",
        "resumed": resumed,
        "used_up": used_up,
    }


def _set_up(caller: Caller) -> JsonObject | None:
    if not os.path.isfile(caller.layout.init_script):
        return None
    for tries in (1, 2):
        found, how = _run_script(caller)
        if found["exit"] == 0:
            caller.store.note("INIT", "Environment health check: PASS")
            return {**found, "tries": tries}
        said = f"harness-init.sh failed ({how}): {found['tail'][-1] if found['tail'] else 'no output'}"
        caller.store.note("ERROR", said, category="ENV_SETUP")
    caller.store.change(lambda change: change.halt("ENV_SETUP", said))
    raise PreflightFailed(said, hint="fix the cause, then: harness resume", output=found["tail"])


def _run_script(caller: Caller) -> tuple[JsonObject, str]:
    from agent_harness.kernel import process
    from agent_harness.kernel.git.locate import folders_of_project
    from agent_harness.kernel.process.sandbox import of_agent, settings_from

    wished = settings_from(caller.store.read().config.sandbox)
    script = caller.layout.init_script
    command = [script] if os.access(script, os.X_OK) else ["sh", script]
    done = process.run(
        command,
        cwd=caller.layout.root,
        env=process.scrubbed_environment(),
        timeout_seconds=clock.scaled(INIT_SECONDS),
        sandbox=of_agent([caller.layout.root, caller.cwd], settings=wished, installs=True, reads=folders_of_project()),
    )
    from agent_harness.kernel.redact import redact

    lines = redact(done.output.decode("utf-8", "replace")).splitlines()
    exit_code = None if done.timed_out else done.exit_code
    return {"exit": exit_code, "seconds": round(done.seconds, 3), "tail": lines[-40:]}, done.ending


def end(caller: Caller) -> JsonObject:
    """End the session, and disable the hooks if all tasks are done."""

    def act(change: TaskListChange) -> JsonObject:
        state, now = change.state, change.now
        leases.refuse_other(state, caller, now)
        numbers = selection.stats(state)
        change.note("STATS", progress.stats_text(numbers))
        if state.session is not None:
            change.note("LOCK", "released")
        state.raw["last_session"] = clock.timestamp(now)
        state.raw["session"] = None
        change.touch()
        return {
            "session": state.session_count,
            "stats": numbers,
            "work_left": selection.work_left(state),
            "finished": selection.finished(state),
        }

    ended = caller.store.change(act)
    if ended["finished"]:
        caller.store.deactivate()
    return ended


def log_stats(caller: Caller) -> JsonObject:
    numbers = selection.stats(caller.store.read())
    caller.store.note("STATS", progress.stats_text(numbers))
    return {"stats": numbers}


def pause(caller: Caller, why: str = "", *, by: str | None = None) -> JsonObject:
    """Pause hooks, claims and runs until the user calls ``resume``."""
    said = f"{clock.timestamp()} {why}".strip() + "\n"
    files.replace(caller.layout.pause, said.encode("utf-8", "replace"))
    caller.store.note("WARN", f"paused by {_person(by)}: {why}".rstrip(": "))
    return {"paused": True}


def _person(by: str | None) -> str:
    return f"a person (by: {by})" if by else "a person"


def _sweep(*folders: str) -> None:
    for folder in folders:
        if os.path.isdir(folder) and not os.path.islink(folder):
            for name in {each.partition(".tmp.")[0] for each in os.listdir(folder) if ".tmp." in each}:
                files.sweep(os.path.join(folder, name))


def resume(caller: Caller, *, by: str | None = None, shown: AskedQuestion | None = None) -> JsonObject:
    """End a pause and a halt. Raise ``Superseded`` if the halt is not the one in ``shown``."""
    from agent_harness.supervision.starts import go_on

    def act(change: TaskListChange) -> JsonObject | None:
        found = change.state.halt
        if shown is not None:
            from agent_harness.protocols.tasklist.reader import asked_questions  # `session end` need not load it

            if shown not in asked_questions(change.state):
                raise Superseded("The question that you answered is no longer open", hint="harness status")
        if found is not None:
            change.state.raw["halt"] = None
            change.touch()
            change.note("WARN", f"{_person(by)} resumed after {found.get('category')}")
        return found

    halt = caller.store.change(act)
    was_paused = caller.store.paused()
    if was_paused:
        os.unlink(caller.layout.pause)
    go_on(os.path.dirname(proven.ledger(caller.layout, make=False)))
    return {"was_paused": was_paused, "halt": halt}
