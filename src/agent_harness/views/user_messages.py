"""Messages of the user to a running agent, from ``harness say``, the live view or the browser page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from agent_harness.errors import Refused, UsageError
from agent_harness.kernel import owner
from agent_harness.session import now, project_view, run_snapshot
from agent_harness.supervision.messages import PersonMessage, PersonsMessages
from agent_harness.views import reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.root import Kind

__all__ = ["LeftMessage", "SlotAtWork", "say", "slots_in", "user"]

IN_TURN = "in the current turn"
NEXT_PROMPT = "with its next prompt"
NEXT_SESSION = "with the next session"


@dataclass(frozen=True, kw_only=True)
class SlotAtWork:
    slot: str
    item: str
    name: str  # of the item, for people
    can: bool  # get a message in the current turn

    def __str__(self) -> str:
        return f"{self.slot} ({self.name})"


@dataclass(frozen=True, kw_only=True)
class LeftMessage:
    message: PersonMessage
    to: str | None  # the item that it is for; None: any
    who: str
    when: str  # the agent gets it

    @property
    def sentence(self) -> str:
        return f"{self.who} gets the message {self.when}."


def slots_in(found: Mapping[str, object] | None, kind: Kind) -> list[SlotAtWork]:
    """Return the agents of a parallel run on this machine."""
    if not found or not found.get("alive") or found.get("engine") != "local":
        return []
    sign = "#" if kind == "features" else ""
    return [
        SlotAtWork(
            slot=str(each.get("slot")),
            item=str(each.get("item")),
            name=f"{sign}{each.get('item')}",
            can="say" in (can if isinstance(can := each.get("can"), list) else ()),
        )
        for each in run_snapshot.workers(found)
    ]


def say(kind: Kind, folder: str, text: str, *, by: str, to: str | None = None) -> LeftMessage:
    """Store a message for the running agent. With ``to``, the message is for that agent or item."""
    owner.refuse_agents(folder, "harness say")
    reader = reading.reader_of(kind, folder)
    parallel = reading.parallel_of(kind, folder)
    found = run_snapshot.told(parallel) if parallel else None
    slots = slots_in(found, kind)
    if run_snapshot.at_work(found) and not slots and found and found.get("workers"):
        raise Refused("messages cannot reach the agents, because they run on other machines", hint="harness watch")
    if to is not None:
        at_work = next((each for each in slots if _is_named(to, each.slot, each.item, each.name)), None)
        return _to_slot(reader.home, at_work, text, by) if at_work else _to_item(reader, slots, to, text, by)
    if len(slots) == 1:
        return _to_slot(reader.home, slots[0], text, by)
    if run_snapshot.at_work(found):
        there = f": {_listed(slots)}" if slots else ""
        hint = f"harness say --to {slots[0].slot if slots else 'ITEM'} TEXT"
        raise Refused(f"several agents are running, so select the agent that gets the message{there}", hint=hint)
    message = PersonsMessages(reader.home).leave(text, by=by)
    return LeftMessage(message=message, to=None, who="The agent", when=_when(now.running(reader.home)))


def _to_slot(home: str | None, slot: SlotAtWork, text: str, by: str) -> LeftMessage:
    message = PersonsMessages(home, slot.item).leave(text, by=by)
    return LeftMessage(message=message, to=slot.item, who=str(slot), when=IN_TURN if slot.can else NEXT_PROMPT)


def _to_item(
    reader: project_view.ProjectReader, slots: Sequence[SlotAtWork], to: str, text: str, by: str
) -> LeftMessage:
    seen = reader.load()
    item = next((each for each in seen.items if _is_named(to, each.id, each.name)), None)
    if item is None:
        hint = f"harness say --to {slots[0].slot} TEXT" if slots else "harness status"
        there = f"there: {_listed(slots)}" if slots else "no parallel run is active"
        raise UsageError(f"no running agent and no item is named {to}; {there}", hint=hint)
    if item.state in project_view.DONE:
        raise Refused(f"{item.name} is {item.state}; no agent is working on it", hint=f"harness why {item.id}")
    alone = None if seen.kind == "longtask" else item.id  # a long task is its project's only item
    message = PersonsMessages(reader.home, alone).leave(text, by=by)
    running = [each for each in seen.now if each.alive and each.item == item.name]
    return LeftMessage(message=message, to=item.id, who=f"The agent of {item.name}", when=_when(running))


def _when(running: Sequence[project_view.Now]) -> str:
    if not running:
        return NEXT_SESSION
    return IN_TURN if "say" in running[0].can else NEXT_PROMPT


def _is_named(word: str, *names: str) -> bool:
    wanted = word.strip().lower()
    return not {wanted, wanted.removeprefix("feature").strip(" #")}.isdisjoint(each.lower() for each in names)


def _listed(slots: Sequence[SlotAtWork]) -> str:
    return ", ".join(map(str, slots[:10]))


def user() -> str:
    """Return the login name of the user, or "a person" without such a name."""
    from getpass import getuser

    try:
        return getuser()
    except (KeyError, OSError):  # a user without a name
        return "a person"
