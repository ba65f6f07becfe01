"""Shared budget of all agents in a run. Each agent's spending is written to disk before the agent may spend more.

    spending/settled.json        spending of finished jobs, and the most expensive call so far
    spending/ORDER.json          spending of one job, its most expensive call, its allowance, and each try
    spending/late/ORDER.N.json   spending of try N that was reported after the job ended, until a journal records it

At its start, a remote job gets an allowance, which stays reserved until the job ends. Before each call, a job on this
machine reserves the price of its most expensive call. If this reservation exceeds the budget, the job's turn ends. All
jobs together can exceed the budget only if a call is more expensive than every earlier call. The first call of a run
reserves nothing, because its price is unknown. (SC-42)
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
    """Cost in US dollars of one try of a job, reported after the job's end."""

    job: str
    attempt: str
    spent: float


@dataclass(frozen=True, kw_only=True)
class CountedCost:
    """Recorded cost of a job, in US dollars."""

    spent: float = 0.0
    # empty if only the total is known
    tries: Mapping[str, float]

    @classmethod
    def of(cls, events: Iterable[JsonObject]) -> "CountedCost":
        spent, tries = 0.0, dict[str, float]()
        for each in events:
            spent += float(each.get("cost_usd") or 0.0)
            tries = most_of_each(tries, each.get("tries_usd") or {})
        return cls(spent=spent, tries=tries)

    def with_more(self, told: Mapping[str, float]) -> "CountedCost":
        """Return the cost after an update with the reported spending of each try."""
        # the spending of a try only grows, so a repeated report changes nothing
        tries = most_of_each(self.tries, told)
        return CountedCost(spent=max(self.spent, sum(tries.values())), tries=tries)


def most_of_each(known: Mapping[str, float], told: Mapping[str, float]) -> dict[str, float]:
    # spending never decreases
    return {name: max(known.get(name, 0.0), told.get(name, 0.0)) for name in {**known, **told}}


class SharedBudget:
    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, "spending")

    @contextmanager
    def _locked(self) -> Iterator[dict[str, JsonObject]]:
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
        """Record a job's spending. Return the US dollars that other jobs have spent or reserved."""
        name = f"{job.replace('/', '.')}.json"
        with self._locked() as known:
            own = known.pop(name, {"spent": 0.0, "call": 0.0})
            own |= {"spent": spent, "call": max(own["call"], spent - own["spent"])}
            self._write(name, own)
            settled = known.pop(_SETTLED, {"spent": 0.0, "call": 0.0})
        dearest = max([each["call"] for each in (own, settled, *known.values())])
        reserved = sum(_held(each, dearest) for each in known.values())
        mine = own["call"] or dearest
        # beside other jobs, the price of one more call by this job is reserved too
        return float(settled["spent"] + reserved + (mine if known else 0.0))

    def allow(self, job: str, amount: float | None) -> None:
        """Reserve ``amount`` US dollars for a remote job, or nothing if ``amount`` is None."""
        if amount is not None:
            name = f"{job.replace('/', '.')}.json"
            with self._locked() as known:
                self._write(name, known.get(name, {"spent": 0.0, "call": 0.0}) | {"allowed": amount})

    def hear(self, job: str, tries: Mapping[str, float]) -> None:
        """Record the spending that a remote worker reported for each try of a job."""
        name = f"{job.replace('/', '.')}.json"
        with self._locked() as known:
            own = known.get(name, {"spent": 0.0, "call": 0.0})
            before = own.get("tries", {})
            if (after := most_of_each(before, tries)) != before:
                self._write(name, own | {"spent": max(own["spent"], sum(after.values())), "tries": after})

    def tries(self, job: str) -> dict[str, float]:
        """Return the reported spending of each try of a running remote job, in US dollars."""
        with self._locked() as known:
            return dict(known.get(f"{job.replace('/', '.')}.json", {}).get("tries", {}))

    def spent(self, job: str) -> float:
        with self._locked() as known:
            return float(known.get(f"{job.replace('/', '.')}.json", {}).get("spent", 0.0))

    def finalize(self, job: str, spent: float) -> float:
        """Move a finished job's spending into the total, and return the amount added."""
        name = f"{job.replace('/', '.')}.json"
        with self._locked() as known:
            own = known.get(name, {"spent": 0.0, "call": 0.0})
            total = max(spent, float(own["spent"]))
            settled = known.get(_SETTLED, {"spent": 0.0, "call": 0.0})
            call = max(own["call"], settled["call"])
            self._write(_SETTLED, {"spent": settled["spent"] + total, "call": call})
            # a journal must already have recorded the spending, because the job's own record is deleted
            with suppress(FileNotFoundError):
                os.unlink(os.path.join(self._folder, name))
        return total

    def spent_besides(self, jobs: Collection[str]) -> float:
        """Return the spending of all jobs except ``jobs``, in US dollars."""
        names = {f"{job.replace('/', '.')}.json" for job in jobs}
        with self._locked() as known:
            return float(sum(each["spent"] for name, each in known.items() if name not in names))

    def is_settled(self, job: str) -> bool:
        """Return True if the spending of a job that has begun is part of the total."""
        return not os.path.exists(os.path.join(self._folder, f"{job.replace('/', '.')}.json"))

    def begin(self, spent: float, left: Collection[str] = ()) -> None:
        """Set the run's spending to ``spent`` US dollars, and delete the records of jobs outside ``left``."""
        kept = {f"{job.replace('/', '.')}.json" for job in left}
        with self._locked() as known:
            call = max((each["call"] for each in known.values()), default=0.0)
            for name in known.keys() - kept:
                os.unlink(os.path.join(self._folder, name))
            self._write(_SETTLED, {"spent": spent, "call": call if spent else 0.0})

    def note_late(self, job: str, attempt: str, spent: float) -> None:
        """Store spending that was reported after the job's end, until ``forget_late`` is called."""
        os.makedirs(folder := os.path.join(self._folder, "late"), mode=0o700, exist_ok=True)
        record = {"order": job, "try": attempt, "spent": spent}
        files.write_json(os.path.join(folder, _late_name(job, attempt)), record)

    def late(self) -> list[LateCost]:
        folder, found = os.path.join(self._folder, "late"), list[LateCost]()
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            known = files.read_json_if_any(os.path.join(folder, name))
            spent = number_below(known.get("spent"), MOST_USD) or 0.0
            found.append(LateCost(job=str(known.get("order")), attempt=str(known.get("try")), spent=spent))
        return found

    def forget_late(self, known: LateCost) -> None:
        # only after a journal has recorded the spending
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self._folder, "late", _late_name(known.job, known.attempt)))

    def standing(self) -> tuple[float, float]:
        """Return the US dollars spent so far, and the additional US dollars reserved for running jobs."""
        with self._locked() as known:
            settled = known.pop(_SETTLED, {"spent": 0.0, "call": 0.0})
        dearest = max([each["call"] for each in (settled, *known.values())])
        spent = settled["spent"] + sum(each["spent"] for each in known.values())
        return round(spent, 4), round(sum(_held(each, dearest) - each["spent"] for each in known.values()), 4)

    def left(self, limit: float) -> float:
        """Return the US dollars that one more job may spend. The amount is negative if the budget is exceeded."""
        with self._locked() as known:
            settled = known.pop(_SETTLED, {"spent": 0.0, "call": 0.0})
        dearest = max([each["call"] for each in (settled, *known.values())])
        reserved = sum(_held(each, dearest) for each in known.values())
        # one call is reserved for each running job and for the new job
        return float(limit - settled["spent"] - reserved - dearest)


def _read(path: str) -> JsonObject:
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
    """Return the US dollars to reserve for a running job."""
    return float(max(known["spent"] + (known["call"] or dearest), known.get("allowed", 0.0)))
