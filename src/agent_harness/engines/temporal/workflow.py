"""Temporal workflow of a job: one activity and a stop signal. Temporal retries the activity if its worker is lost.

Temporal replays this code from recorded histories, so code under an existing name must never change (SC-58). This
module imports nothing from the harness."""

from datetime import timedelta
from typing import Any

from temporalio import workflow
from temporalio.common import Priority, RetryPolicy
from temporalio.exceptions import ActivityError, CancelledError


@workflow.defn(name="harness.Order.v1")
class JobWorkflow:
    """Workflow of one job, from its submission to its accepted result."""

    def __init__(self) -> None:
        self._why = ""
        self._work: Any = None

    @workflow.run
    async def run(self, head: dict[str, Any]) -> dict[str, Any]:
        """Run the job's activity, and return the message that announces the result."""
        # the message contains only ids and refs
        if self._why:
            return {"status": "stopped", "why": self._why}
        beat = float(head["heartbeat_seconds"])
        self._work = workflow.start_activity(
            "harness.carry_out.v1",
            head,
            task_queue=head["queue"],
            heartbeat_timeout=timedelta(seconds=beat),
            start_to_close_timeout=timedelta(minutes=float(head["minutes"]) + 30),
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            priority=Priority(
                priority_key=int(head.get("priority") or 3),
                fairness_key=str(head["project"]),
                fairness_weight=float(head.get("weight") or 1.0),
            ),
            retry_policy=RetryPolicy(
                initial_interval=timedelta(seconds=beat / 9),
                backoff_coefficient=2.0,
                maximum_interval=timedelta(minutes=5),
                maximum_attempts=3,
                non_retryable_error_types=["OrderRefused"],
            ),
        )
        try:
            found: dict[str, Any] = await self._work
        except ActivityError as error:
            if self._why and isinstance(error.cause, CancelledError):
                return {"status": "stopped", "why": self._why}
            raise
        return found

    @workflow.signal
    def stop(self, why: str) -> None:
        """Cancel the job's activity, so that its worker wraps up and reports the work."""
        self._why = why or "stopped"
        if self._work is not None:
            self._work.cancel()


@workflow.defn(name="harness.Slice.v1")
class SliceWorkflow:
    """Workflow of one slice of a long task."""

    # no retries: after a crash, the next slice takes over

    @workflow.run
    async def run(self, head: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = await workflow.execute_activity(
            "harness.lth_slice.v1",
            head,
            task_queue=head["queue"],
            heartbeat_timeout=timedelta(seconds=float(head["heartbeat_seconds"])),
            start_to_close_timeout=timedelta(minutes=float(head["minutes"])),
            cancellation_type=workflow.ActivityCancellationType.WAIT_CANCELLATION_COMPLETED,
            retry_policy=RetryPolicy(maximum_attempts=1),
        )
        return found
