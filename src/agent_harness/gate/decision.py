"""The decision of the gate on a change: accepted, rejected, or a person must decide.

A runner that reports test ids is judged like a session of a feature project: no test that passed on the base may fail,
and new tests must fail without the change. Any other command is judged like the check of a task."""

import re
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from agent_harness.errors import PreflightFailed
from agent_harness.gate.change import GateChange, own_files
from agent_harness.gate.strays import strays
from agent_harness.kernel.process.sandbox import AUTO, SandboxSettings
from agent_harness.verification import sources
from agent_harness.verification.command import starts_python
from agent_harness.verification.command.runner import CommandCheck
from agent_harness.verification.expecting.compiled import inline_differ
from agent_harness.verification.found_check import FoundCheck, found, reports_ids, with_files
from agent_harness.verification.grade import CHECKED, PROVEN, Grade, grade_of_verdict
from agent_harness.verification.guard import ALLOWABLE, file_of, read_by_tests, released_by
from agent_harness.verification.judge import judge, judge_command, run_at
from agent_harness.verification.protected_files import SessionClaim
from agent_harness.verification.runner import environment
from agent_harness.verification.runner.environment import RunEnvironment
from agent_harness.verification.runner.execution import Stop, run_tests
from agent_harness.verification.runner.linked_paths import ignored_paths, linkable
from agent_harness.verification.verdict import RED, REJECT, TELL, Finding, Run, Strictness, Verdict

ACCEPTED, REJECTED, ASKS = "accepted", "rejected", "needs a person"
EXIT_CODES = {ACCEPTED: 0, REJECTED: 1, ASKS: 3}
NOT_SHOWN = "not shown"
STATES = (ACCEPTED, ASKS, REJECTED)
WORDS = (NOT_SHOWN, CHECKED, PROVEN)  # from the weakest
_CANNOT_RUN = (126, 127)  # exit codes of a shell
_NAMED = "harness gate --check 'COMMAND THAT RUNS THE TESTS'"
_NO_TESTS = 5  # exit code of pytest without tests
MISSING = re.compile(r"ModuleNotFoundError: No module named '([A-Za-z_]\w*).*")
NONE_PASSES = "no test passes on the base"
BASE_FAILS, TIME_LIMIT = "the tests cannot be run on the base", "the tests on the base exceed the time limit"
Say = Callable[[str], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class GateTerms:
    checks: tuple[str, ...] = ()  # commands; without them, the project's files decide
    tests: tuple[str, ...] = ()  # test files of the change; without them, its changed test files
    allow: tuple[str, ...] = ()  # patterns of protected files that may change
    require: str = ""  # PROVEN or CHECKED: a weaker result needs a person
    timeout_seconds: float = 1800.0
    sandbox: SandboxSettings = AUTO
    # runs of whole suites, by command and commit: such a run is not repeated, and the runs on both commits are added
    suites: MutableMapping[tuple[str, str], Run] = field(default_factory=dict, repr=False)


class JudgedCheck(NamedTuple):
    """Result of one check of the project on the change."""

    check: FoundCheck
    state: str  # ACCEPTED, REJECTED or ASKS
    verdict: Verdict
    shown: Grade  # PROVEN, CHECKED or NOT_SHOWN, with the reason
    before: Run | None = None  # the suite on the base
    tools: Mapping[str, str] = {}  # versions of the runner, where they are known


class GateDecision(NamedTuple):
    state: str
    shown: Grade
    change: GateChange
    judged: tuple[JudgedCheck, ...] = ()

    @property
    def exit_code(self) -> int:
        return EXIT_CODES[self.state]

    @property
    def findings(self) -> list[Finding]:
        return [finding for each in self.judged for finding in each.verdict.findings]


def decide(change: GateChange, terms: GateTerms, *, say: Say, stop: Stop | None = None) -> GateDecision:
    """Return the decision on the change. Raise ``PreflightFailed`` if the tests cannot be run on the base."""
    if change.only_documents:
        return GateDecision(ACCEPTED, Grade(NOT_SHOWN, "only documents were changed, so no test was run"), change)
    given = [FoundCheck(command=each, source="--check") for each in terms.checks]
    judged: list[JudgedCheck] = []
    for check in given or [found(change.git, change.base, hint=_NAMED)]:
        say(f"Tests: {check.command} ({check.source})")
        judged.append(_judged(change, check, terms, say, stop))
        if judged[-1].state == REJECTED:
            break
    state = max((each.state for each in judged), key=STATES.index)
    strongest = max(judged, key=lambda each: WORDS.index(each.shown.word)).shown
    before = [each.before for each in judged if each.before and each.before.report and each.before.report.failing]
    if strongest.word == NOT_SHOWN and before and not any(run.report and run.report.passing for run in before):
        missing = MISSING.search(before[0].output)
        why = f"no test passes there{f' ({missing[0]})' if missing else ''}"
        raise _cannot_run(change, before[0].command, why, NONE_PASSES)
    if state == ACCEPTED and terms.require and WORDS.index(strongest.word) < WORDS.index(terms.require):
        state = ASKS
    return GateDecision(state, strongest, change, tuple(judged))


def _judged(change: GateChange, check: FoundCheck, terms: GateTerms, say: Say, stop: Stop | None) -> JudgedCheck:
    # a command that a person names must pass; of a suite that was found, the tests that passed before must
    by_id = reports_ids(change.git, change.base, check.command) and (not terms.checks or bool(terms.tests))
    work = (_ById if by_id else _ByStatus)(change, check, terms, say, stop)
    if work.before and work.before.by_runner and work.before.report is None:  # its ids cannot be told
        work = _ByStatus(change, check, terms, say, stop)
    verdict = work.verdict(terms.allow)
    reasons = [*verdict.reasons, *(strays(change, check.command, terms.allow) if verdict.accepted else ())]
    if not reasons or any(each.code not in ALLOWABLE for each in reasons):
        state = ACCEPTED if verdict.accepted else REJECTED
        return JudgedCheck(check, state, verdict, work.shown(verdict), work.before, work.tools)
    if not verdict.accepted:
        paths = sorted({path for each in reasons for path in released_by(each)})
        say(f"Verifying again as if these files were allowed to change: {', '.join(paths)}")
        verdict = work.verdict((*terms.allow, *paths))
    state = ASKS if verdict.accepted else REJECTED
    verdict = replace(verdict, findings=(*reasons, *(f for f in verdict.findings if f not in reasons)))
    return JudgedCheck(check, state, verdict, work.shown(verdict), work.before, work.tools)


def _cannot_run(change: GateChange, command: str, why: str, cause: str) -> PreflightFailed:
    hint = "make this command work there, or: harness gate --check 'COMMAND'"
    return PreflightFailed(f"`{command}` cannot be run on the base {change.base[:10]}: {why}", hint=hint, cause=cause)


class _ByStatus:
    """Verification by a command's exit status, like the check of a task."""

    before: Run | None = None
    tools: Mapping[str, str] = {}

    def __init__(self, change: GateChange, check: FoundCheck, terms: GateTerms, say: Say, stop: Stop | None) -> None:
        self.change, self.check, self.terms, self.say, self.stop = change, check, terms, say, stop

    def verdict(self, allow: tuple[str, ...]) -> Verdict:
        found = self._on_the_change(allow)
        if found.accepted or found.reasons:
            return found
        check = CommandCheck(
            command=self.check.command, timeout_seconds=self.terms.timeout_seconds, sandbox=self.terms.sandbox
        )
        before = run_at(self.change.git, self.change.base, check, stop=self.stop)
        # a program that is missing, or a whole suite that failed before, tells nothing about the change
        if not before.accepted and (not self.terms.checks or before.exit_code in _CANNOT_RUN):
            cause = TIME_LIMIT if before.timed_out else BASE_FAILS
            raise _cannot_run(self.change, self.check.command, f"exit {before.exit_code}", cause)
        return found

    def _on_the_change(self, allow: tuple[str, ...]) -> Verdict:
        check = CommandCheck(
            command=self.check.command,
            timeout_seconds=self.terms.timeout_seconds,
            requires_red=self.requires_red,
            may_change=allow,
            sandbox=self.terms.sandbox,
        )
        change = self.change
        return judge_command(change.git, check, base=change.base, candidate=change.head, stop=self.stop)

    @property
    def requires_red(self) -> str:
        return TELL

    def shown(self, verdict: Verdict) -> Grade:
        if verdict.proof is None:
            asked = "no new test was run on the base" if self.change.touches_tests else "no test was changed"
            return Grade(NOT_SHOWN, f"{asked}; the tests that passed before still pass")
        found = grade_of_verdict(verdict, trusted=False, needs_change=False)
        return found if verdict.red_before == RED else Grade(NOT_SHOWN, found.basis)


class _ById(_ByStatus):
    """Verification by a runner that reports test ids, like a session of a feature project."""

    @property
    def requires_red(self) -> str:
        # a change of tests alone has nothing that could make them pass, and older tests passed before
        return REJECT if self.change.product and any(map(self._brings_tests, self.own)) else TELL

    def _brings_tests(self, path: str) -> bool:
        before, after = (self.change.git.show(commit, path) for commit in (self.change.base, self.change.head))
        return before is None or not path.endswith(".py") or bool(sources.new_tests(before, after))

    def __init__(self, change: GateChange, check: FoundCheck, terms: GateTerms, say: Say, stop: Stop | None) -> None:
        super().__init__(change, check, terms, say, stop)
        self.own = own_files(change, terms.tests)
        self.inline = any(
            inline_differ(path, *(change.git.show(commit, path) for commit in (change.base, change.head)))
            for path in change.paths
            if path.endswith(".rs")
        )
        self.environment = self._resolved()
        self.tools = self.environment.tools
        self.before = terms.suites.get((check.command, change.base)) or self._on_base()
        terms.suites[check.command, change.base] = self.before
        if self.before.report is None and not self.before.by_runner and self.before.exit_code != _NO_TESTS:
            cause = TIME_LIMIT if self.before.timed_out else BASE_FAILS
            raise _cannot_run(change, check.command, self.before.problem or f"exit {self.before.exit_code}", cause)

    def _on_base(self) -> Run:
        self.say("Running the tests on the base...")
        return run_tests(
            self.change.git,
            self.change.base,
            self.check.command,
            environment=self.environment,
            timeout_seconds=self.terms.timeout_seconds,
            keep_going=True,
            stop=self.stop,
        )

    def _resolved(self) -> RunEnvironment:
        git = self.change.git
        links = linkable(environment_root := git.root, ignored_paths(git))
        return environment.resolve(
            environment_root,
            [self.check.command],
            links=links,
            sandbox=self.terms.sandbox,
            starts_python=starts_python,
        )

    def verdict(self, allow: tuple[str, ...]) -> Verdict:
        assert self.before is not None
        change, report = self.change, self.before.report
        claim = SessionClaim(
            base=change.base,
            candidate=change.head,
            proof=with_files(change.git, change.base, self.check.command, self.own)
            if self.own or self.inline
            else None,
            suite=self.check.command,
            test_files=self.own,
            protected=[each for each in self.own if change.git.show(change.base, each.partition("::")[0]) is not None],
            baseline=report.passing if report else (),
            files_read=read_by_tests(report.opened) if report else (),
            may_change=allow,
        )
        strictness = Strictness(requires_red=self.requires_red, timeout_seconds=self.terms.timeout_seconds)
        found = judge(
            change.git,
            claim,
            environment=self.environment,
            options=strictness,
            on_step=lambda step, state, _run: self.say(f"{step}: {state}") if state != "started" else None,
            stop=self.stop,
        )
        older = {file_of(node) for node in (report.cases if report else ())}
        if found.suite and found.suite.report and not (change.touches_tests or older & {*change.paths}):
            # else it ran with tests of the base
            self.terms.suites[self.check.command, change.head] = found.suite
        return found
