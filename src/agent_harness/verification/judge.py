"""Verdict on a candidate commit: whether the work passes, and whether all tests that passed before still pass.
The stages run in order. After a stage rejects the candidate, no further stage runs. Source: features.md section O, C54,
C55, C61, C62, ``tasklist.md`` 11.5."""

import re
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from itertools import islice

from agent_harness.errors import HarnessError, UnsafeTree
from agent_harness.kernel.git import Git, GitFailed
from agent_harness.kernel.git.objects import Objects
from agent_harness.verification import protected_files
from agent_harness.verification.case import Case, Step
from agent_harness.verification.changes import CandidateChanges, Tree, between, contents, tree_at
from agent_harness.verification.checkout import Edits, Overlay
from agent_harness.verification.command.elsewhere import elsewhere
from agent_harness.verification.command.runner import CommandCheck, CommandRunner, needs_what_came
from agent_harness.verification.differential_replay import replay
from agent_harness.verification.guard import Guard, ProtectedFiles, file_of, is_read, survey
from agent_harness.verification.inline_tests import inline_tests, is_inline
from agent_harness.verification.noticing import mutants
from agent_harness.verification.noticing.notices import notice
from agent_harness.verification.protected_files import SessionClaim
from agent_harness.verification.remembered import Remembered
from agent_harness.verification.runner.environment import IN_PLACE, RunEnvironment
from agent_harness.verification.runner.execution import CANNOT_RUN, NOT_FOUND, RunAsked, Stop, run_tests
from agent_harness.verification.runner.no_tests import left_out
from agent_harness.verification.runner.testreport import PASSED, report_of
from agent_harness.verification.runner_config import in_test_folder, is_test_file
from agent_harness.verification.runners import TestRunner, Told
from agent_harness.verification.sources import with_failing_tests
from agent_harness.verification.suite import SuiteStage, older_tests
from agent_harness.verification.verdict import (
    CRITICAL,
    GREEN,
    NOT_RUN,
    OFF,
    RED,
    Finding,
    Run,
    Strictness,
    Verdict,
    listed,
)

_MOST_BESIDE = 200  # files beside tests that are read
Stage = Callable[[Case], object]


def judge(
    git: Git,
    claim: SessionClaim,
    *,
    environment: RunEnvironment,
    options: Strictness | None = None,
    on_step: Step | None = None,
    stop: Stop | None = None,
) -> Verdict:
    """Return the verdict on a session's work in a project whose test runner reports test ids.
    Raise ``Interrupted`` if ``stop`` returns True."""
    hold = {file_of(node) for node in claim.baseline}
    checks = [command for command in (*claim.commands, claim.lint, *claim.others) if command]
    with git.objects() as objects:
        try:
            tree = tree_at(git, objects, claim.base)
            loaded = protected_files.behind(checks, tree)
            sets_up = protected_files.behind(claim.environment_commands, tree, sets_up=True)
            known = lambda path: path in hold or loaded.loads(path) or sets_up.loads(path)  # noqa: E731
            wanted = lambda path: is_read(path) or is_test_file(path) or known(path)  # noqa: E731
            changes = between(git, objects, claim.base, claim.candidate, wanted=wanted)
        except GitFailed as error:
            if "is damaged" not in error.message:
                raise
            return Verdict(accepted=False, findings=(_damaged(error),), base=claim.base, candidate=claim.candidate)
        own = replace(environment, base=claim.base)
        runner = TestRunner(git, own, stop, commands=claim.commands, may_change=claim.may_change)
        roots = runner.import_roots
        protection = protected_files.of_session(
            tree, changes, claim, checks=loaded, environment=sets_up, import_roots=roots
        )
        runner.changed = [change.path for change in changes.files]
        case = Case(
            git=git,
            objects=objects,
            base=claim.base,
            candidate=claim.candidate,
            runner=runner,
            guard=Guard(protection, tree),
            changes=changes,
            tree=tree,
            strictness=options or Strictness(),
            proof=claim.proof,
            suite=claim.suite,
            lint=claim.lint,
            asked=claim.asked,
            baseline=claim.baseline,
            on_step=on_step or (lambda *_: None),
            stop=stop,
        )
        whole = SuiteStage(case, claim.suite, protection.protected) if claim.suite else None
        stages = (_rules, _prove, lambda _: whole and whole.judge(), _before, notice, replay, _style)
        _walk(case, stages)
        return case.verdict((whole or SuiteStage(case, "", protection.protected)).outcomes())


def judge_command(
    git: Git,
    check: CommandCheck,
    *,
    base: str,
    candidate: str,
    remembered: Remembered | None = None,
    stop: Stop | None = None,
) -> Verdict:
    """Return the verdict on ``candidate``, judged by a shell command.
    Raise ``Refused`` or ``GitFailed`` if no checkout can be made."""
    with git.objects() as objects:
        case, _ = _command_case(git, objects, check, (base, candidate), stop)
        case.remembered = remembered or Remembered(None)
        _walk(case, (_rules, _prove, older_tests, _before, notice, replay, elsewhere))
        return case.verdict()


def examine_command(git: Git, check: CommandCheck, *, base: str, candidate: str) -> list[Finding]:
    with git.objects() as objects:
        case, _ = _command_case(git, objects, check, (base, candidate), None)
        _walk(case, (_rules,))
        return case.findings


def examine(git: Git, check: CommandCheck, *, base: str, candidate: str, stop: Stop | None = None) -> Verdict:
    """Verify work in a checkout after its command already passed in the project folder."""
    # a failure only in the checkout rejects nothing, because the command may need files that are in no commit
    with git.objects() as objects:
        case, runner = _command_case(git, objects, check, (base, candidate), stop)
        case.survey, runner.asks_folder = case.guard.survey(case.changes), False
        _walk(case, (_prove, _before, notice, replay, elsewhere))
        found = case.verdict()
        against = tuple(each for each in found.findings if each.code not in ("plugin_needed", "dependency_needed"))
        return replace(found, findings=against)


def run_at(git: Git, commit: str, check: CommandCheck, *, stop: Stop | None = None) -> Verdict:
    """Run the check only on ``commit``, without a base commit, and return the verdict."""
    with git.objects() as objects:
        case, runner = _command_case(git, objects, check.alone, (commit, commit), stop)
        runner.asks_folder = False
        _walk(case, (_prove,))
        return case.verdict()


def run_on_older_code(
    git: Git,
    code: str,
    *,
    candidate: str,
    command: str,
    test_files: Collection[str],
    environment: RunEnvironment,
    timeout_seconds: float = 1800.0,
) -> Run:
    """Run the candidate's tests on the code of the older commit ``code``."""
    with git.objects() as objects:
        changes = between(git, objects, code, candidate, wanted=lambda _: False)
    side = survey(changes, ProtectedFiles(test_files=frozenset(test_files))).test_side
    overlays = [Overlay(candidate, side)]
    return run_tests(git, code, command, environment=environment, overlays=overlays, timeout_seconds=timeout_seconds)


def _command_case(
    git: Git, objects: Objects, check: CommandCheck, span: tuple[str, str], stop: Stop | None
) -> tuple[Case, CommandRunner]:
    base, candidate = span
    tree = tree_at(git, objects, base)
    named = protected_files.behind([check.command], tree)
    runner = CommandRunner(git, check, base=base, named=named, tree=tree, stop=stop)
    follows_moves = check.isolation != IN_PLACE
    protection = protected_files.of_command(
        tree,
        named,
        may_change=check.may_change,
        import_roots=runner.import_roots if named.python else (),
        follows_moves=follows_moves,
        asked=check.asked,
    )
    guard = Guard(
        protection, tree, protected_files.of_later(tree, check.others, may_change=check.may_change, asked=check.asked)
    )
    changes = between(git, objects, base, candidate, wanted=guard.decides)
    guard, changes = _named_now(git, guard, changes, check.command, candidate)
    runner.changed, runner.has_submodules = [change.path for change in changes.files], bool(changes.submodules)
    case = Case(
        git=git,
        objects=objects,
        base=base,
        candidate=candidate,
        runner=runner,
        guard=guard,
        changes=changes,
        tree=tree,
        strictness=check.strictness,
        proof=check.command,
        asked=check.asked,
        stop=stop,
    )
    return case, runner


def _named_now(
    git: Git, guard: Guard, changes: CandidateChanges, command: str, candidate: str
) -> tuple[Guard, CandidateChanges]:
    """Return the guard and the changes, with the check files that the work added."""
    new = {change.path for change in changes.files if change.status == "A" and not change.link}
    if not new:
        return guard, changes
    read = lambda path: contents(git, candidate, [path]).get(path) if path in new else guard.tree.read(path)  # noqa: E731
    tree = Tree(changes.before | new, read, guard.tree.links)
    guard = replace(guard, now=protected_files.behind([command], tree))
    checks = contents(git, candidate, guard.new_checks(changes))
    files = (replace(each, after=checks.get(each.path, each.after)) for each in changes.files)
    return guard, replace(changes, files=tuple(files))


# ---- the stages ------------------------------------------------------------------------------------------------------


def _walk(case: Case, stages: Sequence[Stage]) -> None:
    for stage in stages:
        try:
            stage(case)
        except UnsafeTree as error:
            if "damaged" not in error.message:
                raise
            case.findings.append(_damaged(error))
        if case.ended:
            break


def _damaged(error: HarnessError) -> Finding:
    return Finding("damaged_commit", CRITICAL, f"The commit cannot be read: {error.message}.", {})


def _rules(case: Case) -> None:
    with case.step("guard"):
        found = case.survey = case.guard.survey(case.changes)
        case.findings += [*case.runner.look_around(), *found.findings]
        if case.runner.by_exit_status:
            return
        if not case.runner.has_checkouts:
            case.find("not_isolated", "The tests ran in the project's folder, not in a checkout of the commit")
        elif case.changes.submodules:
            where = sorted(case.changes.submodules)
            case.find("submodules_empty", f"Submodules were empty folders in the checkout: {where[0]}", paths=where)
        if case.suite and (taken := sorted(n for n in case.baseline if n.partition("[")[0] in found.gained)):
            message = f"The session replaces tests of other features: {listed(taken)}"
            case.find("protected_test_changed", message, path=file_of(taken[0]), reasons=taken)


def _prove(case: Case) -> None:
    command, runner = case.proof, case.runner
    if command is None:
        return
    asks = case.strictness.replay and runner.has_checkouts and runner.watches
    with case.step("proof"):
        run = case.run("proof", command, watched=mutants.functions_by_line(case.work) if asks else {})
        told = None
        if run.over_limit:
            case.over_limit(runner.subject, run)
        elif not runner.passed(run):
            case.failed = True
            told = needs_what_came(runner) if _passes_with_what_came(case, command) else runner.on_failure(run)
        else:
            told = runner.on_pass(run) or _left_out(case, run)
        if told:
            case.find(told.code, told.message, **told.data)
        if not case.ended and case.guard.protection.alone:
            _run_where_moved(case, command)


_LEAVING_OUT = re.compile(rb"(?i)skip|todo|expected_?failure")


def _left_out(case: Case, run: Run) -> Told | None:
    """Return a finding if the run skipped tests although no test file mentions skipping."""
    is_asked = case.runner.by_exit_status and (run.report is None or run.by_runner)
    line = left_out(run.output) if is_asked else ""
    files = case.guard.check_files(case.changes)[0] if line else {}
    tests = (path for path in sorted(case.tree.paths) if in_test_folder(path) or is_test_file(path))
    beside = islice(tests, _MOST_BESIDE)
    texts = (*files.values(), *(case.tree.read(path) or b"" for path in beside if files))
    if not files or any(map(_LEAVING_OUT.search, texts)):
        return None
    message = (
        f"Not all tests of the command ran ({line}), and no test mentions skipping: only a mark on a test may skip it"
    )
    return Told("proof_failed", message, {"failing": [line]})


def _passes_with_what_came(case: Case, command: str) -> bool:
    if not (case.runner.blocked[0] or case.runner.left_out):
        return False
    loading = case.runner.with_what_came()
    run = loading.prove(case.candidate, command, RunAsked(seconds=case.strictness.timeout_seconds))
    case.check_stop()
    return loading.passed(run)


def _run_where_moved(case: Case, command: str) -> None:
    """Add a finding if the check does not run a moved test."""
    texts = {change.path: change.after for change in case.changes.files}
    for old, new in case.survey.moved.items():
        # the moved tests fail here, so a check that runs them fails too
        failing = Edits({new: with_failing_tests(texts[new] or b"")})
        terms = RunAsked(seconds=case.strictness.timeout_seconds, overlays=(failing,), plain=True)
        run = case.part(command, terms)
        if run.exit_code == 0 or run.stopped:
            message = (
                f"{old} was moved to {new}, where the command does not run its tests: it passes although they fail"
            )
            case.find("protected_test_changed", message, path=old, reasons=[])
            return


def _before(case: Case) -> None:
    """Run the candidate's tests on the base commit, and add a finding if the check passes there."""
    runner = case.runner
    if case.proof is None or case.strictness.requires_red == OFF:
        return
    if not runner.has_checkouts:
        case.find("red_proof_skipped", "In the project's folder, the tests cannot be run on the base commit")
        return
    with case.step("red"):
        case.red_before, proven = _asked_before(case, case.proof)
        if case.red_before == GREEN:
            if case.runs["proof"].by_runner and "red" in case.runs and case.runs["red"].exit_code:
                message = "No test passes now that is new or changed, and that failed without the work"
                case.find("green_before" if runner.by_exit_status else "proof_not_red", message, tests=proven)
            elif runner.by_exit_status:
                message = "The command already passed on the base commit, so passing now proves nothing"
                case.find("green_before", message)
            else:
                message = "The feature's tests also pass on the base commit, so they prove nothing"
                case.find("proof_not_red", message, tests=proven)


def _asked_before(case: Case, command: str) -> tuple[str, list[str]]:
    """Return the check's result on the base commit, and the tests that pass on the candidate."""
    proof = case.runs["proof"].report
    proven = sorted(proof.passing) if proof else []
    before, now = (case.objects.tree_of(commit) for commit in (case.base, case.candidate))
    if before == now:
        return GREEN, proven
    side = case.guard.brought(case.changes, case.survey)
    folder = (
        f"{case.git.prefix().decode('utf-8', 'surrogateescape')}\0{now if side or case.runs['proof'].by_runner else ''}"
    )
    if known := case.remembered.get(before, folder, command):
        return known, proven
    overlays = [Overlay(case.candidate, side), *(Edits(each) for each in [inline_tests(case).brought] if each)]
    plain = case.runner.by_exit_status and not case.runs["proof"].by_runner
    run = case.run("red", command, case.base, overlays=overlays, plain=plain)
    if run.stopped or run.over_limit:
        return NOT_RUN, proven
    by_ids = case.runs["proof"].by_runner and case.runs["proof"].report is not None
    green = _shows_nothing(case, run, proven, side) if by_ids else case.runner.is_green(run, proven)
    answer = GREEN if green else RED
    case.remembered.put(before, folder, command, answer)
    return answer, proven


def _shows_nothing(case: Case, run: Run, proven: Collection[str], side: Collection[str]) -> bool:
    """Return True if no test that the work brings or changes passes on the candidate and failed on the base commit."""
    proof, before = case.runs["proof"], case.runs.get("older tests")
    assert proof.report is not None
    older = before.report if before and before.report else report_of((node, PASSED) for node in case.baseline)
    # inline tests show no file: where none is new, the changed ones count
    inline = bool(inline_tests(case).brought) and proof.report.cases.keys() <= older.cases.keys()
    own = {n for n in proven if n not in older.passing or file_of(n) in side or (inline and is_inline(n))}
    if run.exit_code == 0:  # then only tests in a new file of the work may be missing
        own = {n for n in own if is_inline(n) and n not in (run.report.cases if run.report else ())}
    return not own - (run.report.passing if run.report else frozenset())


def _style(case: Case) -> None:
    if case.lint is None:
        return
    with case.step("lint"):
        run = case.run("lint", case.lint, plain=True)
        if run.exit_code in (None, CANNOT_RUN, NOT_FOUND) or "No module named" in run.output[-400:]:
            # a missing linter never rejects the work (C55)
            case.find("lint_unavailable", f"lint unavailable: {case.lint}", problem=run.problem)
        elif run.exit_code:
            case.find("lint", "Lint errors introduced. Agent should fix", exit_code=run.exit_code)
