"""Messages that the user sends to a running agent with ``harness say``.

Each message is a separate file in ``messages/`` in the project's state folder, which no agent can access. The running
session checks for messages once a second. An agent that can be steered gets a message during the current turn. Any
other agent gets the message at the start of its next prompt. If no session runs, the next session starts with the
message. A message is removed only after delivery. Therefore, it can arrive twice, but is never lost. A message for one
item is stored in the item's folder, and goes to the agent of that item in any workspace. Source: ``faces.md`` 4."""

import os
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from agent_harness.errors import HarnessError, Refused, UsageError
from agent_harness.kernel import clock, digest, files

__all__ = ["PersonMessage", "PersonsMessages"]

FOLDER = "messages"
MOST_CHARACTERS = 4000
MOST_WAITING = 20


@dataclass(frozen=True, kw_only=True)
class PersonMessage:
    text: str
    by: str
    at: str
    path: Path

    @property
    def told(self) -> str:
        """Message text for the agent, which names a person as the sender."""
        return f"A person who watches this run says: {self.text}"


class PersonsMessages:
    """Pending messages of the user to all sessions and, with ``item``, also to the sessions of this item."""

    def __init__(self, home: str | None, item: str | None = None) -> None:
        self._all = Path(home, FOLDER) if home else None
        self._own = Path(home, FOLDER, digest.sha256(item.encode())[:24]) if home and item is not None else None

    def waiting(self) -> Sequence[PersonMessage]:
        """Return the readable pending messages, oldest first."""
        paths = [
            path for folder in (self._all, self._own) if folder and folder.is_dir() for path in folder.glob("*.json")
        ]
        found = (_read(path) for path in sorted(paths, key=lambda path: path.name))
        return [each for each in found if each is not None]

    def delivered(self, message: PersonMessage) -> None:
        """Remove the file of a message that the agent has received."""
        with suppress(OSError):
            message.path.unlink()

    def leave(self, text: str, *, by: str) -> PersonMessage:
        """Store a message for the agent, and return the message. ``by`` names the sender."""
        said = text.strip()
        if not said or len(said) > MOST_CHARACTERS:
            raise UsageError(
                f"A message must have 1 to {MOST_CHARACTERS} characters, got {len(said)}",
                hint="harness say 'Use SQLite.'",
            )
        folder = self._own or self._all
        if self._all is None or folder is None:
            raise Refused("No session has run in this project yet", hint="harness run")
        if len(self.waiting()) >= MOST_WAITING:
            raise Refused(
                f"{MOST_WAITING} messages are already waiting for the agent, which is the limit", hint="harness run"
            )
        for each in (self._all, folder):
            each.mkdir(mode=0o700, exist_ok=True)
        path = folder / f"{time.time_ns():020}-{os.getpid()}.json"
        message = PersonMessage(text=said, by=by, at=clock.timestamp(), path=path)
        files.write_json(path, {"v": 1, "text": said, "by": by, "at": message.at})
        return message


def _read(path: Path) -> PersonMessage | None:
    try:
        record = files.read_json(path)
    except (OSError, HarnessError):
        return None
    text, by, at = (str(record.get(name) or "") for name in ("text", "by", "at"))
    return (
        PersonMessage(text=text[:MOST_CHARACTERS], by=by, at=at, path=path) if text and record.get("v") == 1 else None
    )
