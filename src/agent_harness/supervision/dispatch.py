"""Which of the allowed agents may be started now: by the clock of rate limits, the first that is not refused.

And how often for one item: starts are counted where no agent is told to look, on the disk before the agent runs, and
nothing but a person's word begins the count anew. So every loop ends, whatever kills the harness in each of its rounds.

Asked right before an agent is needed, so that work without a model goes on. Whoever may wait does so holding nothing
that others need; the wait is in the clock, not in the process. Source: ``features.md`` C28, UAH-374.
"""

import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from agent_harness.agents.base import Agent
from agent_harness.errors import LimitInForce, StartsUsedUp, ToolMissing
from agent_harness.kernel import clock, journal
from agent_harness.kernel.rate_limits import LimitClock, RateLimit

__all__ = ["ITEMS_WORTH", "MOST_STARTS", "Dispatcher", "RefusalPolicy", "StartCount", "go_on", "spoken", "startable"]

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


MOST_STARTS = 200
"""For one item, unless a setting says otherwise: the most that honest work came to is about 60 (three attempts or stuck
sessions, each with a first turn, three fix rounds and the turn that shows evidence, each tried four times), three times
over."""

ITEMS_WORTH = 50
"""All items of a project together may use up as many starts as so many of them: agents can add items, and rename."""


class StartCount:
    """How often agents were started for one item of a project since a person last said "go on".

    Each start is one line of a history beside the verdicts of the project (``starts.jsonl``). The bound is the one of
    the first start that counts, or a lower one of now: an agent that raises it in a file of the project gains nothing
    until a person agrees.
    """

    def __init__(self, folder: str, item: str, *, most: int = MOST_STARTS, hint: str = "harness resume") -> None:
        """``folder`` is the project's own in the user's state; ``hint`` is the command by which a person agrees."""
        self._path = _starts_of(folder)
        self._item = item
        self._most = most
        self._hint = hint

    def used_up(self) -> StartsUsedUp | None:
        """Why no agent may be started for the item any more; ``None`` while one may."""
        return self._over(1)

    def begin(self, run_id: str | None) -> None:
        """Counts one more start, durably, before it is made. ``StartsUsedUp`` beyond the bound, and nothing counted.

        ``Refused`` where the disk does not take it: what cannot be counted is not started.
        """
        if refusal := self._over(1):
            raise refusal
        line = {"at": clock.timestamp(), "item": self._item, "run": run_id, "most": self._most}
        journal.append(self._path, line, durable=True)
        if refusal := self._over(0):  # another worker was as fast
            raise refusal

    def _over(self, more: int) -> StartsUsedUp | None:
        own = together = 0
        most = most_together = self._most
        for line in journal.newest(self._path):
            bound = line.get("most")
            if line.get("goes_on"):
                break  # so that a look costs what counts, however long the history is
            if isinstance(bound, int):
                most_together, together = bound, together + 1
                if line.get("item") == self._item:
                    most, own = bound, own + 1
        if own + more > min(most, self._most):
            return self._refusal(f"The agent was started {own} times for {self._item}, and it is not done")
        if together + more > ITEMS_WORTH * min(most_together, self._most):
            return self._refusal(f"Agents were started {together} times since a person last looked")
        return None

    def _refusal(self, told: str) -> StartsUsedUp:
        return StartsUsedUp(f"{told}; none is started before a person agrees.", hint=self._hint, item=self._item)


def go_on(folder: str) -> None:
    """A person agrees that agents are started as often again, for every item of the project."""
    path = _starts_of(folder)
    last = journal.tail(path, 1)
    if last and not last[0].get("goes_on"):
        journal.append(path, {"at": clock.timestamp(), "goes_on": True}, durable=True)


def _starts_of(folder: str) -> Path:
    return Path(folder, "starts.jsonl")


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
