"""A parallel run without workers: the real rules under a virtual clock, where attempts and verdicts are values.

It plays the coordinator: each event is applied to the plan and kept, and after a crash the plan is folded from the
events alone. It reports the end of a run, the number of check runs, and the merged items.
"""

import random
from dataclasses import dataclass, field
from itertools import islice

from agent_harness.kernel.json import JsonObject
from agent_harness.parallel import decision, plan
from agent_harness.parallel.items import ACCEPTED, BROKEN, GREEN, PARKED, RED, REJECTED, OpenItem


@dataclass(frozen=True)
class World:
    """Events that happen to the items of a run."""

    size: int
    workers: int
    seed: int = 1
    seconds: float = 6.0  # an attempt
    check_seconds: float = 1.0  # a run of checks
    conflicts: frozenset[tuple[int, int]] = frozenset()  # pairs that do not combine until one was fixed
    breaks: frozenset[tuple[int, int]] = frozenset()  # (a, b): together they fail b's check, until one was fixed
    broken: float = 0.0  # share of runs of checks that the machine ends
    lost: float = 0.0  # share of attempts of which nothing comes back
    rejected: float = 0.0
    deaths: float = 0.0  # of the coordinator, after each event
    batch_max: int = 8
    window: int = 1
    test_runs: int = 1


@dataclass
class Simulated:
    """A simulated run."""

    world: World
    now: float = 0.0
    events: list[JsonObject] = field(default_factory=list)
    checks: int = 0
    deaths: int = 0

    def __post_init__(self) -> None:
        self.choose = random.Random(self.world.seed)
        self.landed: list[str] = []
        self.fixed: set[str] = set()
        self.under: list[tuple[float, int, str, tuple[str, ...]]] = []  # (when, number, kind, words)
        self.number = 0
        self.plan = plan.RunPlan()
        self.proven: set[tuple[str, tuple[str, ...]]] = set()  # heads, and what was verified whole on them
        self.apart: tuple[str, frozenset[str]] = ("", frozenset())
        self.thrown_away = 0  # verdicts on heads that there never were

    def note(self, kind: str, **members: object) -> None:
        event: JsonObject = {"n": len(self.events) + 1, "type": kind, **members}
        self.events.append(event)
        self.plan.apply(event)

    def start(self) -> None:
        world = self.world
        known = {"run": "r", "branch": "main", "workers": world.workers, "head": self.head}
        self.note("run", **known, batch_max=world.batch_max, mends=2, window=world.window)

    @property
    def head(self) -> str:
        return _named(self.landed)

    def die(self) -> None:
        """Lose everything that was not recorded, and all running jobs."""
        self.deaths += 1
        self.under.clear()
        self.plan = plan.fold(self.events)
        self.start()
        for item in self.plan.in_state(plan.WORKING):
            self.note("lost", item=item, order=self.plan.work(item).job, fence=0, with_coordinator=True)

    def items(self) -> list[OpenItem]:
        """Return the first few items that have not landed; every seventh depends on the second one before it."""
        done = {*self.landed}
        names = (n for n in range(self.world.size) if f"i{n}" not in done)
        left = (f"i{n}" for n in names if n % 7 or n < 2 or f"i{n - 2}" in done)
        return [OpenItem(id=name, name=name) for name in islice(left, 100)]

    def run(self) -> "Simulated":
        self.start()
        for _ in range(100_000):
            steps = decision.decide(self.plan, self.facts())
            for step in steps:
                self.do(step)
            if self.choose.random() < self.world.deaths:
                self.die()
            elif not steps or all(isinstance(step, decision.RunChecks | decision.StartAttempt) for step in steps):
                if not self.under:
                    return self
                self.end_first()
        raise AssertionError("it never ends")

    def facts(self) -> decision.Facts:
        checks = [int(words[0]) for _, _, kind, words in self.under if kind == "checks"]
        known = self.plan.under_way
        return decision.Facts(
            items=self.items(),
            slots=self.world.workers - (len(self.under) - len(checks)),
            checking=0 in checks or bool(known and known[0].id in checks),
            may_begin=not self.plan.blocked,
            test_runs=self.world.test_runs - len(checks),
            ahead=frozenset(checks),
            apart=self.apart[1] if known and self.apart[0] == known[-1].tip else frozenset(),
        )

    def end_first(self) -> None:
        self.under.sort()
        when, _, kind, words = self.under.pop(0)
        self.now = max(self.now, when)
        (self.end_attempt if kind == "attempt" else self.end_checks)(*words)

    def begin(self, seconds: float, kind: str, *words: str) -> None:
        self.number += 1
        self.under.append((self.now + seconds, self.number, kind, words))

    def end_attempt(self, item: str, job: str) -> None:
        chance = self.choose.random()
        known = {"item": item, "order": job, "fence": 0}
        if chance < self.world.lost:
            self.note("lost", **known, with_coordinator=False)
        elif chance < self.world.lost + self.world.rejected:
            self.note("ended", **known, status=REJECTED, commit="")
        else:
            if self.plan.work(item).fix:
                self.fixed.add(item)
            self.note("ended", **known, status=ACCEPTED, commit=f"c-{job}")

    def end_checks(self, number: str, prefix: str, *only: str) -> None:
        batches = self.plan.under_way
        batch = next((each for each in batches if each.id == int(number)), None)
        self.checks += 1
        if number == "0":
            self.note("head_trusted", head=self.head, audit=True)
            return
        if batch is None:
            self.thrown_away += 1
            return
        before = [item for each in batches[: batches.index(batch)] for item in each.members]
        members = batch.members[: int(prefix)]
        there = {*self.landed, *before, *members}
        bad = {b for a, b in self.pairs(self.world.breaks) if {a, b} <= there and self.fixed.isdisjoint((a, b))}
        failing = sorted(each for each in bad if not only or each in only)
        result = BROKEN if self.choose.random() < self.world.broken else RED if failing else GREEN
        if result == GREEN and not only:
            self.proven.add((batch.base, tuple(members)))
        self.note("verified", batch=batch.id, prefix=int(prefix), only=[*only], result=result, failing=failing)

    def pairs(self, pairs: frozenset[tuple[int, int]]) -> list[tuple[str, str]]:
        return [(f"i{a}", f"i{b}") for a, b in sorted(pairs)]

    def conflict(self, item: str, before: list[str]) -> bool:
        pairs = self.pairs(self.world.conflicts)
        return item not in self.fixed and any(item in pair and ({*pair} - {item}) & {*before} for pair in pairs)

    def do(self, step: decision.Step) -> None:
        match step:
            case decision.StartAttempt():
                self.job(step)
            case decision.CombineCandidates():
                self.combine(step.items, step.on)
            case decision.RunChecks():
                trial = step.trial
                self.begin(
                    self.world.check_seconds,
                    "checks",
                    str(step.batch),
                    str(trial.prefix if trial else 0),
                    *(trial.only if trial else ()),
                )
            case decision.RejectItem():
                self.note("bounced", item=step.item, mend={"why": "red"})
            case decision.LandBatch():
                self.land(step.count)
            case decision.ReleaseBatch():
                self.note("released", singly=step.singly)
            case decision.AskPerson():
                self.note("blocked", reason=step.reason)

    def job(self, step: decision.StartAttempt) -> None:
        item, fence = step.item.id, self.plan.work(step.item.id).fence + 1
        job = f"r/{item}/{fence}"
        known = {"item": item, "order": job, "fence": fence, "slot": "w1", "base": self.head}
        self.note("ordered", **known, touches=(), reason=step.reason)
        self.begin(self.world.seconds, "attempt", item, job)

    def combine(self, items: tuple[str, ...], on: str) -> None:
        members: list[str] = []
        before = [item for each in self.plan.under_way for item in each.members]
        for item in items:
            met = [*members]
            if not self.conflict(item, [*self.landed, *before, *members]):
                members.append(item)
            elif on:
                self.apart = (on, (self.apart[1] if self.apart[0] == on else frozenset()) | {item})
            else:
                self.note("bounced", item=item, mend={"why": "conflict", "met": met})
        if members:
            vouched = not on and len(members) == 1 and self.plan.work(members[0]).proven_on == self.head
            tip = _named([*self.landed, *before, *members])
            self.note("batched", members=members, commits=members, base=on or self.head, vouched=vouched, tip=tip)

    def land(self, count: int) -> None:
        batch = self.plan.batch
        assert batch is not None
        assert batch.base == self.head, "it lands on another head than it was made for"
        members = tuple(batch.members[: batch.count or count])
        if not batch.landing:
            commit = _named([*self.landed, *members])
            assert commit == batch.tip or len(members) < len(batch.members)
            self.note("landing", batch=batch.id, commit=commit, count=count)
        assert batch.vouched or (self.head, members) in self.proven, f"{members} was not verified on {self.head}"
        for item in members:
            assert item not in self.landed, f"{item} lands twice"
            self.landed.append(item)
        self.note("landed", batch=batch.id, commit=self.head)


def _named(items: list[str]) -> str:
    """Return a commit id that differs for each content."""
    return f"h{len(items)}:{hash(tuple(items))}"


__all__ = ["PARKED", "Simulated", "World"]
