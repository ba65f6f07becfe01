"""Current activity of the running sessions, in small files that other commands read, such as ``status``.

    {"v":1, "owner":{"pid":...}, "run":"3f1c", "item":"Feature #3", "title":..., "session":7, "turn":2,
     "phase":"judging", "step":"suite", "since":..., "agent":..., "model":...,
     "tokens":{"input":..., "output":..., "cached":...}, "cost_usd":0.11, "cost_unknown":false,
     "budget":{"session_left":9.89, "item_left":..., "project_left":...}, "last":[...], "can":["pause"], "until":null,
     "began":...}

Each file is in the user's state folder for the project. The session replaces its file at the start of each phase or
step. During a phase or step, it replaces the file at most once a second. The session removes the file when the session
ends. A reader checks if the process that wrote the file is alive. No decision depends on these files, and write errors
are ignored. Source: ``faces.md`` F-REC-4."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager, suppress

from agent_harness.kernel import clock
from agent_harness.kernel.json import jsontext
from agent_harness.session import run_snapshot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from agent_harness.errors import LimitInForce
    from agent_harness.kernel.json import JsonObject
    from agent_harness.session.project_view import Now

__all__ = ["NowRecord", "keep_said", "lines", "read", "running", "said_at", "told", "waiting"]

WRITE_SECONDS = 1.0
LAST_LINES = 3
LAST_CHARACTERS = 200


class NowRecord:
    """Activity file of one running session."""

    def __init__(
        self,
        path: str | None = None,
        *,
        item: str | None = None,
        title: str = "",
        session: int | None = None,
        agent: str = "",
        left_usd: Mapping[str, float] | None = None,
        can: Sequence[str] = (),
    ) -> None:
        self._path = path
        self._fixed: JsonObject = {"item": item, "title": title, "session": session, "agent": agent, "can": [*can]}
        self._turn: JsonObject = {"run": None, "turn": 0}
        self._phase: JsonObject = {"phase": "preflight", "step": None, "since": _timestamp(), "until": None}
        self._last: list[str] = []
        self._used: JsonObject = {"model": None, "tokens": None, "cost_usd": None, "cost_unknown": False}
        self._left = dict(left_usd or {})
        self._began = _timestamp()
        self._owner: JsonObject | None = None
        self._next = 0.0  # of the monotonic clock, when it may be written again
        self._waits = False

    def phase(self, name: str, *, until: datetime | None = None) -> None:
        ends = _timestamp(until) if until else None
        self._at_once({"phase": name, "step": None, "since": _timestamp(), "until": ends})

    def step(self, name: str) -> None:
        self._at_once({"step": name})

    def turn(self, run: str | None) -> None:
        self._turn = {"run": run, "turn": self._turn["turn"] + 1}
        self.phase("agent")

    def wait(self, seconds: float) -> None:
        self.phase("waiting", until=clock.now() + clock.timedelta(seconds=clock.scaled(seconds)))

    def said(self, text: str) -> None:
        """Record the last lines that the agent wrote, with secrets masked."""
        from agent_harness.kernel.redact import redact
        from agent_harness.kernel.terminal import one_line

        if self._path is not None and text.strip():
            lines = [line for line in text.split("\n") if line.strip()][-LAST_LINES:]
            last = (one_line(redact(line.strip()))[:LAST_CHARACTERS] for line in lines)
            self._last = [*self._last, *last][-LAST_LINES:]
        self._write()

    def used(self, tokens: Mapping[str, int], cost_usd: float | None, *, model: str | None = None) -> None:
        self._used = {"model": model, "tokens": {**tokens}, "cost_usd": cost_usd, "cost_unknown": cost_usd is None}
        self._write()

    @property
    def folder(self) -> str | None:
        return os.path.dirname(self._path) if self._path else None

    def also_can(self, verb: str) -> None:
        self._fixed["can"] = [*self._fixed["can"], verb]

    def close(self) -> None:
        if self._path is not None:
            with suppress(OSError):
                os.unlink(self._path)

    def tick(self) -> None:
        """Write the delayed update, if there is one."""
        # the session calls this regularly
        if self._waits:
            self._write()

    def _at_once(self, members: JsonObject) -> None:
        self._phase |= members
        self._next = 0.0
        self._write()

    def _write(self) -> None:
        if self._path is None:
            return
        self._waits = time.monotonic() < self._next
        if self._waits:
            return
        self._next = time.monotonic() + WRITE_SECONDS
        with suppress(OSError):
            if self._owner is None:
                self._begin(os.path.dirname(self._path))
            run_snapshot.put(self._path, self._record())

    def _begin(self, folder: str) -> None:
        from agent_harness.kernel import owner

        os.makedirs(folder, mode=0o700, exist_ok=True)
        self._owner = owner.current().as_record()
        for path, record in _records(folder):
            who = owner.Owner.from_record(record.get("owner"))
            if who is not None and owner.state(who) == "dead":
                with suppress(FileNotFoundError):
                    os.unlink(path)

    def _record(self) -> JsonObject:
        cost = self._used["cost_usd"] or 0.0
        return {
            "v": 1,
            "owner": self._owner,
            **self._turn,
            **self._fixed,
            **self._phase,
            **self._used,
            "budget": {
                f"{name}_left": round(self._left[name] - cost, 4) if name in self._left else None
                for name in ("session", "item", "project")
            },
            "began": self._began,
            "last": self._last,
        }


def _timestamp(at: datetime | None = None) -> str:
    return clock.timestamp(at, fraction=True)


@contextmanager
def waiting(path: str | None, refusal: LimitInForce, *, can: Sequence[str] = ("pause",)) -> Iterator[None]:
    """While a ``with`` block runs, show that a run waits for an account or an agent slot."""
    record = NowRecord(path, item="run", agent=str(refusal.data["account"]), can=can)
    record.phase("waiting", until=clock.parse(refusal.data["until"]))
    try:
        yield
    finally:
        record.close()


LOG_BYTES = 1_000_000
LOG_FILES = 5


def keep_said(path: str, text: str) -> None:
    """Append the output of a run to the project's log, with timestamps and secrets masked."""
    from agent_harness.kernel.redact import redact
    from agent_harness.kernel.terminal import printable

    at = clock.now().astimezone().isoformat(timespec="seconds")
    lines = [f"{at} {printable(redact(line))}" for line in text.split("\n") if line.strip()]
    folder = os.path.dirname(path)
    with suppress(OSError):
        if os.path.islink(folder) or os.path.islink(os.path.dirname(folder)):
            return  # a link of somebody else is not followed
        if not os.path.isdir(folder):
            os.mkdir(folder)
        if os.path.lexists(path) and (os.path.islink(path) or os.lstat(path).st_size > LOG_BYTES):
            _turn_over(path)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "a", encoding="utf-8", errors="backslashreplace") as file:
            file.write("".join(f"{line}\n" for line in lines))


def said_at(line: str) -> tuple[str, str]:
    at, _, text = line.partition(" ")
    return at, text


def _turn_over(path: str) -> None:
    names = [path, *(f"{path}.{number}" for number in range(1, LOG_FILES))]
    for older, newer in zip(reversed(names), list(reversed(names))[1:], strict=False):
        with suppress(FileNotFoundError):
            os.replace(newer, older)


def read(folder: str | None) -> list[Now]:
    """Return the activity of all sessions in this folder, including dead sessions."""
    return [found for found, _ in _known(folder)]


def running(folder: str | None) -> list[Now]:
    return [each for each in read(folder) if each.alive]


def told(folder: str | None) -> list[JsonObject]:
    """Return the activity of all sessions as objects for a JSON answer."""
    return [{**record, "alive": found.alive} for found, record in _known(folder)]


def lines(records: Sequence[JsonObject]) -> list[str]:
    if not records:
        return []
    from agent_harness.session.project_view import Now

    return [Now.from_record(each).line() for each in records]


def _known(folder: str | None) -> list[tuple[Now, JsonObject]]:
    records = [record for _, record in _records(folder)]
    if not records:
        return []  # as mostly: nothing is loaded for it
    from agent_harness.session.project_view import Now

    return [(Now.from_record(record), record) for record in records]


def _records(folder: str | None) -> Iterator[tuple[str, JsonObject]]:
    try:
        names = sorted(os.listdir(folder or os.devnull))
    except OSError:
        return
    for name in names:
        if name.startswith("now") and name.endswith(".json"):
            path = os.path.join(str(folder), name)
            with suppress(OSError, ValueError), open(path, encoding="utf-8") as file:
                record = jsontext.loads(file.read(), exact=False)
                if isinstance(record, dict) and record.get("v") == 1:
                    yield path, {**record, "seen": _timestamp(clock.moment(os.fstat(file.fileno()).st_mtime))}
