"""One budget for all agents of a run: each one's spending is on disk before it may spend more.

    spending/settled.json      spending of finished jobs, and the dearest call so far
    spending/ORDER.json        one job's spending so far, its dearest call, its allowance, and each try
    spending/late/ORDER.N.json spending of try N, reported after the job was over, until a journal has it

A remote job gets an allowance at its start, which is reserved until it is over. Before another call, a job reserves
the price of its dearest call, as all others do; if this does not fit into the budget, its turn ends. So together they
exceed the budget by at most the amount by which a call is dearer than any before it. A first call of a run, with no
known price, reserves nothing. SC-42.
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
    """Spending of one try of a job, in US dollars, reported when the job is over."""

    job: str
    attempt: str
    spent: float


@dataclass(frozen=True, kw_only=True)
class CountedCost:
    """Spending of a job according to a journal, in US dollars: in total, and for each try as far as it is known."""

    spent: float = 0.0
    tries: Mapping[str, float]

    @classmethod
    def of(cls, events: Iterable[JsonObject]) -> "CountedCost":
        """Build it from the events of that job."""
        spent, tries = 0.0, dict[str, float]()
        for each in events:
            spent += float(each.get("cost_usd") or 0.0)
            tries = most_of_each(tries, each.get("tries_usd") or {})
        return cls(spent=spent, tries=tries)

    def with_more(self, told: Mapping[str, float]) -> "CountedCost":
        """Return the same with the spending of a try added; repeatable.

        An amount that was counted without a try is taken as a part of it: nothing counts twice.
        """
        tries = most_of_each(self.tries, told)
        return CountedCost(spent=max(self.spent, sum(tries.values())), tries=tries)


def most_of_each(known: Mapping[str, float], told: Mapping[str, float]) -> dict[str, float]:
    """Return the greater amount for each try: its spending only grows."""
    return {name: max(known.get(name, 0.0), told.get(name, 0.0)) for name in {**known, **told}}


class SharedBudget:
    """Spending of one run, in the folder of its coordinator."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, "spending")

    @contextmanager
    def _locked(self) -> Iterator[dict[str, JsonObject]]:
        """Yield all records while nobody else writes."""
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
        """Write the job's spending, and return the amount that is spent and reserved by all others."""
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
        """Reserve an amount for a remote job; None means no limit."""
        if amount is not None:
            name = f"{job.replace('/', '.')}.json"
            with self._locked() as known:
                self._write(name, known.get(name, {"spent": 0.0, "call": 0.0}) | {"allowed": amount})

    def hear(self, job: str, tries: Mapping[str, float]) -> None:
        """Record the reported spending of a remote job's tries, which counts even without a result."""
        name = f"{job.replace('/', '.')}.json"
        with self._locked() as known:
            own = known.get(name, {"spent": 0.0, "call": 0.0})
            before = own.get("tries", {})
            if (after := most_of_each(before, tries)) != before:
                self._write(name, own | {"spent": max(own["spent"], sum(after.values())), "tries": after})

    def tries(self, job: str) -> dict[str, float]:
        """Return the reported spending of each try of a remote job that is not settled."""
        with self._locked() as known:
            return dict(known.get(f"{job.replace('/', '.')}.json", {}).get("tries", {}))

    def spent(self, job: str) -> float:
        """Return the recorded spending of a job that is not settled."""
        with self._locked() as known:
            return float(known.get(f"{job.replace('/', '.')}.json", {}).get("spent", 0.0))

    def finalize(self, job: str, spent: float) -> float:
        """Settle a finished job. Return its spending, which is at least the recorded amount.

        Call it once a journal has the spending: no other record has it afterwards.
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
        """Start with no running job and this amount spent. Keep the jobs of ``left``, which are not settled yet."""
        kept = {f"{job.replace('/', '.')}.json" for job in left}
        with self._locked() as known:
            call = max((each["call"] for each in known.values()), default=0.0)
            for name in known.keys() - kept:
                os.unlink(os.path.join(self._folder, name))
            self._write(_SETTLED, {"spent": spent, "call": call if spent else 0.0})

    def note_late(self, job: str, attempt: str, spent: float) -> None:
        """Keep the spending of a finished job's try until a journal has it: ``late``, ``forget_late``."""
        os.makedirs(folder := os.path.join(self._folder, "late"), mode=0o700, exist_ok=True)
        record = {"order": job, "try": attempt, "spent": spent}
        files.write_json(os.path.join(folder, _late_name(job, attempt)), record)

    def late(self) -> list[LateCost]:
        """Return the kept spending of such tries."""
        folder, found = os.path.join(self._folder, "late"), list[LateCost]()
        for name in sorted(os.listdir(folder)) if os.path.isdir(folder) else ():
            known = files.read_json_if_any(os.path.join(folder, name))
            spent = number_below(known.get("spent"), MOST_USD) or 0.0
            found.append(LateCost(job=str(known.get("order")), attempt=str(known.get("try")), spent=spent))
        return found

    def forget_late(self, known: LateCost) -> None:
        """Remove a record that a journal has now."""
        with suppress(FileNotFoundError):
            os.unlink(os.path.join(self._folder, "late", _late_name(known.job, known.attempt)))

    def standing(self) -> tuple[float, float]:
        """Return the amount spent so far, including running jobs, and the amount reserved beyond it."""
        with self._locked() as known:
            settled = known.pop(_SETTLED, {"spent": 0.0, "call": 0.0})
        dearest = max([each["call"] for each in (settled, *known.values())])
        spent = settled["spent"] + sum(each["spent"] for each in known.values())
        return round(spent, 4), round(sum(_held(each, dearest) - each["spent"] for each in known.values()), 4)

    def left(self, limit: float) -> float:
        """Return the amount that one more job may spend, after one reserved call for each; may be negative."""
        with self._locked() as known:
            settled = known.pop(_SETTLED, {"spent": 0.0, "call": 0.0})
        dearest = max([each["call"] for each in (settled, *known.values())])
        reserved = sum(_held(each, dearest) for each in known.values())
        return float(limit - settled["spent"] - reserved - dearest)


def _read(path: str) -> JsonObject:
    """Return the amounts in a file; zeros for an invalid one, since the journal has the spending of the jobs."""
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
    """Return the amount that a running job has spent or may spend before the next look."""
    return float(max(known["spent"] + (known["call"] or dearest), known.get("allowed", 0.0)))
