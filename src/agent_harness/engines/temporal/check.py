"""Check of the requirements for a run over Temporal: server, namespace, workers, and the project's git remote."""

import secrets
import shutil
import time
from datetime import timedelta

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, GetSystemInfoRequest
from temporalio.client import Client
from temporalio.service import RPCError

from agent_harness.engines import exchange
from agent_harness.engines.address import EngineAddress
from agent_harness.engines.git_transport import PRIVATE
from agent_harness.engines.temporal import PLAN_QUEUE, work_queue
from agent_harness.engines.temporal.connection import LoopThread, connected
from agent_harness.engines.temporal.engine import remote_url
from agent_harness.errors import HarnessError
from agent_harness.kernel.git import Git
from agent_harness.kernel.json import JsonObject

SECONDS = 60.0


def looked_at(address: EngineAddress, folder: str) -> JsonObject:
    """Check the Temporal server and the git remote, and return the result as JSON."""
    # the check leaves nothing on the server or the remote
    rows: list[JsonObject] = []
    loop = LoopThread()
    try:
        client = loop.do(connected(address))
        rows += loop.do(_of_server(client, address))
    except HarnessError as error:
        rows.append({"what": "server", "ok": False, "told": error.message})
    finally:
        loop.close()
    rows.append(_of_remote(address, folder))
    return {"ok": all(row["ok"] for row in rows), "engine": str(address), "checks": rows}


async def _of_server(client: Client, address: EngineAddress) -> list[JsonObject]:
    began = time.monotonic()
    known = await client.workflow_service.get_system_info(GetSystemInfoRequest(), timeout=timedelta(seconds=10))
    took = f"{(time.monotonic() - began) * 1000:.0f} ms"
    rows: list[JsonObject] = [
        {"what": "server", "ok": True, "told": f"{address.target}, version {known.server_version}, answers in {took}"},
        {"what": "namespace", "ok": True, "told": address.namespace},
    ]
    for what, name, kind in (
        *(("hands", work_queue(pool), TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY) for pool in address.pools),
        ("planning", PLAN_QUEUE, TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW),
    ):
        wanted = DescribeTaskQueueRequest(
            namespace=address.namespace, task_queue=TaskQueue(name=name), task_queue_type=kind
        )
        try:
            found = await client.workflow_service.describe_task_queue(wanted, timeout=timedelta(seconds=10))
        except RPCError as error:
            rows.append({"what": what, "ok": False, "told": error.message})
            continue
        names = sorted({each.identity for each in found.pollers})
        told = ", ".join(names) or f"no worker listens on {name}: harness worker --engine '{address}' --remote PATTERN"
        rows.append({"what": what, "ok": bool(names) or what == "planning", "told": told})
    return rows


def _of_remote(address: EngineAddress, folder: str) -> JsonObject:
    """Return a result row that says whether the remote accepts private refs."""
    row: JsonObject = {"what": "remote", "ok": False}
    try:
        git = Git(folder)
        head = git.head()
        if head is None:
            return {**row, "told": "this repository has no commit yet"}
        if address.exchange:
            return {**row, **_of_exchange(address.exchange, git, head)}
        url = remote_url(git, address.remote)
        ref = f"refs/harness/probe/{time.time_ns()}"
        for refspec in (f"{head}:{ref}", f":{ref}"):
            done = git.push(url, refspec, timeout_seconds=SECONDS)
            if not done.ok:
                told = (done.message.splitlines() or ["it did not answer"])[-1]
                return {**row, "told": f"{url} does not accept private refs: {told}; {PRIVATE}"}
    except HarnessError as error:
        return {**row, "told": error.message}
    return {**row, "ok": True, "told": f"{url} accepts refs/harness/*"}


def _of_exchange(folder: str, git: Git, head: str) -> JsonObject:
    path = exchange.made(folder, secrets.token_hex(12))
    try:
        given = exchange.served_by(path, "receive-pack")
        done = git.push(path, f"{head}:refs/harness/probe", served_by=given, timeout_seconds=SECONDS)
        told = done.message.splitlines() or ["it did not answer"]
        return {"ok": done.ok, "told": f"{folder} accepts bundles" if done.ok else f"{folder}: {told[-1]}"}
    finally:
        shutil.rmtree(path, ignore_errors=True)
