"""Where a session reports what happens to it."""

from typing import Protocol

__all__ = ["Journal"]


class Journal(Protocol):
    """To the person who watches, and to the machine-readable record of the protocol."""

    def say(self, line: str) -> None:
        """One line for the person."""
        ...

    def event(self, event_type: str, **fields: object) -> None:
        """One record; the protocol adds the session and the work item."""
        ...
