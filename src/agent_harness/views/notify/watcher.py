"""Process that sends a project's notifications during a run, and checks the project once more after the run.

    python -m agent_harness.views.notify.watcher KIND FOLDER PID START_TIME

Each project has one watcher: a second watcher exits immediately. The watcher records each message before it sends the
message, so that a message is not sent again after a crash. A failed delivery is tried three times within about an hour.
Source: ``faces.md`` F-NOTE-3..5."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock, files, owner, trusted_state
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.lock import LockFile
from agent_harness.views import notify
from agent_harness.views.notify import notices, sending
from agent_harness.views.notify.notices import Notice, NotifyMemory
from agent_harness.views.reading import reader_of

if TYPE_CHECKING:
    from agent_harness.session.project_view import ProjectReader, ProjectView

LOOK_SECONDS = 5.0
TRIES_AFTER_SECONDS = (0.0, 600.0, 3600.0)
MOST_HOURS = 24.0
KEPT_FAILURES = 20


class ProjectWatch:
    """Sender of one project's notifications."""

    def __init__(self, kind: str, folder: str, *, reader: ProjectReader) -> None:
        self._reader = reader
        self._name = os.path.basename(folder.rstrip("/")) or folder
        home = trusted_state.of_user("notify")
        self._path = notify.record_path(home, kind, folder) if home else None

    def lock(self) -> LockFile | None:
        return LockFile(f"{self._path}.lock") if self._path else None

    def view(self) -> ProjectView:
        return self._reader.load()

    def look(self, besides: Sequence[Notice] = (), *, last: bool = False) -> bool:
        """Check the project and send the messages that are due. Return True if unsent messages remain."""
        if self._path is None:
            return False
        settings, at = sending.read(), clock.now()
        record = self._record()
        view = self._reader.load()
        memory = notices.noticed(_memory(record), view, besides, settings, at)
        memory, told = notices.message(memory, settings, at, last=last)
        on_way = [each for each in record.get("on_way") or [] if isinstance(each, dict)]
        failed = _Failures(record)
        for each in on_way:
            if each.get("sending"):
                failed.add(str(each.get("to")), "ended while sending")
        on_way = [each for each in on_way if not each.get("sending")]
        if told:
            body = notices.body(self._name, told, view, at)
            on_way += [{"to": target, "body": body, "tries": 0, "since": clock.timestamp(at)} for target in settings.to]
        on_way = self._sent(memory, on_way, failed)
        return bool(on_way or memory.pending)

    def _sent(self, memory: NotifyMemory, on_way: list[JsonObject], failed: _Failures) -> list[JsonObject]:
        left: list[JsonObject] = []
        while on_way:
            each = on_way.pop(0)
            tries, since = int(each.get("tries") or 0), clock.parse(each.get("since"))
            waited = (clock.now() - since).total_seconds() if since else 1e9
            if waited < clock.scaled(TRIES_AFTER_SECONDS[min(tries, len(TRIES_AFTER_SECONDS) - 1)]):
                left.append(each)
                continue
            self._keep(memory, [{**each, "sending": True}, *on_way, *left], failed)
            why = sending.send(str(each["to"]), each["body"])
            if why is None:
                failed.past(str(each["to"]))
                continue
            if tries + 1 < len(TRIES_AFTER_SECONDS):
                left.append({**each, "tries": tries + 1})
            else:
                failed.add(str(each["to"]), why)
        self._keep(memory, left, failed)
        return left

    def _record(self) -> JsonObject:
        with suppress(OSError, HarnessError):
            return files.read_json(self._path or "")
        return {}

    def _keep(self, memory: NotifyMemory, on_way: list[JsonObject], failed: _Failures) -> None:
        record: JsonObject = {
            "v": 1,
            "project": self._name,
            "lasting": sorted(memory.lasting),
            "claims": memory.claims,
            "pending": [{"since": since, **each.as_record()} for since, each in memory.pending],
            "told": [list(each) for each in memory.told],
            "day": memory.day,
            "of_day": memory.of_day,
            "digest_at": memory.digest_at,
            "digest": memory.digest,
            "on_way": on_way,
            **failed.as_record(),
        }
        if record != self._record():
            files.write_json(self._path or "", record)


class _Failures:
    """Failed deliveries: the text of all failures, and the failures that ``status`` still reports."""

    def __init__(self, record: JsonObject) -> None:
        self._said = [str(each) for each in record.get("failed") or []]
        self._open = [each for each in record.get("undelivered") or [] if isinstance(each, dict)]

    def add(self, target: str, why: str) -> None:
        at, to = clock.now(), sending.shown(target)
        self._said.append(f"{at:%Y-%m-%d %H:%M} {to}: {why}")
        self._open.append({"at": clock.timestamp(at, fraction=True), "to": to, "why": why})

    def past(self, target: str) -> None:
        self._open = [each for each in self._open if each.get("to") != sending.shown(target)]

    def as_record(self) -> JsonObject:
        return {"failed": self._said[-KEPT_FAILURES:], "undelivered": self._open[-KEPT_FAILURES:]}


def failures() -> list[str]:
    """Return the failed deliveries in all projects as text."""
    home = trusted_state.of_user("notify", make=False)
    found: list[str] = []
    if home is None:
        return found
    for name in sorted(os.listdir(home)):
        if name.endswith(".json") and name != sending.FILE:
            with suppress(OSError, HarnessError):
                record = files.read_json(os.path.join(home, name))
                found += [f"{record.get('project')}: {each}" for each in record.get("failed") or []]
    return found


def _memory(record: JsonObject) -> NotifyMemory:
    rows = [each for each in record.get("pending") or [] if isinstance(each, dict)]
    pending = [(str(each.get("since")), found) for each in rows if (found := Notice.from_record(each))]
    told = [each for each in record.get("told") or [] if isinstance(each, list) and len(each) == 2]
    claims, count, digest = record.get("claims"), record.get("of_day"), record.get("digest")
    return NotifyMemory(
        lasting=frozenset(str(each) for each in record.get("lasting") or []),
        claims=claims if isinstance(claims, int) else None,
        pending=tuple(pending),
        told=tuple((str(when), str(name)) for when, name in told),
        day=str(record.get("day") or ""),
        of_day=count if isinstance(count, int) else 0,
        digest_at=str(record.get("digest_at") or ""),
        digest=digest if isinstance(digest, dict) else {},
    )


def watch(project: ProjectWatch, run: owner.Owner, *, seconds: float) -> None:
    """Send the project's notifications until the run has ended and no notification is left. After the run, stop within
    a day."""
    while owner.state(run) == "alive":
        project.look()
        time.sleep(seconds)
    end = notices.ended(project.view(), f"{run.pid}:{run.start_time}")
    until = time.monotonic() + MOST_HOURS * 3600
    left = project.look(end, last=True)
    while left and time.monotonic() < until:
        time.sleep(seconds)
        left = project.look(last=True)


def main(words: Sequence[str]) -> int:
    kind, folder, pid, start_time = words
    me = owner.current()
    run = owner.Owner(int(pid), start_time, me.boot_id, me.host, me.uid)
    project = ProjectWatch(kind, folder, reader=reader_of(kind, folder))
    lock = project.lock()
    if lock is None or lock.try_take() is not None:
        return 0
    try:
        watch(project, run, seconds=max(clock.scaled(LOOK_SECONDS), 0.05))
    finally:
        lock.release()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
