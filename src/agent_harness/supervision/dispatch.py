"""Which of the allowed agents may be started now: by the clock of rate limits, the first that is not refused.

Asked right before an agent is needed, so that work without a model goes on. Whoever may wait does so holding nothing
that others need; the wait is in the clock, not in the process. Source: ``features.md`` C28, UAH-374.
"""

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_harness.agents.base import Agent
from agent_harness.errors import LimitInForce, ToolMissing
from agent_harness.kernel import clock
from agent_harness.kernel.rate_limits import LimitClock, RateLimit

__all__ = ["Dispatcher", "RefusalPolicy", "spoken", "startable"]

LOOK_SECONDS = 0.5  # how long a pause, or a limit that a person has cleared, may go unseen


def _silent(_line: str) -> None:
    return


@dataclass(frozen=True, kw_only=True)
class RefusalPolicy:
    """What is done when every allowed agent is refused for now."""

    wait: bool = False  # until the first may be tried; else LimitInForce
    ignore_once: bool = False  # the first agent is started once as if nothing was known
    countdown: Callable[[str], None] = _silent  # called often with one line while waiting, and with "" at its end
    again: str = "harness run"  # the command that goes on


class Dispatcher:
    """Chooses among agents in their order."""

    def __init__(self, agents: Sequence[Agent], patience: RefusalPolicy, say: Callable[[str], None] = _silent) -> None:
        self.agents = tuple(agents)
        self.patience = patience
        self._say = say
        self._ignore = patience.ignore_once
        self._limits = LimitClock()
        self._last = self.agents[0]

    def choose(self) -> Agent:
        """The first agent that is not refused; ``LimitInForce`` with the first moment at which one may be tried."""
        if self._ignore:
            self._ignore = False
            return self.agents[0]
        refused: list[RateLimit] = []
        for agent in self.agents:
            limit = self._limits.in_force(agent.account)
            if limit is None:
                if agent is not self._last:
                    why = f" ({refused[0]})" if refused else ""
                    name = agent.name if agent.name != self._last.name else agent.account
                    self._say(f"{name} takes over{why}.")
                self._last = agent
                return agent
            refused.append(limit)
        raise self._refusal(min(refused, key=lambda limit: limit.until))

    def has_spare(self, agent: Agent) -> bool:
        """Whether another agent could be started in this one's place."""
        others = (each for each in self.agents if each.account != agent.account)
        return any(self._limits.in_force(each.account) is None for each in others)

    def wait(self, refusal: LimitInForce, stop_requested: Callable[[], object]) -> bool:
        """Waits until an agent may be tried; false when a stop was asked for first."""
        self._say(refusal.message)
        account = shlex.quote(str(refusal.data["account"]))
        self._say(f"Waiting; Ctrl-C ends it. To go on at once: harness limits clear {account}")
        try:
            while not stop_requested():
                limit = self._first()
                if limit is None:
                    return True
                left = limit.seconds_left(clock.now())
                self.patience.countdown(f"{limit.account}: {spoken(left)} left")
                time.sleep(min(left, LOOK_SECONDS))
            return False
        finally:
            self.patience.countdown("")

    def _first(self) -> RateLimit | None:
        """The limit that ends first, ``None`` as soon as one agent is free."""
        limits = [self._limits.in_force(agent.account) for agent in self.agents]
        there = [limit for limit in limits if limit is not None]
        return min(there, key=lambda limit: limit.until) if len(there) == len(limits) else None

    def _refusal(self, limit: RateLimit) -> LimitInForce:
        left = spoken(limit.seconds_left(clock.now()))
        quoted = f': "{limit.said}"' if limit.said else ""
        return LimitInForce(
            f"Rate limited: {limit}, in {left}{quoted}",
            hint=f"{self.patience.again} then, or at once: harness limits clear {shlex.quote(limit.account)}",
            account=limit.account,
            until=clock.timestamp(limit.until),
            attempt=limit.attempt,
        )


def startable(agents: Sequence[Agent], say: Callable[[str], None], hint: str, place: Path) -> tuple[Agent, ...]:
    """These agents without those that could only take over and cannot be started; ``ToolMissing`` for the first one.

    ``UnsafeTree`` where one of them refuses to work in ``place``.
    """
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
    """A span for people, rounded up: ``2 d 3 h``, ``2 h 05 min``, ``4 min 09 s``, ``12 s``."""
    whole = max(0, -int(-seconds // 1))
    days, hours, minutes = whole // 86_400, whole // 3600 % 24, whole // 60 % 60
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes:02} min"
    return f"{minutes} min {whole % 60:02} s" if minutes else f"{whole} s"
