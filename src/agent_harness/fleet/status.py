"""Status of the fleet, read from one small snapshot file per project and the supervisor's last state (SC-62)."""

import os
from collections.abc import Sequence

from agent_harness.errors import HarnessError
from agent_harness.fleet import slices
from agent_harness.fleet.roster import Member, Roster
from agent_harness.kernel import clock, files, trusted_state
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.lock import LockFile
from agent_harness.parallel.budget import SharedBudget
from agent_harness.session import run_snapshot
from agent_harness.views.reading import parallel_of, reader_of

STATE = "state.json"


def folder(*, make: bool = False) -> str | None:
    """Return the folder with the fleet supervisor's state, or None if the folder is missing."""
    return trusted_state.of_user("fleet", make=make)


def seen() -> JsonObject:
    """Return the fleet state that the supervisor saved last, or an empty object."""
    there = folder()
    try:
        return files.read_json(os.path.join(there, STATE), exact=False) if there else {}
    except (OSError, HarnessError):
        return {}


def supervisor() -> str | None:
    """Return a description of the running fleet supervisor process, or None."""
    there = folder()
    holder = LockFile(os.path.join(there, "fleet.lock")).holder() if there else None
    return str(holder) if holder else None


def is_paused() -> bool:
    there = folder()
    return bool(there and os.path.lexists(os.path.join(there, "pause")))


def run_of(member: Member) -> JsonObject | None:
    """Return the snapshot of the project's current run or slice, or None."""
    if member.kind == slices.KIND:
        return slices.under_way(member.path)
    path = parallel_of(member.kind, member.path)
    return run_snapshot.told(path) if path else None


def spent_usd(member: Member, run: JsonObject) -> float:
    """Return the cost of a run so far, in US dollars."""
    # not from the project's snapshot, which an agent may have changed
    if member.kind == slices.KIND:
        return run_snapshot.spent_usd(run)  # read there, too
    home = reader_of(member.kind, member.path).home
    return SharedBudget(os.path.join(home, "parallel")).standing()[0] if home else 0.0


def rows(roster: Roster) -> list[JsonObject]:
    """Return one status row per project of the fleet. Projects that need the user come first."""
    known = seen().get("projects")
    told = known if isinstance(known, dict) else {}
    return sorted((_row(each, told.get(each.path)) for each in roster.members), key=_rank)


def _row(member: Member, told: object) -> JsonObject:
    kept = told if isinstance(told, dict) else {}
    run = run_of(member)
    alive = bool(run and run.get("alive"))
    row: JsonObject = {
        "path": member.path,
        "kind": member.kind,
        "priority": member.priority,
        "weight": member.weight,
        "state": "running" if alive else str(kept.get("state") or "not looked at"),
        "why": str(kept.get("why") or ""),
        "agents": run_snapshot.agents(run),
        "share": kept.get("share") or 0,
        "open": kept.get("open"),
        "proven": kept.get("proven"),
        "today_usd": kept.get("today_usd") or 0.0,
        "account": kept.get("account"),
    }
    if alive and run:
        row["blocked"] = run.get("blocked")
    return row


_ORDER = ("needs you", "parked", "running", "waits", "not looked at", "rests", "done")


def _rank(row: JsonObject) -> tuple[int, int, str]:
    state = str(row["state"])
    return (_ORDER.index(state) if state in _ORDER else len(_ORDER), int(row["priority"]), str(row["path"]))


def lines(roster: Roster, found: Sequence[JsonObject], most: int = 40) -> list[str]:
    """Return the fleet's status as a summary line and one line per project."""
    count = {state: sum(row["state"] == state for row in found) for state in _ORDER}
    agents = sum(int(row["agents"]) for row in found)
    spent = sum(float(row["today_usd"]) for row in found)
    limit = f" of ${roster.day_usd:.2f}" if roster.day_usd is not None else ""
    counts = ", ".join(f"{number} {state}" for state, number in count.items() if number)
    who = supervisor()
    work = f"{agents} of {roster.agents} agents running; ${spent:.2f}{limit} today"
    text = [f"{len(found)} projects: {counts or 'none'}; {work}"]
    text.append(f"Supervised by {who}." if who else "No supervisor runs: harness fleet run")
    if is_paused():
        text.append("Paused by a person: harness fleet resume")
    for row in found[:most]:
        done = (
            "" if None in (row["proven"], row["open"]) else f"{row['proven']}/{int(row['proven']) + int(row['open'])}"
        )
        shown = f"{row['state']:<13} {row['agents']:>3} of {row['share']:>3}  {done:>11}  {row['path']}"
        text.append(f"{shown}  ({row['why']})" if row["why"] and row["state"] != "running" else shown)
    if len(found) > most:
        text.append(f"and {len(found) - most} more: harness fleet status --json")
    return [*text, *roster.problems]


def age() -> str:
    """Return the local time of the supervisor's last round, or ``never``."""
    at = clock.parse(seen().get("at"))
    return clock.local(at) if at else "never"
