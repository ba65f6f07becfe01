"""One agent on one slice (a run with limited time and cost), as work for the engine that all protocols share.

The engine's monitors watch the agent, as in task lists and feature projects (``run.worker``). A slice has no fix
rounds, because the next slice can continue the work. If an agent was stopped early, its claim of `done` is not
accepted. Source: ``longtask.md`` 10.2 - 10.5."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass, field, replace
from pathlib import Path

from agent_harness.agents import claude_code as claude
from agent_harness.agents.base import Brief
from agent_harness.agents.command import Printed
from agent_harness.agents.events import Event, RateLimited
from agent_harness.errors import HarnessError
from agent_harness.kernel import clock, process
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.process.sandbox import OPEN, settings_from
from agent_harness.kernel.rate_limits import LimitClock, spoken_end
from agent_harness.kernel.redact import redact
from agent_harness.protocols.longtask import claim, evidence, log
from agent_harness.protocols.longtask.criteria_guard import CriteriaGuard
from agent_harness.protocols.longtask.run import adapters, outcome, session_folder
from agent_harness.protocols.longtask.run.adapters import Plan
from agent_harness.protocols.longtask.run.classifier import ENDED_BY
from agent_harness.protocols.longtask.run.outcome import Ran
from agent_harness.protocols.longtask.run.slice import LeaseGone, Slice
from agent_harness.protocols.longtask.run.worker import (
    NEVER_STARTED,
    STOPPED,
    Startable,
    WorkerResult,
    agent_of,
    classified,
    failure_text,
    printed_usage,
    reported_usage,
)
from agent_harness.protocols.longtask.store import CheckpointChange
from agent_harness.session.limits import SessionLimits, changed_in_folder, watch
from agent_harness.session.now import NowRecord
from agent_harness.session.runner import Turns, walk
from agent_harness.session.work import POLICIES, Ending, Policy, TurnRequest, TurnSoFar
from agent_harness.supervision.monitors import BudgetLimit, ContextWindow, ProjectFacts
from agent_harness.supervision.recording import KeyMask, rendered
from agent_harness.supervision.stalls import Stall
from agent_harness.supervision.supervisor import Outcome

Answer = tuple[JsonObject, int]

TIMED_OUT = 124
WRAP_UP = """\
The context is nearly full. Finish the edit at hand, record where you stopped as the next step of the checkpoint
(`lth record "$LTH_TASK_DIR" --status active --note "..."`), and end. The next slice continues from there.
"""
STUCK = """\
Still stuck: no file changed, no test ran. Record what blocks you as the next step of the checkpoint
(`lth record "$LTH_TASK_DIR" --status needs-human --note "..."`), and end.
"""


@dataclass(frozen=True, kw_only=True)
class ClaimCheck:
    """Reports of the verifications after an agent's success."""

    # empty if there was nothing to verify
    verified: dict[str, JsonObject] = field(default_factory=dict)  # reports by the text of the checkpoint
    final: bool = True
    asks: bool = False

    @property
    def accepted(self) -> bool:
        return all(report["status"] == "pass" for report in self.verified.values())


class _Quiet:
    """Journal that logs retries and ignores all other events."""

    def say(self, line: str) -> None:
        return

    def event(self, event_type: str, **fields: object) -> None:
        if event_type == "provider_retry":
            log.warn(f"the provider refused the request of the worker ({fields.get('message')}); trying again")
        if event_type == "client_retry":
            log.warn(str(fields.get("message")))


class SliceWork:
    prefix = ""
    is_stand_in = False

    def __init__(self, slice_: Slice, plan: Plan) -> None:
        task = slice_.prepared.task
        self.slice = slice_
        self.plan = plan
        self.name = f"Slice of {task.id}"
        own = POLICIES["slice"]
        self.policy: Policy = replace(own, retried=frozenset()) if isinstance(plan.run, str) else own
        self.attempt: WorkerResult | None = None
        self._ran = Ran(plan)
        self._printed = Printed()
        self._mask = KeyMask()
        self._outcome: Outcome | None = None
        place = session_folder.begun(
            slice_.layout,
            task_id=task.id,
            worker=plan.worker,
            cwd=plan.cwd,
            at=self._ran.started_at,
            takes_point=task.policy.takes_rescue_points,
        )
        self._point = place.point
        evidence.adopt(slice_.layout, slice_.prepared.before)
        git, head = (place.point.git, place.point.snapshot.head) if place.point else (None, None)
        evidence.adopt_contract(slice_.layout, task, os.fspath(git.top()) if git else None, head)
        self._guard = CriteriaGuard(slice_.layout, task)
        self._guard.keep()
        self._guard.look_around()
        now = NowRecord(
            slice_.layout.outside("now.json"),
            item=task.id,
            title=task.title,
            agent=plan.worker,
            left_usd={"session": plan.max_cost_usd},
        )
        self._agent = Startable(agent_of(plan, self._printed, self._refusal), plan, slice_.must_stop)
        self._turns = Turns(
            agent=self._agent,
            journal=_Quiet(),
            stop=slice_.interruption,
            watch=watch(_limits(plan)),
            transcript=Path(place.path, session_folder.TRANSCRIPT),
            timeout_seconds=float(plan.timeout_seconds),
            recording=place.recording(),
            silence_seconds=plan.response_seconds,
            stop_requested=lambda: "stopped" if slice_.must_stop() else None,
            starts=claim.start_count(slice_.layout, task),
            now=now,
        )

    def walked(self) -> Answer:
        """Run the agent and record its result. Return the answer and the exit status."""
        try:
            return walk(self, self._turns)
        finally:
            self._guard.looked_around()

    # ---- input of the worker

    def brief(self, ruling: ClaimCheck | None) -> str:
        return self.slice.prepared.prompt

    def request(self, prompt: str, so_far: TurnSoFar) -> TurnRequest:
        plan, lock = self.plan, self.slice.lock
        left = max(0.0, plan.max_cost_usd - so_far.used.budget_usd())
        found = {"LTH_TASK_DIR": self.slice.layout.root, "LTH_WORKER": plan.worker, "LTH_RUN_ID": lock.run_id}
        return TurnRequest(
            brief=Brief(
                prompt=prompt,
                cwd=Path(plan.cwd),
                session=1,
                prompt_type="coding",
                model=plan.model,
                model_chosen=plan.model is not None,
                budget_usd=left,
                environment=found,
                run_id=lock.run_id,
                sandbox=settings_from(self.slice.prepared.task.policy.raw.get("sandbox"), network=OPEN),
                places=(Path(self.slice.layout.root),),
            ),
            on_event=self._take if plan.run is None else None,
            on_ended=self._ended,
            facts=self._changed,
        )

    def _changed(self) -> ProjectFacts:
        layout = self.slice.layout
        ours = tuple(map(os.path.realpath, (layout.sessions, layout.runs, layout.lock)))
        found = [changed_in_folder(Path(each)).changed for each in (self.plan.cwd, layout.root)]
        known = {os.path.realpath(path): stamp for each in found for path, stamp in each.items()}
        return ProjectFacts({path: stamp for path, stamp in known.items() if not path.startswith(ours)})

    def _take(self, event: Event) -> None:
        self._printed.stdout.add(f"{self._mask.mask(rendered(event))}\n".encode("utf-8", "replace"))

    def _ended(self, outcome: Outcome) -> None:
        self._outcome = outcome

    def _refusal(self, printed: Printed, exit_code: int | None) -> RateLimited | None:
        """Return the rate limit that the agent's output shows, or None."""
        ran = Ran(self.plan)
        ran.exit_code = STOPPED if exit_code is None else process.exit_status(exit_code)
        ran.stdout, ran.stderr = self._streams()
        text = failure_text(ran, self.slice.prepared.prompt)
        found = classified(ran, text, self.slice.prepared.task)
        if not found.limited:
            return None
        return RateLimited(message=found.summary, retry_after_seconds=found.retry_after_seconds)

    # ---- end of the worker

    def claimed(self) -> bool:
        # an agent that failed or was stopped early cannot claim anything
        return False

    def closed(self) -> Answer | None:
        """Save the agent's output. If the lease is lost, return the answer, otherwise None."""
        self.attempt = self.slice.kept(self._judged(), self.prefix)
        if self.slice.lock.lost:
            return self._lost()
        self._guard.ended()
        return None

    def ruling(self, so_far: TurnSoFar, ending: Ending | None) -> ClaimCheck | None:
        """Verify the agent's work. Return the reports, or None if the agent failed."""
        if ending is not None or self.known.ran.exit_code:
            return None
        self._turns.now.step("criterion")
        text = self.slice.worth_verifying()
        return ClaimCheck(verified={text: self.slice.verify(self.known, text)} if text else {})

    def accepted(self, ruling: ClaimCheck) -> Answer:
        try:
            return self._answer(*self.slice.succeeded(self.known, ruling.verified, fallback=self.is_stand_in))
        except LeaseGone:
            return self._lost()

    def rejected(self, ruling: ClaimCheck, ending: Ending | None) -> Answer:
        return self.accepted(ruling)

    def unfinished(self, ending: Ending) -> Answer:
        try:
            return self._finalized_badly()
        except LeaseGone:
            return self._lost()

    @property
    def known(self) -> WorkerResult:
        if self.attempt is None:
            raise AssertionError("the worker's result was used before its output was stored")
        return self.attempt

    def _finalized_badly(self) -> Answer:
        ended, slice_ = self.known, self.slice
        if ended.ran.stopped:
            return self._answer({"status": slice_.cut_short(ended)}, ended.ran.exit_code)
        prepared = slice_.prepared
        ended.classify(prepared.task, slice_.options.codex_session_path, prepared.prompt, slice_.layout.root)
        self._agree_on_the_end(ended)
        if ended.known_class.told_until:
            until = spoken_end(str(ended.known_class.blocked_until), ended.known_class.told_until)
            log.tell(f"lth: {ended.worker}: rate-limited until {until}")
        name = prepared.fallback
        if name and ended.limited and not self.is_stand_in and not slice_.interruption.number:
            return _taken_over(slice_, ended, name)
        return self._answer(slice_.failed(ended, earliest=self.is_stand_in), ended.ran.exit_code)

    def _agree_on_the_end(self, ended: WorkerResult) -> None:
        """Use the rate limit's end from the records of the agent's account."""
        account = adapters.account_of(self.plan.worker) if ended.limited else None
        if account is None:
            return
        found = ended.known_class
        known = self._outcome.limit if self._outcome else None
        # the output of the agent is better than a guess
        if known is None or known.source == "guess":
            known = LimitClock().note(
                account,
                said=found.summary,
                retry_after_seconds=found.retry_after_seconds,
                guess_seconds=self.slice.prepared.task.fallback_wait_seconds,
            )
        found.blocked_until = clock.timestamp(known.until, fraction=True)
        found.told_until = clock.timestamp(known.told_until, fraction=True) if known.told_until else None

    def _answer(self, members: JsonObject, code: int) -> Answer:
        return self.slice.answer(members.pop("status"), self.known) | members, code

    def _lost(self) -> Answer:
        return self.slice.lost(self.known)

    def _streams(self) -> tuple[str, str]:
        stdout, stderr = self._printed.stdout.text(), self._printed.stderr.text()
        return redact(claude.unwrapped(stdout) if self.plan.wrapped else stdout), redact(stderr)

    def _judged(self) -> Ran:
        ran, outcome = self._ran, self._outcome
        if outcome is None:
            raise AssertionError("a turn has an outcome")
        ran.stdout, ran.stderr = self._streams()
        failure = self._agent.failure
        ran.stopped = outcome.reason == "user_pause" or failure == NEVER_STARTED
        if self.plan.run is None:
            ran.usage = reported_usage(self._turns.so_far.used)
        else:
            out, err = self._printed.stdout.text(), self._printed.stderr.text()
            ran.usage = printed_usage(self.plan.worker, out, err)
        if outcome.reason in ENDED_BY:
            ran.ended_by = outcome.reason
        ran.exit_code, ran.error = failure or _status(self.plan, outcome)
        self._note_denials(ran)
        ran.finished_at = clock.timestamp(fraction=True)
        ran.course = self._course()
        return ran

    def _course(self) -> JsonObject:
        """Return facts about the agent's turns and commits, for the event of its end."""
        so_far = self._turns.so_far
        found: JsonObject = {"model": so_far.model or self.plan.model, "promptType": "coding", "turns": so_far.turns}
        found["interventions"] = [redact(each) for each in so_far.interventions]
        found["told"] = [*so_far.told]
        if point := self._point:
            ref = point.snapshot.ref
            found |= {"base": point.snapshot.head, "head": point.git.head(), "rescueRef": ref}
        return found

    def _note_denials(self, ran: Ran) -> None:
        """Report the tools that Claude Code was forbidden to use."""
        denied = claude.denied_tools(self._printed.stdout.text()) if self.plan.wrapped else []
        if not denied:
            return
        said = f"Claude Code was not allowed to use {', '.join(denied)}"
        if ran.exit_code or not self.plan.reads_only:
            log.warn(said)
            return
        # a read-only agent that lacks a tool has failed, whatever it says
        ran.exit_code, ran.error, ran.ended_by = STOPPED, said, "permission_denied"


def _status(plan: Plan, outcome: Outcome) -> tuple[int, str | None]:
    code = outcome.exit_code
    if outcome.reason == "timeout":
        return TIMED_OUT, f"timed out after {plan.timeout_seconds} s; its whole process group was ended"
    if outcome.reason in ENDED_BY:
        return STOPPED, f"ended by the harness: {outcome.message}"
    if outcome.ok:
        return 0, None
    if plan.run is None:
        return (process.exit_status(code) if code else STOPPED), _agents_error(outcome)
    if code is None or outcome.reason == "user_pause":
        return (
            STOPPED,
            "stopped" if outcome.reason == "user_pause" else "the worker disappeared; its exit status is unknown",
        )
    return process.exit_status(code), f"killed by {_signal_name(-code)}" if code < 0 else None


def _agents_error(outcome: Outcome) -> str:
    if outcome.reason == "rate_limited" and outcome.rate_limit:
        until = f"; resets at {outcome.rate_limit.resets_at}" if outcome.rate_limit.resets_at else ""
        return f"rate limit reached: {outcome.rate_limit.message}{until}"
    return outcome.message or outcome.reason


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _limits(plan: Plan) -> SessionLimits:
    window = plan.window_tokens
    return SessionLimits(
        timeout_seconds=float(plan.timeout_seconds),
        budgets=(BudgetLimit(name="Slice", limit_usd=plan.max_cost_usd),),
        model=plan.model,
        context=ContextWindow(window_tokens=window, wrap_up_message=WRAP_UP),
        stall=Stall(window_tokens=window, force_stop_message=STUCK),
    )


# ---- fallback for a rate-limited worker: the same slice, the same prompt (``longtask.md`` 10.5)

_TAKE_OVER = "fallback_on_rate_limit"


def _taken_over(work: Slice, first: WorkerResult, name: str) -> Answer:
    """Run the fallback agent after a rate limit. Return one answer about both agents."""
    plan, problem = _stand_in_plan(work, name)
    if plan is None:
        members = work.failed(first)
        status = members.pop("status")
        return work.answer(status, first) | members | {"fallbackError": problem}, first.ran.exit_code
    work.change(lambda change: _hand_over(change, first, plan), first)
    second = StandIn(work, plan)
    members, code = second.walked()
    return _joint_answer(work, first, second, members, code), code


class StandIn(SliceWork):
    """Work of the fallback agent."""

    prefix = "fallback "
    is_stand_in = True

    def _answer(self, members: JsonObject, code: int) -> Answer:
        return members, code

    def _lost(self) -> Answer:
        answer, code = self.slice.lost(self.known)
        return {"status": answer["status"], "error": answer["error"]}, code


def _stand_in_plan(work: Slice, name: str) -> tuple[Plan | None, str]:
    if adapters.cooldown(work.prepared.before, name, clock.now()):
        return None, f"{name} is also rate-limited"
    try:
        plan = adapters.plan(name, work.prepared.task, work.layout, work.options)
    except HarnessError as error:
        return None, error.message
    if why := adapters.unfilled_for(name, work.prepared.task):
        return None, why
    problem = work.agent_slot.await_one(name, plan.timeout_seconds, work.must_stop)
    return None if problem else plan, problem or ""


def _hand_over(change: CheckpointChange, first: WorkerResult, plan: Plan) -> None:
    # written before the fallback agent starts, so that a crash does not lose the rate limit
    found = first.known_class
    outcome.cool_down(change, first.worker, found, first.items)
    evidence.add(change, *first.items)
    text = f"{first.worker} is rate-limited; {plan.worker} takes over"
    outcome.event_of_class(
        change,
        found,
        first.items,
        status="fallback",
        worker=first.worker,
        until=found.blocked_until,
        blocker=None,
        text=text,
    )
    status = change.checkpoint.status
    change.event("checkpoint_written", status=status, reason="classified rate_limit", worker=first.worker)
    change.event("worker_prompt_generated", worker=plan.worker, reason=_TAKE_OVER)
    change.event("worker_started", worker=plan.worker, reason=_TAKE_OVER, note=plan.command)


def _joint_answer(work: Slice, first: WorkerResult, second: StandIn, members: JsonObject, code: int) -> JsonObject:
    head = work.prepared.answer
    primary = first.result()
    return {
        **{name: head[name] for name in ("decision", "reason", "dryRun")},
        "status": members.pop("status"),
        "waitSeconds": head["waitSeconds"],
        "worker": primary["worker"],
        "requestedWorker": work.prepared.requested,
        "command": primary["command"],
        "cwd": primary["cwd"],
        "exitCode": primary["exitCode"],
        "finalExitCode": code,
        "outputPath": primary["outputPath"],
        "classification": primary["classification"],
        "fallback": second.known.result(),
        **({"usage": primary["usage"]} if "usage" in primary else {}),
        **members,
    }
