"""``harness run`` on a task list: a session in which an agent works on task after task until something ends it.

Source: ``tasklist.md`` 12.2; the reasons are its stopping conditions.
"""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from agent_harness.agents.base import Agent
from agent_harness.agents.usage import Totals, merge
from agent_harness.errors import Busy, HarnessError, LimitInForce, NothingEligible
from agent_harness.kernel import owner
from agent_harness.protocols.tasklist import selection, spending
from agent_harness.protocols.tasklist.attempts import reprove, verbs
from agent_harness.protocols.tasklist.claims import claim
from agent_harness.protocols.tasklist.records import ADD
from agent_harness.protocols.tasklist.work import Attempted, AttemptTerms, attempt
from agent_harness.protocols.tasklist.workers import session_lease, sessions
from agent_harness.protocols.tasklist.workers.worker import Worker
from agent_harness.supervision import interruption
from agent_harness.supervision.dispatch import Dispatcher, RefusalPolicy

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.store import TaskListChange

__all__ = ["MAX_COST_USD", "MAX_MINUTES", "own_worker", "run"]

Record = dict[str, Any]

MAX_MINUTES = 60.0
MAX_COST_USD = 10.0
LOST_TIMES = 2
"""A task that was taken from us so often is not begun again: somebody writes the list behind the harness."""


@dataclass(frozen=True, kw_only=True)
class _Ending:
    """Why the run stopped, and what its exit code says."""

    reason: str
    exit_code: int
    message: str
    hint: str | None = None  # what a person does about it, where that is more than to go on


def own_worker(worker: Worker) -> Worker:
    """The same worker, whose session ends with this very process."""
    me = owner.current()
    return Worker.open(
        worker.layout,
        worker_id=worker.id,
        session_id=f"run-{me.pid}-{me.start_time}",
        lock_timeout_seconds=worker.store.lock_timeout_seconds,
        cwd=worker.cwd,
        environ={name: value for name, value in worker.environ.items() if not name.startswith("HARNESS_CLAIM")},
        process=me,
    )


def run(
    worker: Worker,
    agents: Agent | Dispatcher,
    *,
    max_tasks: int | None = None,
    max_minutes: float = MAX_MINUTES,
    max_cost_usd: float = MAX_COST_USD,
    say: Callable[[str], None],
) -> Record:
    """Works the list down with an agent; what was done, why it stopped and the ``exit_code``.

    ``max_tasks`` bounds the attempts, ``max_minutes`` each of them, ``max_cost_usd`` the whole run. What a provider
    refuses is no attempt: another agent takes over, or the run waits, or it ends, as the dispatcher has it. Ctrl-C
    gives the task at hand back with its work in a rescue, and ends the session. Raises what ``sessions.start`` raises.
    """
    dispatcher = agents if isinstance(agents, Dispatcher) else Dispatcher([agents], RefusalPolicy(), say)
    worker = own_worker(worker)
    with interruption.watched(worker.store.paused) as stop:
        begun = sessions.start(worker)
        say(f"Session {begun['session']} starting...")
        for found in begun["recovered"]:
            say(f"{found['task_id']}: {found['action']} ({found.get('reason') or 'it was interrupted'})")
        terms = AttemptTerms(
            agent=dispatcher.agents[0], max_minutes=max_minutes, max_cost_usd=max_cost_usd, say=say, stop=stop
        )
        made: list[Attempted] = []
        used = Totals()
        try:
            ending = None
            chosen = terms.agent
            while ending is None:
                ending = _before_next(made, used, max_tasks, terms)
                if ending is None:
                    chosen, ending = _chosen(dispatcher, worker, terms)
                if ending is None:
                    done, ending = _one(
                        replace(terms, agent=chosen, spare=dispatcher.has_spare(chosen)), worker, begun["session"], used
                    )
                    if done:
                        made.append(done)
                        used = merge(used, done.used)
        except KeyboardInterrupt:
            ending = _Ending(reason="user_pause", exit_code=130, message="Interrupted; nothing was under way.")
        finally:
            with stop.held():
                ended = sessions.end(worker)
    following = _next_command(worker)
    say(ending.message)
    say(f"next: {ending.hint or following}")
    return {**_summary(begun, made, used, ending), "stats": ended["stats"], "next": following}


def _chosen(dispatcher: Dispatcher, worker: Worker, terms: AttemptTerms) -> tuple[Agent, _Ending | None]:
    """The agent for the next task, after a wait where one is needed and allowed; the ending when there is none.

    Without a task there is nothing to wait for: whoever claims next is told why.
    """
    while _has_task(worker):
        try:
            return dispatcher.choose(), None
        except LimitInForce as refusal:
            if not dispatcher.patience.wait:
                code, hint = refusal.exit_code, refusal.hint
                return terms.agent, _Ending(reason=refusal.code, exit_code=code, message=refusal.message, hint=hint)
            if not dispatcher.wait(refusal, _Present(worker, terms)):
                code = 130 if terms.stop.signalled else 0
                return terms.agent, _Ending(reason="user_pause", exit_code=code, message="Stopped by a person.")
    return terms.agent, None


def _has_task(worker: Worker) -> bool:
    try:
        claim.preview(worker, worker.store.read(), worker.store.now())
    except HarnessError:
        return False
    return True


class _Present:
    """To be asked often while nothing runs: whether a stop was asked for. Keeps the session lease meanwhile."""

    def __init__(self, worker: Worker, terms: AttemptTerms) -> None:
        self._worker = worker
        self._terms = terms
        self._next = time.monotonic() + session_lease.SECONDS / 6

    def __call__(self) -> bool:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + session_lease.SECONDS / 6
            with suppress(Busy):
                self._worker.store.change(self._keep)
        return self._terms.stop.requested() is not None

    def _keep(self, change: "TaskListChange") -> None:
        session_lease.keep(change.state, self._worker, change.now)
        change.touch()


def _before_next(made: list[Attempted], used: Totals, max_tasks: int | None, terms: AttemptTerms) -> _Ending | None:
    if made and made[-1].ends_run:
        paused = terms.stop.requested() and not terms.stop.signalled
        code = 130 if terms.stop.signalled else 0 if paused else made[-1].exit_code
        return _Ending(reason="stopped", exit_code=code, message=f"Stopped: {made[-1].ends_run}")
    lost = [each.task_id for each in made if each.result == "lost"]
    if lost and lost.count(lost[-1]) >= LOST_TIMES:
        message = f"{lost[-1]} changed hands {LOST_TIMES} times under way; look who writes harness-tasks.json."
        return _Ending(reason="lost", exit_code=3, message=message)
    if terms.stop.requested():
        code = 130 if terms.stop.signalled else 0
        return _Ending(reason="user_pause", exit_code=code, message="Stopped by a person.")
    tried = [each for each in made if not each.refused]
    if max_tasks is not None and len(tried) >= max_tasks:
        return _used_up(tried, max_tasks)
    if used.budget_usd() >= terms.max_cost_usd:
        message = f"${used.budget_usd():.2f} of ${terms.max_cost_usd:.2f} are spent."
        return _Ending(reason="budget", exit_code=9, message=message)
    return None


def _used_up(made: list[Attempted], max_tasks: int) -> _Ending:
    """All attempts of this run were made: 1 unless every task that was begun was completed by one of them."""
    done = {each.task_id for each in made if each.result == "completed"}
    undone = list(dict.fromkeys(each.task_id for each in made if each.task_id not in done))
    attempts = f"{len(made)} attempt{'s' if len(made) > 1 else ''} of {max_tasks}"
    left = f", not completed: {', '.join(undone)}" if undone else ""
    message = f"{attempts}: {len(done)} completed{left}."
    return _Ending(reason="max_tasks", exit_code=int(bool(undone)), message=message)


def _one(terms: AttemptTerms, worker: Worker, session: int, used: Totals) -> tuple[Attempted | None, _Ending | None]:
    """Claims and attempts one task; the ending when there is none to be had."""
    try:
        with terms.stop.held():
            claimed = claim.claim(worker)
    except NothingEligible as error:
        return None, _nothing_left(worker, error)
    except HarnessError as error:
        return None, _ending_by(error)
    worker.token = claimed["token"]
    task = worker.find(worker.store.read(), claimed["task_id"])
    terms.say(f"{task.id}: {task.title} (attempt {task.attempts + 1} of {task.max_attempts})")
    try:
        done = attempt(terms, worker, task, session=session, spent_usd=used.budget_usd())
    except HarnessError as error:  # the task is closed or halted; the list says how
        _release_quietly(worker, task.id, error)
        return None, _ending_by(error)
    finally:
        worker.token = None
    terms.say(f"{task.id}: {done.result} ({done.message})")
    spending.note(worker.layout, session=session, task_id=done.task_id, result=done.result, used=done.used)
    return done, None


def _ending_by(error: HarnessError) -> _Ending:
    return _Ending(reason=error.code, exit_code=error.exit_code, message=error.message, hint=error.hint)


def _release_quietly(worker: Worker, task_id: str, error: HarnessError) -> None:
    """Gives a task back that this run cannot go on with; its claim may be over already."""
    with suppress(HarnessError):
        verbs.release(worker, task_id, error.message)


def _nothing_left(worker: Worker, error: NothingEligible) -> _Ending | None:
    """Why nothing is left to claim; ``None`` when a completion turned out to be nobody's, and is work again."""
    reopened = [each["task_id"] for each in reprove.confirm(worker) if each["action"] == "reopened"]
    if reopened:
        return None
    state = worker.store.read()
    if error.data.get("work_left") or not state.tasks:
        return _Ending(reason="waiting", exit_code=7, message=error.message)
    failed = selection.counts(state).get("failed", 0)
    message = "Every task is completed." if not failed else f"Nothing is left to do; {failed} failed for good."
    return _Ending(reason="done" if not failed else "failed", exit_code=1 if failed else 0, message=message)


def _next_command(worker: Worker) -> str:
    """What a person types after the run."""
    state = worker.store.read()
    if state.halt or worker.store.paused():
        return "harness resume"
    if not state.tasks:
        return ADD
    return "harness run" if selection.work_left(state) else "harness status"


def _summary(begun: Record, made: list[Attempted], used: Totals, ending: _Ending) -> Record:
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
