"""Verification of claims that a task is done. A claim counts only after the harness has verified it.

The harness keeps a second log outside the task directory. Agents cannot edit this log. If it contains no verification
after the last agent start, `lth` commands show the task as unfinished. The next `lth run` first verifies the claim. If
``task.json`` differs from the accepted contract, the verification proves nothing. No agent then starts until a person
has reviewed the file. Source: ``longtask.md`` 10.3, 18 (row 11)."""

from __future__ import annotations

import os

from agent_harness.errors import HarnessError, Interrupted
from agent_harness.kernel.json import jsontext
from agent_harness.protocols.longtask import evidence, log, records
from agent_harness.protocols.longtask.lifecycle import SchedulingDecision, decide
from agent_harness.protocols.longtask.records import Checkpoint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.records import Contract, LogEvent
    from agent_harness.protocols.longtask.run.lease_file import RunLease
    from agent_harness.protocols.longtask.store import CheckpointChange, LongTaskStore
    from agent_harness.session.ledger import ClaimVerdict, VerdictStep
    from agent_harness.supervision.interruption import Stop
    from agent_harness.supervision.starts import StartCount


REASON = "a claim of done is not verified"
_ACCEPT = ", then: lth accept TASK_DIR"

_PROOFS = frozenset((records.VERIFIED, "worker output recorded", "fallback evidence recorded"))


class Seen:
    """State of a task, and the scheduling decision for this state."""

    def __init__(self, checkpoint: Checkpoint, due: SchedulingDecision, *, claimed: bool) -> None:
        self.checkpoint = checkpoint
        self.due = due
        self.claimed = claimed


def look(layout: LongTaskLayout, task: Contract, checkpoint: Checkpoint, now: datetime) -> Seen:
    """Return the task's current state. No file is written."""
    if checkpoint.status == "blocked" or checkpoint.cooldowns:
        from agent_harness.protocols.longtask.run import adapters

        checkpoint = adapters.told(task, checkpoint)
    claimed = checkpoint.status == "done" and not is_proven(log.deciding(layout, task.id))
    # an unproven claim of `done` never counts
    if claimed:
        checkpoint = Checkpoint({**checkpoint.raw, "status": "paused"})
    due = SchedulingDecision("run", REASON) if claimed else decide(checkpoint, now)
    asked = _asked(layout, task, claimed=claimed) if due.decision == "run" else None
    if asked:
        return Seen(checkpoint, SchedulingDecision("needs-human", asked), claimed=False)
    return Seen(checkpoint, due, claimed=claimed)


def _asked(layout: LongTaskLayout, task: Contract, *, claimed: bool) -> str | None:
    """Return why a person must act before the next agent start, or None."""
    changed = evidence.changed_members(layout, task)
    if changed:
        return f"task.json was changed ({', '.join(changed)}); review it, then: lth accept {layout.root}"
    return None if claimed else _used_up(layout, task)


def _used_up(layout: LongTaskLayout, task: Contract) -> str | None:
    """Return a message if the task has used all slices or its whole budget, otherwise None."""
    try:
        slices, cost_usd = log.slices(layout, task.id)
    except HarnessError:  # the next user of this log reports the error and starts nothing
        return None
    most, most_usd = task.policy.max_slices, task.policy.max_task_cost_usd
    if slices >= most:
        return f"{slices} of {most} slices are used up; raise workerPolicy.maxSlices in task.json to continue{_ACCEPT}"
    if cost_usd >= most_usd:
        return (
            f"${cost_usd:.2f} of ${most_usd:.2f} are spent; raise workerPolicy.maxTaskCostUsd in task.json to continue"
            f"{_ACCEPT}"
        )
    path = os.path.join(os.path.dirname(layout.ledger(make=False)), "starts.jsonl")
    if os.path.isfile(path) and os.path.getsize(path) > min(_SHORTEST_LINE * most, _LOOK_BYTES):
        over = start_count(layout, task).used_up()
        return f"{over.message} To agree: {over.hint}" if over else None
    return None


STARTS_A_SLICE = 4
"""Maximum number of process starts per slice: an agent, its fallback, and one retry of each after a provider's
refusal.
"""


def start_count(layout: LongTaskLayout, task: Contract) -> StartCount:
    """Return the counter that limits how often agents start on a task."""
    import shlex

    from agent_harness.supervision.starts import StartCount

    # the count is outside the task, so that no agent can raise the limit
    most = STARTS_A_SLICE * task.policy.max_slices
    folder = os.path.dirname(layout.ledger())
    return StartCount(folder, task.id, most=most, hint=f"lth record {shlex.quote(layout.root)} --status active")


_SHORTEST_LINE = 60  # bytes of one start in the count, which no worker can write
_LOOK_BYTES = 20_000  # a shorter count is within every limit; skipping it keeps `tick` fast


def is_proven(events: Iterable[LogEvent]) -> bool:
    """Return True if `done` was proven since the last agent start, or if no agent has started.

    The events come newest first."""
    for event in events:
        if event.type == "worker_started" or event.reason == records.WITHDRAWN:
            return False
        if event.status == "done" and (event.type == "progress_recorded" or event.reason in _PROOFS):
            return True
    return True


def proof_of(layout: LongTaskLayout, task_id: str) -> ClaimVerdict | None:
    """Return the newest verdict that accepts the task as `done`, or None if there is none."""
    from agent_harness.session import ledger

    about = (each for each in ledger.newest_first(layout.ledger(make=False)) if each.item == task_id)
    return next((each for each in about if each.accepted and each.word != "evidence"), None)


def started(layout: LongTaskLayout) -> LogEvent | None:
    """Return the event of the newest agent start, or None if no agent has started."""
    return next((event for event in log.newest_first(layout) if event.type == "worker_started"), None)


def verdict_on(
    layout: LongTaskLayout,
    task: Contract,
    report: JsonObject | None,
    *,
    claimed: bool,
    by: ClaimVerdict | None = None,
    code: str = "not_verified",
) -> ClaimVerdict:
    """Return the verdict on a claim of `done`. ``report`` is the result of the verification."""
    from dataclasses import replace

    from agent_harness.session import ledger

    began = started(layout)
    passed = report is not None and report["status"] == "pass"
    missing = [each for each in report["checks"] if each["status"] != "pass"] if report else []
    known = by or ledger.ClaimVerdict(item=task.id, verdict="", agent=began.text("worker") if began else None)
    codes = ((_code(missing),) if missing else (code,)) if not passed else ()
    grade, basis = _graded(report["checks"]) if report and passed else (None, None)
    return replace(
        known,
        # the same for the same agent start: a claim that is verified twice is reported once
        id=f"{task.id}, {began.at if began else 'nobody'}",
        verdict=ledger.ACCEPTED if passed else ledger.REJECTED,
        attempt=log.slices(layout, task.id)[0],
        claim=(task.id,) if claimed else (),
        codes=codes,
        grade=grade,
        basis=basis,
        commit=known.commit if passed else None,
        steps=tuple(_step(layout, each) for each in report["checks"]) if report else (),
    )


def _code(missing: list[JsonObject]) -> str:
    if all(each.get("grade") == "unchanged" for each in missing):
        return "unchanged"
    return "only_checked" if all(each.get("grade") == "checked" for each in missing) else "criteria_unmet"


def _graded(checks: list[JsonObject]) -> tuple[str | None, str | None]:
    """Return the task's grade and the reason for this grade."""
    for each in checks:
        if each.get("grade") != "proven" and each["metric"] != "manual":
            return "checked", f"{each['id']}: {each.get('basis') or 'the check did not run on the base commit'}"
    told = next((str(each["basis"]) for each in checks if each.get("basis")), None)
    return ("proven" if told else None), told


def _step(layout: LongTaskLayout, check: JsonObject) -> VerdictStep:
    """Save the output of a criterion's command. Return the criterion's result as a verdict step."""
    from agent_harness.session import ledger

    good, command, log_path = check["status"] == "pass", check.get("command"), None
    if command and check.get("exitCode") is not None:
        folder = layout.inside(layout.relative(layout.verdicts), "runs")
        output = "\n".join(text.rstrip("\n") for text in (check["stdout"], check["stderr"]) if text)
        step, ended = f"criterion-{check['id']}", str(check["message"])
        kept = ledger.keep_output(folder, layout.ledger(), step, command=str(command), output=output, ended=ended)
        log_path = layout.relative(kept)
    return ledger.VerdictStep(
        step="criterion",
        name=str(check["id"]),
        result="passed" if good else "failed",
        command=str(command) if command else None,
        exit=check.get("exitCode"),
        log=log_path,
    )


def finalize(store: LongTaskStore, lock: RunLease, interruption: Stop) -> JsonObject | None:
    """Verify a claim of `done` from an earlier run. Return the report, or None without a claim.

    The caller must hold the lease, but not the directory lock, because commands run. A signal leaves the claim."""

    def must_stop() -> bool:
        return interruption.number is not None or not lock.in_time()

    report: JsonObject | None = None
    for last in (False, False, True):
        task, checkpoint = store.load()
        if not look(store.layout, task, checkpoint, store.now()).claimed:
            break
        from agent_harness.protocols.longtask import criteria, criteria_guard

        text = jsontext.line(checkpoint.raw)
        report = criteria.check(store.layout, task, checkpoint, stop=must_stop)
        report = criteria_guard.looked_through(store.layout, task, report, stop=must_stop)
        _require(lock, interruption)
        verified = (text, report, last, verdict_on(store.layout, task, report, claimed=True))
        store.change(lambda change, verified=verified: _finalize(change, lock, verified))
    return report


def _require(lock: RunLease, interruption: Stop) -> None:
    if interruption.number is not None:
        error = Interrupted(
            "interrupted while the harness verified the claim that the task is done; the claim is unchanged"
        )
        error.exit_code = 128 + interruption.number
        raise error
    lock.verify()


def _finalize(change: CheckpointChange, lock: RunLease, verified: tuple[str, JsonObject, bool, ClaimVerdict]) -> None:
    # another run may have taken the lease before this change got the directory lock
    lock.verify()
    text, report, last, line = verified
    # an agent may have written the file since ``text`` was verified: then the report says nothing about it
    same = jsontext.line(change.checkpoint.raw) == text
    if same and report["status"] == "pass":
        change.verdict = line
        change.event("checkpoint_written", status="done", reason=records.VERIFIED)
    elif same or (last and change.checkpoint.status == "done"):
        from agent_harness.protocols.longtask import criteria
        from agent_harness.protocols.longtask.run import outcome

        change.verdict = line if same else verdict_on(change.layout, change.task, None, claimed=True)
        if same and (asks := criteria.asks_if_done(report)):
            outcome.ask_if_done(change, None, asks)
        else:
            outcome.withdraw_claim(change, None, criteria.unmet(report) if same else [])
