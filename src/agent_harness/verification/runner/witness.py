"""What our pytest plugin tells while a run goes on, and whether the JUnit report agrees with it.

The plugin is ``plugin/agent_harness_witness.py``. Its lines come through a named pipe that is drained at once, so a
test that was seen failing stays failed, whatever the report says afterwards. A run without a session that finished,
with tests that were collected and never started, or with a patched runner is no run that can be believed.
"""

import json
import os
import secrets
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from agent_harness.verification.runner.testreport import (
    ERROR,
    FAILED,
    PASSED,
    SKIPPED,
    Case,
    Report,
    ReportProblem,
    report_of,
)

FOLDER = Path(__file__).with_name("plugin")
VARIABLE = "AGENT_HARNESS_WITNESS"
_LINE_BYTES = 1024 * 1024
_SESSIONS_LIMIT = 10_000
_IDS_LIMIT = 1_000_000
_WAIT_SECONDS = 30.0
_NORMAL_ENDS = (0, 1, 5)  # all passed, some failed, none collected


@dataclass(slots=True)
class WitnessedSession:
    """One pytest session, as it was told."""

    collected: int = 0
    began: int = 0  # tests started
    last: str = ""  # the test that started last
    outcomes: dict[str, str] = field(default_factory=dict)
    finished: int | None = None  # pytest's own exit status
    patched: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)

    def take(self, kind: str, rest: list[Any]) -> None:
        """One line of the plugin."""
        if kind == "collected":
            self.collected = max(self.collected, int(rest[0]))
        elif kind == "test":
            self.began += 1
            self.last = str(rest[0])
        elif kind == "result":
            self._result(str(rest[0]), str(rest[1]), str(rest[2]))
        elif kind == "finish":
            self.finished, self.patched, self.foreign = int(rest[0]), list(rest[1]), list(rest[2])

    def _result(self, name: str, when: str, outcome: str) -> None:
        if outcome == "failed":
            new = FAILED if when == "call" else ERROR
        elif outcome == "passed":
            new = PASSED if when == "call" else None
        else:
            new = SKIPPED if outcome == "skipped" else None
        old = self.outcomes.get(name)
        if new is None or (old in (FAILED, ERROR) and new not in (FAILED, ERROR)):
            return
        if old is None and len(self.outcomes) >= _IDS_LIMIT:
            return
        self.outcomes[name] = new


class Witness:
    """A context: makes the pipe and reads it until the run is over; afterwards ``sessions`` says what was told."""

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / "witness")
        self.sessions: dict[int, WitnessedSession] = {}
        self._end = secrets.token_hex(32).encode()

    def __enter__(self) -> Self:
        os.mkfifo(self.address, 0o600)
        self._pipe = os.open(self.address, os.O_RDWR | os.O_CLOEXEC)
        self._thread = threading.Thread(target=self._drain, name="witness", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """The run is over: everything that was written is read, then the pipe is closed."""
        os.write(self._pipe, b"\n" + self._end + b"\n")
        self._thread.join(_WAIT_SECONDS)
        os.close(self._pipe)

    def _drain(self) -> None:
        rest = b""
        while True:
            *lines, rest = (rest + os.read(self._pipe, 65536)).split(b"\n")
            rest = rest if len(rest) <= _LINE_BYTES else b""
            for line in lines:
                if line == self._end:
                    return
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            process, kind, *rest = json.loads(line)
            if len(self.sessions) < _SESSIONS_LIMIT or process in self.sessions:
                self.sessions.setdefault(int(process), WitnessedSession()).take(str(kind), rest)
        except (ValueError, TypeError, IndexError, RecursionError):
            return  # not a line of ours: a test found the pipe


def settings(address: str, *, project: Path | None, keep: Iterable[str], select: Path | None) -> str:
    """The value of the variable that tells the plugin what to do."""
    told: dict[str, object] = {"address": address}
    if project is not None:
        told["project"] = os.path.realpath(project)
        told["keep"] = [os.path.realpath(path) for path in keep]
    if select is not None:
        told["select"] = str(select)
    return json.dumps(told)


def check(sessions: Mapping[int, WitnessedSession]) -> None:
    """Raises ``ReportProblem`` unless there were sessions and each of them came to its end undisturbed."""
    if not sessions:
        raise ReportProblem("pytest did not start, or not with our plugin; see the output")
    for session in sessions.values():
        _check(session)


def believed(sessions: Mapping[int, WitnessedSession], cases: list[Case], seconds: float) -> Report:
    """The report of a run whose JUnit XML agrees with what was told; ids are the runner's own node ids.

    ``ReportProblem`` when it does not.
    """
    written = report_of((case.id, case.outcome) for case in cases)
    last = list(sessions.values())[-1]  # every session writes the same file
    if len(written.passing) != len([name for name, outcome in last.outcomes.items() if outcome == PASSED]):
        raise ReportProblem("the report does not agree with what was seen while the tests ran")
    return report_of((item for session in sessions.values() for item in session.outcomes.items()), seconds)


def _check(session: WitnessedSession) -> None:
    if session.finished is None:
        where = f" in {session.last}" if session.last else ""
        raise ReportProblem(f"the test run ended before its session was over{where}")
    if session.foreign:
        raise ReportProblem(f"code came from the project's folder instead of the commit: {session.foreign[0]}")
    if session.patched:
        raise ReportProblem(f"the test runner was changed while it ran: {session.patched[0]}")
    if session.finished not in _NORMAL_ENDS:
        raise ReportProblem(f"pytest ended with status {session.finished}, before all tests had run")
    if session.began < session.collected:
        raise ReportProblem(f"the run stopped early: {session.began} of {session.collected} tests were started")
