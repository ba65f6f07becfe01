"""One attempt of ``harness run``: an agent on a claimed task under watch, then the proof.

Source: ``tasklist.md`` 11, 12.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent_harness.agents.base import Agent, Brief
from agent_harness.agents.usage import Totals, merge
from agent_harness.errors import HarnessError, NotOwner, Refused, TimedOut, VerificationFailed
from agent_harness.kernel.process import new_run_id
from agent_harness.protocols.tasklist import progress
from agent_harness.protocols.tasklist.attempts import commits, rollback, verbs
from agent_harness.protocols.tasklist.claims.lease_keeper import LeaseKeeper
from agent_harness.protocols.tasklist.layout import safe_name
from agent_harness.protocols.tasklist.records import Task
from agent_harness.protocols.tasklist.runner import prompt as runner_prompt
from agent_harness.protocols.tasklist.workers.worker import Worker
from agent_harness.supervision.interruption import Stop
from agent_harness.supervision.monitors import Budget, BudgetLimit, RepeatedError, WallClock, Watch
from agent_harness.supervision.outcome import Outcome
from agent_harness.supervision.recording import Recording
from agent_harness.supervision.supervisor import supervise

__all__ = ["Attempted", "AttemptTerms", "attempt"]

Record = dict[str, Any]

FIX_ROUNDS = 2
TRANSCRIPT_BYTES = 8_000_000
UNCOUNTED = {"user_pause": "a person stopped the run", "rate_limited": "the agent was rate limited"}
"""Endings of an agent that are not the task's fault: the task is given back untried."""


@dataclass(frozen=True, kw_only=True)
class AttemptTerms:
    """Under which an attempt is made."""

    agent: Agent
    max_minutes: float
    max_cost_usd: float
    say: Callable[[str], None]
    stop: Stop


@dataclass(frozen=True, kw_only=True)
class Attempted:
    """What became of an attempt."""

    task_id: str
    result: str  # completed, failed, released, lost
    message: str
    used: Totals = field(default_factory=Totals)
    ends_run: str | None = None  # why no further task should be begun
    refused: bool = False  # the provider refused; it was no attempt


@dataclass(frozen=True, kw_only=True)
class _Under:
    """An attempt under way."""

    terms: AttemptTerms
    worker: Worker
    task: Task
    session: int
    watch: Watch
    spent_usd: float  # of the run, before this attempt
    recordings: dict[str, Recording]

    def recording(self, name: str) -> Recording:
        """The recording of this attempt, for `--agent replay:FILE`: one for all of its turns."""
        worker, task = self.worker, self.task
        made = Recording(Path(worker.layout.sessions) / name, worker.git, lambda: commits.fingerprint(worker, task))
        return self.recordings.setdefault(name, made)


def attempt(terms: AttemptTerms, worker: Worker, task: Task, *, session: int, spent_usd: float) -> Attempted:
    """Lets the agent work on a task that the worker has claimed, proves the result, and closes the attempt.

    The agent has up to three turns: the first, and two more after a failed proof. Its processes are gone when this
    returns. The task is never left in progress, unless the claim was lost to somebody else. ``ConfigurationError`` for
    a task without a validation: the list is halted, and no agent started.
    """
    watch = Watch(
        (
            WallClock(timeout_seconds=terms.max_minutes * 60, warning_seconds=terms.max_minutes * 60 * 0.8),
            RepeatedError(),
            Budget(limits=(BudgetLimit(name="Run", limit_usd=terms.max_cost_usd, spent_usd=spent_usd),)),
        )
    )
    under = _Under(
        terms=terms,
        worker=worker,
        task=task,
        session=session,
        watch=watch,
        spent_usd=spent_usd,
        recordings={},
    )
    try:
        return _rounds(under)
    except NotOwner as error:
        return Attempted(task_id=task.id, result="lost", message=error.message)
    except KeyboardInterrupt:
        return _give_back(under, "user_pause", Totals())


def _rounds(under: _Under) -> Attempted:
    task, used = under.task, Totals()
    if task.validation_command is None:
        verbs.validate(under.worker, task.id)  # says what is missing, before an agent works for nothing
    prompt = runner_prompt.first(task, log=progress.condensed(under.worker.layout), rescues=task.rescues)
    conversation = None
    for number in range(FIX_ROUNDS + 1):
        outcome = _turn(under, prompt, number, conversation, used)
        used, conversation = merge(used, outcome.usage), outcome.conversation
        closed = _closed_by_agent(under)
        if closed:
            return replace(closed, used=used)
        if outcome.reason in UNCOUNTED:
            return _give_back(under, outcome.reason, used)
        if not outcome.ok and not _has_work(under):
            why = outcome.message or f"the agent ended with exit {outcome.exit_code}"
            return _fail(under, "TASK_EXEC", why, used, outcome)
        try:
            done = _complete(under)
        except (VerificationFailed, TimedOut) as error:
            if number == FIX_ROUNDS or outcome.reason != "finished":
                return _fail(
                    under, "TIMEOUT" if isinstance(error, TimedOut) else "TEST_FAIL", error.message, used, outcome
                )
            under.terms.say(f"{task.id}: {error.message}; sent back")
            prompt = runner_prompt.fix(task, error.message, _lines(error.data.get("tail")))
        else:
            return Attempted(task_id=task.id, result="completed", message=_commit_text(done), used=used)
    raise AssertionError("every round returns")


def _lines(found: object) -> list[object]:
    return list(found) if isinstance(found, list) else []


def _turn(under: _Under, prompt: str, number: int, conversation: str | None, used: Totals) -> Outcome:
    worker, task = under.worker, under.task
    holding = LeaseKeeper(worker, task)

    def stop_requested() -> str | None:
        holding()
        return under.terms.stop.requested()

    brief = Brief(
        prompt=prompt,
        cwd=Path(worker.tree),
        session=under.session,
        prompt_type="coding" if number == 0 else "continuation",
        task_id=task.id,
        round=number,
        conversation=conversation,
        budget_usd=max(0.0, under.terms.max_cost_usd - under.spent_usd - used.budget_usd()),
        environment=_environment(worker, task),
        run_id=new_run_id(),
    )
    os.makedirs(worker.layout.sessions, exist_ok=True)
    name = f"{under.session}-{safe_name(task.id)}.{task.attempts + 1}"
    with under.terms.stop.listening():
        return supervise(
            under.terms.agent,
            brief,
            monitors=under.watch,
            transcript=Path(worker.layout.sessions) / f"{name}.log",
            transcript_limit_bytes=TRANSCRIPT_BYTES,
            on_started=lambda process: None,
            stop_requested=stop_requested,
            recording=under.recording(f"{name}.cassette.jsonl"),
        )


def _environment(worker: Worker, task: Task) -> Mapping[str, str]:
    """By which the verbs that the agent calls find this claim."""
    told = {
        "HARNESS_STATE_ROOT": worker.layout.root,
        "HARNESS_SESSION_ID": worker.session_owner,
        "HARNESS_TASK_ID": task.id,
        "HARNESS_CLAIM_TOKEN": worker.token or "",
    }
    return {**told, **({"HARNESS_WORKER_ID": worker.id} if worker.id else {})}


def _closed_by_agent(under: _Under) -> Attempted | None:
    """What the agent made of the task by the verbs; ``None`` while it is still open."""
    task = under.worker.find(under.worker.store.read(), under.task.id)
    if task.status == "in_progress":
        return None
    results = {"completed": "completed", "failed": "failed", "pending": "released"}
    ours = task.last_claim_token == under.worker.token
    result = results.get(task.status, "lost") if ours else "lost"
    message = task.error_log[-1] if result == "failed" and task.error_log else f"{result} by the agent"
    return Attempted(task_id=task.id, result=result, message=message)


def _has_work(under: _Under) -> bool:
    try:
        found = rollback.evidence(under.worker, under.task)
    except Refused:
        return True
    return not found["known"] or bool(found["uncommitted"] or found["commits"])


def _complete(under: _Under) -> Record:
    task = under.task
    under.terms.say(f"{task.id}: running {task.validation_command}")
    return verbs.complete(under.worker, task.id)


def _commit_text(done: Record) -> str:
    commit = done.get("commit")
    return f"proven, commit {str(commit)[:7]}" if commit else "proven"


def _fail(under: _Under, category: str, message: str, used: Totals, outcome: Outcome) -> Attempted:
    ends_run = outcome.message if outcome.reason == "budget_exceeded" else None
    try:
        done = verbs.fail(under.worker, under.task.id, category, message)
    except Refused as error:  # going back was refused; the attempt is counted and the list halted
        return Attempted(
            task_id=under.task.id, result="failed", message=error.message, used=used, ends_run=error.message
        )
    where = f"; its work is in {done['rescue']}" if done.get("rescue") else ""
    return Attempted(
        task_id=under.task.id, result="failed", message=f"[{category}] {message}{where}", used=used, ends_run=ends_run
    )


def _give_back(under: _Under, reason: str, used: Totals) -> Attempted:
    why = UNCOUNTED[reason]
    try:
        with under.terms.stop.held():
            done = verbs.release(under.worker, under.task.id, why)
    except HarnessError as error:
        return Attempted(task_id=under.task.id, result="lost", message=error.message, used=used, ends_run=why)
    where = f"; its work is in {done['rescue']}" if done.get("rescue") else ""
    refused = reason == "rate_limited"
    return Attempted(
        task_id=under.task.id,
        result="released",
        message=f"{why}{where}",
        used=used,
        ends_run=None if refused else why,
        refused=refused,
    )
