"""Run of a task list with ``harness run``, and ``harness drive``. In a run, an agent works on one task after another in
one session, until a stop condition is met. Source: ``tasklist.md`` 12.2 (the stop conditions), 13.3."""

import os
import re
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent_harness.agents import registry
from agent_harness.agents.base import Agent
from agent_harness.agents.usage import Totals, merge
from agent_harness.errors import (
    Busy,
    HarnessError,
    Interrupted,
    LimitInForce,
    NothingEligible,
    StartsUsedUp,
    ToolMissing,
)
from agent_harness.kernel import clock, owner
from agent_harness.kernel.git import own_output
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.tasklist import costs, selection, status
from agent_harness.protocols.tasklist.attempts import final_look, recover, verbs
from agent_harness.protocols.tasklist.claims import claim, environment_inventory, leases, sessions
from agent_harness.protocols.tasklist.claims.caller import Caller
from agent_harness.protocols.tasklist.records import ADD
from agent_harness.protocols.tasklist.work import Attempted, AttemptTerms, attempt, now_path
from agent_harness.session import needs, now
from agent_harness.supervision import interruption
from agent_harness.supervision.dispatch import Dispatcher, RefusalPolicy

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.store import TaskListChange


IDLE_STARTS = 3
PAUSE_SECONDS = 2.0
MAX_MINUTES = 60.0
MAX_COST_USD = 10.0
LOST_TIMES = 2
"""Number of lost claims on one task after which the run ends. Another program is then probably writing to the list."""


TRY_AGAIN = "To retry them: harness task reset --failed (or: harness task reset ID ...)"
LOOK_FIRST = "harness doctor  # then: harness run"
ALIKE_TIMES = 3
"""Number of identical agent errors in a row after which the run ends, because the agent itself is probably broken.

If the agent had begun to work, the errors must concern more than one task, since a single task may be the cause.
"""


@dataclass(frozen=True, kw_only=True)
class _Ending:
    """Reason why a run ended, with its exit code and a message."""

    reason: str
    exit_code: int
    message: str
    hint: str | None = None  # a person's next step, if it is more than to go on


def own_caller(caller: Caller) -> Caller:
    """Return a copy of the caller whose session ends with the present process."""
    me = owner.current()
    return Caller.open(
        caller.layout,
        worker_id=caller.id,
        session_id=f"run-{me.pid}-{me.start_time}",
        lock_timeout_seconds=caller.store.lock_timeout_seconds,
        cwd=caller.cwd,
        environ={name: value for name, value in caller.environ.items() if not name.startswith("HARNESS_CLAIM")},
        process=me,
    )


@dataclass(frozen=True, kw_only=True)
class PartOfRun:
    """Facts about the parallel run to which this attempt belongs."""

    name: str  # of the slot's process, unique to this run; empty if no run continues
    is_closed_later: bool  # the end of the whole run closes the records: ``environment_inventory.close``
    first_look: tuple[str, str, str]  # arguments of ``FirstLook`` for all slots


def run(
    caller: Caller,
    agents: Agent | Dispatcher,
    *,
    max_tasks: int | None = None,
    max_minutes: float = MAX_MINUTES,
    max_cost_usd: float = MAX_COST_USD,
    say: Callable[[str], None],
    counts: str | None = None,
    begin: Callable[[], None] | None = None,
    elsewhere: Callable[[float], float] | None = None,
    part: PartOfRun | None = None,
) -> JsonObject:
    """Run agents on the task list's tasks, and return the attempts and the ``exit_code``."""
    dispatcher = agents if isinstance(agents, Dispatcher) else Dispatcher([agents], RefusalPolicy(), say)
    caller = own_caller(caller)
    if caller.git:
        own_output.keep_out_of_sight(caller.git.repository)
    with interruption.watched(caller.store.paused) as stop:
        begun = sessions.start(caller)
        _tell_begin(caller, begun, say)
        terms = AttemptTerms(
            agent=dispatcher.agents[0],
            max_minutes=max_minutes,
            max_cost_usd=max_cost_usd,
            say=say,
            stop=stop,
            counts=counts,
            begin=begin,
            elsewhere=elsewhere,
        )
        made: list[Attempted] = []
        used = Totals()
        me, session = owner.current(), begun["session"]  # no other run has all three
        caller.first_look = part.first_look if part else None
        caller.goes_on = (part.name if part else "") or f"run-{me.pid}-{me.start_time}-{session}"
        try:
            ending = None
            chosen = terms.agent
            while ending is None:
                ending = _before_next(made, used, max_tasks, terms, dispatcher.patience)
                if ending is None:
                    chosen, ending = _chosen(dispatcher, caller, terms)
                if ending is None:
                    done, ending = _one(
                        replace(terms, agent=chosen, spare=dispatcher.has_spare(chosen)), caller, begun["session"], used
                    )
                    if done:
                        made.append(done)
                        used = merge(used, done.used)
            ending = _looked_over(caller, terms, [] if part else made, ending)
        except KeyboardInterrupt:
            ending = _Ending(reason="user_pause", exit_code=130, message="Interrupted; nothing was in progress.")
        finally:
            dispatcher.rest()
            with stop.held():
                environment_inventory.rest(caller, is_left_open=part is not None and part.is_closed_later)
                ended = sessions.end(caller)
    following = next_command(caller)
    say(ending.message)
    return {**_summary(begun, made, used, ending), "stats": ended["stats"], "next": following}


def _tell_begin(caller: Caller, begun: JsonObject, say: Callable[[str], None]) -> None:
    """Tell the user about the new session, and about work that an earlier session left."""
    say(f"Session {begun['session']} starting...")
    if caller.git and caller.git.head() is None:
        say(
            "This repository has no commit yet: proven work is not committed, and nothing can be rolled back. To make "
            "a first commit: git commit --allow-empty -m Begin"
        )
    for task_id in costs.note_killed(caller.layout):
        say(f"{task_id}: its attempt was killed; the agent's usage until then is included in the costs")
    for found in begun["recovered"]:
        word = f", {found['grade']}" if found.get("grade") else ""
        say(f"{found['task_id']}: {found['action']}{word} ({found.get('reason') or 'it was interrupted'})")


def _looked_over(caller: Caller, terms: AttemptTerms, made: list[Attempted], ending: _Ending) -> _Ending:
    """Repeat the checks of the completed tasks. Return a new ending for the run if a check fails."""
    done = [each for each in made if each.result == "completed"]
    if len(done) < 2 or terms.stop.requested():
        return ending
    # the check of the last task has already run with all the work
    names, asked = [each.task_id for each in done], (done[-1].task_id, *done[-1].earlier)
    try:
        broken = final_look.look(caller, names, asked, stop=_Present(caller, terms), say=terms.say)
    except Interrupted:
        return ending
    if not broken:
        return ending
    message = f"{ending.message} No longer proven: {', '.join(broken)}. You must decide."
    if ending.exit_code:
        return replace(ending, message=message)
    return _Ending(reason="question", exit_code=3, message=message, hint="harness status")


def _chosen(dispatcher: Dispatcher, caller: Caller, terms: AttemptTerms) -> tuple[Agent, _Ending | None]:
    """Return the agent for the next task, or the run's ending if no agent is available."""
    # without a task, the next claim raises an error with the reason
    while _has_task(caller):
        try:
            return dispatcher.choose(), None
        except LimitInForce as refusal:
            if not dispatcher.patience.waits(refusal):
                code, hint = refusal.exit_code, refusal.hint
                return terms.agent, _Ending(reason=refusal.code, exit_code=code, message=refusal.message, hint=hint)
            environment_inventory.rest(caller)
            with now.waiting(now_path(caller, terms.counts), refusal):
                waited = dispatcher.wait(refusal, _Present(caller, terms))
            if not waited:
                code = 130 if terms.stop.signalled else 0
                return terms.agent, _Ending(reason="user_pause", exit_code=code, message="Stopped by a person.")
    return terms.agent, None


def _has_task(caller: Caller) -> bool:
    try:
        claim.preview(caller, caller.store.read(), caller.store.now())
    except HarnessError:
        return False
    return True


class _Present:
    """Callback that renews the session lease during a wait, and returns True after a stop request."""

    def __init__(self, caller: Caller, terms: AttemptTerms) -> None:
        self._caller = caller
        self._terms = terms
        self._next = time.monotonic() + leases.SECONDS / 6

    def __call__(self) -> bool:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + leases.SECONDS / 6
            with suppress(Busy):
                self._caller.store.change(self._keep)
        return self._terms.stop.requested() is not None

    def _keep(self, change: "TaskListChange") -> None:
        leases.keep(change.state, self._caller, change.now)
        change.touch()


def _before_next(
    made: list[Attempted], used: Totals, max_tasks: int | None, terms: AttemptTerms, policy: RefusalPolicy
) -> _Ending | None:
    if made and made[-1].ends_run:
        paused = terms.stop.requested() and not terms.stop.signalled
        code = 130 if terms.stop.signalled else 0 if paused else made[-1].exit_code
        hint = LOOK_FIRST if made[-1].refused and code == 1 else None
        return _Ending(
            reason="budget" if code == 9 else "stopped",
            exit_code=code,
            message=f"Stopped: {made[-1].ends_run}",
            hint=hint,
        )
    if repeated := _goes_back(made, policy) or _repeated(made):
        return repeated
    if terms.stop.requested():
        code = 130 if terms.stop.signalled else 0
        return _Ending(reason="user_pause", exit_code=code, message="Stopped by a person.")
    tried = [each for each in made if not each.refused]
    if max_tasks is not None and len(tried) >= max_tasks:
        return _used_up(tried, max_tasks)
    if used.budget_usd() >= terms.max_cost_usd:
        message = f"The budget is used up: ${used.budget_usd():.2f} of ${terms.max_cost_usd:.2f} spent."
        return _Ending(reason="budget", exit_code=9, message=message)
    return None


def _goes_back(made: list[Attempted], policy: RefusalPolicy) -> _Ending | None:
    """Return the run's ending if the provider refused the account that the caller had selected."""
    if not (policy.account and made and made[-1].refused):
        return None
    return _Ending(reason=LimitInForce.code, exit_code=LimitInForce.exit_code, message=made[-1].message)


def _repeated(made: list[Attempted]) -> _Ending | None:
    """Return the run's ending if the last attempts all failed in the same way, or None."""
    lost = [each.task_id for each in made if each.result == "lost"]
    if lost and lost.count(lost[-1]) >= LOST_TIMES:
        message = (
            f"{lost[-1]} was lost to another owner {LOST_TIMES} times; check which program writes harness-tasks.json."
        )
        return _Ending(reason="lost", exit_code=3, message=message)
    last = made[-ALIKE_TIMES:]
    if len(last) < ALIKE_TIMES:
        return None
    message = ""
    if _are_alike([each.failed_at_once for each in last]):
        said = last[-1].failed_at_once
        message = f"The agent failed immediately {ALIKE_TIMES} times with the same error; no attempt counts: {said}"
    elif _are_alike([each.agent_error for each in last]) and len({each.task_id for each in last}) > 1:
        message = f"The agent ended with the same error in {ALIKE_TIMES} consecutive attempts: {last[-1].agent_error}"
    return _Ending(reason=needs.AGENT_FAILS, exit_code=1, message=message, hint=LOOK_FIRST) if message else None


def _are_alike(said: list[str | None]) -> bool:
    def bare(text: str) -> str:
        return _WORD.sub(lambda found: "0" if any(map(str.isdigit, found[0])) else found[0], text)

    return None not in said and len({bare(str(each)) for each in said}) == 1


_WORD = re.compile(r"[\w-]++")


def _used_up(made: list[Attempted], max_tasks: int) -> _Ending:
    done = {each.task_id for each in made if each.result == "completed"}
    undone = list(dict.fromkeys(each.task_id for each in made if each.task_id not in done))
    attempts = f"{len(made)} attempt{'s' if len(made) > 1 else ''} of at most {max_tasks}"
    left = f", {len(undone)} failed: {', '.join(undone)}" if undone else ""
    message = f"{attempts}: {len(done)} completed{left}."
    return _Ending(reason="max_tasks", exit_code=int(bool(undone)), message=message)


def _one(terms: AttemptTerms, caller: Caller, session: int, used: Totals) -> tuple[Attempted | None, _Ending | None]:
    try:
        with terms.stop.held():
            claimed = claim.claim(caller)
    except NothingEligible as error:
        return None, _nothing_left(caller, error)
    except HarnessError as error:
        return None, _ending_by(error)
    caller.token = claimed["token"]
    task = caller.find(caller.store.read(), claimed["task_id"])
    terms.say(f"{task.id}: {task.title} (attempt {task.attempts + 1} of {task.max_attempts})")
    try:
        done = attempt(terms, caller, task, session=session, spent_usd=used.budget_usd())
    except HarnessError as error:  # the task is closed or halted; the list says how
        with suppress(HarnessError):  # its claim may be over already
            verbs.release(caller, task.id, error.message)
        if isinstance(error, StartsUsedUp):
            told = f"{error.message} To continue: harness resume"
            caller.store.change(lambda change: change.halt("TASK_EXEC", told, task.id))
        return None, _ending_by(error)
    finally:
        caller.token = None
    terms.say(f"{task.id}: {done.result} ({done.message})")
    return done, None


def _ending_by(error: HarnessError) -> _Ending:
    return _Ending(reason=error.code, exit_code=error.exit_code, message=error.message, hint=error.hint)


def _nothing_left(caller: Caller, error: NothingEligible) -> _Ending | None:
    """Return the ending of a run without eligible tasks, or ``None`` if a task was reopened."""
    reopened = [each["task_id"] for each in recover.confirm(caller) if each["action"] == "reopened"]
    if reopened:
        return None
    state = caller.store.read()
    if error.data.get("work_left") or not state.tasks:
        return _Ending(reason="waiting", exit_code=7, message=error.message)
    asked = [task.id for task in state.tasks if task.question]
    failed = selection.counts(state).get("failed", 0) - len(asked)
    if not failed and not asked:
        return _Ending(reason="done", exit_code=0, message="Every task is completed.")
    if not failed:
        message = f"Nothing is left to do except your decision about {', '.join(asked)}."
        return _Ending(reason="question", exit_code=3, message=message, hint="harness status")
    person = f", and you decide about {', '.join(asked)}" if asked else ""
    message = f"Nothing is left to do; {failed} failed for good{person}. {TRY_AGAIN}"
    return _Ending(reason="failed", exit_code=1, message=message)


def next_command(caller: Caller) -> str:
    """Return the command that the user should type after the run has ended."""
    state = caller.store.read()
    rests = bool(state.halt or caller.store.paused())
    is_over = state.tasks and not selection.work_left(state)
    if is_over and not rests and not selection.counts(state).get("failed", 0):
        return "harness status"
    return status.next_command(state, paused=rests)


def _summary(begun: JsonObject, made: list[Attempted], used: Totals, ending: _Ending) -> JsonObject:
    return {
        "session": begun["session"],
        "reason": ending.reason,
        "message": ending.message,
        "hint": ending.hint,
        "exit_code": ending.exit_code,
        "recovered": begun["recovered"],
        "attempts": [{"task_id": each.task_id, "result": each.result, "message": each.message} for each in made],
        "cost_usd": used.cost_usd if used.reported else None,
    }


# ---- harness drive: an interactive client, started again until the list is done --------------------------------------


def drive(
    caller: Caller,
    command: Sequence[str],
    *,
    times: int,
    say: Callable[[str], None],
    countdown: Callable[[str], None] = lambda line: None,
) -> JsonObject:
    """Run a client repeatedly in this terminal, until no work is left."""
    caller.store.activate()
    dispatcher = _dispatcher_of(caller, command, say, countdown)
    idle = starts = 0
    while True:
        ending = _why_not_again(caller, starts, times, idle)
        if ending:
            following = "harness status" if caller.store.read().tasks else ADD
            say(ending[1])
            say(f"next: {following}")
            return {"starts": starts, "exit_code": ending[0], "message": ending[1], "next": following}
        if starts:
            clock.sleep(PAUSE_SECONDS * idle)
        if not _is_let_in(caller, dispatcher):
            continue
        before = selection.signature(caller.store.read())
        with dispatcher:
            code = _run_client(caller, command)
        starts += 1
        idle = idle + 1 if selection.signature(caller.store.read()) == before else 0
        if code in (130, -2):
            return {"starts": starts, "exit_code": 130, "message": "Interrupted.", "next": "harness status"}
        left = selection.stats(caller.store.read())
        done = f"{left['completed']} of {left['tasks_total']} tasks are completed"
        say(f"The client ended with exit code {code}; {done}.")


def _why_not_again(caller: Caller, starts: int, times: int, idle: int) -> tuple[int, str] | None:
    state = caller.store.read()
    if not state.tasks:
        return 7, "There are no tasks yet."
    if not selection.work_left(state):
        failed = selection.counts(state).get("failed", 0)
        return (1, f"Nothing is left to do; {failed} failed for good.") if failed else (0, "Every task is completed.")
    try:
        claim.refuse_rest(caller, state)
        leases.refuse_other(state, caller, caller.store.now())
    except HarnessError as error:
        return error.exit_code, error.message
    if state.sessions_used_up:
        return 9, "max_sessions is reached."
    if idle >= IDLE_STARTS:
        return 1, f"{IDLE_STARTS} consecutive starts made no progress."
    return (9, f"The client was started {starts} times.") if starts >= times else None


def _dispatcher_of(
    caller: Caller, command: Sequence[str], say: Callable[[str], None], countdown: Callable[[str], None]
) -> Dispatcher:
    program = os.path.basename(command[0])
    kind = registry.CLIENTS.get(program, f"command:{shlex.quote(program)}")
    policy = RefusalPolicy(wait=True, countdown=countdown, again="harness drive")
    told = {"project": caller.layout.root, "item": "harness drive"}
    return Dispatcher([registry.from_spec(kind)], policy, say, told=told)


def _is_let_in(caller: Caller, dispatcher: Dispatcher) -> bool:
    try:
        dispatcher.chosen(caller.store.paused)
    except Interrupted:
        return False
    return True


def _run_client(caller: Caller, command: Sequence[str]) -> int:
    environment = {**os.environ, "HARNESS_STATE_ROOT": caller.layout.root}
    try:
        # The client alone handles Ctrl-C; it would inherit an ignored signal, but not a handler
        with (
            interruption.handled([signal.SIGINT], lambda *_: None),
            subprocess.Popen(list(command), env=environment) as client,
        ):
            return client.wait()
    except OSError as error:
        raise ToolMissing(
            f"{command[0]} cannot be started: {error.strerror}", hint=f"command -v {command[0]}"
        ) from None
