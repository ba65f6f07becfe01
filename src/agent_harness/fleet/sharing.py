"""Calculation of the number of agents for each project of a fleet, as pure functions without a clock or disk access.

A project with priority 1 comes before a project with priority 5. Up to a twentieth of the agents is reserved for each
lower priority that wants agents. Within a priority, the next agent goes to the project with the fewest agent-minutes
relative to its weight. If an account has reached its limit, no project gets another agent of this account (SC-60)."""

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

KEPT_SHARE = 0.05
QUANTUM_MINUTES = 20.0
"""Duration in minutes that the calculation assumes for one agent attempt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SlotRequest:
    """Request of one project for agents, with its limits and past usage."""

    project: str
    wants: int  # agents that would find work, those at work included
    most: int  # its own limit
    priority: int = 3
    weight: float = 1.0
    minutes: float = 0.0  # agent-minutes that count for it, see ``FairClock``
    account: str = ""  # of its agents, if known

    @property
    def count(self) -> int:
        return min(self.wants, self.most)


def shares(agents: int, requests: Iterable[SlotRequest], rooms: Mapping[str, int] | None = None) -> dict[str, int]:
    """Assign agents to projects. Return the number of agents for each project with at least one agent."""
    # no agent stays idle while a project may use it; ``rooms`` limits the agents of each account
    classes: dict[int, list[SlotRequest]] = {}
    for request in requests:
        if request.count > 0:
            classes.setdefault(request.priority, []).append(request)
    order = sorted(classes)
    wanted = {priority: sum(request.count for request in classes[priority]) for priority in order}
    kept = {priority: min(wanted[priority], int(agents * KEPT_SHARE)) for priority in order[1:]}
    left, room = agents, dict(rooms or {})
    found: dict[str, int] = {}
    for priority in order:
        others = sum(kept.get(lower, 0) for lower in order if lower > priority)
        left -= _give(left - others, classes[priority], found, room)
    for priority in order:  # what others could not take, since their accounts are full
        left -= _give(left, classes[priority], found, room)
    return found


def _give(agents: int, requests: Sequence[SlotRequest], found: dict[str, int], room: dict[str, int]) -> int:
    """Assign up to ``agents`` agents by start-time fair queueing. Return the number of assigned agents."""
    count = [found.get(request.project, 0) for request in requests]
    heap = [
        ((w.minutes + QUANTUM_MINUTES * count[n]) / w.weight, n) for n, w in enumerate(requests) if count[n] < w.count
    ]
    heapq.heapify(heap)
    left = max(0, agents)
    while left > 0 and heap:
        at, number = heapq.heappop(heap)
        request = requests[number]
        if room.get(request.account, 1) <= 0:
            continue
        if request.account in room:
            room[request.account] -= 1
        count[number] += 1
        found[request.project] = count[number]
        left -= 1
        if count[number] < request.count:
            heapq.heappush(heap, (at + QUANTUM_MINUTES / request.weight, number))
    return max(0, agents) - left


class FairClock:
    """Counter of each project's agent-minutes, which gives new projects no credit for earlier time."""

    def __init__(self, minutes: Mapping[str, float] | None = None) -> None:
        self._minutes = dict(minutes or {})
        self._active: set[str] = set()

    def minutes(self, project: str) -> float:
        return self._minutes.get(project, 0.0)

    def wanting(self, requests: Iterable[tuple[str, float]]) -> None:
        """Record which projects want agents now, and the weight of each project."""
        # a new project starts at the lowest agent-minutes per weight of the others
        now = dict(requests)
        there = [self.minutes(each) / now[each] for each in self._active if each in now]
        floor = min(there, default=0.0)
        for project in now.keys() - self._active:
            self._minutes[project] = max(self.minutes(project), floor * now[project])
        self._active = set(now)

    def used(self, project: str, minutes: float) -> None:
        self._minutes[project] = self.minutes(project) + minutes

    def as_record(self) -> dict[str, float]:
        return {project: round(minutes, 2) for project, minutes in self._minutes.items()}
