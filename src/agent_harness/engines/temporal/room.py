"""Limit on the jobs of a worker: its machine must have enough memory and disk space for one more agent (SC-41).

While a job runs and memory or disk space is short, the worker requests no further job. Other workers then get the jobs.
If less than half of the required memory is free for a minute, the worker returns its youngest job to the pool. A worker
without a job always accepts a job. A worker never returns its only job."""

import asyncio
import threading
import time
from contextlib import suppress

from temporalio.worker import (
    CustomSlotSupplier,
    SlotMarkUsedContext,
    SlotPermit,
    SlotReleaseContext,
    SlotReserveContext,
)

from agent_harness.kernel import clock
from agent_harness.parallel import slots

LOOK_SECONDS = 0.5
SAY_SECONDS = 60.0


class MachineRoom(CustomSlotSupplier):
    """Job slots of one worker. The Temporal SDK requests a job only if a slot is free."""

    def __init__(self, folder: str, min_free_mb: int, most: int) -> None:
        # ``folder`` is on the disk of the workspaces; ``most`` is the maximum number of jobs
        self._folder = folder
        self._memory = min_free_mb << 20
        self._most = most
        self._watch = slots.MemoryWatch(self._memory)
        self._lock = threading.Lock()
        self._taken = 0
        self._freed: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._say_at = 0.0  # of the monotonic clock

    def shortage(self) -> str | None:
        """Return the shortage that prevents another agent on this machine, or None."""
        try:
            return slots.shortage(self._folder, self._memory)
        except OSError as error:
            return f"{self._folder}: {error.strerror}"

    def is_scarce(self) -> bool:
        """Return True if the worker must return a job for lack of memory, at most once a minute. Call this
        regularly."""
        return self._watch.is_due(slots.free_memory(), time.monotonic() / clock.time_scale())

    def news(self, at_work: int) -> str | None:
        """Return a message, at most once a minute, if a shortage prevents another job."""
        if not at_work or (short := self.shortage()) is None:
            self._say_at = 0.0
            return None
        if time.monotonic() < self._say_at:
            return None
        self._say_at = time.monotonic() + clock.scaled(SAY_SECONDS)
        return f"No further jobs are accepted: {short}"

    # ---- as the SDK asks

    async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:
        freed = asyncio.Event()
        self._freed = asyncio.get_running_loop(), freed
        while True:
            freed.clear()
            if permit := self.try_reserve_slot(ctx):
                return permit
            with suppress(TimeoutError):
                await asyncio.wait_for(freed.wait(), LOOK_SECONDS)

    def try_reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit | None:
        """Return a job slot, or None if all slots are taken or the machine lacks resources."""
        # while no job runs, one may start even so
        with self._lock:
            if self._taken >= self._most or (self._taken and self.shortage()):
                return None
            self._taken += 1
            return SlotPermit()

    def mark_slot_used(self, ctx: SlotMarkUsedContext) -> None:
        """Do nothing, because a job slot is counted when it is reserved."""

    def release_slot(self, ctx: SlotReleaseContext) -> None:
        with self._lock:
            self._taken -= 1
        if self._freed:
            loop, freed = self._freed
            with suppress(RuntimeError):  # the loop is over
                loop.call_soon_threadsafe(freed.set)
