"""Processing of a hook event: find the task list, apply the rule for the event, and record the effects. No error
reaches the client. The order of the checks is fixed: the list's folder, the marker file, the state. Source:
``tasklist.md`` 3.2.
"""

from __future__ import annotations

import os

from agent_harness.errors import HarnessError, StateDamaged
from agent_harness.hooks.event import Decision, Event, HookAnswer, allow, answer, find_root, read
from agent_harness.protocols.tasklist.layout import TaskListLayout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any, NoReturn

    from agent_harness.hooks.stop_limit import Call, Count
    from agent_harness.protocols.tasklist.records import State, Task


def _stop(event: Event, layout: TaskListLayout) -> Decision:
    from agent_harness.hooks import stop
    from agent_harness.hooks.stop_limit import Stops, limit_from
    from agent_harness.kernel import clock
    from agent_harness.protocols.tasklist import progress, store

    key = event.session_id
    try:
        state = store.read(layout)
    except StateDamaged as error:
        told = Stops(layout).entry(key).get("damaged") is True
        return stop.decide_damaged(event, error, backup=store.backup_is_whole(layout), told=told)

    def outcomes() -> int:
        try:
            return progress.outcomes(layout, state.session_count)
        except (HarnessError, OSError):
            return 0

    def unproven() -> list[Task]:
        from agent_harness.protocols.tasklist import proven

        return proven.unproven(layout, state)

    made = stop.decide(
        event,
        state,
        stop.StopFacts(
            clock.now(),
            outcomes=outcomes,
            count=lambda: Stops(layout).count(key, _as_call(event, state), limit_from(event.environ)),
            unproven=unproven,
        ),
    )
    return _finished(event, layout, made, state) if "finish" in made.effects else made


def _finished(event: Event, layout: TaskListLayout, made: Decision, state: State) -> Decision:
    """Carry out the effects of a finished task list. Return the decision: start the final review or allow the stop."""
    _act(event, layout, made)
    again = None
    if "reflect" in made.effects:
        from agent_harness.hooks import final_review

        again = final_review.begin(event, layout, state.config.reflect_iterations, made.text)
    return again or allow(made.why, made.text)


def _session_start(event: Event, layout: TaskListLayout) -> Decision:
    from agent_harness.hooks import session_start
    from agent_harness.protocols.tasklist import progress, store

    try:
        state = store.read(layout)
    except StateDamaged as error:
        return session_start.decide_damaged(error, backup=store.backup_is_whole(layout))
    try:
        last_log = progress.last_stats(layout)
    except (HarnessError, OSError):
        last_log = None
    return session_start.decide(state, last_log=last_log, other=_other_session(event, state))


def _other_session(event: Event, state: State) -> dict[str, Any] | None:
    """Return the session lease if another client holds the lease, otherwise ``None``."""
    if state.session is None:
        return None
    from agent_harness.kernel import clock
    from agent_harness.protocols.tasklist.claims import leases

    found = leases.holder(state, clock.now())
    own = (event.session_id, event.environ.get("HARNESS_SESSION_ID"), event.environ.get("CLAUDE_CODE_SESSION_ID"))
    if found is None or found.owner in own:
        return None
    process = found.process
    return None if isinstance(process, dict) and _is_above(process.get("pid")) else found.record


def _is_above(pid: object) -> bool:
    from agent_harness.kernel import owner

    above: int | None = os.getpid()
    for _ in range(32):
        above = owner.parent_of(above) if above else None
        if above is None or above <= 1:
            return False
        if above == pid:
            return True
    return False


def _subagent_stop(event: Event, layout: TaskListLayout) -> Decision:
    from agent_harness.hooks import stop
    from agent_harness.hooks.stop_limit import LIMIT
    from agent_harness.protocols.tasklist import store

    if stop.subagent_goes_free(event):
        return allow("nothing to say")
    state = store.read(layout)
    made = stop.decide_subagent(event, state)
    if made.kind != "block":
        return made
    count = _count(event, layout, state, f"subagent {event.session_id} {event.text('agent_id')}", LIMIT)
    return made if count.recorded and not count.reached else allow("no progress")


def _teammate_idle(event: Event, layout: TaskListLayout) -> Decision:
    from agent_harness.hooks import stop
    from agent_harness.hooks.stop_limit import TEAMMATE_LIMIT
    from agent_harness.protocols.tasklist import store

    state = store.read(layout)
    key = f"teammate {event.text('team_name')} {event.text('teammate_name')} {event.worker}"
    return stop.decide_teammate(event, state, lambda: _count(event, layout, state, key, TEAMMATE_LIMIT))


def _count(event: Event, layout: TaskListLayout, state: State, key: str, limit: int) -> Count:
    from agent_harness.hooks.stop_limit import Stops

    made = _as_call(event, state)
    made.new_turn = False
    return Stops(layout).count(key, made, limit)


def _as_call(event: Event, state: State) -> Call:
    from agent_harness.hooks import stop_limit
    from agent_harness.kernel import clock
    from agent_harness.protocols.tasklist import selection

    return stop_limit.Call(
        selection.signature(state),
        stop_limit.digest(f"{event.flag('stop_hook_active')} {event.payload.get('last_assistant_message')}"),
        new_turn=event.flag("stop_hook_active") is False,
        at=clock.now().timestamp(),
        started_at=stop_limit.process_start(),
    )


RULES: Mapping[str, Callable[[Event, TaskListLayout], Decision]] = {
    "stop": _stop,
    "session-start": _session_start,
    "subagent-stop": _subagent_stop,
    "teammate-idle": _teammate_idle,
}
EVENTS = tuple(RULES)


def named(text: str) -> str | None:
    """Return the hook event for a text such as ``session_start``, or ``None``."""
    plain = text.lower().replace("-", "").replace("_", "")
    return next((name for name in EVENTS if name.replace("-", "") == plain), None)


def run(name: str, event: Event) -> HookAnswer:
    """Return the hook's answer to an event. Return an empty answer if no task list is active."""
    if event.environ.get("HARNESS_DISABLE"):
        return HookAnswer()
    root = find_root(event)
    if root is None:
        return HookAnswer()
    layout = TaskListLayout(root)
    if not os.path.isfile(layout.marker):
        return _reflecting(name, event, layout)
    if os.path.lexists(layout.pause):
        return HookAnswer()
    try:
        made = RULES[name](event, layout)
    except StateDamaged:
        made = allow("damaged")
    _act(event, layout, made)
    _log(name, event, layout, made)
    return answer(made)


def _reflecting(name: str, event: Event, layout: TaskListLayout) -> HookAnswer:
    """Return the answer to a stop event during the final review, otherwise an empty answer."""
    if name != "stop" or not os.path.isfile(layout.reflect):
        return HookAnswer()
    from agent_harness.hooks import final_review

    made = final_review.go_on(event, layout)
    if made is None:
        return HookAnswer()
    _log(name, event, layout, made)
    return answer(made)


LOG_MEMBERS = (
    "hook_event_name",
    "session_id",
    "cwd",
    "source",
    "reason",
    "teammate_name",
    "team_name",
    "agent_id",
    "agent_type",
    "stop_hook_active",
)


def _log(name: str, event: Event, layout: TaskListLayout, made: Decision) -> None:
    """Append one JSON line about the hook call to the file that the variable ``HARNESS_HOOK_LOG`` names."""
    path = event.environ.get("HARNESS_HOOK_LOG")
    if not path:
        return
    from agent_harness.kernel import clock
    from agent_harness.kernel.json import jsontext

    script = f"harness-{name.replace('-', '')}.py"
    told = {each: event.payload[each] for each in LOG_MEMBERS if isinstance(event.payload.get(each), (str, bool))}
    record = {"ts": clock.timestamp(fraction=True), "hook_script": script, **told, "harness_root": layout.root}
    _add_line(path, jsontext.line({**record, "decision": made.kind, "why": made.why}))


def _add_line(path: str, line: str) -> None:
    """Append ``line`` to a file that the client or the user has named. Ignore errors."""
    from agent_harness.kernel import files

    try:
        descriptor = files.open_regular(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, f"{line}\n".encode("utf-8", "replace"))
        finally:
            os.close(descriptor)
    except (HarnessError, OSError, ValueError):
        return


def _act(event: Event, layout: TaskListLayout, made: Decision) -> None:
    for effect in made.effects:
        if effect in ("forget", "damage"):
            from agent_harness.hooks.stop_limit import Stops

            stops = Stops(layout)
            if effect == "forget":
                stops.forget(event.session_id)
            elif not stops.write(event.session_id, {**stops.entry(event.session_id), "damaged": True}):
                made.kind, made.effects = "allow", ()  # it could be repeated for ever
        elif effect == "finish":
            from agent_harness.kernel import files

            files.unlink(layout.marker)
        elif effect == "session":
            _tell_session(event)


def _tell_session(event: Event) -> None:
    """Write the session's id to the client's environment file, for commands that the session runs later."""
    path = event.environ.get("CLAUDE_ENV_FILE")
    if not path or not event.session_id or "\n" in event.session_id or "\0" in event.session_id:
        return
    from agent_harness.hooks.messages import shell_word

    _add_line(path, f"export HARNESS_SESSION_ID={shell_word(event.session_id)}")


def call(name: str) -> int:
    """Write the answer to a hook event to this process's output. Return the exit status, which is 0 or 2."""
    try:
        event = Event(read(0), os.environ)
        found = run(name, event)
        _write(1, found.out)
        _write(2, found.err)
    except Exception:
        if os.environ.get("HARNESS_DEBUG"):
            import traceback

            _write(2, traceback.format_exc().encode("utf-8", "replace"))
        return 0
    return found.code


def _write(descriptor: int, content: bytes) -> None:
    try:
        while content:
            content = content[os.write(descriptor, content) :]
    except OSError:
        return


def call_and_exit(name: str) -> NoReturn:
    """Write the answer to an event as ``call`` does, and exit the process immediately without cleanup."""
    os._exit(call(name))
