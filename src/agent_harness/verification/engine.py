"""Judges a candidate commit: did the work really pass, and did nothing that passed before stop passing?

The order answers the common failure first: rules, the feature's own tests, the whole suite, the same tests on the code
before, lint. In the suite the tests of the base judge the candidate's code; in the red proof the candidate's tests
judge the code of the base. Source: features.md section O, C54, C55, C61, C62.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent_harness.errors import HarnessError, Interrupted, UnsafeTree
from agent_harness.kernel.git import Git, GitFailed
from agent_harness.verification import twins
from agent_harness.verification.changes import CandidateChanges, between, tree_at
from agent_harness.verification.check import parse
from agent_harness.verification.command.guard import LoadedFiles
from agent_harness.verification.guard import Duty, Survey, belongs, duty_of, file_of, is_read, survey
from agent_harness.verification.outside import difference, plain_variables_for, plainly
from agent_harness.verification.runner.environment import IN_PLACE, RunEnvironment, released, resolve
from agent_harness.verification.runner.execution import (
    NOT_FOUND,
    Stop,
    execute,
    execute_plain,
    place_for,
    reach_of,
    run_tests,
)
from agent_harness.verification.runner.lending import import_folders, without
from agent_harness.verification.runner.testreport import PASSED, SKIPPED, Calls, RecordedCall, Report
from agent_harness.verification.verdict import (
    CRITICAL,
    IMPORTANT,
    WARN,
    Finding,
    JudgedStep,
    Replayed,
    TestRun,
    Verdict,
    passed,
)
from agent_harness.verification.workspace import Edits, Overlay

__all__ = [
    "Finding",
    "RunEnvironment",
    "Strictness",
    "TestRun",
    "Verdict",
    "judge",
    "passed",
    "resolve",
    "run_on_older_code",
    "run_tests",
]

Step = Callable[[str, str, TestRun | None], object]
_TWIN_LEAST_SECONDS, _TWIN_TIMES = 30.0, 4  # how long the proof may take on a twin, against its own time
_STEADY_TIMES, _STEADY_SECONDS = 8, 30.0  # how often a test that came and went is run on the code before
_NAMED = 5  # ids written out in a message; all of them are in the data


@dataclass(frozen=True, slots=True, kw_only=True)
class Strictness:
    """How strict a judgement is."""

    requires_red: bool = True  # the feature's own tests must not pass on the code before
    lint_rejects: bool = False
    twins: bool = True  # the feature's own tests fail on sabotaged twins of the candidate
    outside: bool = True  # calls of the work answer alike where no test runner is
    timeout_seconds: float = 1800.0  # of each command


def judge(
    git: Git,
    *,
    base: str,
    candidate: str,
    environment: RunEnvironment,
    proof: str | None = None,
    suite: str | None = None,
    lint: str | None = None,
    others: Collection[str] = (),
    environment_commands: Collection[str] = (),
    test_files: Collection[str] = (),
    protected: Collection[str] = (),
    baseline: Collection[str] = (),
    files_read: Collection[str] = (),
    may_change: Collection[str] = (),
    own_may_change: bool = False,
    red_base: str | None = None,
    options: Strictness | None = None,
    on_step: Step | None = None,
    stop: Stop | None = None,
) -> Verdict:
    """The verdict on ``candidate``; ``base`` is the last commit that the harness accepted.

    ``git.root`` is the project. ``proof`` runs the assigned feature's own tests, which are ``test_files`` (files,
    folders or node ids); ``protected`` are those of features that pass already; ``baseline`` are the ids known to pass,
    ``files_read`` what else their code opens. ``others`` are further commands that check the project, and
    ``environment_commands`` those that set its environment up, reset it or look after it: what all of them run or read
    is not free.
    ``may_change`` are patterns of protected files that a person has released; tests of them may also be gone.
    Tests that ``base`` has in ``test_files`` are given, and stay, unless ``own_may_change``.
    ``red_base`` is the code before the feature was begun, when that is not ``base``. A command of ``None`` is left out.
    ``on_step`` hears (step, "started" | "passed" | "warned" | "failed", its run where it has one). Raises
    ``Interrupted`` when ``stop`` says so.
    """
    hold = {file_of(node) for node in baseline}
    checks = [command for command in (proof, suite, lint, *others) if command]
    try:
        with git.objects() as objects:
            loaded = LoadedFiles.of(tree_at(git, objects, base), checks, environment_commands)
            changes = between(
                git,
                objects,
                base,
                candidate,
                wanted=lambda path: is_read(path) or path in hold or loaded.loads(path),
            )
    except GitFailed as error:
        if "is damaged" not in error.message:
            raise
        return Verdict(accepted=False, findings=(_damaged(error),), base=base, candidate=candidate)
    commands = [command for command in (proof, suite) if command]
    duty = duty_of(
        git,
        base,
        changes,
        commands=commands,
        loaded=loaded.files,
        about_loaded=loaded.finding,
        test_files=test_files,
        protected=protected,
        import_roots=["" if root == "." else root for root in environment.mapped().roots],
        may_change=may_change,
        baseline=baseline,
        files_read=files_read,
        own_may_change=own_may_change,
    )
    case = _Case(
        git=git,
        base=base,
        candidate=candidate,
        environment=replace(environment, base=base),
        options=options or Strictness(),
        on_step=on_step or (lambda *_: None),
        stop=stop,
        duty=duty,
    )
    steps = (
        lambda: case.rules(changes, commands),
        lambda: case.green(proof, changes),
        lambda: case.whole(suite, baseline),
        lambda: case.before(proof, red_base or base),
        lambda: case.sabotaged(proof, red_base or base),
        lambda: case.outside(proof),
        lambda: case.style(lint),
    )
    for step in steps:
        try:
            step()
        except UnsafeTree as error:
            if "damaged" not in error.message:
                raise
            case.findings.append(_damaged(error))
        if case.rejected:
            break
    return case.verdict()


def _damaged(error: HarnessError) -> Finding:
    """A commit that holds what it does not name can be given to nobody."""
    return Finding("damaged_commit", CRITICAL, f"The commit cannot be read: {error.message}.", {})


def run_on_older_code(
    git: Git,
    code: str,
    *,
    candidate: str,
    command: str,
    test_files: Collection[str],
    environment: RunEnvironment,
    timeout_seconds: float = 1800.0,
) -> TestRun:
    """The candidate's tests, and what they stand on, on the code of an older commit."""
    side = _test_side(git, code, candidate, Duty(test_files=frozenset(test_files)))
    overlays = [Overlay(candidate, side)]
    return run_tests(git, code, command, environment=environment, overlays=overlays, timeout_seconds=timeout_seconds)


def _test_side(git: Git, code: str, candidate: str, duty: Duty) -> tuple[str, ...]:
    """The paths of tests, and of what they stand on, that differ between two commits."""
    with git.objects() as objects:
        changes = between(git, objects, code, candidate, wanted=lambda _: False)
    return survey(changes, duty).test_side


@dataclass(slots=True, kw_only=True)
class _Case:
    """One judgement while it is made."""

    git: Git
    base: str
    candidate: str
    environment: RunEnvironment
    options: Strictness
    on_step: Step
    stop: Stop | None
    duty: Duty
    survey: Survey = field(default_factory=Survey)
    findings: list[Finding] = field(default_factory=list)
    runs: dict[str, TestRun] = field(default_factory=dict)
    steps: dict[str, JudgedStep] = field(default_factory=dict)
    regressions: tuple[str, ...] = ()
    flaky: tuple[str, ...] = ()
    replayed: Replayed | None = None
    alone: bool = False  # the suite ran without the candidate's new tests
    noted: int = 0  # findings of the steps that have ended

    @property
    def rejected(self) -> bool:
        return any(finding.severity == CRITICAL for finding in self.findings)

    def find(self, code: str, severity: str, message: str, **facts: object) -> None:
        self.findings.append(Finding(code, severity, message, facts))

    # ---- steps -------------------------------------------------------------------------------------------------

    def rules(self, changes: CandidateChanges, commands: Sequence[str]) -> None:
        """What the candidate changes around its tests, and what changed around the interpreter."""
        self.on_step("guard", "started", None)
        self.survey = survey(changes, self.duty)
        for command in map(parse, commands):
            if self.environment.completed(command) is not self.environment:
                message = f"What runs '{command.shown}' was not there before the session; it was not compared."
                self.find("environment_unknown", IMPORTANT, message)
        self.environment, changed = self.environment.looked_at_again(released(self.duty.may_change))
        left_out = without(self.environment.without, [change.path for change in changes.files])
        self.environment = replace(self.environment, without=left_out)
        self.findings += [*changed, *self.survey.findings]
        if self.environment.isolation == IN_PLACE:
            self.find("not_isolated", WARN, "The tests ran in the project's folder, not on the commit alone.")
        elif changes.submodules:
            where = sorted(changes.submodules)
            self.find(
                "submodules_empty", WARN, f"Submodules were empty folders in the checkout: {where[0]}.", paths=where
            )
        self._ended("guard")

    def green(self, command: str | None, changes: CandidateChanges) -> None:
        """The feature's own tests pass on the candidate; calls that they make of the work are noted."""
        if command is None:
            return
        side = set(self.survey.test_side)
        asks = self.options.outside and self.environment.isolation != IN_PLACE
        watched = twins.functions_by_line(c for c in changes.files if c.path not in side) if asks else {}
        run = self._run("proof", command, watched=watched)
        if run.over_limit:
            self._over_limit("The feature's tests", run)
        elif not passed(run) and self._passes_with_what_came(command):
            self._needs_what_came()

        elif not passed(run):
            failing = sorted(run.report.failing) if run.report else []
            why = run.problem or ("" if failing else "no test passed")
            message = "Feature test failed when harness ran it." + (f" The reason: {why}." if why else "")
            self.find("proof_failed", CRITICAL, message, failing=failing, problem=run.problem, exit_code=run.exit_code)
        elif run.report and (gave_up := sorted(run.report.gave_up)):
            message = (
                f"Feature test was skipped while it ran, so it proves nothing: {_listed(gave_up)}. "
                "Only a mark on a test, which is there to be read, may skip it."
            )
            self.find("proof_failed", CRITICAL, message, failing=gave_up, problem=None, exit_code=run.exit_code)
        self._ended("proof")

    def _passes_with_what_came(self, command: str) -> bool:
        """Whether the proof passes only with what came during the session: plugins of pytest, and what is lent."""
        if not (self.environment.blocked or self.environment.without):
            return False
        loading = replace(self.environment, blocked=(), without=())
        with place_for(self.git, self.candidate, environment=loading) as space:
            limit = self.options.timeout_seconds
            run = execute(space, command, environment=loading, timeout_seconds=limit, stop=self.stop)
        self._interrupted()
        return passed(run)

    def _needs_what_came(self) -> None:
        if paths := list(self.environment.blocked_by):
            message = (
                f"The feature's tests pass only with {', '.join(self.environment.blocked)}, which came during the "
                "session and is loaded by pytest in every run of tests. The tests may do without it, or a person says "
                "that it may be loaded."
            )
            self.find("plugin_needed", CRITICAL, message, path=paths[0], paths=paths)
            return
        paths = sorted(self.environment.without)
        message = (
            f"The feature's tests pass only with what came into installed dependencies, such as {paths[0]}. A lock "
            "file brings it, or a person says that it may be there."
        )
        self.find("dependency_needed", CRITICAL, message, path=paths[0], paths=paths[:50])

    def whole(self, command: str | None, baseline: Collection[str]) -> None:
        """Nothing of the baseline stopped passing: the suite of the base, without the candidate's new tests.

        They run in the same process, where they could mend what is broken, and have had their proof. All run together
        where new tests count among the older ones, or can be seen to act on them.
        """
        if command is None:
            return
        if taken := sorted(node for node in baseline if node.partition("[")[0] in self.survey.gained):
            message = f"The session takes the place of {_listed(taken)}, which does not belong to its feature."
            self.find("protected_test_changed", CRITICAL, message, path=file_of(taken[0]), reasons=taken)
            self._ended("guard")
            return
        side = [path for path in self.survey.test_side if path not in self.survey.released]
        older = [node for node in baseline if not self._is_own(node)]
        alone = self.alone = bool(older) and self.environment.isolation != IN_PLACE
        if alone:
            self._suite("suite", command, [Overlay(self.base, side)], baseline)
        if alone and self.survey.read and not self.rejected:
            self._with_older_versions(command, [*side, *self.survey.read], older)
        if not self.rejected and (not alone or self.survey.needs_cross_check or (side and not self.runs.get("proof"))):
            moved = [self._now(node) for node in baseline]
            self._suite("cross-check" if alone else "suite", command, [Overlay(self.base, self.survey.kept)], moved)

    def _with_older_versions(self, command: str, paths: Sequence[str], older: Collection[str]) -> None:
        """The older tests, with the files that they read as these were: where it matters, a person decides."""
        run = self._run("older data", command, overlays=[Overlay(self.base, paths)], keep_going=True)
        passing = run.report.passing if run.report else frozenset()
        if lost := sorted(set(older) - passing - set(self.flaky)):
            for path in self.survey.read:
                message = f"The session changes {path}; with the version before, {_listed(lost)} no longer pass."
                self.find("protected_test_changed", CRITICAL, message, path=path, reasons=lost)
        self._ended("older data")

    def before(self, command: str | None, red_base: str) -> None:
        """The candidate's tests do not pass on the code before."""
        if command is None or not self.options.requires_red:
            return
        if self.environment.isolation == IN_PLACE:
            self.find("red_proof_skipped", WARN, "In place, the tests cannot be run on the code before.")
            return
        side = self.survey.test_side
        if red_base != self.base:
            side = _test_side(self.git, red_base, self.candidate, self.duty)
        run = self._run("red", command, commit=red_base, overlays=[Overlay(self.candidate, side)])
        proof = self.runs["proof"].report
        proven = proof.passing if proof else frozenset()
        if run.report is not None and proven <= run.report.passing:
            message = "The feature's tests also pass on the code before the session; they prove nothing."
            self.find("proof_not_red", CRITICAL, message, tests=sorted(proven))
        self._ended("red")

    def sabotaged(self, command: str | None, begun: str) -> None:
        """The feature's own tests fail where the work does nothing, and where they expect something else.

        Asked of tests that were written since ``begun``: what a person wrote before is the specification.
        """
        if command is None or not self.options.twins or self.environment.isolation == IN_PLACE:
            return
        with self.git.objects() as objects:
            changes = between(self.git, objects, begun, self.candidate, wanted=lambda path: path.endswith(".py"))
        side = set(survey(changes, self.duty).test_side)
        own = [change for change in changes.files if belongs(change.path, self.duty.test_files)]
        work = twins.of_work(change for change in changes.files if change.path not in side)
        expecting = twins.of_tests(own)
        if not own or not (work.twins or expecting):
            return
        self.on_step("twins", "started", None)
        blind = [expecting.what] if expecting and self._expects_nothing(command, expecting) else []
        if not blind and not (work.beyond and expecting):
            blind = self._not_noticed(command, work.twins)
        if blind:
            message = f"The feature's tests cannot fail: they stay green when {', and when '.join(blind)}."
            self.find("weak_test", CRITICAL, message, twins=blind)
        self._ended("twins")

    def _expects_nothing(self, command: str, twin: twins.Twin) -> bool:
        """Whether most of the tests that expect other values in this twin pass nevertheless."""
        run = self._on_twin(command, twin)
        cases = run.report.cases if run.report else {}
        asked = [node for node in twin.asked(cases) if cases[node] != SKIPPED]
        green = [node for node in asked if cases[node] == PASSED]
        return len(green) * 2 > len(asked) if asked else passed(run)

    def _not_noticed(self, command: str, sabotaged: Sequence[twins.Twin]) -> list[str]:
        """The twins of the work that stay green, where no test notices any of them: a crash on the way is no test."""
        green: list[str] = []
        for twin in sabotaged:
            run = self._on_twin(command, twin)
            if run.report and run.report.asserted:
                return []
            green += [twin.what] if passed(run) else []
        return green

    def _on_twin(self, command: str, twin: twins.Twin) -> TestRun:
        """The feature's own tests on a sabotaged twin; one that hangs has its end."""
        limit = self._short_limit
        with place_for(self.git, self.candidate, environment=self.environment, overlays=[Edits(twin.files)]) as space:
            run = execute(
                space, command, environment=self.environment, timeout_seconds=limit, keep_going=True, stop=self.stop
            )
        self._interrupted()
        return run

    def outside(self, command: str | None) -> None:
        """What the proof has called answers alike where no test runner is, in a process and a folder of its own."""
        seen = self.runs["proof"].calls if "proof" in self.runs else Calls()
        if command is None or not seen.recorded:
            return
        self.on_step("outside", "started", None)
        parsed, limit = parse(command), self._short_limit
        environment = self.environment.completed(parsed)
        python = environment.python_of(parsed, seen.python)
        variables = plain_variables_for(environment.variables, parsed.variables, seen, self.duty.variables)
        with (
            place_for(self.git, self.candidate, environment=environment) as judged,
            place_for(self.git, self.candidate, environment=environment, neutral=True) as plain,
        ):

            def from_a_test(calls: Sequence[RecordedCall]) -> Sequence[str | None]:
                run = execute(
                    judged, command, environment=environment, timeout_seconds=limit, again=calls, stop=self.stop
                )
                return run.calls.answers

            def from_a_program(calls: Sequence[RecordedCall], first: Sequence[str]) -> Sequence[str | None]:
                return plainly(
                    plain,
                    python,
                    calls,
                    imports=[*import_folders(environment.mapped(), plain), *seen.paths],
                    variables=variables,
                    reach=reach_of(plain, environment),
                    first=first,
                    timeout_seconds=limit,
                    stop=self.stop,
                )

            conftests = self.duty.conftests
            found = difference(seen, from_a_test, from_a_program, conftests) if python else Replayed(len(seen.recorded))
        self._interrupted()
        self.replayed = found
        if found.told:
            self.find("answers_differ", CRITICAL, found.told, calls=list(found.names))
        self._ended("outside")

    @property
    def _short_limit(self) -> float:
        """How long a part of the proof may take when it is run once more."""
        return min(self.options.timeout_seconds, _TWIN_LEAST_SECONDS + _TWIN_TIMES * self.runs["proof"].seconds)

    def style(self, command: str | None) -> None:
        """The linter's exit status; a linter that is not there is named and rejects nothing (C55)."""
        if command is None:
            return
        self.on_step("lint", "started", None)
        with place_for(self.git, self.candidate, environment=self.environment) as space:
            limit = self.options.timeout_seconds
            run = execute_plain(space, command, environment=self.environment, timeout_seconds=limit, stop=self.stop)
        self._interrupted()
        self.runs["lint"] = run
        if run.exit_code in (None, 126, NOT_FOUND) or "No module named" in run.output[-400:]:
            self.find("lint_unavailable", WARN, f"lint unavailable: {command}", problem=run.problem)
        elif run.exit_code:
            severity = CRITICAL if self.options.lint_rejects else WARN
            self.find("lint", severity, "Lint errors introduced. Agent should fix.", exit_code=run.exit_code)
        self._ended("lint")

    # ---- parts -------------------------------------------------------------------------------------------------

    def _run(
        self,
        name: str,
        command: str,
        *,
        commit: str | None = None,
        overlays: Sequence[Overlay] = (),
        keep_going: bool = False,
        select: Collection[str] = (),
        watched: Mapping[str, Mapping[str, str]] | None = None,
    ) -> TestRun:
        self.on_step(name, "started", None)
        with place_for(self.git, commit or self.candidate, environment=self.environment, overlays=overlays) as space:
            run = execute(
                space,
                command,
                environment=self.environment,
                timeout_seconds=self.options.timeout_seconds,
                keep_going=keep_going,
                select=select,
                watched=watched,
                stop=self.stop,
            )
        self._interrupted()
        if not self.runs:
            for note in run.notes:
                self.find("link_refused", WARN, f"{note}.")
        self.runs[name] = run
        return run

    def _suite(self, name: str, command: str, overlays: Sequence[Overlay], baseline: Collection[str]) -> None:
        run = self._run(name, command, overlays=overlays, keep_going=True)
        if run.over_limit:
            self._over_limit("The whole suite", run)
        elif run.report is None or not run.report.cases:
            why = run.problem or "it ran no test"
            self.find("suite_failed", CRITICAL, f"The whole suite could not be judged: {why}.", problem=run.problem)
        else:
            counted = {node for node in baseline if not self._is_own(node)}
            counted -= self._taken_out(counted, run.report)
            self._compare(name, command, overlays, counted - run.report.passing)
        self._ended(name)

    def _over_limit(self, what: str, run: TestRun) -> None:
        message = f"{what} {run.over_limit}, and was ended: that proves nothing, for the work or against it."
        self.find("over_limit", CRITICAL, message, problem=run.problem)

    def _taken_out(self, baseline: Collection[str], report: Report) -> set[str]:
        """Known tests that are no longer there, in files that may change.

        None where something of that file failed, such as its collection, nor of a verified feature whose last passing
        test would go.
        """
        gone = {node for node in baseline if node not in report.cases and file_of(node) in self.survey.released}
        broken = {file_of(node) for node in report.failing}
        left = [file for file in self.duty.protected if not any(_holds(file, node) for node in report.passing)]
        out = {n for n in gone if file_of(n) not in broken and not any(_holds(file, n) for file in left)}
        if out:
            message = f"No longer there, in a file that may change: {_listed(out)}."
            self.find("tests_gone", IMPORTANT, message, tests=sorted(out))
        return out

    def _now(self, node: str) -> str:
        """The id of a test in the candidate, whose file may have moved."""
        file = file_of(node)
        return self.survey.moved.get(file, file) + node.removeprefix(file)

    def _compare(self, name: str, command: str, overlays: Sequence[Overlay], failing: Collection[str]) -> None:
        """Newly failing tests get one more try before they count (C62)."""
        if not failing:
            return
        again = self._run(f"{name} again", command, overlays=overlays, keep_going=True, select=failing)
        recovered = again.report.passing & set(failing) if again.report else frozenset()
        steady = self._steady_before(command, recovered) if recovered else frozenset()
        self.flaky = tuple(sorted({*self.flaky, *(recovered - steady)}))
        if recovered - steady:
            message = f"Flaky: {_listed(recovered - steady)} passed when run again, and came and went before, too."
            self.find("flaky_test", IMPORTANT, message, tests=self.flaky)
        if steady:
            message = (
                f"Regression: {_listed(steady)} failed and passed when run again; on the code before, always passed."
            )
            self.find("unsteady_test", CRITICAL, message, tests=sorted(steady))
        self.regressions = tuple(sorted(set(failing) - recovered))
        if self.regressions:
            message = f"Regression: {_listed(self.regressions)} tests now failing"
            self.find("regression", CRITICAL, message, tests=self.regressions, check=name)

    def _steady_before(self, command: str, nodes: Collection[str]) -> frozenset[str]:
        """Those of these tests that pass each time on the code before: asked some times, as long as a suite takes."""
        if self.environment.isolation == IN_PLACE:
            return frozenset()
        left, spent = frozenset(nodes), 0.0
        for _ in range(_STEADY_TIMES):
            run = self._run("before again", command, commit=self.base, keep_going=True, select=nodes)
            left, spent = left & (run.report.passing if run.report else frozenset()), spent + run.seconds
            if not left or spent > _STEADY_SECONDS + self.runs["suite"].seconds:
                break
        return left

    def _is_own(self, node: str) -> bool:
        """A test of the assigned feature is judged by the proof, unless a verified feature shares it (C23)."""
        own = any(_holds(file, node) for file in self.duty.test_files)
        return own and not any(_holds(file, node) for file in self.duty.protected)

    def _ended(self, step: str) -> None:
        warned = len(self.findings) > self.noted
        self.noted = len(self.findings)
        state = "failed" if self.rejected else "warned" if warned else "passed"
        self.steps[step] = JudgedStep(step=step, state=state, run=self.runs.get(step))
        self.on_step(step, state, self.runs.get(step))

    def _interrupted(self) -> None:
        if self.stop is not None and self.stop():
            raise Interrupted("verification was stopped")

    # ---- answer ------------------------------------------------------------------------------------------------

    def verdict(self) -> Verdict:
        proof, suite, together = (self.runs.get(name) for name in ("proof", "suite", "cross-check"))
        outcomes: dict[str, bool] = {}
        for run in (suite, together, proof):
            cases = run.report.cases if run and run.report else {}
            for node, outcome in cases.items():
                if run is proof or together or not self._is_own(node):
                    outcomes[self._now(node)] = outcome == PASSED
        proven = proof.report.passing if proof and proof.report else frozenset()
        whole = together or (suite if not self.alone else None)
        if whole and whole.report and not self.survey.kept:
            lost = sorted(node for node in proven & whole.report.cases.keys() if whole.report.cases[node] != PASSED)
            outcomes.update(dict.fromkeys(lost, False))
            if lost:
                message = f"{_listed(lost)} passed alone and failed in the suite."
                self.find("fails_in_suite", IMPORTANT, message, tests=lost)
        outcomes.update(dict.fromkeys(self.flaky, True))
        return Verdict(
            accepted=not self.rejected,
            findings=tuple(self.findings),
            base=self.base,
            candidate=self.candidate,
            proof=proof,
            suite=suite,
            red=self.runs.get("red"),
            lint=self.runs.get("lint"),
            regressions=self.regressions,
            flaky=self.flaky,
            passing=frozenset(node for node, good in outcomes.items() if good),
            total=len(outcomes),
            replayed=self.replayed,
            steps=tuple(self.steps.values()),
        )


def _holds(file: str, node: str) -> bool:
    """True when a node id lies in this file, folder or node."""
    place = file.rstrip("/")
    return node == place or node.startswith((f"{place}::", f"{place}/", f"{place}["))


def _listed(nodes: Collection[str]) -> str:
    named = sorted(nodes)
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return ", ".join(named[:_NAMED]) + more
