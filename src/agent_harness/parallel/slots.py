"""Slots for the agents and checks of one run, limited by the machine and by agent accounts. (SC-40, SC-41, SC-43)

``kernel/host/`` knows the number of slots and their holders. ``supervision/agent_slots.py`` has the limits of an
account.
"""

import os
from collections.abc import Callable, Sequence

from agent_harness.kernel import host
from agent_harness.kernel.host import HostSlot
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.process.resource_watch import free_memory
from agent_harness.kernel.rate_limits import LimitClock, RateLimit, sentence
from agent_harness.supervision import agent_slots
from agent_harness.supervision.dispatch import RefusalPolicy

FREE_DISK = 2 << 30
SHORT_SECONDS = 60.0


class RunSlots:
    """Slots that one run takes for agents and checks. The caller must release each slot."""

    def __init__(
        self, folder: str, memory: int, accounts: Sequence[str], policy: RefusalPolicy, say: Callable[[str], None]
    ) -> None:
        self._folder = folder
        self._memory = memory
        self._accounts = tuple(accounts)
        self._policy = policy
        self._ignores_limits = policy.ignore_once
        self._say = say
        self._said: dict[str, str] = {}
        self._limits = LimitClock()
        self._is_full = False
        self.refused: RateLimit | None = None  # every account is, and this one not for the longest
        self.why: list[str] = []  # a job could not be given in this round

    def begin_round(self) -> None:
        self._is_full = False
        self.refused = None
        self.why = []

    @property
    def waits(self) -> bool:
        """True if a job waits only for a free slot or for a provider's limit to end."""
        return self._is_full or (self.refused is not None and self._policy.wait)

    def for_agent(self, told: JsonObject, *, is_beside: bool) -> tuple[HostSlot, JsonObject] | None:
        """Take a slot for an agent. Return the slot and the job's inputs, or None."""
        # beside other agents, enough memory and disk space must be free
        if is_beside and (short := shortage(self._folder, self._memory)):
            self._wait(host.AGENTS, f"No further agent starts: {short}")
            return None
        refused: list[RateLimit] = []
        full: list[str] = []
        for account in self._accounts:
            if not self._ignores_limits and (limit := self._limits.in_force(account)):
                refused.append(limit)
                continue
            agent_slot = agent_slots.taken(account, told, self._limits)
            if isinstance(agent_slot, HostSlot):
                inputs: JsonObject = {"account": account, "now": self._ignores_limits}
                self._ignores_limits = False
                self._said.pop(host.AGENTS, None)
                return agent_slot, inputs
            full.append(agent_slot)
        if full:
            self._wait(host.AGENTS, full[0])
        else:
            self.refused = min(refused, key=lambda limit: limit.until)
            self._say_once(host.AGENTS, sentence(self.refused.as_notice()))
        return None

    def for_checks(self, told: JsonObject) -> HostSlot | None:
        if agent_slot := host.take(host.TESTS, told):
            self._said.pop(host.TESTS, None)
            return agent_slot
        most = host.limits()[host.TESTS]
        self._wait(
            host.TESTS,
            f"All {most} slots for checks on this machine are in use; waiting for one: harness limits --host",
        )
        return None

    def _wait(self, kind: str, why: str) -> None:
        self._is_full = True
        self._say_once(kind, why)

    def _say_once(self, kind: str, why: str) -> None:
        self.why = list(dict.fromkeys([*self.why, why]))
        if self._said.get(kind) != why:
            self._said[kind] = why
            self._say(why)


def shortage(folder: str, memory: int) -> str | None:
    """Return why no agent may start, or None if memory and disk space suffice."""
    disk = os.statvfs(folder)
    if free_memory() < memory:
        return f"less than {memory >> 20} MB of memory are free"
    return f"less than 2 GB are free at {folder}" if disk.f_bavail * disk.f_frsize < FREE_DISK else None


class MemoryWatch:
    """Rule to cancel one agent each minute while memory is short."""

    def __init__(self, memory: int) -> None:
        self._least = memory // 2
        self._short_since: float | None = None

    def is_due(self, free: int, now: float) -> bool:
        """Return True if an agent must be cancelled now. Call this regularly."""
        # free: bytes of memory; now: seconds
        if free >= self._least:
            self._short_since = None
            return False
        if self._short_since is None:
            self._short_since = now
        if now - self._short_since < SHORT_SECONDS:
            return False
        self._short_since = now
        return True
