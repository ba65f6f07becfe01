"""Whether a worker's machine has room for one more agent: the coordinator's question, asked on the worker.

Beside a job that is under way no other one is taken while memory or disk are short: none is asked for, so that other
workers have it. While less than half of the memory is free for a minute, the job that began last is to be given back.
The only order of a worker is always taken, and not given back. SC-41.
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
    """The slots of one worker; the SDK asks for a job once it has one of them."""

    def __init__(self, folder: str, min_free_mb: int, most: int) -> None:
        """``folder`` on the disk where workspaces are; ``most`` jobs at once."""
        self._folder = folder
        self._memory = min_free_mb << 20
        self._most = most
        self._watch = slots.MemoryWatch(self._memory)
        self._lock = threading.Lock()
        self._taken = 0
        self._freed: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._say_at = 0.0  # of the monotonic clock

    def shortage(self) -> str | None:
        """Why nobody should begin here beside others."""
        try:
            return slots.shortage(self._folder, self._memory)
        except OSError as error:
            return f"{self._folder}: {error.strerror}"

    def is_scarce(self) -> bool:
        """Whether a job is to be given back now: once a minute at most; to be asked all the time."""
        return self._watch.is_due(slots.free_memory(), time.monotonic() / clock.time_scale())

    def news(self, at_work: int) -> str | None:
        """What is to be said now of why no further job is taken: once a minute while so many are ``at_work``."""
        if not at_work or (short := self.shortage()) is None:
            self._say_at = 0.0
            return None
        if time.monotonic() < self._say_at:
            return None
        self._say_at = time.monotonic() + clock.scaled(SAY_SECONDS)
        return f"No further job is taken: {short}"

    # ---- as the SDK asks

    async def reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit:
        """Waits until there is one, and room for whoever has it."""
        freed = asyncio.Event()
        self._freed = asyncio.get_running_loop(), freed
        while True:
            freed.clear()
            if permit := self.try_reserve_slot(ctx):
                return permit
            with suppress(TimeoutError):
                await asyncio.wait_for(freed.wait(), LOOK_SECONDS)

    def try_reserve_slot(self, ctx: SlotReserveContext) -> SlotPermit | None:
        """One that is free, where there is room."""
        with self._lock:
            if self._taken >= self._most or (self._taken and self.shortage()):
                return None
            self._taken += 1
            return SlotPermit()

    def mark_slot_used(self, ctx: SlotMarkUsedContext) -> None:
        """It was counted when it was given."""

    def release_slot(self, ctx: SlotReleaseContext) -> None:
        """Whoever waits for one looks again."""
        with self._lock:
            self._taken -= 1
        if self._freed:
            loop, freed = self._freed
            with suppress(RuntimeError):  # the loop is over
                loop.call_soon_threadsafe(freed.set)
