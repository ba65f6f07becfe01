"""A line of a person to the agent at work, from whichever face: ``harness say``, the live view, the page."""

from __future__ import annotations

from agent_harness.errors import Refused
from agent_harness.faces import reading
from agent_harness.kernel import owner
from agent_harness.parallel import snapshot
from agent_harness.session import now
from agent_harness.supervision.messages import PersonMessage, PersonsMessages

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.root import Kind

__all__ = ["say", "user"]


def say(kind: Kind, folder: str, text: str, *, by: str) -> tuple[PersonMessage, str]:
    """Leaves the line for the agent at work here; the message, and when the agent is told.

    ``Refused`` for an agent, and where several are at work; else as ``PersonsMessages.leave``.
    """
    owner.refuse_agents(folder, "harness say")
    home = reading.reader_of(kind, folder).home
    parallel = reading.parallel_of(kind, folder)
    if parallel and snapshot.at_work(snapshot.told(parallel)):
        raise Refused("several agents are at work, and a message reaches one alone", hint="harness watch")
    message = PersonsMessages(home).leave(text, by=by)
    running = now.running(home)
    if not running:
        return message, "with the next session"
    return message, "in the running turn" if "say" in running[0].can else "at its next prompt: it cannot be steered"


def user() -> str:
    """The name of whoever runs this process."""
    from getpass import getuser

    try:
        return getuser()
    except (KeyError, OSError):  # a user without a name
        return "a person"
