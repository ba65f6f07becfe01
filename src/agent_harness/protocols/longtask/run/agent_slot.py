"""Agent slot of a slice: its worker counts together with all other agents on this machine, and obeys its account's
throttle.

The slot is taken once everything needed to start the worker is known. The slot is released when the slice or the
process ends. A shell command has no account; its name is used instead. Source: ``scale.md`` SC-40, SC-43.
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
    """Agent slot for the worker of a slice; a context manager that releases the slot."""

    def __init__(self, folder: str) -> None:
        self._told = {"project": folder, "item": "lth run"}
        self._agent_slot: HostSlot | None = None
        self._said = ""

    def take(self, worker: str) -> str | None:
        """Take an agent slot for this worker, after releasing any other slot; return the reason if no slot is free."""
        self.release()
        found = agent_slots.taken(adapters.account_of(worker) or worker, dict(self._told), LimitClock())
        if isinstance(found, str):
            return found
        self._agent_slot = found
        return None

    def await_one(self, worker: str, seconds: float, must_stop: Callable[[], bool]) -> str | None:
        """Wait up to ``seconds`` for an agent slot; return the reason if none is free. If ``must_stop`` is true, stop
        waiting.
        """
        until = time.monotonic() + seconds
        while why := self.take(worker):
            if must_stop() or time.monotonic() > until:
                return why
            self.tell(why)
            time.sleep(LOOK_SECONDS)
        return None

    @property
    def waits(self) -> bool:
        """True if a message about waiting for a slot was printed."""
        return bool(self._said)

    def tell(self, why: str) -> None:
        """Print the reason for waiting, unless the last printed reason is equal."""
        if why != self._said:
            log.tell(f"lth: {why}")
        self._said = why

    def release(self) -> None:
        """Release the agent slot. Repeated calls are safe."""
        if self._agent_slot:
            self._agent_slot.release()
        self._agent_slot = None

    def __enter__(self) -> SliceSlot:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
