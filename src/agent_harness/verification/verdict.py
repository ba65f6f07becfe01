"""Results of a verification: findings and their consequences, runs, and the verdict."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from agent_harness.verification.runner.testreport import PASSED, Calls, Report

CRITICAL, IMPORTANT, WARN = "CRITICAL", "IMPORTANT", "WARN"
RED, GREEN, NOT_RUN = "red", "green", "not_run"
OFF, TELL, REJECT = "off", "tell", "reject"
STRICT, NORMAL, FAST = "strict", "normal", "fast"


@dataclass(frozen=True, slots=True, kw_only=True)
class Strictness:
    """Settings that determine, together with ``FOLLOWS``, which findings reject the candidate."""

    requires_red: str = REJECT  # consequence of a check that passes on the base commit: OFF, TELL, REJECT
    lint_rejects: bool = False
    mutants: bool = True  # the proof fails where it expects something else, and on mutants of the work
    replay: bool = True  # calls of the work answer alike where no test runner is
    weak_rejects: bool = False  # tests that notice nothing reject, also where a person wrote them
    timeout_seconds: float = 1800.0  # of each command


FOLLOWS: Mapping[str, str] = {
    "answers_differ": CRITICAL,
    "damaged_commit": CRITICAL,
    "data_changed": CRITICAL,
    "environment_unknown": IMPORTANT,
    "fails_in_suite": IMPORTANT,
    "flaky_test": IMPORTANT,
    "green_before": "red",
    "link_refused": WARN,
    "lint": "lint",
    "lint_unavailable": WARN,
    "not_isolated": WARN,
    "over_limit": CRITICAL,
    "passes_only_in_place": CRITICAL,
    "plugin_needed": CRITICAL,
    "dependency_needed": CRITICAL,
    "proof_failed": CRITICAL,
    "proof_not_red": "red",
    "protected_test_changed": CRITICAL,
    "red_proof_skipped": WARN,
    "regression": CRITICAL,
    "submodules_empty": WARN,
    "suite_failed": CRITICAL,
    "tests_gone": IMPORTANT,
    "unsteady_test": CRITICAL,
    "weak_test": "weak",
}
"""Severity of each finding code, or the setting that determines it. ``CRITICAL`` rejects the candidate."""


def what_follows(code: str, strictness: Strictness, *, of_session: bool) -> str:
    columns = {
        "red": strictness.requires_red == REJECT,
        "lint": strictness.lint_rejects,
        "weak": strictness.weak_rejects or of_session,
    }
    found = FOLLOWS[code]
    return found if found not in columns else CRITICAL if columns[found] else WARN


def listed(names: Collection[str], most: int = 5) -> str:
    """Return up to ``most`` names as text, and the number of the remaining names."""
    shown = sorted(names)
    return ", ".join(shown[:most]) + (f" and {len(shown) - most} more" if len(shown) > most else "")


@dataclass(frozen=True, slots=True)
class Finding:
    """Reportable result of a rule or a run. A ``CRITICAL`` finding rejects the candidate."""

    code: str
    severity: str
    message: str
    data: Mapping[str, object] = field(default_factory=dict)

    @property
    def lines(self) -> list[str]:
        """The message, and then the older and the newer expectations that it is about."""
        shown = self.data.get("shown")
        return [self.message, *(map(str, shown) if isinstance(shown, list) else ())]

    def as_record(self) -> dict[str, object]:
        return {"code": self.code, "severity": self.severity, "message": self.message, "data": dict(self.data)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """Result of a command that the harness ran on one commit."""

    command: str
    commit: str
    exit_code: int | None  # None: timed out or stopped
    report: Report | None  # that can be believed
    problem: str | None  # why there is no report that can be believed, in one line
    output: str  # the last 64 KiB, secrets masked
    seconds: float
    timed_out: bool = False
    stopped: bool = False
    over_limit: str = ""  # what it took of the machine that it may not, as the end of a sentence; it was ended then
    notes: tuple[str, ...] = ()  # what was left out, such as a folder that could not be lent
    calls: tuple[Calls, ...] = ()  # of each test runner in it, where they were watched, or made again
    seen: Report = field(default_factory=Report)  # what the run recorder was told, also of a run that is not believed
    started: bool = False  # a pytest with the run recorder, that takes our options
    by_runner: bool = False  # the test runner was asked for test ids, and no recorder of ours confirms its answer
    untold: str = ""  # why its answer is not a report
    rewritten: tuple[str, ...] = ()  # files of the commit that are no longer as they were; asked of the proof
    goes_on: bool = False  # a pytest failed, and another one was started after it, or the command ended with 0

    @property
    def ended(self) -> bool:
        return not (self.timed_out or self.stopped or self.over_limit)


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedStep:
    step: str  # guard, proof, suite, older data, cross-check, red, twins, outside, lint
    state: str  # passed, warned, failed
    run: Run | None = None
    seconds: float | None = None  # of all runs of the step; none where there was no run


@dataclass(frozen=True, slots=True)
class Replayed:
    """Result of repeating the recorded calls outside tests."""

    calls: int = 0  # that the tests made, and that were noted
    compared: int = 0  # that could be made again, and were
    told: str = ""  # what to tell of those that answer otherwise
    names: tuple[str, ...] = ()  # of these

    @property
    def share(self) -> str:
        return f"{self.compared} of {self.calls} calls were replayed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    accepted: bool
    findings: tuple[Finding, ...] = ()
    base: str = ""
    candidate: str = ""
    proof: Run | None = None  # the item's own check on the candidate
    suite: Run | None = None
    red: Run | None = None  # the candidate's tests on the base commit
    lint: Run | None = None
    regressions: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()
    passing: frozenset[str] = frozenset()  # the next baseline, when accepted
    total: int = 0
    replayed: Replayed | None = None  # calls of the work, made again outside of its tests
    steps: tuple[JudgedStep, ...] = ()  # in the order in which they were taken
    where: str = "worktree"  # or in_place
    red_before: str = NOT_RUN  # result of the check on the base commit: RED, GREEN, NOT_RUN
    unchanged: bool = False  # the candidate has the tree of its base
    noticed: bool | None = None  # whether a changed expectation, or sabotaged work, failed; None: not asked
    noticed_of: str = ""  # how much was noticed, for people: "3 of 3 changed versions"
    not_asked: str = ""  # why nothing was asked

    def found(self, code: str) -> Finding | None:
        return next((finding for finding in self.findings if finding.code == code), None)

    @property
    def reasons(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.findings if finding.severity == CRITICAL)

    @property
    def seconds(self) -> float:
        return sum(each.seconds or 0.0 for each in self.steps)

    @property
    def output(self) -> str:
        return self.proof.output if self.proof else ""

    @property
    def exit_code(self) -> int | None:
        return self.proof.exit_code if self.proof else None

    @property
    def timed_out(self) -> bool:
        return self.proof is not None and self.proof.timed_out


def passed(run: Run) -> bool:
    """Return True if the run exited with 0 and its report shows passed tests and no failed test. (C61)"""
    report = run.report
    return (
        run.problem is None
        and run.exit_code == 0
        and report is not None
        and PASSED in report.cases.values()
        and not report.failing
    )
