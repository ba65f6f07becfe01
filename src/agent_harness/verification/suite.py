"""Verification stage for the whole test suite.
No test of the baseline may stop passing. The base commit's tests run on the candidate's code. New tests run separately,
because in the same process they could hide a failure of older tests. All tests run together if new tests may affect
older tests or count as older tests. Source: features.md C15, C23, C62."""

import posixpath
from collections.abc import Collection, Sequence

from agent_harness.verification.case import Case
from agent_harness.verification.checkout import Edits, Overlay
from agent_harness.verification.command.put_back import changed_values
from agent_harness.verification.guard import file_of, read_by_product
from agent_harness.verification.inline_tests import inline_tests, is_inline
from agent_harness.verification.runner.testreport import PASSED, Report
from agent_harness.verification.verdict import Run, listed

_STEADY_TIMES, _STEADY_SECONDS = 8, 30.0  # how often a flaky test is run on the base commit


class SuiteStage:
    def __init__(self, case: Case, command: str, protected: Collection[str]) -> None:
        self._case, self._command, self._protected = case, command, protected

    def judge(self) -> None:
        case, survey = self._case, self._case.survey
        side = [path for path in survey.test_side if path not in survey.released]
        # a file of the work may name a new module for tests, and is not built without it
        inside = [path for path in side if path.endswith(".rs") and "/src/" in f"/{path}"]
        side = [path for path in side if path not in inside or path in case.tree.paths]
        older = [node for node in case.baseline if not self._is_own(node)]
        alone = case.alone = bool(older) and case.runner.has_checkouts
        if alone:
            self._run("suite", [Overlay(case.base, side)], case.baseline)
        values = sorted(changed_values(case)) if alone and not case.ended else []
        if alone and (survey.read or values) and not case.ended:
            self._with_older_versions(side, values, older)
        if alone and not case.ended:
            _inline(case, self._command, [Overlay(case.base, side)], {*older} - {*case.flaky})
        together = not alone or survey.needs_cross_check or (side and not case.runs.get("proof"))
        if together and not case.ended:
            moved = [self._now(node) for node in case.baseline]
            self._run("cross-check" if alone else "suite", [Overlay(case.base, survey.kept)], moved)

    def _with_older_versions(self, side: Sequence[str], values: Sequence[str], older: Collection[str]) -> None:
        """Run the older tests with the base version of changed data, and report the failed tests."""
        case, read = self._case, self._case.survey.read
        with case.step("older data"):
            lost = self._lost("older data", case.candidate, [Overlay(case.base, [*side, *read, *values])], older)
            if not lost:
                return
            suite = case.runs["suite"].report
            shared = read_by_product(suite.opened).intersection(values) if suite else set[str]()
            needs = shared and self._lost("newer data", case.base, [Overlay(case.candidate, sorted(shared))], older)
            for path in sorted({*read, *values} - (set() if needs else shared)):
                message = f"The session changes {path}; with its base version, {listed(lost)} no longer pass"
                case.find("protected_test_changed", message, path=path, reasons=lost)

    def _lost(self, name: str, commit: str, overlays: Sequence[Overlay], older: Collection[str]) -> list[str]:
        case = self._case
        run = case.run(name, self._command, commit, overlays=overlays, keep_going=True)
        passing = run.report.passing if run.report else frozenset()
        return sorted(set(older) - passing - set(case.flaky))

    def _run(self, name: str, overlays: Sequence[Overlay], baseline: Collection[str]) -> None:
        case = self._case
        with case.step(name):
            run = case.run(name, self._command, overlays=overlays, keep_going=True)
            if run.over_limit:
                case.over_limit("The whole suite", run)
            elif run.report is None or not run.report.cases:
                why = run.problem or "it ran no test"
                case.find("suite_failed", f"The whole test suite gave no usable result: {why}", problem=run.problem)
            else:
                counted = {node for node in baseline if not self._is_own(node)}
                counted -= self._taken_out(counted, run.report)
                self._compare(name, overlays, counted - run.report.passing)

    def _taken_out(self, baseline: Collection[str], report: Report) -> set[str]:
        """Return the deleted baseline tests of files that the user allows the work to change."""
        case = self._case
        gone = {node for node in baseline if node not in report.cases and _is_released(case, node)}
        broken = {file_of(node) for node in report.failing}
        left = [file for file in self._protected if not any(_holds(file, node) for node in report.passing)]
        out = {n for n in gone if file_of(n) not in broken and not any(_holds(file, n) for file in left)}
        if out:
            case.find("tests_gone", f"Tests removed from a file that may change: {listed(out)}", tests=sorted(out))
        return out

    def _now(self, node: str) -> str:
        file = file_of(node)
        return self._case.survey.moved.get(file, file) + node.removeprefix(file)

    def _compare(self, name: str, overlays: Sequence[Overlay], failing: Collection[str]) -> None:
        """Run newly failing tests again. Report flaky tests and regressions. (C62)"""
        case = self._case
        if not failing:
            return
        again = case.run(f"{name} again", self._command, overlays=overlays, keep_going=True, select=failing)
        recovered = again.report.passing & set(failing) if again.report else frozenset()
        steady = self._steady_before(recovered) if recovered else frozenset()
        case.flaky = tuple(sorted({*case.flaky, *(recovered - steady)}))
        if recovered - steady:
            message = f"Flaky: {listed(recovered - steady)} passed when run again, and also varied on the base commit"
            case.find("flaky_test", message, tests=case.flaky)
        if steady:
            came = "failed, then passed when run again; on the base commit, always passed"
            message = f"Regression: {listed(steady)} {came}"
            case.find("unsteady_test", message, tests=sorted(steady))
        case.regressions = tuple(sorted(set(failing) - recovered))
        if case.regressions:
            message = f"Regression: {listed(case.regressions)} tests now failing"
            case.find("regression", message, tests=case.regressions, check=name)

    def _steady_before(self, nodes: Collection[str]) -> frozenset[str]:
        """Return the tests that pass each time in several runs on the base commit."""
        case = self._case
        if not case.runner.has_checkouts:
            return frozenset()
        left, spent = frozenset(nodes), 0.0
        for _ in range(_STEADY_TIMES):
            run = case.run("before again", self._command, case.base, keep_going=True, select=nodes)
            left, spent = left & (run.report.passing if run.report else frozenset()), spent + run.seconds
            if not left or spent > _STEADY_SECONDS + case.runs["suite"].seconds:
                break
        return left

    def _is_own(self, node: str) -> bool:
        """Return True if only the assigned feature has this test."""
        # the feature's check judges this test (C23)
        own = any(_holds(file, node) for file in self._case.guard.own_tests)
        return own and not any(_holds(file, node) for file in self._protected)

    def outcomes(self) -> dict[str, bool]:
        """Return the test ids as keys. A value is True if the test passes both alone and in the suite."""
        case = self._case
        proof, suite, together = (case.runs.get(name) for name in ("proof", "suite", "cross-check"))
        outcomes: dict[str, bool] = {}
        for run in (suite, together, proof):
            for node, outcome in _cases(run).items():
                if run is proof or together or not self._is_own(node):
                    outcomes[self._now(node)] = outcome == PASSED
        proven = proof.report.passing if proof and proof.report else frozenset()
        whole = _cases(together or (suite if not case.alone else None))
        if whole and not case.survey.kept:
            lost = sorted(node for node in proven & whole.keys() if whole[node] != PASSED)
            outcomes.update(dict.fromkeys(lost, False))
            if lost:
                case.find("fails_in_suite", f"{listed(lost)} passed alone and failed in the suite", tests=lost)
        return outcomes | dict.fromkeys(case.flaky, True)


def older_tests(case: Case) -> None:
    """Add a finding if a test that passed on the base commit no longer passes, for a command that reports test ids."""
    proof = case.runs.get("proof")
    if proof is None or case.proof is None or not proof.by_runner or not case.runner.has_checkouts:
        return
    name = "older tests"
    with case.step(name):
        ran = case.run(name, case.proof, case.base, keep_going=True)
        before = ran.report
        if proof.report is None and not (ran.untold and ran.exit_code == 0):
            message = f"The report of the test runner does not count: {proof.untold}"
            case.find("suite_failed", message, problem=proof.untold)
            return
        if before is None or proof.report is None or not before.passing:
            return
        lost = {node for node in before.passing if not _is_free(case, node)} - proof.report.passing
        if lost:  # the names of some tests differ in each run
            again = case.run(f"{name} again", case.proof, case.base, keep_going=True).report
            lost &= again.passing if again else frozenset()
        if lost:
            case.regressions = tuple(sorted(lost))
            message = f"Regression: {listed(lost)} passed on the base commit, and did not pass now"
            case.find("regression", message, tests=case.regressions, check=name)
        else:
            changed = [p for p in case.survey.test_side if p in case.tree.paths and p not in case.survey.released]
            _inline(case, case.proof, [Overlay(case.base, changed)], before.passing, changed)


def _is_free(case: Case, node: str) -> bool:
    """Return True if the user allows the work to change the file of a test, or the work moves the file."""
    return file_of(node) in case.survey.moved or _is_released(case, node)


def _is_released(case: Case, node: str) -> bool:
    file, survey = file_of(node), case.survey
    if file in survey.released:
        return True
    if not (is_inline(node) or file.startswith("doc-tests ")):
        return False
    path = file.rpartition(" ")[2].strip("()")
    names = [posixpath.dirname(path), *node.split("::")[1:]]  # a module is a file, or a part of one
    places = (f"{'/'.join(names[:count])}{end}" for count in range(2, len(names)) for end in (".rs", "/mod.rs"))
    return not {path, *places}.isdisjoint(survey.released)


def _inline(
    case: Case, command: str, overlays: Sequence[Overlay], older: Collection[str], changed: Collection[str] = ()
) -> None:
    """Run the older tests in files of the work, and in the test files ``changed``, as they were on the base commit."""
    kept = {path: text for path, text in inline_tests(case).kept.items() if path not in case.survey.released}
    if not (kept or changed):
        return
    older = [node for node in older if not _is_free(case, node)]
    run = case.run("older data", command, overlays=[*overlays, Edits(kept)], keep_going=True)
    lost = sorted({*older} - (run.report.passing if run.report else frozenset()))
    if lost:
        paths = sorted({*kept, *changed})
        message = f"The work changes the tests in {listed(paths)}; as they were before, {listed(lost)} do not pass"
        case.find("protected_test_changed", message, path=paths[0], paths=paths, reasons=lost)


def _cases(run: Run | None) -> dict[str, str]:
    return dict(run.report.cases) if run and run.report else {}


def _holds(file: str, node: str) -> bool:
    place = file.rstrip("/")
    return node == place or node.startswith((f"{place}::", f"{place}/", f"{place}["))
