"""The slot of a slice: its worker is counted beside all other agents here, and heeds the throttle of its account.

It is taken when all that is needed to start the worker is known, and given back with the slice, or by any death. A
line of shell has no account; it is counted by its name. Source: ``scale.md`` SC-40, SC-43.
"""

from __future__ import annotations

import time

from agent_harness.kernel.rate_limits import LimitClock
from agent_harness.protocols.longtask import log
from agent_harness.protocols.longtask.run import adapters
from agent_harness.supervision import agent_slots
from agent_harness.supervision.interruption import LOOK_SECONDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from agent_harness.kernel.host import HostSlot


class SliceSlot:
    """The one that the worker of a slice has, to the end of the block."""

    def __init__(self, folder: str) -> None:
        self._told = {"project": folder, "item": "lth run"}
        self._agent_slot: HostSlot | None = None
        self._said = ""

    def take(self, worker: str) -> str | None:
        """Takes one for this (normalised) worker; why there is none now. Another one that it had is given back."""
        self.release()
        found = agent_slots.taken(adapters.account_of(worker) or worker, dict(self._told), LimitClock())
        if isinstance(found, str):
            return found
        self._agent_slot = found
        return None

    def await_one(self, worker: str, seconds: float, must_stop: Callable[[], bool]) -> str | None:
        """The same, after at most so many seconds; at once why there is none when it has to stop."""
        until = time.monotonic() + seconds
        while why := self.take(worker):
            if must_stop() or time.monotonic() > until:
                return why
            self.tell(why)
            time.sleep(LOOK_SECONDS)
        return None

    @property
    def waits(self) -> bool:
        """Whether it was said that one is waited for."""
        return bool(self._said)

    def tell(self, why: str) -> None:
        """Says what is waited for, each reason once."""
        if why != self._said:
            log.tell(f"lth: {why}")
        self._said = why

    def release(self) -> None:
        """Gives it back. Safe to repeat."""
        if self._agent_slot:
            self._agent_slot.release()
        self._agent_slot = None

    def __enter__(self) -> SliceSlot:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
