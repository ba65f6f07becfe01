"""What a test run says about each test, read from JUnit XML and from nothing else.

A report is untrusted input: the tests that wrote it belong to an agent. Missing, torn, oversized, linked or
entity-carrying files are a ``ReportProblem``; they are never half a report.
"""

import os
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO
from xml.parsers import expat

LIMIT_BYTES = 256 * 1024 * 1024
PASSED, FAILED, ERROR, SKIPPED = "passed", "failed", "error", "skipped"
_WORST_FIRST = (ERROR, FAILED, PASSED, SKIPPED)
_MARKS = {"failure": FAILED, "error": ERROR, "skipped": SKIPPED}


class ReportProblem(ValueError):
    """There is no report that can be believed; the text says why in one line."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One ``<testcase>``."""

    file: str | None
    classname: str
    name: str
    outcome: str

    @property
    def id(self) -> str:
        """The pytest node id (``file::Class::test[param]``) as far as the element tells it."""
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
    """Outcome by test id: ``passed``, ``failed``, ``error`` or ``skipped``; the time in seconds."""

    cases: Mapping[str, str] = field(default_factory=dict)
    duration: float = 0.0

    def ids(self, *outcomes: str) -> frozenset[str]:
        """The ids with one of these outcomes."""
        return frozenset(i for i, outcome in self.cases.items() if outcome in outcomes)

    @property
    def passing(self) -> frozenset[str]:
        return self.ids(PASSED)

    @property
    def failing(self) -> frozenset[str]:
        return self.ids(FAILED, ERROR)


def worst(outcomes: Iterable[str]) -> str:
    """The outcome that counts when one test has several: an error or a failure wins, a skip never hides a pass."""
    return min(outcomes, key=_WORST_FIRST.index)


def report_of(outcomes: Iterable[tuple[str, str]], duration: float = 0.0) -> Report:
    """A report from (id, outcome) pairs; an id that occurs twice keeps its worst outcome."""
    cases: dict[str, str] = {}
    for name, outcome in outcomes:
        cases[name] = worst((outcome, cases.get(name, outcome)))
    return Report(cases, duration)


def read_junit(path: str | os.PathLike[str]) -> Report:
    """The report in a JUnit XML file; ``ReportProblem`` when there is none that can be believed (C61)."""
    cases, duration = read_cases(path)
    return report_of(((case.id, case.outcome) for case in cases), duration)


def read_cases(path: str | os.PathLike[str]) -> tuple[list[Case], float]:
    """Every ``<testcase>`` in document order, and the seconds the suites name; ``ReportProblem`` as ``read_junit``."""
    reader = _ReportReader()
    with _opened(path) as file:
        try:
            reader.parser.ParseFile(file)
        except expat.ExpatError as error:
            raise ReportProblem(f"the test report is torn or not XML ({error})") from None
    return reader.result()


def _opened(path: str | os.PathLike[str]) -> BinaryIO:
    """A regular file of bearable size; a link, a folder, a pipe or nothing at all is a ``ReportProblem``."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ReportProblem(f"no test report was written ({error.strerror or error})") from None
    found = os.fstat(descriptor)
    if stat.S_ISREG(found.st_mode) and found.st_size <= LIMIT_BYTES:
        return os.fdopen(descriptor, "rb")
    os.close(descriptor)
    raise ReportProblem(f"the test report is no regular file of at most {LIMIT_BYTES} bytes")


class _ReportReader:
    """Collects test cases while expat reads; builds no tree, so depth and size cost nothing."""

    def __init__(self) -> None:
        self.parser = expat.ParserCreate()
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.StartDoctypeDeclHandler = self._refuse
        self.parser.EntityDeclHandler = self._refuse
        self._depth = 0
        self._cases: list[Case] = []
        self._open: dict[str, str] | None = None
        self._marks: list[str] = []
        self._declared = 0
        self._duration = 0.0
        self._is_report = False

    def result(self) -> tuple[list[Case], float]:
        if not self._is_report:
            raise ReportProblem("the test report is XML, but not JUnit XML")
        if self._declared and not any(case.outcome in (FAILED, ERROR) for case in self._cases):
            raise ReportProblem("the test report counts failures that it does not show")
        return self._cases, self._duration

    def _refuse(self, *_: object) -> None:
        raise ReportProblem("the test report carries a document type or entities, which no test runner writes")

    def _start(self, name: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        if self._depth == 1:
            self._is_report = name in ("testsuites", "testsuite")
        if name == "testsuite":
            self._suite(attributes)
        elif name == "testcase":
            self._open = attributes
            self._marks.clear()
        elif self._open is not None and name in _MARKS:
            self._marks.append(_MARKS[name])

    def _suite(self, attributes: dict[str, str]) -> None:
        self._declared += _number(attributes.get("failures")) + _number(attributes.get("errors")) > 0
        self._duration += max(0.0, _number(attributes.get("time")))

    def _end(self, name: str) -> None:
        self._depth -= 1
        if name != "testcase" or self._open is None:
            return
        told = self._open
        outcome = worst(self._marks) if self._marks else PASSED
        self._cases.append(
            Case(
                file=told.get("file") or None,
                classname=told.get("classname", ""),
                name=told.get("name", ""),
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
