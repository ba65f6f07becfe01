"""Histories kept by a real server are replayed by the current workflow code. SC-58.

`HARNESS_RECORD_HISTORIES=1 make test-engine ARGS="-k record"` writes histories of jobs, for a new workflow name.
"""

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import pytest
from temporalio import activity
from temporalio.client import Client, WorkflowHistory
from temporalio.exceptions import ApplicationError
from temporalio.worker import Replayer, Worker

from agent_harness.engines.temporal import CARRY_OUT, JOB, PLAN_QUEUE, REFUSED
from agent_harness.engines.temporal.workflow import JobWorkflow, SliceWorkflow
from agent_harness.testing.temporal_server import TemporalServer

GOLDEN = Path(__file__).parent.parent / "golden/temporal"


@pytest.mark.parametrize("path", sorted(GOLDEN.glob("*.json")), ids=lambda path: path.stem)
def test_recorded_histories_fit_the_workflow_code(path: Path) -> None:
    history = WorkflowHistory.from_json(f"recorded-{path.stem}", path.read_text())
    asyncio.run(Replayer(workflows=[JobWorkflow, SliceWorkflow]).replay_workflow(history))


def test_there_are_histories() -> None:
    assert len([*GOLDEN.glob("*.json")]) >= 4


@activity.defn(name=CARRY_OUT)
async def execute(head: dict[str, Any]) -> dict[str, Any]:
    """Run the job as the name of its item says."""
    match head["item"]:
        case "again" if activity.info().attempt == 1:
            raise ApplicationError("left", type="HandsLeft")
        case "refused":
            raise ApplicationError("not mine", type=REFUSED, non_retryable=True)
        case "stopped":
            try:
                while True:
                    activity.heartbeat({"phase": "working"})
                    await asyncio.sleep(0.2)
            except asyncio.CancelledError:
                return {"status": "partial", "ref": "refs/harness/results/p/r/i/1/1", "sha": "0" * 40}
    return {"status": "accepted", "ref": "refs/harness/results/p/r/i/1/1", "sha": "0" * 40}


def _of_no_machine(value: Any) -> Any:
    """Return the history without stack traces and names of the machine."""
    if isinstance(value, dict):
        return {name: "" if name == "stackTrace" else _of_no_machine(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_of_no_machine(each) for each in value]
    return value.replace(os.uname().nodename, "machine") if isinstance(value, str) else value


@pytest.mark.engine
@pytest.mark.skipif(not os.environ.get("HARNESS_RECORD_HISTORIES"), reason="records only when it is asked to")
def test_record(tmp_path: Path) -> None:
    """Accepted, tried again, refused, and stopped while running."""

    async def record(server: TemporalServer) -> None:
        client = await Client.connect(f"127.0.0.1:{server.port}")
        async with (
            Worker(client, task_queue=PLAN_QUEUE, workflows=[JobWorkflow]),
            Worker(client, task_queue="harness.work.default", activities=[execute]),
        ):
            for item in ("accepted", "again", "refused", "stopped"):
                head: dict[str, Any] = {"item": item, "project": "p", "queue": "harness.work.default", "minutes": 5}
                head["heartbeat_seconds"] = 3.0
                handle = await client.start_workflow(JOB, head, id=f"recorded-{item}", task_queue=PLAN_QUEUE)
                if item == "stopped":
                    await asyncio.sleep(2)
                    await handle.signal("stop", "a person")
                try:
                    await handle.result()
                except Exception as error:
                    assert item == "refused", error
                history = _of_no_machine(json.loads((await handle.fetch_history()).to_json()))
                text = json.dumps(history, indent=1)
                (GOLDEN / f"job-v1-{item}.json").write_text(text + "\n")

    with TemporalServer(tmp_path) as server:
        asyncio.run(record(server))
