"""Agent slot of a run. A slot is the right to run one agent. All agents on this machine share a limited number of
slots, and the agent also obeys its account's throttle.

A run takes the slot immediately before it starts the agent. The slot is released when the run or the process ends. A
shell command has no account, so its agent name is used as the account. Source: ``scale.md`` SC-40, SC-43."""

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
    def __init__(self, folder: str) -> None:
        self._told = {"project": folder, "item": "lth run"}
        self._agent_slot: HostSlot | None = None
        self._said = ""

    def take(self, worker: str) -> str | None:
        """Take a slot for the agent and return None. If no slot is free, return why."""
        self.release()
        found = agent_slots.taken(adapters.account_of(worker) or worker, dict(self._told), LimitClock())
        if isinstance(found, str):
            return found
        self._agent_slot = found
        return None

    def await_one(self, worker: str, seconds: float, must_stop: Callable[[], bool]) -> str | None:
        """Wait until the agent has a slot, and return None. After ``seconds``, or if the run must stop, return why."""
        until = time.monotonic() + seconds
        while why := self.take(worker):
            if must_stop() or time.monotonic() > until:
                return why
            self.tell(why)
            time.sleep(LOOK_SECONDS)
        return None

    @property
    def waits(self) -> bool:
        return bool(self._said)

    def tell(self, why: str) -> None:
        if why != self._said:
            log.tell(f"lth: {why}")
        self._said = why

    def release(self) -> None:
        if self._agent_slot:
            self._agent_slot.release()
        self._agent_slot = None

    def __enter__(self) -> SliceSlot:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
