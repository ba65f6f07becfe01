"""One budget for all who work at once: what each of them spends is on the disk before it may spend more.

    spending/settled.json      what the jobs that are over have spent, and the dearest call so far
    spending/ORDER.json        what one job has spent so far, its dearest call, what it was allowed, and each try
    spending/late/ORDER.N.json what try N of a job had spent, told after the job was over, until a journal has it

Whoever works on another machine is allowed an amount at the beginning, all of which is reserved until it is over.
Before another job makes another call, that call is reserved at the price of its dearest one, as are those of all
others; where this does not fit into the budget, its turn ends. So all of them together go over it by what a call costs
more than any before it. A call whose like nobody has seen, the first ones of a run, reserves nothing. SC-42.
"""

import fcntl
import os
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from agent_harness.kernel import files
from agent_harness.kernel.json import JsonObject, number_below

MOST_USD = 1e12
_SETTLED = "settled.json"


@dataclass(frozen=True, kw_only=True)
class LateCost:
    """What one try of a job had spent, in US dollars, as it is told when the job is over."""

    job: str
    attempt: str
    spent: float


@dataclass(frozen=True, kw_only=True)
class CountedCost:
    """What a journal has counted of a job, in US dollars: in all, and of each try as far as that is known."""

    spent: float = 0.0
    tries: Mapping[str, float]

    @classmethod
    def of(cls, events: Iterable[JsonObject]) -> "CountedCost":
        """By the events of that job."""
        spent, tries = 0.0, dict[str, float]()
        for each in events:
            spent += float(each.get("cost_usd") or 0.0)
            tries = most_of_each(tries, each.get("tries_usd") or {})
        return cls(spent=spent, tries=tries)

    def with_more(self, told: Mapping[str, float]) -> "CountedCost":
        """The same, once it is known what a try has spent; repeatable.

        What was counted without saying for which try is taken for a part of it: nothing counts twice.
        """
        tries = most_of_each(self.tries, told)
        return CountedCost(spent=max(self.spent, sum(tries.values())), tries=tries)


def most_of_each(known: Mapping[str, float], told: Mapping[str, float]) -> dict[str, float]:
    """Of each try the greater amount: what it has spent only grows."""
    return {name: max(known.get(name, 0.0), told.get(name, 0.0)) for name in {**known, **told}}


class SharedBudget:
    """The spending of one run, in the folder of its coordinator."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, "spending")

    @contextmanager
    def _locked(self) -> Iterator[dict[str, JsonObject]]:
        """All that is known, while nobody else writes."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        lock = os.open(os.path.join(self._folder, "lock"), os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            names = (name for name in os.listdir(self._folder) if name.endswith(".json"))
            yield {name: _read(os.path.join(self._folder, name)) for name in names}
        finally:
            os.close(lock)

    def _write(self, name: str, record: JsonObject) -> None:
        files.write_json(os.path.join(self._folder, name), record)

    def elsewhere(self, job: str, spent: float) -> float:
        """What is spent and reserved beside what the job has spent by now, which is written down."""
        name = f"{job.replace('/', '.')}.json"
        with self._locked() as known:
            own = known.pop(name, {"spent": 0.0, "call": 0.0})
            own |= {"spent": spent, "call": max(own["call"], spent - own["spent"])}
            self._write(name, own)
            settled = known.pop(_SETTLED, {"spent": 0.0, "call": 0.0})
        dearest = max([each["call"] for each in (own, settled, *known.values())])
        reserved = sum(_held(each, dearest) for each in known.values())
        mine = own["call"] or dearest
        return float(settled["spent"] + reserved + (mine if known else 0.0))

    def allow(self, job: str, amount: float | None) -> None:
        """Reserves an amount for a job that is carried out elsewhere; ``None``: nothing limits it."""
        if amount is not None:
            name = f"{job.replace('/', '.')}.json"
            with self._locked() as known:
                self._write(name, known.get(name, {"spent": 0.0, "call": 0.0}) | {"allowed": amount})

    def hear(self, job: str, tries: Mapping[str, float]) -> None:
        """What the tries of a job elsewhere say that they have spent: known also where it comes to no result."""
        name = f"{job.replace('/', '.')}.json"
        with self._locked() as known:
            own = known.get(name, {"spent": 0.0, "call": 0.0})
            before = own.get("tries", {})
            if (after := most_of_each(before, tries)) != before:
                self._write(name, own | {"spent": max(own["spent"], sum(after.values())), "tries": after})

    def tries(self, job: str) -> dict[str, float]:
        """What each try of a job elsewhere has said, of one that is not settled."""
        with self._locked() as known:
            return dict(known.get(f"{job.replace('/', '.')}.json", {}).get("tries", {}))

    def spent(self, job: str) -> float:
        """What a job that is not settled has written down."""
        with self._locked() as known:
            return float(known.get(f"{job.replace('/', '.')}.json", {}).get("spent", 0.0))

    def settle(self, job: str, spent: float) -> float:
        """The job is over; what it has spent, which is at least what it had written down.

        To be called once a journal says what it has spent: nothing else does afterwards.
        """
        name = f"{job.replace('/', '.')}.json"
        with self._locked() as known:
            own = known.get(name, {"spent": 0.0, "call": 0.0})
            total = max(spent, float(own["spent"]))
            settled = known.get(_SETTLED, {"spent": 0.0, "call": 0.0})
            call = max(own["call"], settled["call"])
            self._write(_SETTLED, {"spent": settled["spent"] + total, "call": call})
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self._folder, name))
        return total

    def begin(self, spent: float, left: Collection[str] = ()) -> None:
        """Nobody is at work; so much was spent before. Jobs of ``left`` were, and are to be settled yet."""
        kept = {f"{job.replace('/', '.')}.json" for job in left}
        with self._locked() as known:
            call = max((each["call"] for each in known.values()), default=0.0)
            for name in known.keys() - kept:
                os.unlink(os.path.join(self._folder, name))
            self._write(_SETTLED, {"spent": spent, "call": call if spent else 0.0})

    def note_late(self, job: str, attempt: str, spent: float) -> None:
        """Keeps what a try of a job that is over had spent until a journal has it: ``late``, ``forget_late``."""
        os.makedirs(folder := os.path.join(self._folder, "late"), mode=0o700, exist_ok=True)
        record = {"order": job, "try": attempt, "spent": spent}
        files.write_json(os.path.join(folder, _late_name(job, attempt)), record)

    def late(self) -> list[LateCost]:
        """What is kept of such tries."""
        folder, found = os.path.join(self._folder, "late"), list[LateCost]()
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            known = files.read_json_if_any(os.path.join(folder, name))
            spent = number_below(known.get("spent"), MOST_USD) or 0.0
            found.append(LateCost(job=str(known.get("order")), attempt=str(known.get("try")), spent=spent))
        return found

    def forget_late(self, known: LateCost) -> None:
        """A journal has it."""
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self._folder, "late", _late_name(known.job, known.attempt)))

    def standing(self) -> tuple[float, float]:
        """What is spent by now, also by jobs under way, and what is reserved beside."""
        with self._locked() as known:
            settled = known.pop(_SETTLED, {"spent": 0.0, "call": 0.0})
        dearest = max([each["call"] for each in (settled, *known.values())])
        spent = settled["spent"] + sum(each["spent"] for each in known.values())
        return round(spent, 4), round(sum(_held(each, dearest) - each["spent"] for each in known.values()), 4)

    def left(self, limit: float) -> float:
        """What one more job may spend, after one call that is reserved for each; may be less than nothing."""
        with self._locked() as known:
            settled = known.pop(_SETTLED, {"spent": 0.0, "call": 0.0})
        dearest = max([each["call"] for each in (settled, *known.values())])
        reserved = sum(_held(each, dearest) for each in known.values())
        return float(limit - settled["spent"] - reserved - dearest)


def _read(path: str) -> JsonObject:
    """The amounts in a file; nothing for one that is none, since the journal tells what the jobs have spent."""
    found = files.read_json_if_any(path)
    names = ("spent", "call", *(["allowed"] if "allowed" in found else []))
    known: JsonObject = {name: number_below(found.get(name), MOST_USD) or 0.0 for name in names}
    tries = found.get("tries")
    if isinstance(tries, dict):
        known["tries"] = {name: number_below(each, MOST_USD) or 0.0 for name, each in tries.items()}
    return known


def _late_name(job: str, attempt: str) -> str:
    return f"{job.replace('/', '.')}.{attempt}.json"


def _held(known: JsonObject, dearest: float) -> float:
    """What a job under way has spent or may spend before anybody looks again."""
    return float(max(known["spent"] + (known["call"] or dearest), known.get("allowed", 0.0)))
