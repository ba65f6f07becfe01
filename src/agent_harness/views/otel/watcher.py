"""Process that sends the spans of a project's sessions: during a run when a session ends, and once after the run.

    python -m agent_harness.views.otel.watcher KIND FOLDER PID START_TIME BEGAN

After the run, the project's own span is sent last. If the collector does not answer, the process tries again at later
checks, and a few times after the run. `status` then reports the spans that are missing, until ``harness export otel``
has exported them."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock, owner
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.redact import redact
from agent_harness.session.project_view import PastSession, ProjectReader
from agent_harness.views import otel
from agent_harness.views.otel import spans
from agent_harness.views.reading import reader_of

LOOK_SECONDS = 5.0
TRIES_AT_END = 3
_Key = tuple[int | None, str | None, str | None]


class SessionSender:
    """Sender of spans. It sends the spans of sessions that end after ``began``, the run's start."""

    def __init__(self, reader: ProjectReader, began: str) -> None:
        self._reader = reader
        since = clock.parse(began) or clock.now()
        ended = ((each, clock.parse(each.ended)) for each in reader.load().sessions)
        self._known = {_key(each) for each, at in ended if at is not None and at < since}
        self.sent = False  # at least one session, so that the project's span has children
        self._left: list[PastSession] = []  # after the last look
        self._problem = ""

    def look(self, *, last: bool = False) -> bool:
        """Send the spans of newly ended sessions. Return False if the collector did not accept all spans."""
        view = self._reader.load()
        new = [each for each in view.sessions if _key(each) not in self._known and (each.ended or last)]
        recordings = self._reader.recordings() if new else []
        self._left = new
        try:
            for each in new:
                spans.send(spans.of_session(view, each, recordings))
                self._known.add(_key(each))
                self._left = [one for one in new if _key(one) not in self._known]
                self.sent = True
            if last and self.sent:
                spans.send(spans.of_project(view))
        except HarnessError as error:
            self._problem = error.message
            return False
        return True

    def untaken(self) -> JsonObject:
        first = min((each.started for each in self._left if each.started), default=None)
        every, spans_alone = (os.environ.get(name, "") for name in otel.VARIABLES)
        return {
            "since": first or clock.timestamp(),
            "sessions": len(self._left),
            "to": redact(spans_alone or f"{every.rstrip('/')}/v1/traces"),  # as OpenTelemetry reads them
            "why": redact(self._problem),
        }


def _key(session: PastSession) -> _Key:
    return session.number, session.item, session.started


def watch(sender: SessionSender, run: owner.Owner, *, seconds: float) -> bool:
    """Send spans until the run has ended. Return True if the collector accepted all spans."""
    while owner.state(run) == "alive":
        with suppress(HarnessError, OSError):
            sender.look()
        time.sleep(seconds)
    for _ in range(TRIES_AT_END):
        with suppress(HarnessError, OSError):
            if sender.look(last=True):
                return True
        time.sleep(seconds)
    return False


def main(words: Sequence[str]) -> int:
    kind, folder, pid, start_time, began = words
    me = owner.current()
    run = owner.Owner(int(pid), start_time, me.boot_id, me.host, me.uid)
    sender = SessionSender(reader_of(kind, folder), began)
    if not watch(sender, run, seconds=max(clock.scaled(LOOK_SECONDS), 0.05)):
        otel.keep_untaken(kind, folder, sender.untaken())
    elif sender.sent:
        otel.keep_untaken(kind, folder, None)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
