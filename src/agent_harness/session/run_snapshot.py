"""Snapshot of an active parallel run, in a project file that other commands read: ``.harness/parallel.json``.

    {"v":1, "owner":{"pid":...}, "run":"3f1c", "engine":"local", "at":"...Z", "blocked":null,
     "workers":[{"slot":"w1", "host":..., "item":"5", "title":..., "order":"3f1c/5/1", "phase":"judging", "since":...,
                 "tokens":{...}, "cost_usd":0.11, "last":[...], "can":["say"]}],
     "queue":[{"item":"4", "fence":1, "since":..., "batch":null, "state":"held"}],
     "landed":3, "bounced":1, "lost":0, "parked":[{"item":"7", "reason":"landing_failed"}],
     "budget":{"spent":1.2, "reserved":0.4, "limit":10.0}, "hands":{"have":4, "busy":2},
     "unpushed":{"commit":"c0ffee...", "why":"origin cannot be reached (...)", "message":"Not pushed: ..."}}

The coordinator replaces the file at most once a second. An agent can also write to the file, so a member of the wrong
type counts as missing. No decision of the run depends on the file, and write errors are ignored. A reader checks if the
process that wrote the file is alive. The file is deleted at the end of a run that has nothing left to merge or push.
The module has only fast imports, because ``status`` imports it."""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress

from agent_harness.kernel.json import dollars, members_of, objects_in

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from agent_harness.kernel.json import JsonObject

__all__ = [
    "MOST_AGENTS",
    "RunSnapshot",
    "agents",
    "at_work",
    "held",
    "lines",
    "put",
    "workspace_of",
    "spent_usd",
    "told",
    "worker_on",
    "workers",
]

WRITE_SECONDS = 1.0
QUIET_SECONDS = 15
"""Number of seconds without an update of the snapshot after which a live coordinator is reported as silent."""
MOST_BYTES = 4 << 20
MOST_AGENTS = 16
"""Maximum number of agents that are shown on one screen with a line each."""


class RunSnapshot:
    """Snapshot file of one parallel run."""

    def __init__(self, path: str | None) -> None:
        self._path = path
        self._next = 0.0  # of the monotonic clock, when it may be written again

    def show(self, view: Callable[[], JsonObject], *, now: bool = False) -> None:
        """Write the result of ``view`` to the file, normally at most once a second."""
        if self._path is None or (time.monotonic() < self._next and not now):
            return
        self._next = time.monotonic() + WRITE_SECONDS
        with suppress(OSError):
            _write(self._path, {"v": 1, **view()})

    def close(self) -> None:
        if self._path is not None:
            with suppress(OSError):
                os.unlink(self._path)


def change(path: str | None, **members: object) -> None:
    """Replace members in the snapshot of a finished run."""
    found = path and _read(path)
    if path and found:
        with suppress(OSError):
            _write(path, {**found[0], **members})


def _write(path: str, record: JsonObject) -> None:
    if not os.path.islink(os.path.dirname(path)):  # a link of somebody else is not followed
        put(path, record)


def put(path: str, record: JsonObject) -> None:
    """Write the record to a file. A reader never sees a partial file."""
    import json  # late: readers of other records need only a parser

    part = f"{path}.part"
    with suppress(FileNotFoundError):
        os.unlink(part)  # left by a killed writer, or forged: it is never opened
    descriptor = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        json.dump(record, file, ensure_ascii=True)
    # a power failure may lose the new file
    os.replace(part, path)


def _read(path: str) -> tuple[JsonObject, float] | None:
    with suppress(OSError, ValueError, RecursionError):
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        import json  # late: mostly there is no snapshot

        with open(descriptor, encoding="utf-8") as file:
            known = os.fstat(descriptor)
            if not stat.S_ISREG(known.st_mode) or known.st_size > MOST_BYTES:
                return None
            record = json.load(file)
        if isinstance(record, dict) and record.get("v") == 1:
            return record, known.st_mtime
    return None


def told(path: str) -> JsonObject | None:
    """Return the snapshot for a JSON answer, or None without a snapshot."""
    found = _read(path)
    if found is None:
        return None
    from agent_harness.kernel import owner

    record, written = found
    who = owner.Owner.from_record(record.get("owner"))
    is_alive = who is not None and owner.state(who) == "alive"
    return {**record, "alive": is_alive, "age_seconds": max(0, round(time.time() - written))}


def at_work(found: JsonObject | None) -> str | None:
    if not found or not found.get("alive"):
        return None
    number = agents(found)
    return f"{number} agent{'s' if number != 1 else ''} at work"


def agents(found: JsonObject | None) -> int:
    return len(workers(found)) if found and found.get("alive") else 0


def workers(found: Mapping[str, object] | None) -> list[JsonObject]:
    return objects_in((found or {}).get("workers"))


def spent_usd(found: JsonObject) -> float:
    return dollars(members_of(found.get("budget")).get("spent")) or 0.0


def worker_on(found: JsonObject | None, item: str) -> Mapping[str, object] | None:
    """Return the running worker that works on an item, or None."""
    rows = workers(found) if found and found.get("alive") else []
    return next((each for each in rows if str(each.get("item")) == item), None)


def workspace_of(worker: Mapping[str, object], state_folder: str) -> str | None:
    """Return the folder of a worker's workspace on this machine, or None."""
    slot = str(worker.get("slot"))
    is_slot = slot[:1] == "w" and slot[1:].isdecimal()  # anybody may have written the file
    return os.path.join(state_folder, "parallel", "places", slot) if is_slot else None


def _held(found: JsonObject) -> list[str]:
    return [str(each.get("item")) for each in objects_in(found.get("queue")) if each.get("state") == "held"]


def held(found: JsonObject | None) -> list[str]:
    """Return the items that an ended run did not merge, because the user held them."""
    return _held(found) if found and not found.get("alive") else []


def lines(found: JsonObject | None, named: Callable[[str], str] = str, *, most: int | None = None) -> list[str]:
    """Return the snapshot as lines of text, with at most ``most`` agents."""
    if found is None:
        return []
    workers = objects_in(found.get("workers"))
    age = _count(found.get("age_seconds"))
    slots, budget = members_of(found.get("hands")), members_of(found.get("budget"))
    counts = [f"{_count(found.get(name))} {name}" for name in ("landed", "bounced", "lost") if _count(found.get(name))]
    agents = f"{len(workers)} of {_count(slots.get('have'))} agents at work"
    parts = [agents, *counts, *_money(budget)]
    text = [f"Parallel run {found.get('run')}: {', '.join(parts)}"]
    if not found.get("alive"):
        text = [f"Parallel run {found.get('run')} is over; its state {_span(age)} ago: {', '.join(parts)}"]
    elif age > QUIET_SECONDS:
        text[0] += f" ({_span(age)} ago)"
    was = "" if found.get("alive") else "was "
    for each in workers[:most]:
        shown = [f"{was}{each.get('phase')}", _since(each.get("since"), age), *_money({"spent": each.get("cost_usd")})]
        told = ", ".join(filter(None, shown))
        # the title is last, because a narrow screen cuts the end of a line
        text.append(f"  {each.get('slot')}  {named(str(each.get('item')))} ({told}): {each.get('title')}")
    if left := len(workers[len(workers) if most is None else most :]):
        text.append(f"  ... and {left} more agents: harness status --all")
    if queue := objects_in(found.get("queue")):
        rows = (
            f"{named(str(each.get('item')))} {each.get('state')} (attempt {_count(each.get('fence'))})"
            for each in queue[:10]
        )
        more = f", and {len(queue) - 10} more" if len(queue) > 10 else ""
        text.append(f"  To merge: {', '.join(rows)}{more}")
    kept = _held(found)
    text += [f"  Held back, and not merged. To merge: harness queue release {kept[0]}"] if kept else []
    parked = [f"{named(str(each.get('item')))} ({each.get('reason')})" for each in objects_in(found.get("parked"))]
    text += [f"  Waiting for you: {', '.join(parked[:10])}"] if parked else []
    limits = found.get("limits")
    text += [f"  {each}" for each in limits[:10] if isinstance(each, str)] if isinstance(limits, list) else []
    text += [f"  {blocked}"] if (blocked := found.get("blocked")) else []
    unpushed = members_of(found.get("unpushed")).get("message")
    text += [f"  {unpushed}"] if unpushed and unpushed != blocked else []
    return text


def _count(found: object) -> int:
    return found if type(found) is int else 0


def _money(budget: Mapping[str, object]) -> list[str]:
    spent, reserved, limit = (dollars(budget.get(name)) for name in ("spent", "reserved", "limit"))
    if spent is None:
        return []
    most = "" if limit is None else f" of ${limit:.2f}"
    return [f"${spent:.2f}{most}" + (f", ${reserved:.2f} reserved" if reserved else "")]


def _since(at: object, age: int) -> str:
    from agent_harness.kernel import clock

    moment = clock.parse(at)
    return _span(max(0, round(time.time() - age - moment.timestamp()))) if moment else ""


def _span(seconds: int) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"
