"""Room of a worker's machine for one more agent: the coordinator's question, asked on the worker.

Beside a running job, no other one is taken while memory or disk are short: none is requested, so that other workers
get it. While less than half of the memory is free for a minute, the youngest job is returned. A worker's only job is
always taken, and not returned. SC-41.
"""

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
    """Slots of one worker; the SDK asks for a job once it has one of them."""

    def __init__(self, folder: str, min_free_mb: int, most: int) -> None:
        """Set ``folder``, on the disk of the workspaces, and ``most``, the number of jobs at once."""
        self._folder = folder
        self._memory = min_free_mb << 20
        self._most = most
        self._watch = slots.MemoryWatch(self._memory)
        self._lock = threading.Lock()
        self._taken = 0
        self._freed: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._say_at = 0.0  # of the monotonic clock

    def shortage(self) -> str | None:
        """Return why no further agent should start here; None if one may."""
        try:
            return slots.shortage(self._folder, self._memory)
        except OSError as error:
            return f"{self._folder}: {error.strerror}"

    def is_scarce(self) -> bool:
        """Return True if a job is to be returned now, at most once a minute. Call it continuously."""
        return self._watch.is_due(slots.free_memory(), time.monotonic() / clock.time_scale())

    def news(self, at_work: int) -> str | None:
        """Return the message on why no further job is taken: once a minute while ``at_work`` jobs run; else None."""
        if not at_work or (short := self.shortage()) is None:
            self._say_at = 0.0
            return None
        if time.monotonic() < self._say_at:
            return None
        self._say_at = time.monotonic() + clock.scaled(SAY_SECONDS)
        return f"No further job is taken: {short}"

    # ---- as the SDK asks

    async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:
        """Wait for a free slot, and for room."""
        freed = asyncio.Event()
        self._freed = asyncio.get_running_loop(), freed
        while True:
            freed.clear()
            if permit := self.try_reserve_slot(ctx):
                return permit
            with suppress(TimeoutError):
                await asyncio.wait_for(freed.wait(), LOOK_SECONDS)

    def try_reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit | None:
        """Return a free slot if there is room, else None."""
        with self._lock:
            if self._taken >= self._most or (self._taken and self.shortage()):
                return None
            self._taken += 1
            return SlotPermit()

    def mark_slot_used(self, ctx: SlotMarkUsedContext) -> None:
        """Do nothing: the slot was counted when it was given."""

    def release_slot(self, ctx: SlotReleaseContext) -> None:
        """Release a slot, and wake the one that waits for it."""
        with self._lock:
            self._taken -= 1
        if self._freed:
            loop, freed = self._freed
            with suppress(RuntimeError):  # the loop is over
                loop.call_soon_threadsafe(freed.set)
