"""Verification step that tests the check itself. With changed expected values and on broken work, the check must fail.
First, the expected values of the check are changed. Then the work is changed, so that every changed function returns a
fixed answer. If the check passes with any expected values, the work is rejected. The work is also rejected if tests
that it added or changed pass on broken work. If only the user's tests pass on broken work, a finding reports this."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from agent_harness.verification.case import Case
from agent_harness.verification.checkout import Edits
from agent_harness.verification.command.put_back import (
    changed_values,
    compared_result,
    gone_values,
    has_mark,
    put_values_back,
    replaced_parts,
    rewritten_values,
    without_mark,
)
from agent_harness.verification.expectations import ChangedCheck, one_by_one, with_other_values
from agent_harness.verification.expecting.compiled import broken, broken_in_js
from agent_harness.verification.guard import belongs
from agent_harness.verification.inline_tests import inline_tests
from agent_harness.verification.noticing import mutants
from agent_harness.verification.noticing.brought_tests import weakness
from agent_harness.verification.noticing.named_functions import NamedFunction, named_in
from agent_harness.verification.runner.execution import CANNOT_RUN, NOT_FOUND, RunAsked
from agent_harness.verification.runner.testreport import PASSED, SKIPPED
from agent_harness.verification.runner_config import is_test_file
from agent_harness.verification.verdict import GREEN, Run, listed

_NOTHING_COMPARED = "compare no value that could differ: compare the results of the work with expected values"
_MOST_SINGLE, _SINGLE_SECONDS = 4, 20.0  # values that are changed one by one: fewer where that takes longer
_FAILURES = 5  # after which a run on a mutant of the work ends
_MOST_NAMED = 5  # functions that the item names, and that are asked for one by one
_MOST_EXPECTING = 5  # test files that are named by themselves, and get a mutant that expects other values
_PARAMETERS = re.compile(r"(\.py::[\w:]+)\[[^\]\s'\"]*\]")  # behind the id of a test
_PART = re.compile(r"::|(^|\s)(-k|--deselect|--ignore)\b")  # of a command that runs a part of its tests


def notice(case: Case) -> None:
    """Record in the case whether the check fails after its expected values are changed."""
    _notice(case)
    if case.noticed and not case.ended:
        rewritten_values(case)


def _notice(case: Case) -> None:
    if case.proof is None:
        return
    if why := _not_asked(case):
        case.not_asked = why
        return
    proof, stage = case.runs["proof"], _Notice(case, case.proof)
    if proof.by_runner or (case.runner.by_exit_status and not proof.report):
        _by_exit_status(case, case.proof)
        return
    if stage.work.mutants or stage.expecting or stage.named or stage.is_of_session:
        with case.step("twins"):
            stage.judge()
            if case.runner.by_exit_status and not case.ended:
                put_values_back(case, case.proof, changed_values(case))
        return
    case.not_asked = "no expected value of the check and no function of the work could be changed"
    if not case.runner.by_exit_status:
        case.find("weak_test", f"{case.runner.tests} {_NOTHING_COMPARED}", of_session=stage.is_of_session, mutants=[])


def _not_asked(case: Case) -> str:
    if not case.strictness.mutants:
        return "trust: fast"
    if case.runner.in_place or not case.runner.has_checkouts:
        return "the check runs in the project's folder"
    if case.red_before == GREEN:
        return "the check already passed before the work"
    return ""


def _by_exit_status(case: Case, command: str) -> None:
    versions = with_other_values(command, *_check_files(case))
    returned, gone = changed_values(case), gone_values(case)
    if not versions:
        case.not_asked = "by exit status alone"
    by_runner = case.runs["proof"].by_runner
    compiled = broken(case.work)[0] if by_runner else {}
    changed = broken_in_js(case.work, valued=False) if by_runner else {}
    if not (versions or returned or gone or compiled or changed or has_mark(case, command)):
        return
    with case.step("twins"):
        _other_expectations(case, versions)
        if compiled and not case.ended:
            _broken_work(case, command)
        if changed and not case.ended:
            _broken_js(case, command, changed)
        if case.noticed and by_runner and not case.ended:
            _own_values(case, command)
        if not case.ended:
            put_values_back(case, command, returned)
        if not case.ended:
            put_values_back(case, command, gone, gone)
        if not case.ended:
            without_mark(case, command)
        if case.noticed and not case.ended:
            compared_result(case, command)
            replaced_parts(case)


def _other_expectations(case: Case, versions: Sequence[ChangedCheck]) -> None:
    """Run the check with changed expected values, first one change at a time, then all together."""
    if not versions:
        return
    files, data = _check_files(case)
    changed = {change.path for change in case.changes.files}
    given = {path: content for path, content in files.items() if path not in changed}
    most = max(1, min(_MOST_SINGLE, int(_SINGLE_SECONDS / max(1.0, case.runs["proof"].seconds))))
    red, green = _asked(case, one_by_one(case.proof or "", given, data, most=most))
    all_at_once = _asked(case, versions, to_first=True) if not (red or case.not_asked) else ([], [])
    blind = [each.what for each in (*green, *all_at_once[1])]
    if blind and not (red or all_at_once[0] or case.not_asked):
        _reject_blind(case, [each.what for each in versions], f"0 of {versions[0].places} expected values")
    elif sum(each.of_program for each in green) > 1:
        _reject_blind(case, blind, f"{len(red)} of {len(red) + len(green)} expected values")
    elif green:
        case.noticed, case.noticed_of = False, f"{len(red)} of {len(red) + len(green)} expected values"
        case.not_asked = f"it still exits with 0 when {green[0].what}"
    elif not case.not_asked:
        count = len(red) or all_at_once[0][0].places if red or all_at_once[0] else 0
        case.noticed, case.noticed_of = bool(count) or None, f"{count} of {count} expected values" if count else ""


def _own_values(case: Case, command: str) -> None:
    """Grade the work as "checked" if only tests that it did not change notice other values."""
    changed, files = {change.path for change in case.changes.files}, _check_files(case)[0]
    own = {path: content for path, content in files.items() if path in changed}
    if own and len(own) < len(files) and not _asked(case, with_other_values(command, own), to_first=True)[0]:
        case.noticed, case.not_asked = False, "its own tests notice no changed value"


def _broken_work(case: Case, command: str) -> None:
    """Add a finding if every test that shows the work passes although the changed functions are broken."""
    for fails in (False, True):
        files, sure = broken(case.work, fails=fails)
        answer = _passes_with(case, command, files)
        if answer is None:
            return
        known, blind = answer
        if known and not blind:
            if fails:  # a test that compares nothing notices this, too
                case.noticed, case.not_asked = False, "its tests notice only that the changed functions fail"
            return
        if blind and (sure or fails):
            _reject_blind(case, [_answers_otherwise(files)], "0 of 1 broken versions")
            return
    case.noticed, case.not_asked = False, "its tests could not be run with broken functions"


def _broken_js(case: Case, command: str, files: Mapping[str, bytes]) -> None:
    """Do the same for JavaScript. A test may check only the type, so such work is "checked"."""
    answer = _passes_with(case, command, files)
    if answer is None:
        return
    known, blind = answer
    if blind:
        _reject_blind(case, [_answers_otherwise(files)], "0 of 1 broken versions")
    elif not known:
        case.noticed, case.not_asked = False, "its tests could not be run with broken functions"
    elif case.noticed and (again := _passes_with(case, command, broken_in_js(case.work, valued=True))) and again[1]:
        case.noticed, case.not_asked = False, f"its tests still pass when {_answers_otherwise(files)}"


def _answers_otherwise(files: Collection[str]) -> str:
    return f"the changed functions of {listed(files)} give other answers"


def _passes_with(case: Case, command: str, files: Mapping[str, bytes]) -> tuple[bool, bool] | None:
    """Return whether the tests that show the work ran with these files, and whether all passed. None: no answer."""
    proof, before = case.runs["proof"].report, case.runs.get("red", case.runs.get("older tests"))
    run = case.part(command, RunAsked(seconds=case.short_limit, overlays=(Edits(files),), keep_going=True))
    if proof is None or run.stopped:
        return None
    shown = proof.passing - (before.report.passing if before and before.report else frozenset())
    known = shown & run.report.cases.keys() if run.report else frozenset[str]()
    return bool(known), bool(run.report and known and known <= run.report.passing)


def _check_files(case: Case) -> tuple[dict[str, bytes], dict[str, bytes]]:
    files, data = case.guard.check_files(case.changes)
    return {**files, **inline_tests(case).new}, data


def _reject_blind(case: Case, blind: Sequence[str], count: str) -> None:
    case.noticed, case.noticed_of = False, count
    case.find("weak_test", f"The command does not notice when {blind[0]}", of_session=True, mutants=blind)


def _asked(
    case: Case, versions: Sequence[ChangedCheck], *, to_first: bool = False
) -> tuple[list[ChangedCheck], list[ChangedCheck]]:
    """Run the versions of the check. Return the versions that failed and the versions that passed."""
    red: list[ChangedCheck] = []
    green: list[ChangedCheck] = []
    for each in versions:
        if red and to_first:
            break
        overlays = (Edits(each.files),) if each.files else ()
        run = case.part(each.command, RunAsked(seconds=case.short_limit, overlays=overlays, plain=True))
        # the work may wait when it detects changed values
        if not run.ended:
            case.not_asked = f"with other expected values it did not finish within {case.short_limit:.0f} s"
            break
        if run.exit_code not in (CANNOT_RUN, NOT_FOUND):
            (red if run.exit_code else green).append(each)
    return red, green


class _Notice:
    """Trial of one check, with changed expected values and with mutants of the work."""

    def __init__(self, case: Case, command: str) -> None:
        self._case, self._command = case, command
        changes = case.changes
        self.own = [c for c in changes.files if c.status != "D" and case.guard.is_own(c.path)]
        self._files = case.work
        self.work = mutants.of_work(self._files)
        changed = {change.path for change in changes.files}
        self.named = named_in(case.asked, self._files, case.tree, gone=changed) if case.asked else []
        known = {change.path for change in self.own}
        tests = [path for path in sorted(case.guard.own_tests) if path not in known and is_test_file(path)]
        self.given = case.as_they_were(tests[:_MOST_EXPECTING])
        self.expecting = mutants.of_tests([*self.own, *self.given])
        self._calls = [call for each in case.runs["proof"].calls for call in (*each.recorded, *each.flows)]
        self.answering = mutants.of_answers(self._files, self._calls)
        self.asked: list[bool] = []  # of each changed version, whether a test noticed it

    def judge(self) -> None:
        case, report = self._case, self._case.runs["proof"].report
        work = [c for c in self._files if not (case.guard.has_rule(c.path) or c.path.endswith(".pyc"))]
        outcomes = report.cases if report else {}
        if self.is_of_session and (told := weakness(self.own, work, self._calls, outcomes)):
            self._weak(f"{case.runner.tests} prove nothing: {told}", True, [])
            return
        blind = self._blind([self.expecting] if self.expecting else [])
        of_session, covered = bool(blind), frozenset[mutants.Named]()
        if not blind and self.work.mutants and not (self.work.beyond and self.expecting):
            blind, noticed = self._sabotaged(self.answering, self.work.mutants)
            covered = (self.answering or self.work.mutants)[0].work
            of_session = self.is_of_session
            others = sorted(noticed - {change.path for change in self.own})[:_MOST_EXPECTING]
            more = mutants.of_tests(case.as_they_were(others)) if not self.given else None
            if more and (weak := self._blind([more])):
                blind, of_session = weak, True
        if blind:
            self._weak(
                f"{case.runner.tests} notice no change: they still pass when {_either(blind)}", of_session, blind
            )
        unnoticed = self._named_functions(covered) if not blind else list[str]()
        case.noticed = any(self.asked) if self.asked else None
        case.noticed_of = f"{sum(self.asked)} of {len(self.asked)} changed versions" if self.asked else ""
        if unnoticed:
            case.noticed, case.not_asked = None, f"its tests do not notice {', '.join(unnoticed)}"
        elif not blind and not case.noticed and not case.runner.by_exit_status:
            self._weak(f"{case.runner.tests} {_NOTHING_COMPARED}", self.is_of_session, [])
        elif case.noticed and (line := self._unnoticed_value(outcomes)):
            case.noticed, case.not_asked = False, f"its tests still pass when one value in {line} is changed"

    @property
    def is_of_session(self) -> bool:
        named = self._case.guard.own_tests
        return any(is_test_file(change.path) or belongs(change.path, named) for change in self.own)

    def _weak(self, message: str, of_session: bool, blind: Sequence[str]) -> None:
        self._case.find("weak_test", message, of_session=of_session, mutants=list(blind))

    def _sabotaged(
        self, answering: Sequence[mutants.Mutant], work: Sequence[mutants.Mutant]
    ) -> tuple[list[str], set[str]]:
        """Return the mutants that the check does not notice, or the test files that fail on a mutant."""
        return self._same_type(answering) if answering else self._not_noticed(work)

    # ---- what the item names -------------------------------------------------------------------------------------

    def _named_functions(self, covered: frozenset[mutants.Named]) -> list[str]:
        """Return the item's functions that are missing, or whose mutants no test notices."""
        runner, found = self._case.runner, list[str]()
        for each in self.named[:_MOST_NAMED]:
            if each.problem:
                message = (
                    f"The {runner.item} mentions {each.name}, but {each.problem}: implement it, and test its results"
                )
            elif blind := self._unnoticed(each, covered):
                message = (
                    f"The {runner.item} mentions {each.name}, but its tests still pass when {_either(blind)}: "
                    f"call {each.name} in a test, and check its result"
                )
            else:
                continue
            self._weak(message, self.is_of_session, [])
            found.append(each.name)
        return found

    def _unnoticed(self, named: NamedFunction, covered: frozenset[mutants.Named]) -> Sequence[str]:
        if named.rebound:
            return self._not_noticed([named.rebound])[0]
        if covered and named.functions >= covered:
            return ()
        work = mutants.of_work(self._files, named.functions).mutants
        answering = mutants.of_answers(self._files, self._calls, named.functions)
        return self._sabotaged(answering, work)[0] if work else ()

    # ---- other expectations --------------------------------------------------------------------------------------

    def _blind(self, expecting: Sequence[mutants.Mutant]) -> list[str]:
        found: list[str] = []
        for mutant in expecting:
            answer = self._expects_nothing(mutant)
            if answer is not None:
                self.asked.append(not answer)
                found += [mutant.what] if answer else []
        return found

    def _expects_nothing(self, mutant: mutants.Mutant) -> bool | None:
        """Return True if most tests still pass with other expected values, or None if no such test runs."""
        report = self._case.runs["proof"].report
        ours = {mutants.function_of(node) for node in mutant.asked(report.cases)} if report else set[str]()
        if not ours and _PART.search(self._command):
            return None
        run = self._on_mutant(mutant, select=ours)
        cases = run.seen.cases
        asked = [node for node in mutant.asked(cases) if cases[node] != SKIPPED]
        green = [node for node in asked if cases[node] == PASSED]
        if not asked and not run.ended:
            return None  # work may wait where it sees other values
        return len(green) * 2 > len(asked) if asked else self._case.runner.passed(run)

    def _unnoticed_value(self, outcomes: Collection[str]) -> str:
        """Return the line of an expected value that can change while the test still passes, or ""."""
        known = {change.path for change in self.own}
        others = sorted(self._case.runner.files_of(outcomes) - known)[:_MOST_EXPECTING]
        for mutant in mutants.of_fields([*self.own, *self._case.as_they_were(others)], self._files):
            ours = {mutants.function_of(node) for node in mutant.asked(outcomes)}
            cases = self._on_mutant(mutant, select=ours).seen.cases if ours else {}
            for test, line in mutant.lines.items():
                ends = {cases[node] for node in cases if mutants.is_one(mutants.function_of(node), test)}
                if ends == {PASSED}:
                    return line
        return ""

    # ---- answers of the right type -----------------------------------------------------------------------------

    def _same_type(self, answering: Sequence[mutants.Mutant]) -> tuple[list[str], set[str]]:
        """Return the unnoticed mutants if they are the majority. Otherwise return the test files that failed."""
        green: list[str] = []
        noticed: set[str] = set()
        most, asked = len(answering) // 2 + 1, 0
        for mutant in answering:
            run = self._on_mutant(mutant, most_failures=_FAILURES)
            stays = self._case.runner.passed(run)
            self.asked.append(not stays)
            asked, green = asked + 1, [*green, mutant.what] if stays else green
            noticed |= self._case.runner.files_of(run.seen.failing)
            if most in (len(green), asked - len(green)):
                break
        return (green, set()) if len(green) >= most else ([], noticed)

    # ---- sabotaged work ------------------------------------------------------------------------------------------

    def _not_noticed(self, sabotaged: Sequence[mutants.Mutant]) -> tuple[list[str], set[str]]:
        """Return the mutants on which the check still passes, or the files of the failed tests."""
        green: list[str] = []
        raised = frozenset[str]()
        for mutant in sabotaged:
            run = self._on_mutant(mutant, most_failures=_FAILURES)
            elsewhere = run.ended and not run.started and run.report is None and run.exit_code != 0
            self.asked.append(bool(run.seen.asserted) or elsewhere)
            if self.asked[-1]:
                return [], self._case.runner.files_of(run.seen.asserted)
            green += [mutant.what] if self._case.runner.passed(run) else []
            raised |= run.seen.in_assertions
        # a crash inside an assertion counts as noticed, other crashes never do
        if raised and not green:
            self.asked[-1] = True
        return green, set()

    def _on_mutant(self, mutant: mutants.Mutant, *, select: Collection[str] = (), most_failures: int = 0) -> Run:
        command = _PARAMETERS.sub(r"\1", self._command) if select else self._command
        terms = RunAsked(seconds=self._case.short_limit, overlays=(Edits(mutant.files),), keep_going=True)
        return self._case.part(command, replace(terms, select=select, most_failures=most_failures))


def _either(blind: Sequence[str]) -> str:
    return ", and when ".join(blind)
