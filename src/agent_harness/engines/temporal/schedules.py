"""``lth schedule DIR --engine URL``: a Temporal schedule that starts slices of a long task.

The schedule's id is ``lth/HOST/DIGEST``. ``harness worker --lth DIR`` executes the slices on this machine. Two slices
never overlap, and Temporal skips a slice that is more than a minute late. When the task is done or needs a person, the
worker pauses the schedule with a note. The task's own lock, lease and checkpoint file remain authoritative. Source:
``scale.md`` 9."""

import asyncio
import hashlib
import os
import re
import socket
import sys
from collections.abc import Mapping
from contextlib import suppress
from datetime import timedelta
from typing import Any

from temporalio import activity
from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleIntervalSpec,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from agent_harness.engines.address import EngineAddress
from agent_harness.engines.temporal import PLAN_QUEUE, SLICE, SLICE_ACTIVITY, slice_queue
from agent_harness.engines.temporal.connection import LoopThread, connected
from agent_harness.errors import HarnessError, NothingEligible, Refused, UsageError
from agent_harness.kernel import clock, process
from agent_harness.kernel.json import JsonObject, jsontext
from agent_harness.protocols.longtask.options import ScheduleOptions

CATCH_UP_SECONDS = 60.0
MINUTES = 24 * 60.0
WRAP_UP_SECONDS = 60.0
_EVERY = re.compile(r"([1-9][0-9]{0,3})(m|h|d)")
_SECONDS = {"m": 60, "h": 3600, "d": 86400}


def schedule_id(root: str) -> str:
    return f"lth/{socket.gethostname()}/{hashlib.sha256(os.fsencode(root)).hexdigest()[:16]}"


def act(address: EngineAddress, root: str, options: ScheduleOptions) -> str:
    """Carry out ``lth schedule`` for the long task in ``root``, and return the output for the user."""
    verbs = options.verbs
    if len(verbs) > 1:
        raise UsageError(f"--{verbs[0]} and --{verbs[1]} cannot be used together", hint="lth schedule --help")
    found = _EVERY.fullmatch(options.every or "10m")
    if found is None:
        raise UsageError(f"--every must be a time span, got {options.every!r}", hint="--every 10m, 2h or 1d")
    given = [word for word in ("--worker", options.worker) if options.worker]
    given += ["--timeout-seconds", str(options.timeout_seconds)] if options.timeout_seconds else []
    loop = LoopThread()
    try:
        client = loop.do(connected(address))
        if verbs == ["list"]:
            return loop.do(_listed(client))
        if verbs:
            return loop.do(_changed(client, root, verbs[0]))
        seconds = int(found[1]) * _SECONDS[found[2]]
        return loop.do(_made(client, address, root, clock.scaled(seconds), [str(each) for each in given]))
    except RPCError as error:
        raise Refused(f"{address.target}: {error.message}", hint=f"harness engine check '{address}'") from None
    finally:
        loop.close()


async def _made(client: Client, address: EngineAddress, root: str, seconds: float, words: list[str]) -> str:
    name = schedule_id(root)
    head = {
        "v": 1,
        "root": root,
        "words": words,
        "schedule": name,
        "queue": slice_queue(socket.gethostname()),
        "minutes": MINUTES,
        "heartbeat_seconds": clock.scaled(address.heartbeat),
    }
    schedule = Schedule(
        action=ScheduleActionStartWorkflow(SLICE, head, id=f"{name}/slice", task_queue=PLAN_QUEUE),
        spec=ScheduleSpec(intervals=[ScheduleIntervalSpec(every=timedelta(seconds=max(1.0, seconds)))]),
        policy=SchedulePolicy(
            overlap=ScheduleOverlapPolicy.SKIP, catchup_window=timedelta(seconds=clock.scaled(CATCH_UP_SECONDS))
        ),
        state=ScheduleState(note=f"slices of {root}"),
    )
    try:
        await client.create_schedule(name, schedule, trigger_immediately=True)
        made = "Created"
    except ScheduleAlreadyRunningError:

        def with_span(known: ScheduleUpdateInput) -> ScheduleUpdate:
            schedule.state = known.description.schedule.state
            return ScheduleUpdate(schedule=schedule)

        await client.get_schedule_handle(name).update(with_span)
        made = "Updated"
    return (
        f"{made} {name}: a slice of {root} every {seconds / 60:g} minutes.\n"
        f"To execute its slices: harness worker --engine '{address}' --lth {root}"
    )


async def _changed(client: Client, root: str, verb: str) -> str:
    handle = client.get_schedule_handle(schedule_id(root))
    try:
        if verb == "pause":
            await handle.pause(note="paused by a person")
        elif verb == "resume":
            await handle.unpause(note=f"slices of {root}")
        else:
            await handle.delete()
    except RPCError as error:
        if error.status != RPCStatusCode.NOT_FOUND:
            raise
        hint = f"lth schedule {root} --every 10m --engine URL"
        raise NothingEligible(f"{root} has no schedule on this server", hint=hint) from None
    return {"pause": "Paused.", "resume": "Resumed.", "delete": "Deleted; the task is unchanged."}[verb]


async def _listed(client: Client) -> str:
    lines: list[str] = []
    async for each in await client.list_schedules():
        if not each.id.startswith("lth/") or each.schedule is None:
            continue
        state, following = each.schedule.state, each.info.next_action_times if each.info else []
        then = f"next {clock.local(following[0])}" if following else "no next run"
        lines.append(f"{each.id}  {'paused' if state.paused else then}  {state.note}")
    return "\n".join(sorted(lines)) or "No schedules of long tasks."


# ---- where slices are carried out ------------------------------------------------------------------------------------


class SliceWorker:
    def __init__(self, client: Client, roots: tuple[str, ...], say: Any) -> None:
        self._client = client
        self._roots = roots
        self._say = say

    @activity.defn(name=SLICE_ACTIVITY)
    async def execute(self, head: JsonObject) -> JsonObject:
        """Run one slice of a long task, and return its exit code and the task's state."""
        root = str(head.get("root"))
        if root not in self._roots:
            raise ApplicationError(
                f"this worker was not started with --lth {root}", type="OrderRefused", non_retryable=True
            )
        words = [str(each) for each in head.get("words") or []]
        if any(not re.fullmatch(r"--worker|--timeout-seconds|[A-Za-z0-9][\w.:/-]*", each) for each in words):
            raise ApplicationError(
                f"The slice of {root} has options that are not allowed", type="OrderRefused", non_retryable=True
            )
        state = {"stop": False}
        command = [sys.executable, "-P", "-m", "agent_harness.cli.lth"]
        working = asyncio.ensure_future(
            asyncio.to_thread(_run, [*command, "run", root, "--no-wait", *words], root, state)
        )
        while not working.done():
            activity.heartbeat()
            try:
                await asyncio.wait({working}, timeout=clock.scaled(5.0))
            except asyncio.CancelledError:
                state["stop"] = True
        done = working.result()
        self._say(f"{root}: a slice ended with exit code {done.exit_code}")
        told = await asyncio.to_thread(_run, [*command, "next", root], root, {"stop": False})
        with suppress(ValueError, AttributeError, HarnessError):
            due = str(jsontext.loads(told.output.decode("utf-8", "replace"), exact=False).get("decision"))
            if due in ("done", "needs-human"):
                self._say(f"{root}: {due}; its schedule is paused")
                await self._client.get_schedule_handle(str(head["schedule"])).pause(note=f"{due}: lth status {root}")
            return {"exit_code": done.exit_code, "due": due}
        return {"exit_code": done.exit_code}


def _run(command: list[str], root: str, state: Mapping[str, bool]) -> process.Completed:
    return process.run(
        command,
        cwd=root,
        env=dict(os.environ),
        timeout_seconds=clock.scaled(MINUTES * 60),
        stop=lambda: state["stop"],
        grace_seconds=clock.scaled(WRAP_UP_SECONDS),
    )
