"""Run of a task's check by the harness itself, never by the agent. Source: ``tasklist.md`` 11.5."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from itertools import islice
from typing import TYPE_CHECKING

from agent_harness.errors import ConfigurationError, HarnessError, ToolMissing
from agent_harness.kernel import clock, files, process
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.status import shown
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.process.sandbox import SandboxSettings, settings_from, told
from agent_harness.protocols.tasklist import proven
from agent_harness.protocols.tasklist.attempts import completed_proofs
from agent_harness.protocols.tasklist.attempts.attempt import folder_of
from agent_harness.protocols.tasklist.attempts.commits import fingerprint
from agent_harness.protocols.tasklist.claims import environment_inventory
from agent_harness.protocols.tasklist.claims.caller import LeaseKeeper
from agent_harness.protocols.tasklist.records import IN_PLACE, WORKTREE
from agent_harness.verification.command.folder import KeptFiles, judge_folder, run_in_place
from agent_harness.verification.command.runner import CommandCheck
from agent_harness.verification.grade import PROVEN, UNCHANGED, Grade, grade_of_verdict
from agent_harness.verification.judge import examine_command, judge_command, run_at
from agent_harness.verification.remembered import Remembered
from agent_harness.verification.runner.execution import Stop
from agent_harness.verification.verdict import CRITICAL, WARN, Finding, JudgedStep, Verdict

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.attempts.commits import AttemptWork
    from agent_harness.protocols.tasklist.claims.caller import Caller
    from agent_harness.protocols.tasklist.records import Task


PASS, GRADE, CHANGE = "pass", "grade", "change"
"""Requirements that a validation may have besides a passing check; see ``run``."""
TAIL_LINES = 40
LINE_CHARACTERS = 2000
SECONDS_TO_LOOK = 30.0
EARLIER = "earlier tasks"
"""Name of the verification step that runs the proofs of earlier completed tasks on the new work."""
_MOST_OPEN = 100  # tasks whose proofs are protected while another one is in progress

_SHELL = re.compile(r"[^\w./+,:@%-]")
"""Pattern of characters that no program name contains. If a command's first word has such a character, only the shell
can tell which program it starts.
"""


class MissingCommand(ConfigurationError):
    """Error of category CONFIG: the task has no check."""

    code = "missing_validation"


class ProgramMissing(ToolMissing):
    """Error of category ENV_SETUP: the program at the start of a task's check command is not installed."""

    code = "program_missing"


@dataclass(frozen=True, kw_only=True)
class ValidationRun:
    result: str  # PASS, FAIL or TIMEOUT
    exit: int | None  # None after a timeout, and if the work was rejected before a run
    seconds: float  # of all steps
    tail: list[str]  # the last 40 lines
    log: str  # the file with the last 64 KiB
    where: str
    red_before: str | None
    findings: list[JsonObject]
    reasons: list[str]  # of the findings that reject
    sandbox: str  # of the command, as the ledger has it
    tree: str | None  # of everything not ignored; none without a baseline
    grade: str | None = None  # proven, checked or unchanged, if the check passed
    basis: str | None = None  # reason for the grade
    output: str = ""  # the last 64 KiB of it
    steps: tuple[JudgedStep, ...] = ()  # of the verification, each with its duration
    earlier: tuple[str, ...] = ()  # completed tasks whose proofs pass with this work

    @property
    def passed(self) -> bool:
        return self.result == "PASS"

    @property
    def proof_seconds(self) -> float:
        """Duration of the check command itself, in seconds."""
        return next((each.seconds or 0.0 for each in self.steps if each.step == "proof"), self.seconds)

    @property
    def category(self) -> str:
        return "TIMEOUT" if self.result == "TIMEOUT" else "TASK_EXEC" if self.over_limit else "TEST_FAIL"

    @property
    def over_limit(self) -> bool:
        return any(each["code"] == "over_limit" for each in self.findings)

    @property
    def failure(self) -> str:
        if self.result == "TIMEOUT":
            return f"timed out after {self.proof_seconds:.0f} s"
        return self.reasons[0] if self.reasons else f"exit code {self.exit}"

    @property
    def asks(self) -> bool:
        """True if the user must decide because the attempt changed nothing and the check passed before."""
        return not self.passed and self.grade == UNCHANGED

    def rejected(self, reasons: list[str]) -> "ValidationRun":
        return replace(self, result="FAIL", reasons=reasons)

    def as_record(self) -> JsonObject:
        kept = (each.name for each in fields(self) if each.name not in ("output", "steps"))
        return {name: getattr(self, name) for name in kept}


def run(caller: "Caller", task: "Task", work: "AttemptWork | None", *, demand: str = GRADE) -> ValidationRun:
    """Run the check of a task in progress. Raise ``LeaseLost`` if the claim is lost."""
    command = task.validation_command
    if command is None:
        hint = f"to add one: harness task set {task.id} validation.command='…', then: harness resume"
        raise MissingCommand(f"{task.id} has no validation.command in harness-tasks.json", hint=hint)
    proven.refuse_changed(caller.layout, task)
    _need_program(command, folder_of(caller), process.scrubbed_environment())
    terms = proven.terms(caller.layout, caller.store.read(), task)
    verdict = _judged(caller, task, work, terms)
    earlier: tuple[str, ...] = ()
    if verdict.accepted and work:
        verdict, earlier = _with_earlier(caller, task, work, verdict, terms)
    grade = grade_of_verdict(verdict, trusted=terms.trust == "fast") if verdict.accepted else None
    verdict = _asked_for(verdict, grade, task, terms, demand=demand) if grade else verdict
    ran = _outcome(caller, task, work, verdict, settings_from(terms.sandbox))
    ran = replace(ran, grade=grade.word, basis=grade.basis, earlier=earlier) if grade else ran
    if verdict.accepted and work:
        _record_pass(caller, task, work, ran)
    return ran


def _asked_for(verdict: Verdict, grade: Grade, task: "Task", terms: proven.ClaimTerms, *, demand: str) -> Verdict:
    if demand == PASS or (grade.word == UNCHANGED and task.accepts_unchanged):
        return verdict
    if grade.word == UNCHANGED and demand == CHANGE:
        finding = Finding(UNCHANGED, CRITICAL, f"{grade.basis}: was the task already done?")
    elif (task.requires or terms.requires) == PROVEN and not grade.is_proven:
        told = f"The check passes, but this task needs a proof (requires: proven): {grade.basis}"
        finding = Finding("only_checked", CRITICAL, told)
    else:
        return verdict
    return replace(verdict, accepted=False, findings=(*verdict.findings, finding))


def _own_files(work: "AttemptWork") -> Finding:
    names = sorted(shown(path) for path in work.kept)
    message = f"The command ran with {len(names)} files that were not committed before the task, such as {names[0]}"
    return Finding("own_files", WARN, f"{message}; the task's commit does not contain them", {"paths": names[:50]})


def _judged(caller: "Caller", task: "Task", work: "AttemptWork | None", terms: proven.ClaimTerms) -> Verdict:
    check, stop = check_of(task, terms, _of_open_tasks(caller, task)), LeaseKeeper(caller, task)
    check = replace(check, installed=environment_inventory.since(caller, task))
    if work is None:
        kept = KeptFiles.from_record(terms.files) if terms.files is not None else None
        return judge_folder(folder_of(caller), check, kept=kept, stop=stop)
    return judge_command(
        Git(work.attempt.place.folder),
        check,
        base=work.attempt.snapshot.commit,
        candidate=work.full,
        remembered=Remembered(proven.red_before_file(caller.layout)),
        stop=stop,
    )


def _with_earlier(
    caller: "Caller", task: "Task", work: "AttemptWork", verdict: Verdict, terms: proven.ClaimTerms
) -> tuple[Verdict, tuple[str, ...]]:
    """Run the checks of completed tasks that this work may break."""
    git, base = work.attempt.place.git, work.attempt.snapshot.commit
    changed, needed = {*work.committed, *work.changes}, task.depends_on or ()
    tasks = caller.store.read().tasks
    near = completed_proofs.concerned(git, tasks, changed, needed=needed, besides=[task.id])
    here = [each for each in near if each.completed_commit and git.ancestor(each.completed_commit, work.attempt.base)]
    if not here:
        return verdict, ()
    folder, stop, installed = (
        Git(work.attempt.place.folder),
        LeaseKeeper(caller, task),
        environment_inventory.since(caller, task),
    )
    passing: list[str] = []
    # for all these checks together; the others run at the end of the run
    left = task.timeout_seconds
    for each in proven.as_kept(caller.layout, here, {}):
        if each.validation_command == task.validation_command:  # which has just passed
            passing.append(each.id)
        if each.validation_command in (None, task.validation_command):
            continue
        check = replace(check_of(each, terms).alone, installed=installed)
        check = replace(check, timeout_seconds=min(check.timeout_seconds, left))
        ran = proof_at(folder, work.full, check, stop)
        left -= ran.seconds
        if ran.accepted:
            passing.append(each.id)
        elif ended_red(ran) and (said := _broken(folder, (base, work.full), check, stop, each)):
            is_broken = said.severity == CRITICAL
            step = JudgedStep(step=EARLIER, state="failed", run=ran.proof, seconds=ran.seconds)
            steps = (*verdict.steps, step) if is_broken else verdict.steps
            verdict = replace(verdict, accepted=not is_broken, findings=(*verdict.findings, said), steps=steps)
        if left <= 0 or not verdict.accepted:
            break
    return verdict, tuple(passing)


def _broken(
    folder: Git, span: tuple[str, str], check: CommandCheck, stop: LeaseKeeper, other: "Task"
) -> Finding | None:
    base, work = span
    data = {"task": other.id, "command": check.command}
    if not proof_at(folder, base, replace(check, isolation=WORKTREE), stop).accepted:
        told = f"{other.id} is completed, but its check already failed without this work: {check.command}"
        return Finding("failed_before", WARN, told, data)
    if proof_at(folder, work, check, stop).accepted:
        return None
    return Finding("breaks_completed", CRITICAL, f"breaks {other.id}: {check.command}", data)


def proof_at(folder: Git, commit: str, check: CommandCheck, stop: Stop | None = None) -> Verdict:
    """Run a check in a checkout of the commit or, with ``in_place``, on the present files. Return the verdict."""
    if check.isolation == IN_PLACE:
        return run_in_place(folder.root, check, stop=stop)
    return run_at(folder, commit, check, stop=stop)


def ended_red(verdict: Verdict) -> bool:
    """Return True if a check ran to its end and failed."""
    return bool(verdict.exit_code) and not verdict.timed_out and verdict.found("over_limit") is None


def check_of(task: "Task", terms: proven.ClaimTerms, others: tuple[str, ...] = ()) -> CommandCheck:
    """Return the task's check with the verification settings in ``terms``."""
    return CommandCheck(
        command=task.validation_command or "false",
        timeout_seconds=task.timeout_seconds,
        isolation=str(terms.isolation),
        requires_red=str(terms.requires_red),
        may_change=tuple(task.may_change),
        trust=terms.trust,
        sandbox=settings_from(terms.sandbox),
        asked=task.asked,
        others=others,
        in_place_setting="session_config.isolation: in_place in harness-tasks.json",
    )


def _of_open_tasks(caller: "Caller", task: "Task") -> tuple[str, ...]:
    still = (each for each in caller.store.read().tasks if each.id != task.id and each.status != "completed")
    soon = islice((each for each in still if not each.given_up), _MOST_OPEN)
    found = [text for each in soon for text in proven.commands_of(caller.layout, each)]
    return tuple(dict.fromkeys(each for each in found if each != task.validation_command))


def examined(caller: "Caller", task: "Task", work: "AttemptWork") -> list[str]:
    terms = proven.terms(caller.layout, caller.store.read(), task)
    check = replace(
        check_of(task, terms, _of_open_tasks(caller, task)), installed=environment_inventory.since(caller, task)
    )
    git = Git(work.attempt.place.folder)
    found = examine_command(git, check, base=work.attempt.snapshot.commit, candidate=work.full)
    return [finding.message for finding in found if finding.severity == CRITICAL]


def again(caller: "Caller", task: "Task") -> ValidationRun | None:
    """Run a task's check on the present files, or return ``None`` without a check."""
    if task.validation_command is None:
        return None
    wished = caller.store.read().config.sandbox
    check = check_of(task, proven.ClaimTerms(IN_PLACE, "off", sandbox=wished))
    verdict = run_in_place(folder_of(caller), replace(check, installed=environment_inventory.since(caller, task)))
    return _outcome(caller, task, None, verdict, settings_from(wished))


def passes_now(caller: "Caller", task: "Task", *, within_seconds: float) -> bool | None:
    """Run the task's check before any work. Return True if the check passes, or ``None`` after a timeout."""
    terms = proven.ClaimTerms(IN_PLACE, "off", sandbox=caller.store.read().config.sandbox)
    check = check_of(task, terms)
    check = replace(check, timeout_seconds=min(check.timeout_seconds, within_seconds))
    head = caller.git.head() if caller.git and caller.git.is_repository else None
    try:
        done = run_at(Git(folder_of(caller)), head, check) if head else run_in_place(folder_of(caller), check)
    except HarnessError:
        return None
    return None if done.exit_code is None else done.exit_code == 0


def _outcome(
    caller: "Caller", task: "Task", work: "AttemptWork | None", verdict: Verdict, sandbox: SandboxSettings
) -> ValidationRun:
    reasons = [finding.message for finding in verdict.reasons]
    output = verdict.output if verdict.proof else "".join(f"{reason}\n" for reason in reasons)
    printed = next((each.run.output for each in verdict.steps if each.step == EARLIER and each.run), output)
    findings = [*verdict.findings, *([_own_files(work)] if work and work.kept and verdict.accepted else [])]
    path = caller.layout.validation_log(task.id, task.attempts + 1)
    files.own_place(path, caller.layout.root)
    files.replace(path, printed)
    return ValidationRun(
        result="TIMEOUT" if verdict.timed_out else "PASS" if verdict.accepted else "FAIL",
        exit=verdict.exit_code,
        seconds=round(verdict.seconds, 3),
        tail=tail_of(printed),
        log=path,
        where=verdict.where,
        red_before=verdict.red_before,
        findings=[finding.as_record() for finding in findings],
        reasons=reasons,
        sandbox=told(sandbox),
        tree=work.full_tree if work else None,
        output=output,
        steps=verdict.steps,
    )


def proof_on_record(
    caller: "Caller", task: "Task", work: "AttemptWork | None", *, demand: str = GRADE
) -> proven.PassOnRecord | None:
    """Return the recorded pass of the claim's check, or ``None`` if the work or the check has changed since,
    or if the pass is not enough for ``demand``."""
    found = proven.passed(caller.layout, task)
    if found is None or work is None or found.command != task.validation_command:
        return None
    return found if work.full_tree in found.trees and _is_enough(caller, task, found.grade, demand) else None


def _is_enough(caller: "Caller", task: "Task", grade: str | None, demand: str) -> bool:
    required = task.requires or proven.terms(caller.layout, caller.store.read(), task).requires
    if grade == UNCHANGED and demand == CHANGE:
        return False
    return demand == PASS or grade == PROVEN or required != PROVEN


def tail_of(output: str) -> list[str]:
    return [line[-LINE_CHARACTERS:] for line in output.splitlines()[-TAIL_LINES:]]


def _record_pass(caller: "Caller", task: "Task", work: "AttemptWork", ran: ValidationRun) -> None:
    # the check may have written files into the folder
    after = fingerprint(caller, task) if ran.where == IN_PLACE else None
    trees = sorted({work.full_tree, after or work.full_tree})
    record = {
        "command": task.validation_command,
        "trees": trees,
        "at": clock.timestamp(),
        "seconds": round(ran.proof_seconds, 3),
    }
    record |= {"where": ran.where, "red_before": ran.red_before, "grade": ran.grade, "basis": ran.basis}
    proven.note_claim(caller.layout, task, passed=record)


def _need_program(command: str, folder: str, environment: Mapping[str, str]) -> None:
    """Raise ``ProgramMissing`` if the shell cannot find the command's program."""
    word = command.split(maxsplit=1)[0]
    # only the shell can find it
    if _SHELL.search(word):
        return
    words = ("sh", "-c", 'command -v -- "$1"', "sh", word)
    found = process.run(words, cwd=folder, env=environment, timeout_seconds=SECONDS_TO_LOOK)
    if found.exit_code != 0:
        hint = "set up the environment (sh harness-init.sh), then run the same command again"
        raise ProgramMissing(f"the validation needs {word}, which is not installed", hint=hint)
