"""Selection of the agent to start: the first allowed agent whose provider does not refuse requests at the moment.

The agent is selected just before it is needed. Until then, work that needs no model continues. A waiting caller holds
no lock and no slot. The rate-limit clock on disk, not the process, stores the end of a wait. A selected agent keeps its
slot as long as it may work (``agent_slots``). Source: ``features.md`` C28, UAH-374, ``scale.md`` SC-40, SC-43."""

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from agent_harness.agents.base import Agent
from agent_harness.errors import Interrupted, LimitInForce, NoRoom, ToolMissing
from agent_harness.kernel import clock
from agent_harness.kernel.host import HostSlot
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.rate_limits import LimitClock, RateLimit
from agent_harness.supervision import agent_slots

__all__ = ["Dispatcher", "RefusalPolicy", "spoken", "startable"]

LOOK_SECONDS = 0.5  # how long a pause, or a limit that a person has cleared, may go unseen


def _silent(_line: str) -> None:
    return


@dataclass(frozen=True, kw_only=True)
class RefusalPolicy:
    """Rules for a run whose agents are rate-limited or have no free slot."""

    wait: bool = False  # until the first may be tried; else LimitInForce
    wait_for_slot: bool = True  # until one is free; else NoRoom
    account: str | None = None  # of the agent chosen by the caller, which gets a refusal back
    has_slot: bool = False  # the caller has a slot for it
    ignore_once: bool = False  # the first agent is started once as if nothing was known
    countdown: Callable[[str], None] = _silent  # called often with one line while waiting, and with "" at its end
    again: str = "harness run"  # the command that goes on

    def waits(self, refusal: LimitInForce) -> bool:
        return self.wait_for_slot if isinstance(refusal, NoRoom) else self.wait

    @classmethod
    def of_job(cls, inputs: JsonObject) -> "RefusalPolicy":
        # with an account, the coordinator holds its slot: the worker neither waits nor starts another account's agent
        account = inputs.get("account")
        taken_slot = account is not None
        return cls(
            wait=inputs["wait"] and not taken_slot, ignore_once=inputs["now"], account=account, has_slot=taken_slot
        )


class Dispatcher:
    """Selector of the next agent to start. Earlier agents in ``agents`` are preferred."""

    def __init__(
        self,
        agents: Sequence[Agent],
        patience: RefusalPolicy,
        say: Callable[[str], None] = _silent,
        *,
        told: JsonObject | None = None,
    ) -> None:
        # only agents of the policy's account, if there are any; ``harness limits --host`` shows ``told``
        chosen = tuple(agent for agent in agents if agent.account == patience.account)
        self.agents = chosen or tuple(agents)
        self.patience = patience
        self._say = say
        self._ignore = patience.ignore_once
        self._limits = LimitClock()
        self._last = self.agents[0]
        self._told = None if patience.has_slot else told
        self._agent_slot: HostSlot | None = None
        self._found: Agent | None = None  # while it was waited: its slot is held

    def choose(self) -> Agent:
        """Return the first agent with a free slot and no rate limit. Raise ``LimitInForce`` if no agent can start."""
        if found := self._found:
            self._found = None
            return found
        self.rest()
        if self._ignore:
            self._ignore = False
            self._take_slot(self.agents[0])  # counted if there is one
            return self.agents[0]
        refused: list[RateLimit] = []
        full: tuple[str, str] | None = None
        for agent in self.agents:
            if limit := self._limits.in_force(agent.account):
                refused.append(limit)
            elif why := self._take_slot(agent):
                full = full or (agent.account, why)
            else:
                if agent is not self._last:
                    because = f" ({refused[0]})" if refused else ""
                    name = agent.name if agent.name != self._last.name else agent.account
                    self._say(f"{name} takes over{because}.")
                self._last = agent
                return agent
        if full:
            raise NoRoom(full[1], hint=f"{self.patience.again} later", account=full[0], until=None)
        raise self._refusal(min(refused, key=lambda limit: limit.until))

    def chosen(self, stop_requested: Callable[[], object]) -> Agent:
        """Return the next agent to start. Wait for an agent if the policy allows waiting."""
        try:
            return self.choose()
        except LimitInForce as refusal:
            if not self.patience.waits(refusal):
                raise
            if not self.wait(refusal, stop_requested):
                raise Interrupted("Stopped by the user; no agent was started.", hint=self.patience.again) from None
        return self.choose()

    def _take_slot(self, agent: Agent) -> str | None:
        if self._told is None:
            return None
        found = agent_slots.taken(agent.account, self._told, self._limits)
        if isinstance(found, str):
            return found
        self._agent_slot = found
        return None

    def rest(self) -> None:
        if self._agent_slot:
            self._agent_slot.release()
        self._agent_slot = self._found = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.rest()

    def has_spare(self, agent: Agent) -> bool:
        """Return True if an agent of another account can replace ``agent`` now."""
        # the coordinator may select another account, too
        if self.patience.account:
            return True
        others = (each for each in self.agents if each.account != agent.account)
        return any(self._limits.in_force(each.account) is None for each in others)

    def wait(self, refusal: LimitInForce, stop_requested: Callable[[], object]) -> bool:
        """Wait until an agent can start. Return False if the user stops the wait."""
        self._say(refusal.message)
        if not isinstance(refusal, NoRoom):
            account = shlex.quote(str(refusal.data["account"]))
            self._say(f"Waiting; press Ctrl-C to stop. To continue immediately: harness limits clear {account}")
        try:
            while not stop_requested():
                try:
                    self._found = self.choose()
                    return True
                except LimitInForce as still:
                    left = LOOK_SECONDS
                    told = still.message
                    if not isinstance(still, NoRoom) and (limit := self._limits.in_force(str(still.data["account"]))):
                        left = limit.seconds_left(clock.now())
                        told = f"{limit.account}: {spoken(left)} left"
                    self.patience.countdown(told)
                    time.sleep(min(left, LOOK_SECONDS))
            return False
        finally:
            self.patience.countdown("")

    def _refusal(self, limit: RateLimit) -> LimitInForce:
        left = spoken(limit.seconds_left(clock.now()))
        quoted = f': "{limit.said}"' if limit.said else ""
        return LimitInForce(
            f"Rate limited: {limit}, in {left}{quoted}",
            hint=f"{self.patience.again} after that time; to try immediately: "
            f"harness limits clear {shlex.quote(limit.account)}",
            account=limit.account,
            until=clock.timestamp(limit.until),
            attempt=limit.attempt,
        )


def startable(agents: Sequence[Agent], say: Callable[[str], None], hint: str, place: Path) -> tuple[Agent, ...]:
    """Return the usable agents in the given order. Raise ``ToolMissing`` if the first agent cannot start, or the error
    of any agent that refuses to work in ``place``."""
    first, *others = agents
    if problem := first.problem():
        raise ToolMissing(f"The agent cannot be started: {problem}", hint=hint)
    if refusal := next(filter(None, (each.refusal(place) for each in agents)), None):
        raise refusal
    found = [first]
    for each in others:
        if problem := each.problem():
            say(f"Warning: {each.account} cannot take over: {problem}")
        else:
            found.append(each)
    return tuple(found)


def spoken(seconds: float) -> str:
    """Return a duration as text, such as ``2 d 3 h``, ``2 h 05 min`` or ``12 s``."""
    whole = max(0, -int(-seconds // 1))
    days, hours, minutes = whole // 86_400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {whole % 60:02} s" if minutes else f"{whole} s"
