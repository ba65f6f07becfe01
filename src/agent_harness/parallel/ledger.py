"""Ledger of one run: a journal of events. Each event is on disk before the coordinator acts on it.

    {"n":12,"at":"...Z","type":"ended","item":"5","order":"RUN/5/1", ...}

``parallel/plan.py`` computes the state of a run from these events. After a coordinator was killed, the next coordinator
replays the events and continues. An incomplete last line is ignored. Any other unreadable line is reported as damage.
"""

import errno
import os
import re
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from agent_harness.errors import Busy, HarnessError, StateDamaged
from agent_harness.kernel import clock, files
from agent_harness.kernel.json import JsonObject, jsontext
from agent_harness.kernel.lock import LockFile, await_free
from agent_harness.parallel.plan import RunPlan, fold

VERSION = 1
RUN_LOCK = "run.lock"
ENDING_SECONDS = 2.0
BEGIN = "harness run --workers 4"
ANEW = f"{BEGIN}  # sets the journal aside and starts anew"
KEPT_DAYS = 90

TYPES = (
    frozenset(
        ("run", "ordered", "ended", "lost", "parked", "batched", "verified", "bounced", "released", "landing", "landed")
    )
    | {*("pushed", "joined", "join_proven", "join_moved")}
    | {*("scaled", "recalled", "held", "unheld", "first")}
    | {
        *(
            "head_moved",
            "head_trusted",
            "sought",
            "reopened",
            "blocked",
            "dropped",
            "slot_shut",
            "late_result",
            "home_touched",
            "closed",
        )
    }
)


class NewerLedger(StateDamaged):
    """Error: a newer version of the harness wrote the ledger, which is therefore not damaged."""


class Ledger:
    def __init__(self, folder: str, *, only_read: bool = False) -> None:
        self._only_read = only_read
        self.path = os.path.join(folder, "ledger.jsonl")
        self._runs = os.path.join(folder, "runs")
        self.events = self._read()
        self.plan = RunPlan()  # what ``folded`` and ``note`` know of the run
        self._file = -1

    def _read(self) -> list[JsonObject]:
        events = self._lines()
        known = _known_id(os.path.dirname(self.path))
        others = (each.get("project", known) for each in events if each["type"] == "run")
        if known and any(each != known for each in others):
            raise StateDamaged(f"{self.path} is the journal of another project", hint=ANEW)
        return events

    def _lines(self) -> list[JsonObject]:
        try:
            with os.fdopen(files.open_regular(self.path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
                content = file.read()
        except FileNotFoundError:
            return []
        except StateDamaged as error:
            error.hint = ANEW
            raise
        except OSError as error:
            if error.errno != errno.ELOOP:
                raise files.refusal(self.path, "read", error) from None
            raise StateDamaged(f"{self.path} is a symbolic link, which is not allowed here", hint=ANEW) from None
        whole = content[: content.rfind(b"\n") + 1]
        if whole != content and not self._only_read:  # the line of a writer that was killed
            os.truncate(self.path, len(whole))
        return [_event(self.path, number, line) for number, line in enumerate(whole.splitlines(), 1)]

    @property
    def is_lost(self) -> bool:
        """True if jobs exist but the journal has no complete line."""
        # a kill or a full disk can empty the journal
        orders = os.path.join(os.path.dirname(self.path), "orders")
        return not self.events and os.path.isdir(orders) and bool(os.listdir(orders))

    def folded(self) -> RunPlan:
        """Return the plan that results from the events. Raise ``StateDamaged`` if the events contradict each other."""
        try:
            self.plan = fold(self.events)
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            told = f"{self.path} has events that contradict each other ({error!r})"
            raise StateDamaged(told, hint=ANEW) from None
        return self.plan

    def of_job(self, job: str) -> list[JsonObject]:
        """Return the events of a job, even if an earlier run started it."""
        mine = [each for each in self.events if each.get("order") == job]
        if any(each["type"] == "ordered" for each in mine) or not os.path.isdir(self._runs):
            return mine
        paths = (os.path.join(self._runs, name) for name in sorted(os.listdir(self._runs)))
        found = (each for path in paths for each in readable(path, os.path.dirname(self.path)))
        return [*(each for each in found if each.get("order") == job), *mine]

    def note(self, kind: str, **members: object) -> JsonObject:
        """Append an event to the journal, apply it to the plan, and return the event."""
        event = self.append(kind, **members)
        self.plan.apply(event)
        return event

    def append(self, kind: str, **members: object) -> JsonObject:
        """Append an event to the journal on disk, and return the event."""
        event: JsonObject = {"n": len(self.events) + 1, "at": clock.timestamp(fraction=True), "type": kind, **members}
        line = jsontext.line(event).encode("utf-8", "replace") + b"\n"
        try:
            # the first event replaces the old journal, so that there is a journal at any moment
            path = self.path if self.events else f"{self.path}.new"
            if self._file < 0:
                folder = os.path.dirname(path)
                os.makedirs(folder, mode=0o700, exist_ok=True)
                if not self.events:
                    files.unlink(path)  # of a writer that was killed
                self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
                for each in (folder, os.path.dirname(folder)):  # both may be new
                    files.sync_folder(each)
            self._write(line)
            if not self.events:
                renamed(path, self.path)
        except OSError as error:
            raise files.refusal(self.path, "added to", error) from None
        self.events.append(event)
        return event

    def _write(self, line: bytes) -> None:
        end = os.fstat(self._file).st_size
        try:
            while line:
                line = line[os.write(self._file, line) :]
            os.fdatasync(self._file)
        except OSError:
            with suppress(OSError):
                # remove the partial line, so that another line can follow
                os.ftruncate(self._file, end)
            raise

    def put_away(self) -> None:
        """Copy the journal to the folder of finished runs. The next event starts a new journal."""
        self.plan = RunPlan()
        if not self.events:
            return
        os.makedirs(self._runs, mode=0o700, exist_ok=True)
        for old in Path(self._runs).iterdir():
            if old.lstat().st_mtime < time.time() - KEPT_DAYS * 86400 and not old.is_dir():
                old.unlink()
        kept = os.path.join(self._runs, f"{self.events[0].get('run')}.jsonl")
        files.replace(kept, Path(self.path).read_bytes(), mode=0o600)  # of any size
        self.close()
        self.events = []

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1


def renamed(path: str, target: str) -> None:
    """Rename a journal file durably. Raise ``Refused`` if this fails."""
    try:
        os.replace(path, target)
        for folder in dict.fromkeys((os.path.dirname(target), os.path.dirname(path))):
            files.sync_folder(folder)
    except OSError as error:
        raise files.refusal(path, "renamed", error) from None


@contextmanager
def run_held(folder: str, *, hint: str, told: str = "a parallel run is running here") -> Iterator[None]:
    """Hold the run lock of ``folder``, so that no other process starts a run there."""
    lock = LockFile(os.path.join(folder, RUN_LOCK))
    if holder := await_free(lock.try_take, time.monotonic() + ENDING_SECONDS):
        raise Busy(f"{told} ({holder})", hint=hint)
    try:
        yield
    finally:
        lock.release()


def project_id(folder: str) -> str:
    """Return the project's id. The first call creates the id."""
    if found := _known_id(folder):
        return found
    made = secrets.token_hex(12)
    os.makedirs(folder, mode=0o700, exist_ok=True)
    files.write_json(os.path.join(folder, "project.json"), {"id": made, "made_at": clock.timestamp()})
    return made


def _known_id(folder: str) -> str | None:
    with suppress(OSError, HarnessError):
        found = str(files.read_json(os.path.join(folder, "project.json")).get("id"))
        return found if re.fullmatch(r"[0-9a-f]{24}", found) else None
    return None


def _event(path: str, number: int, line: bytes) -> JsonObject:
    try:
        event = jsontext.loads(line, exact=False)
    except ValueError:
        event = None
    if not isinstance(event, dict) or event.get("n") != number:
        raise StateDamaged(f"{path} is damaged in line {number}", hint=ANEW)
    if event.get("type") not in TYPES or event.get("v", VERSION) > VERSION:
        told = f"{path}, line {number}, was written by a newer version of the harness"
        raise NewerLedger(told, hint="install that version, then: harness run --workers N")
    return event


def readable(path: str, folder: str) -> list[JsonObject]:
    """Return the events of a journal before its first unreadable line."""
    known, events = _known_id(folder), list[JsonObject]()
    with (
        suppress(OSError, HarnessError),
        os.fdopen(files.open_regular(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file,
    ):
        for number, line in enumerate(file, 1):
            event = _event(path, number, line)
            if (number == 1 and event["type"] != "run") or event.get("project", known) != known:
                break
            events.append(event)
    return events
