"""Another worker in the place of one that is rate-limited: the same slice, the same prompt.

Source: ``longtask.md`` 10.5.
"""

from __future__ import annotations

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock
from agent_harness.protocols.longtask import evidence
from agent_harness.protocols.longtask.records import Checkpoint
from agent_harness.protocols.longtask.run import adapters, limits, outcome
from agent_harness.protocols.longtask.work import Answer, SliceWork

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.protocols.longtask.run.adapters import Plan
    from agent_harness.protocols.longtask.run.slice import Slice
    from agent_harness.protocols.longtask.run.worker_result import WorkerResult
    from agent_harness.protocols.longtask.store import CheckpointChange

    Record = dict[str, Any]

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
    second = StandIn(work, plan)
    members, code = second.walked()
    return _answer(work, first, second, members, code), code


class StandIn(SliceWork):
    """A second worker, in the place of one that is rate-limited; its settlement is a part of the first one's answer."""

    prefix = "fallback "
    is_stand_in = True

    def _answer(self, members: Record, code: int) -> Answer:
        return members, code

    def _lost(self) -> Answer:
        answer, code = self.slice.lost(self.known)
        return {"status": answer["status"], "error": answer["error"]}, code


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


def _answer(work: Slice, first: WorkerResult, second: StandIn, members: Record, code: int) -> Record:
    head = work.prepared.answer
    primary = first.result()
    return {
        **{name: head[name] for name in ("decision", "reason", "dryRun")},
        "status": members.pop("status"),
        "waitSeconds": head["waitSeconds"],
        "worker": primary["worker"],
        "requestedWorker": work.prepared.requested,
        "command": primary["command"],
        "cwd": primary["cwd"],
        "exitCode": primary["exitCode"],
        "finalExitCode": code,
        "outputPath": primary["outputPath"],
        "classification": primary["classification"],
        "fallback": second.known.result(),
        **({"usage": primary["usage"]} if "usage" in primary else {}),
        **members,
    }
