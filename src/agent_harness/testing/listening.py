"""Listening to the turn of an agent in a test: to its end, or until it has said something."""

import time

from agent_harness.agents.base import Agent, Brief, Turn
from agent_harness.agents.events import Event, Text

WAIT_SECONDS = 60.0


def events_of(turn: Turn, *, seconds: float = WAIT_SECONDS) -> list[Event]:
    """Every event of a turn up to its end; raises ``AssertionError`` when the end does not come in time."""
    found: list[Event] = []
    until = time.monotonic() + seconds
    while not turn.ended:
        demand(time.monotonic() < until, f"the turn does not end; so far it gave {found[-5:]}")
        event = turn.next_event(1.0)
        if event is not None:
            found.append(event)
    return found


def whole_turn(agent: Agent, brief: Brief) -> list[Event]:
    """Every event of one turn, which is ended in any case."""
    turn = agent.start(brief)
    try:
        return events_of(turn)
    finally:
        turn.stop()


def listen_for(turn: Turn, word: str) -> None:
    """Returns once a text of the agent holds the word; raises ``AssertionError`` when none does in time."""
    until = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < until:
        event = turn.next_event(1.0)
        if isinstance(event, Text) and word in event.text:
            return
        demand(not turn.ended, f"the turn ended before it said {word!r}")
    demand(False, f"the agent never said {word!r}")


def said(events: list[Event]) -> str:
    """All that the agent said."""
    return "\n".join(event.text for event in events if isinstance(event, Text))


def demand(holds: bool, complaint: str) -> None:
    """Raises ``AssertionError`` with the complaint unless it holds."""
    if not holds:
        raise AssertionError(complaint)
