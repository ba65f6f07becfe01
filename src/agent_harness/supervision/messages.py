"""What a person says to the agent at work: ``harness say``.

Each message is a file of its own in the user's state folder of the project, ``messages/``, which no agent can reach.
The session at work looks once a second: an agent that can be steered hears it in the current turn, any other at the
beginning of its next prompt, and without a session at work the next one begins with it. A message goes once it is told,
so that one is told twice rather than never. One for an item alone is in a folder of the item's there: whoever works on
that hears it, in whatever place. Source: ``faces.md`` 4.
"""

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
    """One of them."""

    text: str
    by: str
    at: str
    path: Path

    @property
    def told(self) -> str:
        """What the agent reads."""
        return f"A person who watches this run says: {self.text}"


class PersonsMessages:
    """Those that wait in the state folder of a project; without a folder there are none.

    With an ``item`` those for it as well; what is left then is for it alone.
    """

    def __init__(self, home: str | None, item: str | None = None) -> None:
        self._all = Path(home, FOLDER) if home else None
        self._own = Path(home, FOLDER, digest.sha256(item.encode())[:24]) if home and item is not None else None

    def waiting(self) -> Sequence[PersonMessage]:
        """The oldest first; what is no message of ours is passed over."""
        paths = [
            path for folder in (self._all, self._own) if folder and folder.is_dir() for path in folder.glob("*.json")
        ]
        found = (_read(path) for path in sorted(paths, key=lambda path: path.name))
        return [each for each in found if each is not None]

    def delivered(self, message: PersonMessage) -> None:
        """It is told, and waits no longer."""
        with suppress(OSError):
            message.path.unlink()

    def leave(self, text: str, *, by: str) -> PersonMessage:
        """A new one. ``UsageError`` for none at all or a long one, ``Refused`` where too many wait."""
        said = text.strip()
        if not said or len(said) > MOST_CHARACTERS:
            raise UsageError(f"a message has 1 to {MOST_CHARACTERS} letters", hint="harness say 'Use SQLite.'")
        folder = self._own or self._all
        if self._all is None or folder is None:
            raise Refused("no session has worked here yet", hint="harness run")
        if len(self.waiting()) >= MOST_WAITING:
            raise Refused(f"{MOST_WAITING} messages wait for an agent already", hint="harness run")
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
