"""Reader of a run's JUnit XML report, which is compared with the records of the harness's pytest plugin.
A report is untrusted, because the agent's tests wrote it. An invalid file raises ``ReportProblem``. The plugin's lines
are read immediately, so a test that was seen to fail stays failed. A run does not count if no session finished or
collected tests never started. It does not count either if the test runner was patched."""

import json
import os
import select
import stat
import threading
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self
from xml.parsers import expat

LIMIT_BYTES = 256 * 1024 * 1024
PASSED, FAILED, ERROR, SKIPPED = "passed", "failed", "error", "skipped"
_WORST_FIRST = (ERROR, FAILED, PASSED, SKIPPED)
_MARKS = {"failure": FAILED, "error": ERROR, "skipped": SKIPPED}
PLUGIN_FOLDER = Path(__file__).with_name("plugin")
RECORDER_VARIABLE = "AGENT_HARNESS_WITNESS"
_LINE_BYTES = 1024 * 1024
_SESSIONS_LIMIT = 10_000
_IDS_LIMIT = 1_000_000
_OPENED_LIMIT = 5000
_CALLS_LIMIT = 200
_WAIT_SECONDS = 30.0
_NORMAL_ENDS = (0, 1, 5)  # all passed, some failed, none collected


class ReportProblem(ValueError): ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedCase:
    """One ``<testcase>`` element of a JUnit XML report."""

    file: str | None
    classname: str
    name: str
    outcome: str

    @property
    def id(self) -> str:
        if not self.classname:
            return self.file or self.name
        if self.file is None:
            return f"{self.classname}::{self.name}"
        module = self.file.removesuffix(".py").replace("/", ".")
        if self.classname == module:
            return f"{self.file}::{self.name}"
        if self.classname.startswith(module + "."):
            classes = self.classname[len(module) + 1 :].replace(".", "::")
            return f"{self.file}::{classes}::{self.name}"
        return f"{self.classname}::{self.name}"


@dataclass(frozen=True, slots=True)
class Report:
    """Outcome of each test by id: ``passed``, ``failed``, ``error`` or ``skipped``."""

    cases: Mapping[str, str] = field(default_factory=dict)
    gave_up: frozenset[str] = frozenset()  # tests that were skipped while they ran, by no mark on them
    asserted: frozenset[str] = frozenset()  # tests that failed because of what they ask for
    in_assertions: frozenset[str] = frozenset()  # tests that failed where they ask for something, whatever was raised
    opened: frozenset[tuple[str, str]] = frozenset()  # files of the project, each with the one whose code opened it

    def ids(self, *outcomes: str) -> frozenset[str]:
        return frozenset(i for i, outcome in self.cases.items() if outcome in outcomes)

    @property
    def passing(self) -> frozenset[str]:
        return self.ids(PASSED)

    @property
    def failing(self) -> frozenset[str]:
        return self.ids(FAILED, ERROR)


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """Call that a test made, with its arguments and answer as text."""

    module: str
    name: str
    arguments: str
    answer: str


@dataclass(slots=True)
class Calls:
    recorded: list[RecordedCall] = field(default_factory=list)
    flows: list[RecordedCall] = field(default_factory=list)  # the first answer of each generator and coroutine
    unkept: int = 0  # calls whose arguments cannot be made again
    answers: list[str | None] = field(default_factory=list)  # to calls that were made again
    paths: tuple[str, ...] = ()  # of the search path for modules, those in the project's folder, relative to it
    variables: dict[str, str] = field(default_factory=dict)  # of the environment, that code of the tests has set
    program: str = ""  # as which the runner was started
    python: str = ""  # in which it ran

    def take(self, kind: str, found: Any) -> None:
        if kind == "calls" and len(self.recorded) < _CALLS_LIMIT:
            self.recorded += [RecordedCall(*map(str, row)) for row in found]
        elif kind == "flows":
            self.flows += [RecordedCall(*map(str, row)) for row in found[:_CALLS_LIMIT]]
        elif kind == "unkept":
            self.unkept += int(found)
        elif kind == "answers" and len(self.answers) < _CALLS_LIMIT:
            self.answers += [each if each is None else str(each) for each in found]
        elif kind == "around":
            self.paths, self.program = tuple(map(str, found["paths"])), str(found["program"])
            self.variables = {str(name): str(text) for name, text in found["variables"].items()}


def worst(outcomes: Iterable[str]) -> str:
    return min(outcomes, key=_WORST_FIRST.index)


def report_of(outcomes: Iterable[tuple[str, str]]) -> Report:
    cases: dict[str, str] = {}
    for name, outcome in outcomes:
        cases[name] = worst((outcome, cases.get(name, outcome)))
    return Report(cases)


def read_junit(path: str | os.PathLike[str]) -> Report:
    """Return the report in a JUnit XML file, or raise ``ReportProblem``. (C61)"""
    return report_of((case.id, case.outcome) for case in read_cases(path))


def read_cases(path: str | os.PathLike[str]) -> list[ReportedCase]:
    """Return the test cases of a JUnit XML file, or raise ``ReportProblem``."""
    reader = _ReportReader()
    with opened(path) as file:
        try:
            reader.parser.ParseFile(file)
        except expat.ExpatError as error:
            raise ReportProblem(f"the test report is torn or not XML ({error})") from None
    return reader.result()


def opened(path: str | os.PathLike[str]) -> BinaryIO:
    """Open a report, which is untrusted, for reading. Raise ``ReportProblem`` for anything but a regular file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ReportProblem(f"no test report was written ({error.strerror or error})") from None
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_size <= LIMIT_BYTES:
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise ReportProblem(f"the test report is not a regular file of at most {LIMIT_BYTES} bytes")


class _ReportReader:
    """Collector of test cases. To save memory, it builds no XML tree."""

    def __init__(self) -> None:
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.EntityDeclHandler = self._refuse
        self._depth = 0
        self._cases: list[ReportedCase] = []
        self._open: dict[str, str] | None = None
        self._marks: list[str] = []
        self._declared = 0
        self._is_report = False

    def result(self) -> list[ReportedCase]:
        if not self._is_report:
            raise ReportProblem("the test report is XML, but not JUnit XML")
        if self._declared and not any(case.outcome in (FAILED, ERROR) for case in self._cases):
            raise ReportProblem("the test report counts failures that it does not show")
        return self._cases

    def _refuse(self, *_: object) -> None:
        raise ReportProblem("the test report carries a document type or entities, which no test runner writes")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth == 1:
            self._is_report = name in ("testsuites", "testsuite")
        if name == "testsuite":
            self._declared += _number(attributes.get("failures")) + _number(attributes.get("errors")) > 0
        elif name == "testcase":
            self._open = attributes
            self._marks.clear()
        elif self._open is not None and name in _MARKS:
            self._marks.append(_MARKS[name])

    def _end(self, name: str) -> None:
        self._depth -= 1
        if name != "testcase" or self._open is None:
            return
        values = self._open
        outcome = worst(self._marks) if self._marks else PASSED
        self._cases.append(
            ReportedCase(
                file=values.get("file") or None,
                classname=values.get("classname", ""),
                name=values.get("name", ""),
                outcome=outcome,
            )
        )
        self._open = None


def _number(text: str | None) -> float:
    try:
        value = float(text or 0)
    except ValueError:
        return 0.0
    return value if 0 <= value < float("inf") else 0.0


@dataclass(slots=True)
class RecordedSession:
    takes_options: bool = False  # ours, by which it writes a report
    collected: int = 0
    began: int = 0  # tests started
    last: str = ""  # the test that started last
    outcomes: dict[str, str] = field(default_factory=dict)
    gave_up: set[str] = field(default_factory=set)
    asserted: set[str] = field(default_factory=set)
    in_assertions: set[str] = field(default_factory=set)
    finished: int | None = None  # pytest's own exit status
    patched: list[str] = field(default_factory=list)
    foreign: list[str] = field(default_factory=list)
    opened: set[tuple[str, str]] = field(default_factory=set)
    calls: Calls = field(default_factory=Calls)

    def take(self, kind: str, rest: list[Any]) -> None:
        if kind == "collected":
            self.collected = max(self.collected, int(rest[0]))
        elif kind == "test":
            self.began += 1
            self.last = str(rest[0])
        elif kind == "result":
            self._result(str(rest[0]), str(rest[1]), str(rest[2]), rest[3:])
        elif kind == "gave up" and len(self.gave_up) < _IDS_LIMIT:
            self.gave_up.add(str(rest[0]))
        elif kind == "opened":
            self.opened.update((str(path), str(by)) for path, by in rest[0][:_OPENED_LIMIT])
        elif kind == "start" and not self.calls.python:  # said before any code of the project runs
            self.calls.python, self.takes_options = str(rest[1]), rest[2:] == [True]
        elif kind in ("calls", "flows", "unkept", "answers", "around"):
            self.calls.take(kind, rest[0])
        elif kind == "finish":
            self.finished, self.patched, self.foreign = int(rest[0]), list(rest[1]), list(rest[2])

    def _result(self, name: str, when: str, outcome: str, said: list[Any]) -> None:
        for is_one, names in zip(said, (self.asserted, self.in_assertions), strict=False):
            if is_one is True and len(names) < _IDS_LIMIT:
                names.add(name)
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


class RunRecorder:
    """Reader of the lines that the pytest plugin writes to a pipe."""

    def __init__(self, folder: Path) -> None:
        self.address = str(folder / "witness")
        self.sessions: dict[int, RecordedSession] = {}

    def __enter__(self) -> Self:
        os.mkfifo(self.address, 0o600)
        self._pipe = os.open(self.address, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._ended, self._end = os.pipe()
        self._thread = threading.Thread(target=self._drain, name="witness", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        # not a line in the pipe: a test that reads the pipe could take it away
        os.close(self._end)
        self._thread.join()
        os.close(self._ended)
        os.close(self._pipe)

    def _drain(self) -> None:
        ready = select.poll()
        ready.register(self._pipe, select.POLLIN)
        ready.register(self._ended, select.POLLIN)
        rest, until = b"", None
        while until is None or time.monotonic() < until:
            found = dict(ready.poll())
            if self._pipe not in found:
                return
            if self._ended in found:
                until = until or time.monotonic() + _WAIT_SECONDS  # a process that is left may write without end
            try:
                *lines, rest = (rest + os.read(self._pipe, 65536)).split(b"\n")
            except BlockingIOError:  # a test has read it
                continue
            rest = rest if len(rest) <= _LINE_BYTES else b""
            for line in lines:
                self._take(line)

    def _take(self, line: bytes) -> None:
        try:
            process, kind, *rest = json.loads(line)
            if len(self.sessions) < _SESSIONS_LIMIT or process in self.sessions:
                self.sessions.setdefault(int(process), RecordedSession()).take(str(kind), rest)
        except (ValueError, TypeError, IndexError, RecursionError):
            return  # not a line of ours: a test found the pipe


def recorder_settings(
    address: str,
    *,
    project: Path | None,
    keep: Iterable[str],
    select: Path | None,
    reads_below: Path | None,
    watched: Mapping[str, Mapping[str, str]],
    again: Path | None,
    root: Path,
) -> str:
    values: dict[str, object] = {"address": address, "root": str(root)}
    values |= {"watched": watched} if watched else {}
    values |= {"again": str(again)} if again else {}
    if reads_below is not None:
        values["reads_below"] = os.path.realpath(reads_below)
    if project is not None:
        values["project"] = os.path.realpath(project)
        values["keep"] = [os.path.realpath(path) for path in keep]
    if select is not None:
        values["select"] = str(select)
    return json.dumps(values)


def check_sessions(sessions: Mapping[int, RecordedSession]) -> None:
    """Raise ``ReportProblem`` if a pytest session is missing, incomplete or manipulated."""
    if not sessions:
        raise ReportProblem("pytest did not start, or did not load the harness's plugin; see the output")
    for session in sessions.values():
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


def believed(sessions: Mapping[int, RecordedSession], cases: list[ReportedCase]) -> Report:
    """Return a report with pytest's own node ids. Raise ``ReportProblem`` if the written report differs."""
    written = report_of((case.id, case.outcome) for case in cases)
    last = list(sessions.values())[-1]  # every session writes the same file
    if len(written.passing) != len([name for name, outcome in last.outcomes.items() if outcome == PASSED]):
        raise ReportProblem("the report does not agree with what was seen while the tests ran")
    return merged(sessions)


def merged(sessions: Mapping[int, RecordedSession]) -> Report:
    found = report_of(item for session in sessions.values() for item in session.outcomes.items())
    return replace(
        found,
        gave_up=frozenset().union(*(session.gave_up for session in sessions.values())),
        asserted=frozenset().union(*(session.asserted for session in sessions.values())),
        in_assertions=frozenset().union(*(session.in_assertions for session in sessions.values())),
        opened=frozenset().union(*(session.opened for session in sessions.values())),
    )
