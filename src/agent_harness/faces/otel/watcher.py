"""Sends the spans of each session of one project when it has ended, while a run lives and once more after its end.

    python -m agent_harness.faces.otel.watcher KIND FOLDER PID START_TIME BEGAN

The project's own span comes last, with the end of the run. A collector that does not answer is asked again at the next
looks, and a few times after the run; then what it has not taken is left for ``harness export otel``.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from agent_harness.errors import HarnessError
from agent_harness.faces.otel import spans
from agent_harness.faces.reading import reader_of
from agent_harness.kernel import clock, owner
from agent_harness.session.picture import PastSession, PictureReader

LOOK_SECONDS = 5.0
TRIES_AT_END = 3
_Key = tuple[int | None, str | None, str | None]


class SessionSender:
    """What of one project is still to be sent: all that has ended since the run began."""

    def __init__(self, reader: PictureReader, began: str) -> None:
        """``began`` is when the run did: by now, sessions of its own may have ended."""
        self._reader = reader
        since = clock.parse(began) or clock.now()
        ended = ((each, clock.parse(each.ended)) for each in reader.look().sessions)
        self._known = {_key(each) for each, at in ended if at is not None and at < since}
        self._sent = False  # anything, so that the project's span has something below it

    def look(self, *, last: bool = False) -> bool:
        """Sends what has ended since; whether all of it was taken. Of a run that is over, every session has ended."""
        picture = self._reader.look()
        new = [each for each in picture.sessions if _key(each) not in self._known and (each.ended or last)]
        recordings = self._reader.recordings() if new else []
        try:
            for each in new:
                spans.send(spans.of_session(picture, each, recordings))
                self._known.add(_key(each))
                self._sent = True
            if last and self._sent:
                spans.send(spans.of_project(picture))
        except HarnessError:
            return False
        return True


def _key(session: PastSession) -> _Key:
    return session.number, session.item, session.started


def watch(sender: SessionSender, run: owner.Owner, *, seconds: float) -> None:
    """Looks until the run has ended, and then until all is taken, or was offered a few times."""
    while owner.state(run) == "alive":
        with suppress(HarnessError, OSError):
            sender.look()
        time.sleep(seconds)
    for _ in range(TRIES_AT_END):
        with suppress(HarnessError, OSError):
            if sender.look(last=True):
                return
        time.sleep(seconds)


def main(words: Sequence[str]) -> int:
    """The process that a run starts."""
    kind, folder, pid, start_time, began = words
    me = owner.current()
    run = owner.Owner(int(pid), start_time, me.boot_id, me.host, me.uid)
    watch(SessionSender(reader_of(kind, folder), began), run, seconds=max(clock.scaled(LOOK_SECONDS), 0.05))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
