"""Another worker in the place of one that is rate-limited: the same slice, the same prompt.

Source: ``longtask.md`` 10.5.
"""

from __future__ import annotations

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock
from agent_harness.protocols.longtask import adapters, evidence, lifecycle, outcome
from agent_harness.protocols.longtask.records import Checkpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.protocols.longtask.adapters import Plan
    from agent_harness.protocols.longtask.attempt import Attempt
    from agent_harness.protocols.longtask.slice import Slice
    from agent_harness.protocols.longtask.store import Change

    Record = dict[str, Any]
    Answer = tuple[Record, int]

__all__ = ["run"]

_REASON = "fallback_on_rate_limit"


def run(slice: Slice, first: Attempt, name: str) -> Answer:  # noqa: A002
    """The answer after a rate limit with a fallback; without a usable one, that of the rate limit alone."""
    plan, problem = _plan(slice, name)
    if plan is None:
        members = slice.failed(first)
        status = members.pop("status")
        return slice.answer(status, first) | members | {"fallbackError": problem}, first.ran.exit_code
    slice.change(lambda change: _hand_over(change, first, plan), first)
    second = slice.attempt(plan, "fallback ")
    members, code = _settled(slice, second)
    return _answer(slice, first, second, members, code), code


def _plan(slice: Slice, name: str) -> tuple[Plan | None, str]:  # noqa: A002
    if lifecycle.is_cooling(Checkpoint(slice.prepared.before), name, clock.now()):
        return None, f"{name} is rate-limited itself"
    try:
        return adapters.plan(name, slice.prepared.task.raw, slice.layout, slice.options), ""
    except HarnessError as error:
        return None, error.message


def _hand_over(change: Change, first: Attempt, plan: Plan) -> None:
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


def _settled(slice: Slice, second: Attempt) -> tuple[Record, int]:  # noqa: A002
    from agent_harness.protocols.longtask.slice import LeaseGone

    try:
        if second.ran.stopped:
            return {"status": slice.cut_short(second)}, second.ran.exit_code
        if second.ran.exit_code == 0:
            return slice.succeeded(second, fallback=True)
        slice.classify(second)
        return slice.failed(second, earliest=True), second.ran.exit_code
    except LeaseGone:
        answer, code = slice.lost(second)
        return {"status": answer["status"], "error": answer["error"]}, code


def _answer(slice: Slice, first: Attempt, second: Attempt, members: Record, code: int) -> Record:  # noqa: A002
    head = slice.prepared.answer
    told = first.result()
    return {
        **{name: head[name] for name in ("decision", "reason", "dryRun")},
        "status": members.pop("status"),
        "waitSeconds": head["waitSeconds"],
        "worker": told["worker"],
        "requestedWorker": slice.prepared.requested,
        "command": told["command"],
        "cwd": told["cwd"],
        "exitCode": told["exitCode"],
        "finalExitCode": code,
        "outputPath": told["outputPath"],
        "classification": told["classification"],
        "fallback": second.result(),
        **members,
    }
