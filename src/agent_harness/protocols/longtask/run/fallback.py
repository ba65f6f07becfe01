"""Another worker in the place of one that is rate-limited: the same slice, the same prompt.

Source: ``longtask.md`` 10.5.
"""

from __future__ import annotations

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock
from agent_harness.protocols.longtask import evidence
from agent_harness.protocols.longtask.records import Checkpoint
from agent_harness.protocols.longtask.run import adapters, limits, outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.protocols.longtask.run.adapters import Plan
    from agent_harness.protocols.longtask.run.slice import Slice
    from agent_harness.protocols.longtask.run.worker_result import WorkerResult
    from agent_harness.protocols.longtask.store import CheckpointChange

    Record = dict[str, Any]
    Answer = tuple[Record, int]

__all__ = ["run"]

_REASON = "fallback_on_rate_limit"


def run(work: Slice, first: WorkerResult, name: str) -> Answer:
    """The answer after a rate limit with a fallback; without a usable one, that of the rate limit alone."""
    plan, problem = _plan(work, name)
    if plan is None:
        members = work.failed(first)
        status = members.pop("status")
        return work.answer(status, first) | members | {"fallbackError": problem}, first.ran.exit_code
    work.change(lambda change: _hand_over(change, first, plan), first)
    second = work.attempt(plan, "fallback ")
    members, code = _settled(work, second)
    return _answer(work, first, second, members, code), code


def _plan(work: Slice, name: str) -> tuple[Plan | None, str]:
    if limits.cooldown(Checkpoint(work.prepared.before), name, clock.now()):
        return None, f"{name} is rate-limited itself"
    try:
        return adapters.plan(name, work.prepared.task.raw, work.layout, work.options), ""
    except HarnessError as error:
        return None, error.message


def _hand_over(change: CheckpointChange, first: WorkerResult, plan: Plan) -> None:
    """What is known of the rate limit is written before the other worker starts, so that no crash forgets it."""
    found = first.classification or {}
    outcome.cool_down(change, first.worker, found, first.items)
    evidence.add(change, *first.items)
    text = f"{first.worker} is rate-limited; {plan.worker} takes over"
    outcome.event_of_class(
        change,
        found,
        first.items,
        status="fallback",
        worker=first.worker,
        until=found["blockedUntil"],
        blocker=None,
        text=text,
    )
    status = change.checkpoint.status
    change.event("checkpoint_written", status=status, reason="classified rate_limit", worker=first.worker)
    change.event("worker_prompt_generated", worker=plan.worker, reason=_REASON)
    change.event("worker_started", worker=plan.worker, reason=_REASON, note=plan.command)


def _settled(work: Slice, second: WorkerResult) -> tuple[Record, int]:
    from agent_harness.protocols.longtask.run.slice import LeaseGone

    try:
        if second.ran.stopped:
            return {"status": work.cut_short(second)}, second.ran.exit_code
        if second.ran.exit_code == 0:
            return work.succeeded(second, fallback=True)
        work.classify(second)
        return work.failed(second, earliest=True), second.ran.exit_code
    except LeaseGone:
        answer, code = work.lost(second)
        return {"status": answer["status"], "error": answer["error"]}, code


def _answer(work: Slice, first: WorkerResult, second: WorkerResult, members: Record, code: int) -> Record:
    head = work.prepared.answer
    told = first.result()
    return {
        **{name: head[name] for name in ("decision", "reason", "dryRun")},
        "status": members.pop("status"),
        "waitSeconds": head["waitSeconds"],
        "worker": told["worker"],
        "requestedWorker": work.prepared.requested,
        "command": told["command"],
        "cwd": told["cwd"],
        "exitCode": told["exitCode"],
        "finalExitCode": code,
        "outputPath": told["outputPath"],
        "classification": told["classification"],
        "fallback": second.result(),
        **({"usage": told["usage"]} if "usage" in told else {}),
        **members,
    }
