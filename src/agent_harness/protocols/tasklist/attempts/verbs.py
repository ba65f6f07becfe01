"""Commands that prove or end an attempt: validate, complete, fail, release, rollback.

Each command needs the token of the claim. An agent that did not get the answer can repeat the command. Each command
locks the state only while it writes the state. Source: ``tasklist.md`` 11, 13.3."""

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from agent_harness.errors import ConfigurationError, HarnessError, TimedOut, ToolMissing, UsageError, VerificationFailed
from agent_harness.kernel import files, owner
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.process import new_run_id
from agent_harness.kernel.redact import redact
from agent_harness.protocols.tasklist import proven
from agent_harness.protocols.tasklist.attempts import close_attempt, commits, rollback, validation
from agent_harness.protocols.tasklist.attempts.attempt import note, noted, place_of
from agent_harness.protocols.tasklist.attempts.close_attempt import Failure
from agent_harness.protocols.tasklist.attempts.validation import CHANGE, GRADE, PASS, ValidationRun
from agent_harness.protocols.tasklist.records import CATEGORIES, IN_PLACE, whole
from agent_harness.session import ledger
from agent_harness.session.ledger import ClaimVerdict, VerdictStep
from agent_harness.verification.grade import ASKS_IF_DONE, CHECKED, UNCHANGED
from agent_harness.verification.verdict import CRITICAL, GREEN, RED

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.attempts.commits import AttemptWork
    from agent_harness.protocols.tasklist.claims.caller import Caller
    from agent_harness.protocols.tasklist.records import Task
    from agent_harness.protocols.tasklist.store import TaskListChange


NO_CANDIDATE = (
    "this is not a git work tree with a commit: validations run in the folder itself, and nothing is rolled back"
)
GREEN_BEFORE = "the check already passed on the base commit, so it proves nothing"


def validate(caller: "Caller", task_id: str) -> JsonObject:
    """Run the check of this caller's task. If the check passes, record this for ``complete``."""
    task = close_attempt.mine(caller, task_id)
    with commits.opened(caller, task) as work:
        return {"task_id": task.id, **validated(caller, task, work, demand=PASS).as_record()}


def complete(
    caller: "Caller",
    task_id: str,
    *,
    commit: bool = True,
    message: str | None = None,
    known: "AttemptFacts | None" = None,
) -> JsonObject:
    """Verify a task's work and complete the task. Raise ``VerificationFailed`` if the check fails."""
    if (found := _ended(caller, task_id, "completed")) is not None:
        line = ledger.last_about(proven.ledger(caller.layout), task_id)
        word = close_attempt.word_of(line if line and line.accepted else None)
        return {**close_attempt.completed_answer(caller.store.read(), found), **word, "already": True}
    task = close_attempt.mine(caller, task_id)
    if known is None and (running := owner.Owner.from_record(proven.noted(caller.layout, task, "turn"))):
        if owner.state(running) != "dead":
            # during its turn in a run, an agent only requests the completion
            return _asked(caller, task, {"commit": commit, "message": message})
    else:
        asked = noted(caller, task, "asked")
        commit, message = asked.get("commit") is not False and commit, message or asked.get("message")
    proof = proof_of(caller, task, commit=commit, message=message, demand=_demand(known))
    line = on_record(caller, task, proof, claimed=True, known=known)
    if proof.ran and proof.ran.asks:
        raise _parked(caller, task, proof.ran)
    if proof.ran and not proof.ran.passed:
        raise _unproven(task, proof.ran)
    done = close_attempt.completed(caller, task, proof.commit, proof=proof.summary, verdict=line)
    said = proven.elsewhere(caller.layout)
    told = {"warning": said} if said else {}
    return {**done, "validation": proof.ran.as_record() if proof.ran else None, "already": False, **told}


def _demand(known: "AttemptFacts | None") -> str:
    if known is None:
        return GRADE
    return CHANGE if known.word is None else PASS


def _asked(caller: "Caller", task: "Task", words: JsonObject) -> JsonObject:
    """Verify the work during an agent's turn, and record that the agent asks to complete the task."""
    proof = proof_of(caller, task, commit=False, demand=CHANGE)
    if proof.ran and not proof.ran.passed:
        on_record(caller, task, proof, claimed=True)
        raise _unproven(task, proof.ran)
    note(caller, task, asked=words)
    return {
        "task_id": task.id,
        "status": task.status,
        "requested": True,
        "validation": proof.ran.as_record() if proof.ran else None,
        "already": False,
        "message": "the validation passes; end your turn, and the harness commits and closes the task",
    }


@dataclass(frozen=True, kw_only=True)
class JudgedAttempt:
    """Verdict on an attempt's work, together with the commit that contains exactly this work."""

    ran: ValidationRun | None  # None: proven before, and nothing has changed since
    summary: JsonObject  # ``where`` and ``red_before``
    grade: str | None = None  # of a check that passed (``verification/grade.py``)
    basis: str | None = None
    commit: str | None = None  # None: not proven, or nothing could be committed
    base: str | None = None  # the commit at the claim
    candidate: str | None = None  # a commit of everything that was verified
    tree: str | None = None  # of it


def proof_of(
    caller: "Caller", task: "Task", *, commit: bool = True, message: str | None = None, demand: str = GRADE
) -> JudgedAttempt:
    """Verify the attempt's work, and commit exactly this work. A failed check raises no error."""
    with commits.opened(caller, task) as work:
        known = validation.proof_on_record(caller, task, work, demand=demand)
        ran = None if known else validated(caller, task, work, demand=demand)
        proven_by = ran or known
        judged = JudgedAttempt(ran=ran, summary={})
        if proven_by:
            summary = {"where": proven_by.where, "red_before": proven_by.red_before}
            judged = replace(judged, summary=summary, grade=proven_by.grade, basis=proven_by.basis)
        if work:
            base, candidate, tree = work.attempt.base, work.full, work.full_tree
            judged = replace(judged, base=base, candidate=candidate, tree=tree)
        if ran and not ran.passed:
            return judged
        own = close_attempt.mine(caller, task.id)
        if not commit:
            place = place_of(caller)
            return replace(judged, commit=place.git.head() if place else None)
        in_folder = ran is not None and ran.where == IN_PLACE
        if work is None or not in_folder:
            return replace(judged, commit=commits.commit(caller, work, _text(task, message)))
    with commits.opened(caller, own) as work:
        if ran and work and work.full_tree != ran.tree and (found := validation.examined(caller, own, work)):
            return replace(judged, ran=ran.rejected(found))
        return replace(judged, commit=commits.commit(caller, work, _text(task, message)))


@dataclass(frozen=True, kw_only=True)
class AttemptFacts:
    """Facts about an attempt that only the process that started the agent knows."""

    agent: str | None = None
    model: str | None = None
    cost_usd: float | None = None  # so far
    word: str | None = None  # the decision of a person who has it verified


def on_record(
    caller: "Caller",
    task: "Task",
    proof: JudgedAttempt,
    *,
    claimed: bool,
    known: AttemptFacts | None = None,
    resumed: bool = False,
) -> ClaimVerdict:
    """Return the ledger line for a verdict. If the verdict is a rejection, write the line to the ledger."""
    passed = proof.ran is None or proof.ran.passed
    said, path = ledger.ACCEPTED if passed else ledger.REJECTED, proven.ledger(caller.layout)
    found = proven.noted(caller.layout, task, "verdict")
    same = found.get("verdict") == said and found.get("tree") == proof.tree
    number = str(found["id"]) if same and (resumed or proof.ran is None) else new_run_id()
    # saved first: after a kill, the same files get a line with the same id
    proven.note_claim(caller.layout, task, verdict={"id": number, "verdict": said, "tree": proof.tree})
    known = known or AttemptFacts()
    began = task.claimed_at
    place = place_of(caller)
    last = ledger.last_about(path, task.id) if known.word else None
    basis = proof.basis
    if proof.grade == UNCHANGED and known.word:
        basis = f"{proof.basis}; a person said that it is done"
    line = ClaimVerdict(
        id=number,
        item=task.id,
        by="person" if known.word else None,
        word=known.word,
        of=last.n if last else None,
        verdict=said,
        session=whole(task.raw.get("claimed_session"), 0) or None,
        attempt=task.attempts + 1,
        agent=known.agent or proven.noted(caller.layout, task, "by").get("agent"),
        model=known.model,
        claim=(task.id,) if claimed else (),
        codes=_codes(proof.ran),
        base=proof.base,
        candidate=proof.candidate,
        commit=proof.commit,
        red_base=proof.base if proof.summary.get("red_before") == RED else None,
        steps=_steps(caller, task, proof),
        isolation=proof.summary.get("where"),
        sandbox=proof.ran.sandbox if proof.ran else None,
        grade=(CHECKED if proof.grade == UNCHANGED else proof.grade) if passed else None,
        basis=basis if passed else None,
        tools={"git": place.git.text("version").split()[2]} if place else {},
        cost_usd=known.cost_usd,
        seconds=round(max(0.0, (caller.store.now() - began).total_seconds()), 1) if began else None,
    )
    return line if passed else ledger.write(path, line)


def refused_unjudged(caller: "Caller", task: "Task", code: str, known: AttemptFacts) -> ClaimVerdict:
    """Write a ledger line about work that was rejected before its check could run."""
    line = ClaimVerdict(
        id=new_run_id(),
        item=task.id,
        verdict=ledger.REJECTED,
        session=whole(task.raw.get("claimed_session"), 0) or None,
        attempt=task.attempts + 1,
        agent=known.agent,
        model=known.model,
        claim=(task.id,),
        codes=(code,),
        base=task.started_at_commit,
        cost_usd=known.cost_usd,
    )
    return ledger.write(proven.ledger(caller.layout), line)


def word_of_file(
    caller: "Caller", task: "Task", ran: ValidationRun | None, *, code: str, revision: int
) -> ClaimVerdict:
    """Return the ledger line for a completed task that was verified without a claim."""
    passed = ran is not None and ran.passed
    return ClaimVerdict(
        id=f"{task.id}, marked at revision {revision}",
        item=task.id,
        verdict=ledger.ACCEPTED if passed else ledger.REJECTED,
        attempt=task.attempts,
        claim=(task.id,),
        codes=(code, *_codes(ran)),
        commit=task.completed_commit if passed else None,
        steps=_steps(caller, task, JudgedAttempt(ran=ran, summary={})) if ran else (),
        isolation=ran.where if ran else None,
        sandbox=ran.sandbox if ran else None,
    )


def _codes(ran: ValidationRun | None) -> tuple[str, ...]:
    if ran is None:
        return ()
    found = [str(each["code"]) for each in ran.findings if ran.passed or each["severity"] == CRITICAL]
    if ran.result == "TIMEOUT" or ran.exit:
        found.append("timed_out" if ran.result == "TIMEOUT" else "proof_failed")
    elif not ran.passed and not found:
        found.append("changed_by_its_run")  # by files that the command wrote in the folder, after it had passed
    return tuple(dict.fromkeys(found))


def _steps(caller: "Caller", task: "Task", proof: JudgedAttempt) -> tuple[VerdictStep, ...]:
    ran = proof.ran
    if ran is None:
        known = proven.passed(caller.layout, task)
        return (
            _proof(caller, task, exit_code=0, output=_printed(caller, task), seconds=known.seconds if known else None),
        )
    was_run = ran.exit is not None or ran.result == "TIMEOUT" or ran.over_limit
    if not was_run:
        return (VerdictStep(step="guard", result="failed"),)
    steps = [
        VerdictStep(step="guard", result="failed" if "changed_by_its_run" in _codes(ran) else "passed"),
        _proof(
            caller,
            task,
            exit_code=ran.exit,
            output=ran.output,
            seconds=round(ran.proof_seconds, 3),
            over_limit=ran.over_limit,
        ),
    ]
    for each in ran.steps:
        known = ran.red_before in (RED, GREEN) if each.step == "red" else each.step not in ("guard", "proof")
        if known:
            seconds = round(each.seconds, 3) if each.seconds is not None else None
            if each.step == validation.EARLIER and (run := each.run):
                words = {"exit_code": run.exit_code, "output": run.output, "seconds": seconds}
                steps.append(kept_step(caller, each.step, run.command, **words))
                continue
            steps.append(
                VerdictStep(step=each.step, result=each.state, command=task.validation_command, seconds=seconds)
            )
    return tuple(steps)


def _proof(
    caller: "Caller",
    task: "Task",
    *,
    exit_code: int | None,
    output: str,
    seconds: float | None,
    over_limit: bool = False,
) -> VerdictStep:
    command = str(task.validation_command)
    return kept_step(
        caller, "proof", command, exit_code=exit_code, output=output, seconds=seconds, over_limit=over_limit
    )


def kept_step(
    caller: "Caller",
    step: str,
    command: str,
    *,
    exit_code: int | None,
    output: str,
    seconds: float | None,
    over_limit: bool = False,
) -> VerdictStep:
    """Save a command's output in a log file, and return the verdict step for this command."""
    ended = "over a limit" if over_limit else "timed out" if exit_code is None else f"exit {exit_code}"
    files.own_place(os.path.join(caller.layout.verdicts, "log"), caller.layout.root)
    kept = ledger.keep_output(
        caller.layout.verdicts,
        proven.ledger(caller.layout),
        step,
        command=command,
        output=output,
        ended=ended if seconds is None else f"{ended}, {seconds:.1f} s",
    )
    return VerdictStep(
        step=step,
        result="passed" if exit_code == 0 else "failed",
        command=command,
        exit=exit_code,
        seconds=seconds,
        log=os.path.relpath(kept, caller.layout.root),
    )


def _printed(caller: "Caller", task: "Task") -> str:
    try:
        path = caller.layout.validation_log(task.id, task.attempts + 1)
        return files.read_bytes(path).decode("utf-8", "replace")
    except (OSError, HarnessError):
        return ""


def _text(task: "Task", message: str | None) -> str:
    # a recovery finds the commit by the task id
    text = f"[{task.id}] {message or task.title}".replace("\0", " ")
    return text.encode("utf-8", "replace").decode()


def fail(
    caller: "Caller",
    task_id: str,
    category: str,
    message: str,
    *,
    rollback: bool = True,
    allow_pushed: bool = False,
) -> JsonObject:
    """End the attempt as failed. Raise ``UnsafeTree`` if the rollback is not safe."""
    if category not in CATEGORIES:
        raise UsageError(f"Unknown category: {category}", hint=f"one of {', '.join(CATEGORIES)}")
    if (found := _ended(caller, task_id, "failed")) is not None:
        return {**close_attempt.failed_answer(caller.store.read(), found), "already": True}
    failure = Failure(category=category, message=_said(message), rollback=rollback, allow_pushed=allow_pushed)
    return {**close_attempt.failed(caller, close_attempt.mine(caller, task_id), failure), "already": False}


def release(caller: "Caller", task_id: str, why: str) -> JsonObject:
    if (found := _ended(caller, task_id, "pending")) is not None:
        return {"task_id": found.id, "status": found.status, "attempts": found.attempts, "already": True}
    task = close_attempt.mine(caller, task_id)
    return {**close_attempt.released(caller, task, _said(why)), "already": False}


def roll_back(caller: "Caller", task_id: str, *, dry_run: bool = False, allow_pushed: bool = False) -> JsonObject:
    """Restore the work tree to its state at the claim. The caller keeps the claim."""
    task = close_attempt.mine(caller, task_id)
    policy = "hard" if caller.store.read().config.rollback_policy == "hard" else "restore"  # here a person asks for it
    if dry_run:
        plan = rollback.plan(caller, task, policy=policy, allow_pushed=allow_pushed)
        return {"task_id": task.id, "dry_run": True, **plan}
    back = rollback.roll_back(caller, task, policy=policy, allow_pushed=allow_pushed)
    caller.store.change(lambda change: close_attempt.note_rollback_point(caller, change, task.id, back))
    return {"task_id": task.id, "dry_run": False, **back.as_record()}


def _said(text: str) -> str:
    line = " ".join(text.split()).encode("utf-8", "replace").decode()
    return redact(line) or "no reason given"


# ---- parts -----------------------------------------------------------------------------------------------------------


def _ended(caller: "Caller", task_id: str, status: str) -> "Task | None":
    task = caller.find(caller.store.read(), task_id)
    if task.status != status:
        return None
    if caller.token is not None:
        return task if caller.token == task.last_claim_token else None
    return task if task.last_owner == caller.owner else None


def validated(caller: "Caller", task: "Task", work: "AttemptWork | None", *, demand: str = GRADE) -> ValidationRun:
    """Run the validation, and log the warnings and errors."""
    try:
        ran = validation.run(caller, task, work, demand=demand)
    except validation.MissingCommand as error:
        _refuse(caller, task, "CONFIG", "Missing validation.command", error, halt=True)
        raise
    except proven.ProofChanged as error:
        _refuse(caller, task, "CONFIG", error.message, error, halt=True)
        raise
    except validation.ProgramMissing as error:
        again = bool(noted(caller, task, "environment"))
        note(caller, task, environment={"missing": error.message})
        _refuse(caller, task, "ENV_SETUP", error.message, error, halt=again)
        raise
    said = [] if ran.passed else [f"validation: {ran.failure}"]
    said += [NO_CANDIDATE] if work is None and proven.first_time(caller.layout, "no candidate") else []
    said += [f"validation: {GREEN_BEFORE}"] if ran.passed and ran.red_before == GREEN else []
    for text in said:
        caller.store.note("WARN", text, task=task.id)
    return ran


def _refuse(
    caller: "Caller", task: "Task", category: str, text: str, error: ConfigurationError | ToolMissing, *, halt: bool
) -> None:
    def act(change: "TaskListChange") -> None:
        change.note("ERROR", text, task=task.id, category=category)
        own = change.state.by_id.get(task.id)
        if (
            isinstance(error, proven.ProofChanged)
            and own
            and (changed := proven.put_back(caller.layout, own, claimed=True))
        ):
            change.note("WARN", changed, task=task.id)
            change.touch(own)
        if halt:
            change.halt(category, error.message, task.id)

    caller.store.change(act)


def _parked(caller: "Caller", task: "Task", ran: ValidationRun) -> VerificationFailed:
    question = {"kind": UNCHANGED, "message": f"{task.id}: {ASKS_IF_DONE}"}
    failure = Failure(category="TEST_FAIL", message=str(ran.basis), question=question)
    close_attempt.failed(caller, task, failure)
    told = f"{task.id} waits for your decision: {ran.basis}"
    hint = f"if the task is done: harness task accept {task.id}; if not: harness task reset {task.id}"
    return VerificationFailed(told, hint=hint, task_id=task.id, final=True, **ran.as_record())


def _unproven(task: "Task", ran: ValidationRun) -> VerificationFailed | TimedOut:
    give_up = f"harness task fail {task.id} --category {ran.category} '…'"
    hint = f"fix the problem and run the same command again, or give up: {give_up}"
    kind = TimedOut if ran.result == "TIMEOUT" else VerificationFailed
    said = f"the check of {task.id} failed: {ran.failure}"
    return kind(said, hint=hint, task_id=task.id, **ran.as_record())
