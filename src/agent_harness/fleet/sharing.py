"""How many agents each project gets, as a rule without a clock, a disk or an agent. SC-60.

Classes by priority, 1 before 5: each class below the first one that wants anything keeps a twentieth of the agents for
itself. Within a class agent-minutes are shared by weight: who has had the least of them for its weight is next. Nobody
gets an agent of an account that has no room for one.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

KEPT_SHARE = 0.05
QUANTUM_MINUTES = 20.0
"""What an agent is expected to take: the usual attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wish:
    """What one project wants, and what it has had."""

    project: str
    wants: int  # agents that would find work, those at work included
    most: int  # its own limit
    priority: int = 3
    weight: float = 1.0
    minutes: float = 0.0  # agent-minutes that count for it, see ``FairClock``
    account: str = ""  # of its agents, where that is known

    @property
    def count(self) -> int:
        """The agents that it can use."""
        return min(self.wants, self.most)


def shares(agents: int, wishes: Iterable[Wish], rooms: Mapping[str, int] | None = None) -> dict[str, int]:
    """Agents by project; projects that get none are left out. All agents are given as long as somebody may have them.

    ``rooms``: of each account that has a limit, how many agents there may be of all projects together.
    """
    classes: dict[int, list[Wish]] = {}
    for wish in wishes:
        if wish.count > 0:
            classes.setdefault(wish.priority, []).append(wish)
    order = sorted(classes)
    wanted = {priority: sum(wish.count for wish in classes[priority]) for priority in order}
    kept = {priority: min(wanted[priority], int(agents * KEPT_SHARE)) for priority in order[1:]}
    left, room = agents, dict(rooms or {})
    found: dict[str, int] = {}
    for priority in order:
        others = sum(kept.get(lower, 0) for lower in order if lower > priority)
        left -= _give(left - others, classes[priority], found, room)
    for priority in order:  # what others could not take, since their accounts are full
        left -= _give(left, classes[priority], found, room)
    return found


def _give(agents: int, wishes: Sequence[Wish], found: dict[str, int], room: dict[str, int]) -> int:
    """Start-time fair queueing: each agent goes to whose virtual time is the smallest. How many were given."""
    count = [found.get(wish.project, 0) for wish in wishes]
    heap = [
        ((w.minutes + QUANTUM_MINUTES * count[n]) / w.weight, n) for n, w in enumerate(wishes) if count[n] < w.count
    ]
    heapq.heapify(heap)
    left = max(0, agents)
    while left > 0 and heap:
        at, number = heapq.heappop(heap)
        wish = wishes[number]
        if room.get(wish.account, 1) <= 0:
            continue
        if wish.account in room:
            room[wish.account] -= 1
        count[number] += 1
        found[wish.project] = count[number]
        left -= 1
        if count[number] < wish.count:
            heapq.heappush(heap, (at + QUANTUM_MINUTES / wish.weight, number))
    return max(0, agents) - left


class FairClock:
    """The agent-minutes of each project, as they count: who comes late has no claim on what others had before."""

    def __init__(self, minutes: Mapping[str, float] | None = None) -> None:
        self._minutes = dict(minutes or {})
        self._active: set[str] = set()

    def minutes(self, project: str) -> float:
        """What counts for it."""
        return self._minutes.get(project, 0.0)

    def wanting(self, wishes: Iterable[tuple[str, float]]) -> None:
        """These projects, with their weights, want agents now: who did not before begins where the others are."""
        now = dict(wishes)
        there = [self.minutes(each) / now[each] for each in self._active if each in now]
        floor = min(there, default=0.0)
        for project in now.keys() - self._active:
            self._minutes[project] = max(self.minutes(project), floor * now[project])
        self._active = set(now)

    def used(self, project: str, minutes: float) -> None:
        """Its agents have worked for so long."""
        self._minutes[project] = self.minutes(project) + minutes

    def as_record(self) -> dict[str, float]:
        """For the next supervisor."""
        return {project: round(minutes, 2) for project, minutes in self._minutes.items()}
