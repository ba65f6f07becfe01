"""One running slice (a run with limited time and cost). It changes the checkpoint file after the agent has ended, while
the run holds the lease.

The module also writes the handoff note after a rate limit. Source: ``longtask.md`` 10.2 - 10.4, 14, 16."""

from __future__ import annotations

import os
import signal

from agent_harness.errors import HarnessError
from agent_harness.kernel import clock
from agent_harness.kernel.json import jsontext
from agent_harness.protocols.longtask import claim, criteria, criteria_guard, evidence, log
from agent_harness.protocols.longtask.layout import file_stamp
from agent_harness.protocols.longtask.records import Checkpoint, RecordView
from agent_harness.protocols.longtask.run import forbidden, outcome
from agent_harness.protocols.longtask.run.worker import WorkerResult, output_file
from agent_harness.protocols.longtask.store import InvalidTask

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.longtask.layout import LongTaskLayout
    from agent_harness.protocols.longtask.options import RunOptions
    from agent_harness.protocols.longtask.records import Contract
    from agent_harness.protocols.longtask.run.adapters import Prepared
    from agent_harness.protocols.longtask.run.agent_slot import SliceSlot
    from agent_harness.protocols.longtask.run.lease_file import RunLease
    from agent_harness.protocols.longtask.run.outcome import Ran
    from agent_harness.protocols.longtask.store import CheckpointChange, LongTaskStore
    from agent_harness.session.ledger import ClaimVerdict
    from agent_harness.supervision.interruption import Stop

    Answer = tuple[JsonObject, int]
    T = TypeVar("T")


_CLAIM_ROUNDS = 3
_GOES_ON = ("active", "paused")


class LeaseGone(Exception):
    """Error for a lost lease, after which the run must not write the checkpoint file."""


class _Claimed(Exception):
    """Error for a checkpoint that claims `done` without a verification."""


class Slice:
    def __init__(
        self,
        store: LongTaskStore,
        prepared: Prepared,
        options: RunOptions,
        *,
        lock: RunLease,
        agent_slot: SliceSlot,
        interruption: Stop,
    ) -> None:
        self.store = store
        self.agent_slot = agent_slot
        self.layout = store.layout
        self.prepared = prepared
        self.options = options
        self.lock = lock
        self.interruption = interruption
        self._weak: dict[str, list[str]] = {}  # by checkpoint text: why passing commands prove nothing
        self._verdicts: dict[str, ClaimVerdict] = {}  # by the text of the verified checkpoint

    def must_stop(self) -> bool:
        return self.interruption.number is not None or not self.lock.in_time()

    def kept(self, ran: Ran, prefix: str) -> WorkerResult:
        """Save the output of an agent that has ended. Return the agent's result."""
        if ran.stopped and self.lock.lost:
            ran.error = f"lease lost: {self.lock.lost}"
        elif ran.stopped and self.interruption.number:
            ran.exit_code = 128 + self.interruption.number
            ran.error = f"interrupted by {signal.Signals(self.interruption.number).name}"
        name = f"evidence/worker-output-{file_stamp(ran.finished_at)}.txt"
        try:
            return WorkerResult(ran, self.store.keep(name, output_file(ran)), prefix)
        except HarnessError:
            reason = f"exit {ran.exit_code}; its output could not be kept"
            self._log({"kind": "worker_failed", "worker": ran.plan.worker, "status": "needs-human", "reason": reason})
            raise

    # ---- its end

    def change(self, act: Callable[[CheckpointChange], T], *ended: WorkerResult) -> T:
        """Change the checkpoint file with ``act``. Raise ``LeaseGone`` before any write if the lease is lost."""

        def owned(change: CheckpointChange) -> T:
            if not self.lock.check():
                raise LeaseGone
            for attempt in ended:
                change.event(**attempt.event())
            return act(change)

        try:
            return self.store.change(owned, fallback=self.prepared.before)
        except InvalidTask:  # the contract no longer loads; the workers are still logged
            for attempt in ended:
                self._log(attempt.event())
            raise

    def _log(self, event: JsonObject) -> None:
        self.store.event({"type": event.pop("kind"), "at": clock.timestamp(fraction=True), **event})

    def worth_verifying(self) -> str | None:
        """Return the checkpoint's text if its criteria should be verified now, otherwise None."""
        try:
            task, checkpoint = self.store.load()
        except HarnessError:
            return None
        decided = checkpoint.status in _GOES_ON and any(
            each.metric in criteria.DECIDED or any(item.is_about(each.id) for item in checkpoint.evidence)
            for each in task.criteria
        )
        return jsontext.line(checkpoint.raw) if decided or checkpoint.status == "done" else None

    def succeeded(
        self, attempt: WorkerResult, verified: dict[str, JsonObject], *, fallback: bool = False
    ) -> tuple[JsonObject, int]:
        """Record the agent's success. Return additional members of the answer, and the exit status."""
        # an agent may write a new claim after each verification
        for left in range(_CLAIM_ROUNDS, -1, -1):
            try:
                return self.change(
                    lambda change, last=not left: self._succeeded(change, attempt, verified, last, fallback), attempt
                )
            except _Claimed as unverified:
                verified[str(unverified)] = self.verify(attempt, str(unverified))
        raise AssertionError("the last round asked for another verification")

    def _succeeded(
        self, change: CheckpointChange, attempt: WorkerResult, verified: JsonObject, last: bool, fallback: bool
    ) -> tuple[JsonObject, int]:
        raw, before = change.checkpoint.raw, self.prepared.before
        if change.damaged:
            evidence.add(change, *attempt.items)
            outcome.ask_about_damage(change, attempt.worker)
            return {"status": raw["status"], "invalidCheckpoint": change.damaged}, 1
        text = jsontext.line(raw)
        report = verified.get(text)
        claimed = change.checkpoint.status == "done"
        if claimed and report is None and not last:
            raise _Claimed(text)
        asks = criteria.asks_if_done(report) if claimed or change.checkpoint.status in _GOES_ON else []
        if claimed or asks or (change.checkpoint.status in _GOES_ON and report and report["status"] == "pass"):
            change.verdict = self._verdicts.get(text) or self._line(attempt, None, claimed=claimed)
        kept = outcome.finalize_success(change, before, attempt.ran, attempt.items, fallback=fallback)
        if change.checkpoint.status in _GOES_ON and report:
            decided = any(each.metric in criteria.DECIDED for each in change.task.criteria)
            if report["status"] == "pass" or (decided and not (kept or criteria.unmet(report, besides="manual"))):
                outcome.finalize_proven(change, criteria.unmet(report), attempt.worker)
                return {"status": raw["status"], "verification": report}, 0
        if asks:
            outcome.ask_if_done(change, attempt.worker, asks)
            return {"status": raw["status"], "verification": report}, 0
        if weak := self._weak.get(text):
            raw["nextStep"] = f"The commands pass, but prove nothing yet: {weak[0]}"
        if change.checkpoint.status == "done" and (report is None or report["status"] != "pass"):
            outcome.withdraw_claim(change, attempt.worker, criteria.unmet(report) if report else [], weak)
            return {"status": "paused", "verification": report}, 0
        return {"status": raw["status"]}, 0

    def verify(self, attempt: WorkerResult, text: str) -> JsonObject:
        """Return the verification report for the checkpoint that ``text`` contains."""
        # no lock is held while commands run
        raw = jsontext.loads(text)
        raw["evidence"] = [*Checkpoint(raw).items("evidence"), *attempt.items]
        task = self.prepared.task
        report = criteria.check(self.layout, task, Checkpoint(raw), stop=self.must_stop)
        if report["status"] == "pass":
            report = criteria_guard.looked_through(self.layout, task, report, stop=self.must_stop)
            self._weak[text] = [each["message"] for each in report["checks"] if each["status"] != "pass"]
        claimed = raw["status"] == "done"
        if claimed or report["status"] == "pass" or criteria.asks_if_done(report):
            self._verdicts[text] = self._line(attempt, report, claimed=claimed)
        return report

    def _line(
        self, attempt: WorkerResult, report: JsonObject | None, *, claimed: bool, code: str = "not_verified"
    ) -> ClaimVerdict:
        task = self.prepared.task
        return claim.verdict_on(self.layout, task, report, claimed=claimed, by=attempt.known_of_it(task.id), code=code)

    def failed(self, attempt: WorkerResult, *, earliest: bool = False) -> JsonObject:
        """Record a classified failure. Return additional members of the answer."""
        git = repository_lines(self.layout, self.prepared.task) if attempt.limited else []
        earliest = earliest or self.prepared.waited_for is not None
        return self.change(lambda change: self._failed(change, attempt, git, earliest), attempt)

    def _failed(self, change: CheckpointChange, attempt: WorkerResult, git: list[str], earliest: bool) -> JsonObject:
        found, prepared = attempt.known_class, self.prepared
        if change.checkpoint.status == "done":
            change.verdict = self._line(attempt, None, claimed=True, code="worker_failed")
        if attempt.limited:
            outcome.cool_down(change, attempt.worker, found, attempt.items)
        until = outcome.earliest_end(change.checkpoint) if attempt.limited and earliest else None
        outcome.apply_class(
            change,
            found,
            attempt.items,
            before=prepared.before,
            worker=attempt.worker,
            until=until,
            next_step=attempt.next_step,
            text=attempt.text,
        )
        if change.damaged and not attempt.limited:
            outcome.ask_about_damage(change, attempt.worker)
        members: JsonObject = {"status": change.checkpoint.status}
        if change.damaged:
            members["invalidCheckpoint"] = change.damaged
        if attempt.limited and change.task.wants_handoff:
            names = (prepared.requested, attempt.worker, prepared.fallback)
            members["handoffPath"] = write_handoff(change, names, attempt.items, git)
        return members

    def cut_short(self, attempt: WorkerResult) -> str:
        """Record that a signal stopped the agent. Return the task's status."""

        def stopped(change: CheckpointChange) -> str:
            if change.damaged:
                outcome.ask_about_damage(change, attempt.worker)
            outcome.keep_output(change, attempt.worker, attempt.items)
            if change.checkpoint.status == "done":
                change.verdict = self._line(attempt, None, claimed=True, code="cut_short")
                outcome.withdraw_claim(change, attempt.worker, [])
            return change.checkpoint.status

        return self.change(stopped, attempt)

    def lost(self, attempt: WorkerResult) -> Answer:
        """Log that the run lost its lease, and return the run's answer."""
        # the checkpoint file may belong to another run now
        self._log(attempt.event(reason="lease lost"))
        log.warn(f"lease lost: {self.lock.lost}; the checkpoint was not changed")
        return self.answer(self.prepared.answer["status"], attempt) | {"error": f"lease lost: {self.lock.lost}"}, 1

    def answer(self, status: str, attempt: WorkerResult) -> JsonObject:
        return {**self.prepared.answer, **attempt.result(), "status": status}


_GIT_SECONDS = 2.0
_MOST_PATHS = 50


def repository_lines(layout: LongTaskLayout, task: Contract) -> list[str]:
    """Return lines about the worktree's last commit and changed files."""
    if not task.repo_path:
        return []
    root = forbidden.expanded(task.repo_path, layout.root)
    if not os.path.isdir(root):
        return []
    from agent_harness.kernel.git import Git
    from agent_harness.kernel.redact import redact

    try:
        git = Git(root)
        if not git.is_repository:
            return []
        changed = git.text("status", "--short", timeout_seconds=_GIT_SECONDS).splitlines()
        last = git.text("log", "-1", "--format=%h %s", check=False, timeout_seconds=_GIT_SECONDS)
    except (HarnessError, OSError):
        return []
    more = [f"    … and {len(changed) - _MOST_PATHS} more"] if len(changed) > _MOST_PATHS else []
    shown = [f"    {line}" for line in changed[:_MOST_PATHS]] or ["    (no changes)"]
    return [f"Last commit: {redact(last) or 'none'}", "git status --short:", *shown, *more]


def write_handoff(
    change: CheckpointChange, workers: tuple[str, str, str | None], items: list[JsonObject], git: list[str]
) -> str:
    """Write a handoff note for the next agent. Return the path of the note."""
    text = _handoff(change, workers, items, git)
    path = change.keep(f"evidence/handoff-{file_stamp(change.at)}.md", text)
    summary = f"Handoff after a rate limit of {workers[1]}; next step: {change.checkpoint.next_step}"
    item = {"type": "handoff", "path": path, "observedAt": change.at, "summary": summary}
    evidence.add(change, item)
    change.event("handoff_written", status=change.checkpoint.status, note=path, evidence=[item])
    return path


def _handoff(
    change: CheckpointChange, workers: tuple[str, str, str | None], items: list[JsonObject], git: list[str]
) -> str:
    requested, worker, fallback = workers
    task, checkpoint = change.task, change.checkpoint
    blocker = checkpoint.blocker or RecordView({})
    said = [str(blocker.raw.get(name)) for name in ("type", "source", "message")]
    facts = [
        f"Task: {task.id} - {task.title}",
        f"Objective: {task.objective}",
        f"Status: {checkpoint.status}",
        f"Blocker: {said[0]} from {said[1]} - {said[2]}",
        f"Blocked until: {checkpoint.blocked_until or 'unknown'}",
        f"Requested worker: {requested}",
        f"Worker: {worker}",
        f"Fallback: {fallback or 'none'}",
        f"Current phase: {checkpoint.phase or 'unspecified'}",
        f"Last completed step: {checkpoint.last_step or 'none'}",
        f"**Next step: {checkpoint.next_step}**",
    ]
    lists = (
        ("Active files", checkpoint.items("activeFiles")),
        ("Open questions", checkpoint.items("openQuestions")),
        ("Unmet criteria", criteria.unmet_without_commands(change.layout, task, checkpoint)),
        ("Evidence of this run", [str(item.get("path")) for item in items]),
    )
    body = [f"- {fact}" for fact in facts]
    for title, entries in lists:
        body += ["", f"## {title}", "", *([f"- {entry}" for entry in entries] or ["- none"])]
    body += ["", "## Working copy", "", *git] if git else []
    return "\n".join([f"# Handoff: {task.title}", "", *body]) + "\n"
