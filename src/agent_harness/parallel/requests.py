"""Requests of the user to a parallel run: the check of a request, and its delivery to the coordinator.

``granted`` turns a request into an event of the ledger. If the request is impossible, it raises an error that lists the
possible requests. ``told`` describes such an event to the user. Each request is a file in ``parallel/mailbox``:

    ID.json          {"id", "verb", "args", "by", "at"}, written by the requester
    ID.taken.json    the same file, renamed when the coordinator takes it, so that it can no longer be withdrawn
    ID.answer.json   written by the coordinator, deleted by the requester

If the process of a request has exited, the request is discarded. Any other file is reported once and stays."""

import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from difflib import get_close_matches

from agent_harness.errors import Busy, HarnessError, UsageError
from agent_harness.kernel import clock, files, owner
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.owner import Owner
from agent_harness.parallel.plan import LANDING, READY, WORKING, RunPlan
from agent_harness.session.parallel_settings import MOST_WORKERS

SCALE, RECALL = "scale", "recall"
HOLD, RELEASE, DROP, FIRST = "hold", "release", "drop", "first"
OF_QUEUE = (HOLD, RELEASE, DROP, FIRST)
"""Names of the requests about candidates. These requests can also be carried out when no run is active."""
_NAME = re.compile(r"([0-9a-f]{24})(\.taken|\.answer)?\.json")
_LONGEST = 64 * 1024
_HALF = re.compile(r"[0-9a-f]{24}\.(taken\.|answer\.)?json\.tmp\..*")
_STALE_SECONDS = 600.0


def granted(plan: RunPlan, verb: str, args: JsonObject) -> tuple[str, JsonObject]:
    """Return the type and the members of the ledger event for a user's request."""
    if verb == SCALE:
        workers = args.get("workers")
        if type(workers) is not int or not 1 <= workers <= MOST_WORKERS:
            raise UsageError(f"workers must be between 1 and {MOST_WORKERS}, got {workers!r}", hint="harness scale 4")
        return "scaled", {"workers": workers}
    item = str(args.get("item"))
    if verb == RECALL:
        return _recalled(plan, item)
    if verb not in OF_QUEUE:
        raise UsageError(f"Unknown request to a parallel run: {verb}", hint="harness queue --help")
    item = item if item in plan.busy or item in plan.held else item.removeprefix("#")
    kind, known = _of_queue(plan, verb)
    if item not in known:
        if item in plan.in_state(LANDING):
            raise Busy(f"{item} is being verified for the merge", hint="harness queue")
        raise _unknown(item, "is held" if verb == RELEASE else "waits to be merged", known, "harness queue")
    if verb != DROP:
        return kind, {"item": item}
    return kind, {"item": item, "order": plan.work(item).job, "commit": plan.work(item).commit}


def _of_queue(plan: RunPlan, verb: str) -> tuple[str, list[str]]:
    return {
        HOLD: ("held", plan.in_state(READY, WORKING)),
        RELEASE: ("unheld", [*plan.held]),
        DROP: ("dropped", plan.in_state(READY)),
        FIRST: ("first", plan.in_state(READY)),
    }[verb]


def _recalled(plan: RunPlan, named: str) -> tuple[str, JsonObject]:
    slots = {plan.work(item).slot: item for item in plan.in_state(WORKING)}
    items = {item: slot for slot, item in slots.items()}
    item = slots.get(named) or (named if named in items else named.removeprefix("#"))
    if item not in items:
        known = [f"{slot} ({item})" for slot, item in slots.items()]
        raise _unknown(named, "is running", known, "harness status", words=[*slots, *items])
    return "recalled", {"item": item, "order": plan.work(item).job, "slot": items[item]}


def _unknown(named: str, what: str, known: list[str], hint: str, words: list[str] | None = None) -> UsageError:
    near = get_close_matches(named, words or known, 1, 0.6)
    meant = f" Did you mean '{near[0]}'?" if near else ""
    there = f"nothing named {named} {what}; known: {', '.join(known[:10])}.{meant}" if known else f"nothing {what}"
    return UsageError(there, hint=hint)


def told(event: JsonObject) -> str:
    item = event.get("item")
    match event["type"]:
        case "scaled":
            many = "1 worker" if event["workers"] == 1 else f"{event['workers']} workers"
            return f"{many} from now on; slots beyond that close when their attempt ends."
        case "recalled":
            return (
                f"{event['slot']} {item}: ends after its current operation; its work is kept, and no attempt is "
                "counted."
            )
        case "held":
            return f"{item} is held back, and is not merged. To merge it: harness queue release {item}"
        case "unheld":
            return f"{item} is no longer held back. It is merged when its turn comes."
        case "first":
            return f"{item} is merged next."
    return f"{item} is removed from the queue. Its candidate is kept in {event.get('rescue')}"


# ---- how it gets there ----------------------------------------------------------------------------------------------


class Mailbox:
    """Mailbox for the user's requests to the parallel runs in ``folder``."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, "mailbox")
        self._named: set[str] = set()

    def _path(self, request: str, kind: str = "") -> str:
        return os.path.join(self._folder, f"{request}{kind}.json")

    # ---- who asks

    def post(self, verb: str, args: JsonObject) -> str:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        request = secrets.token_hex(12)
        known = {"id": request, "verb": verb, "args": args, "by": owner.current().as_record(), "at": clock.timestamp()}
        files.write_json(self._path(request), known)
        return request

    def answered(self, request: str) -> JsonObject | None:
        path = self._path(request, ".answer")
        try:
            found = files.read_json(path)
        except (OSError, HarnessError):
            return None
        files.unlink(path)
        return found

    def withdraw(self, request: str) -> bool:
        """Withdraw a request. Return False if the coordinator has already taken it."""
        try:
            os.unlink(self._path(request))
        except FileNotFoundError:
            return False
        return True

    def forget(self, request: str) -> None:
        for kind in ("", ".taken", ".answer"):
            files.unlink(self._path(request, kind))

    # ---- the coordinator

    def taken(self, say: Callable[[str], None]) -> Iterator[JsonObject]:
        """Take all open requests, and yield them with the oldest first."""
        try:
            entries = sorted(os.scandir(self._folder), key=lambda each: each.stat(follow_symlinks=False).st_mtime_ns)
        except OSError:  # none, or one that was withdrawn at this moment
            return
        for entry in entries:
            found = _NAME.fullmatch(entry.name)
            if _HALF.fullmatch(entry.name) or (found and found[2] == ".answer"):
                self._forget_stale(entry)
                continue
            request = self._read(entry) if found else None
            if request is None or found is None or request["id"] != found[1]:
                self._name(entry.name, say)
                continue
            by = Owner.from_record(request.get("by"))
            if by is None or owner.state(by) == "dead":
                self.forget(found[1])
                continue
            if not found[2]:
                try:
                    os.rename(entry.path, self._path(found[1], ".taken"))
                except FileNotFoundError:
                    continue
            # a taken request cannot be withdrawn
            yield request

    def _read(self, entry: "os.DirEntry[str]") -> JsonObject | None:
        try:
            seen = entry.stat(follow_symlinks=False)
            if not stat.S_ISREG(seen.st_mode) or seen.st_size > _LONGEST:
                return None
            found = files.read_json(entry.path)
        except (OSError, HarnessError):
            return None
        is_known = isinstance(found.get("verb"), str) and isinstance(found.get("args"), dict)
        return found if is_known and isinstance(found.get("id"), str) else None

    def _forget_stale(self, entry: "os.DirEntry[str]") -> None:
        with suppress(OSError):
            if entry.stat(follow_symlinks=False).st_mtime < time.time() - _STALE_SECONDS:
                os.unlink(entry.path)

    def _name(self, name: str, say: Callable[[str], None]) -> None:
        if name not in self._named:
            self._named.add(name)
            say(f"{os.path.join(self._folder, name)} is not a request; it is ignored")

    def answer(self, request: str, found: JsonObject) -> None:
        with suppress(HarnessError, OSError):
            files.write_json(self._path(request, ".answer"), {"id": request, **found})
        files.unlink(self._path(request, ".taken"))
