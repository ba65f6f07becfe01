"""What a person may ask of a parallel run, and what follows from it: a rule.

``granted`` turns a request into an event of the ledger, by what the plan knows; what cannot be is an error that names
what can. ``told`` says of such an event what a person is told.
"""

from difflib import get_close_matches

from agent_harness.errors import Busy, UsageError
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel.plan import LANDING, READY, WORKING, RunPlan
from agent_harness.session.parallel_settings import MOST_WORKERS

SCALE, RECALL = "scale", "recall"
HOLD, RELEASE, DROP, FIRST = "hold", "release", "drop", "first"
OF_QUEUE = (HOLD, RELEASE, DROP, FIRST)
"""Verbs about candidates, which need no run that is under way."""


def granted(plan: RunPlan, verb: str, args: JsonObject) -> tuple[str, JsonObject]:
    """The type of the event that follows, and its members. ``UsageError``, or ``Busy`` for what is landing now."""
    if verb == SCALE:
        workers = args.get("workers")
        if type(workers) is not int or not 1 <= workers <= MOST_WORKERS:
            raise UsageError(f"a run has 1 to {MOST_WORKERS} workers", hint="harness scale 4")
        return "scaled", {"workers": workers}
    item = str(args.get("item"))
    if verb == RECALL:
        return _recalled(plan, item)
    if verb not in OF_QUEUE:
        raise UsageError(f"a parallel run knows no {verb}", hint="harness queue --help")
    item = item if item in plan.busy or item in plan.held else item.removeprefix("#")
    kind, known = _of_queue(plan, verb)
    if item not in known:
        if item in plan.in_state(LANDING):
            raise Busy(f"{item} is being verified to land", hint="harness queue")
        raise _unknown(item, "is held" if verb == RELEASE else "waits to land", known, "harness queue")
    if verb != DROP:
        return kind, {"item": item}
    return kind, {"item": item, "order": plan.work(item).order, "commit": plan.work(item).commit}


def _of_queue(plan: RunPlan, verb: str) -> tuple[str, list[str]]:
    """The type of the event, and the items that it may be about."""
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
        raise _unknown(named, "is at work", known, "harness status", words=[*slots, *items])
    return "recalled", {"item": item, "order": plan.work(item).order, "slot": items[item]}


def _unknown(named: str, what: str, known: list[str], hint: str, words: list[str] | None = None) -> UsageError:
    near = get_close_matches(named, words or known, 1, 0.6)
    meant = f" Did you mean '{near[0]}'?" if near else ""
    there = f"nothing called {named} {what}; there: {', '.join(known[:10])}.{meant}" if known else f"nothing {what}"
    return UsageError(there, hint=hint)


def told(event: JsonObject) -> str:
    """What a person is told of an event that they have asked for."""
    item = event.get("item")
    match event["type"]:
        case "scaled":
            many = "1 worker" if event["workers"] == 1 else f"{event['workers']} workers"
            return f"{many} from now on; slots beyond that close when their attempt ends."
        case "recalled":
            return f"{event['slot']} {item}: ends after its current operation; its work is kept, nothing is counted."
        case "held":
            return f"{item} is held: it lands after: harness queue release {item}"
        case "unheld":
            return f"{item} is not held any more; it lands in its turn."
        case "first":
            return f"{item} lands next."
    return f"{item} is dropped; its candidate is kept in {event.get('rescue')}"
