"""What verification answers: findings, test runs and the verdict."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from agent_harness.verification.runner.testreport import PASSED, Calls, Report

CRITICAL, IMPORTANT, WARN = "CRITICAL", "IMPORTANT", "WARN"


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing a person should know; a ``CRITICAL`` finding rejects."""

    code: str
    severity: str
    message: str
    data: Mapping[str, object] = field(default_factory=dict)

    def as_record(self) -> dict[str, object]:
        """For the event log and ``--json``."""
        return {"code": self.code, "severity": self.severity, "message": self.message, "data": dict(self.data)}


@dataclass(frozen=True, slots=True, kw_only=True)
class TestRun:
    """One command run by the harness on one commit."""

    __test__ = False  # a name for people, not a test class for pytest

    command: str
    commit: str
    exit_code: int | None
    report: Report | None
    problem: str | None  # why there is no report that can be believed, in one line
    output: str  # the last 64 KiB, secrets masked
    seconds: float
    timed_out: bool = False
    over_limit: str = ""  # what it took of the machine that it may not, as the end of a sentence; it was ended then
    notes: tuple[str, ...] = ()  # what was left out, such as a folder that could not be lent
    calls: Calls = field(default_factory=Calls)  # where they were watched, or made again


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedStep:
    """How one step of a judgement ended, with its run where it has one."""

    step: str  # guard, proof, suite, cross-check, red, twins, lint
    state: str  # passed, warned, failed
    run: TestRun | None = None


@dataclass(frozen=True, slots=True)
class Replayed:
    """What became of calls of the work that were made again outside of its tests."""

    calls: int = 0  # that the tests made, and that were noted
    compared: int = 0  # that could be made again, and were
    told: str = ""  # what to tell of those that answer otherwise
    names: tuple[str, ...] = ()  # of these

    @property
    def share(self) -> str:
        """How much the replay says, for people."""
        return f"{self.compared} of {self.calls} calls could be replayed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The judgement of one candidate commit."""

    accepted: bool
    findings: tuple[Finding, ...]
    base: str
    candidate: str
    proof: TestRun | None = None  # the feature's own tests on the candidate
    suite: TestRun | None = None
    red: TestRun | None = None  # the candidate's tests on the code before
    lint: TestRun | None = None
    regressions: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()
    passing: frozenset[str] = frozenset()  # the next baseline, when accepted
    total: int = 0
    replayed: Replayed | None = None  # calls of the work, made again outside of its tests
    steps: tuple[JudgedStep, ...] = ()  # in the order in which they were taken

    def found(self, code: str) -> Finding | None:
        """The first finding with this code."""
        return next((finding for finding in self.findings if finding.code == code), None)

    @property
    def reasons(self) -> tuple[Finding, ...]:
        """The findings that reject."""
        return tuple(finding for finding in self.findings if finding.severity == CRITICAL)


def passed(run: TestRun) -> bool:
    """True for exit 0 with a report that shows at least one passed test and no failure or error (C61)."""
    report = run.report
    return (
        run.problem is None
        and run.exit_code == 0
        and report is not None
        and PASSED in report.cases.values()
        and not report.failing
    )
