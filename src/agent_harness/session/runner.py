"""Course of every session, for all kinds of work.

    brief -> turn -> closed? -> cut off? -> ruling -> accepted | fix round | rejected | unfinished

All monitors watch each turn. A turn is retried if the provider fails. Only this module calls ``supervise``. Source:
docs/architecture.md, "The way of a session"; ``features.md`` C03, sections K, N, Q, R; ``tasklist.md`` 12.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from agent_harness.agents import usage
from agent_harness.agents.base import Agent
from agent_harness.agents.events import CLIENT_TRIES_AGAIN, Event, Text, ToolCall, Usage
from agent_harness.kernel import host
from agent_harness.kernel.git import Git, repair
from agent_harness.kernel.git.settings import Settings
from agent_harness.kernel.redact import redact
from agent_harness.session import provider_retry, turn_end
from agent_harness.session.now import NowRecord
from agent_harness.session.provider_retry import Journal, ProviderRetry
from agent_harness.session.work import Ending, Judgement, TurnRequest, TurnSoFar, Work
from agent_harness.supervision.interruption import Stop
from agent_harness.supervision.messages import PersonMessage, PersonsMessages
from agent_harness.supervision.monitors import Watch
from agent_harness.supervision.recording import Recording
from agent_harness.supervision.starts import StartCount
from agent_harness.supervision.supervisor import Outcome, supervise

__all__ = ["AGAIN", "Turns", "walk"]


_ENDED_BY_MONITOR = frozenset({"context_limit", "timeout", "stuck", "budget_exceeded", "no_response", "over_limit"})
_SAID_ELSEWHERE = frozenset({"finished", "user_pause", "rate_limited", "no_response"})


PASSES_ONLY_IN_PLACE = "passes_only_in_place"
"""Finding code for a check that fails in a checkout of the work but passes in the work folder."""

AGAIN = """\
Your last turn was cut off before it ended, by no fault of yours. What you did in it is still there: look at
`git status`, `git log` and the files first, and go on from there.
"""


@dataclass(kw_only=True)
class Turns:
    agent: Agent
    journal: Journal
    stop: Stop
    watch: Watch
    transcript: Path
    timeout_seconds: float  # of the session; no wait for a provider goes beyond it
    spare: bool = False  # another agent can take over from one that is refused
    recording: Recording | None = None
    silence_seconds: float | None = None  # outside of tool calls; a turn ends by it, and is tried once more (UAH-376)
    stop_requested: Callable[[], str | None] | None = None  # in place of the signal's, for a lease that may be lost
    starts: StartCount | None = None  # of this item, over all sessions
    now: NowRecord = field(default_factory=NowRecord)
    item: str | None = None  # of which a person may say something to it alone
    messages_at: str | None = None  # folder of these messages, if not beside ``now``
    began: float = field(default_factory=time.monotonic)  # of the monotonic clock
    so_far: TurnSoFar = field(default_factory=TurnSoFar)

    def __post_init__(self) -> None:
        self._retry = ProviderRetry(
            self.journal, self.stop, self.began, self.timeout_seconds, self.spare, on_wait=self.now.wait
        )
        self._messages = PersonsMessages(self.messages_at or self.now.folder, self.item)
        if self.agent.capabilities.steer:
            self.now.also_can("say")
        self._told_to_stop = False
        self._is_metered = host.account_terms(self.agent.account).input_tokens_per_minute is not None
        self._used_now = usage.Totals()  # also of the turn that runs
        self._git: Git | None = None  # of the folder of the turns
        self._elsewhere: tuple[turn_end.Elsewhere, ...] = ()  # before the first of them
        self._submodules: dict[str, tuple[str | None, str]] = {}  # before it too

    def next_round(self, *, asked: bool) -> None:
        if asked:
            self.so_far = replace(self.so_far, asked=True)
        else:
            self.so_far = replace(self.so_far, fix_rounds=self.so_far.fix_rounds + 1)

    def run(self, work: Work[Any, Any], prompt: str) -> Ending | None:
        """Run one turn of the agent. Return the reason if the session must end, or None."""
        outcome, failure = self._retry.run(
            lambda again: self._supervised(work, prompt, again=again), work.claimed, work.policy.retried
        )
        if failure is not None:
            return Ending(reason=failure.ends, message=failure.sentence, outcome=outcome, provider=failure)
        if outcome.reason in provider_retry.TABLE or (outcome.reason == "finished" and outcome.ok):
            return None
        if outcome.reason != "finished":
            return Ending(reason=outcome.reason, message=outcome.message, outcome=outcome)
        self.journal.say(f"The agent ended with an error: {outcome.message}")
        self.journal.event("agent_error", message=outcome.message)
        # a claim is verified even if the agent then failed
        return None if work.claimed() else Ending(reason="error", message=outcome.message, outcome=outcome)

    def _supervised(self, work: Work[Any, Any], prompt: str, *, again: bool) -> Outcome:
        request = work.request(prompt, self.so_far)
        if again and request.facts().changed:  # the turn that was cut off has left work
            request = replace(request, brief=replace(request.brief, prompt=AGAIN + prompt))
        if self.starts is not None:
            self.starts.begin(request.brief.run_id)
        said = self._messages.waiting()
        if said:
            opening = "\n".join(each.told for each in said)
            request = replace(request, brief=replace(request.brief, prompt=f"{opening}\n\n{request.brief.prompt}"))
        self.now.turn(request.brief.run_id)
        git = Git(request.brief.cwd)
        if self._git is None:
            self._git, self._elsewhere = git, turn_end.elsewhere(git)
            self._submodules = turn_end.submodules(git)
        settings, own_files = turn_end.settings_of(git), repair.remember(git)
        with self._put_back_after(git, own_files, settings), self.stop.listening():
            outcome = supervise(
                self.agent,
                request.brief,
                monitors=self.watch,
                transcript=self.transcript,
                on_started=lambda process: self._began_turn(request, process, said),
                stop_requested=self._stop_requested,
                facts=request.facts,
                on_event=lambda event: self._hear(request, event),
                test_file=request.test_file,
                suite=request.suite,
                session_began=self.began,
                silence_seconds=self.silence_seconds,
                recording=self.recording,
                messages=self._messages,
            )
        request.on_ended(outcome)
        self._add(outcome)
        for told in turn_end.told_settings(git, settings):
            self.journal.say(f"The agent changed a git setting: {told}")
            self.journal.event("git_settings_changed", message=told)
        return outcome

    @contextmanager
    def _put_back_after(self, git: Git, own_files: repair.GitFiles | None, settings: Settings | None) -> Iterator[None]:
        """Restore git's own files and settings after the ``with`` block."""
        try:
            yield
        finally:
            for told in turn_end.put_back(git, own_files, settings):
                self._say("git_put_back", f"The agent changed git's own files: {told}")

    def only_here(self) -> str:
        """Return a note for the agent about new work in other places, or an empty text."""
        return turn_end.only_here(self._elsewhere, turn_end.elsewhere(self._git)) if self._git else ""

    def empty_there(self, findings: object) -> str:
        """Return a note if empty submodules in a checkout may explain the findings."""
        codes = [each.get("code") for each in findings] if isinstance(findings, list) else []
        if not self._submodules or PASSES_ONLY_IN_PLACE not in codes:
            return ""
        return f"the submodule {', '.join([*self._submodules][:3])} is empty in a checkout"

    def say_what_stays(self) -> None:
        """Tell the user about changes inside submodules that remain after a rollback."""
        inside = turn_end.changed_inside(self._submodules, turn_end.submodules(self._git)) if self._git else []
        self._say("stays_inside", turn_end.stays_inside(inside))

    def say_left_out(self) -> None:
        """Tell the user about work that the accepted commit does not contain."""
        if self._git is None:
            return
        places = turn_end.new_elsewhere(self._elsewhere, turn_end.elsewhere(self._git))
        changed = turn_end.changed_inside(self._submodules, turn_end.submodules(self._git))
        self._say("left_out", turn_end.left_out(places, turn_end.left_inside(self._git, changed)))

    def _say(self, event_type: str, told: str) -> None:
        if told:
            self.journal.say(told)
            self.journal.event(event_type, message=told)

    def _began_turn(self, request: TurnRequest, process: Mapping[str, object], said: Sequence[PersonMessage]) -> None:
        request.on_started(process)
        for each in said:
            self._messages.delivered(each)
        self._note_said(said)

    def _note_said(self, said: Sequence[PersonMessage]) -> None:
        for each in said:
            text = redact(each.text)
            self.journal.say(f"Sent the agent a message from {each.by}: {text}")
            self.journal.event("person_said", message=f"{each.by}: {text}")
        told = [{"at": each.at, "by": each.by, "text": redact(each.text)} for each in said]
        spoken = (f"{each['by']} said: {each['text']}" for each in told)
        self.so_far = replace(
            self.so_far,
            interventions=(*self.so_far.interventions, *spoken),
            told=(*self.so_far.told, *told),
        )

    def _hear(self, request: TurnRequest, event: Event) -> None:
        if isinstance(event, Usage):
            if self._is_metered:
                host.note_input(self.agent.account, event.input_tokens + event.cache_write_tokens)
            used = self._used_now = usage.add(self._used_now, event, request.brief.model)
            tokens = {"input": used.input_tokens, "output": used.output_tokens, "cached": used.cached_tokens}
            model = event.model or (request.brief.model if request.brief.model_chosen else None)
            self.now.used(tokens, used.cost_usd, model=model)
            if model and model not in self.so_far.models:
                self.so_far = replace(self.so_far, models=(*self.so_far.models, model))
        elif isinstance(event, Text) and event.text.startswith(CLIENT_TRIES_AGAIN):
            said = redact(event.text.partition("\n")[0].strip("[]"))
            told = f"The agent client waits and tries again automatically: {said}."
            self.journal.say(told)  # else it would be a silence of minutes
            self.journal.event("client_retry", message=told)
        elif isinstance(event, Text):
            self.now.said(event.text)
        elif isinstance(event, ToolCall):
            self.now.said(f"$ {event.input.get('command') or event.name}")
        if request.on_event is not None:
            request.on_event(event)

    def _stop_requested(self) -> str | None:
        self.now.tick()
        asked = (self.stop_requested or self.stop.requested)()
        if asked and not (self._told_to_stop or self.stop.signalled):
            self._told_to_stop = True
            self.journal.say("Stopping after the agent's current operation.")
        return asked

    def _add(self, outcome: Outcome) -> None:
        told = [f"told: {text}" for text in outcome.steered]
        told += [f"{outcome.reason}: {outcome.message}"] if outcome.reason in _ENDED_BY_MONITOR else []
        self.so_far = replace(
            self.so_far,
            conversation=outcome.conversation,
            message=outcome.message,
            evidence_shown=self.so_far.evidence_shown or outcome.evidence_shown,
            used=usage.merge(self.so_far.used, outcome.usage),
            turns=self.so_far.turns + 1,
            interventions=(*self.so_far.interventions, *told),
        )
        for kind, texts in (("agent_steered", outcome.steered), ("agent_not_told", outcome.not_delivered)):
            for text in texts:
                self.journal.event(kind, message=text)
        self._note_said(outcome.said)
        if outcome.reason not in _SAID_ELSEWHERE:
            self.journal.say(outcome.message)


Ended = TypeVar("Ended")
JudgementT = TypeVar("JudgementT", bound=Judgement)


def walk(work: Work[Ended, JudgementT], turns: Turns) -> Ended:
    """Run turns until the work is accepted, rejected or unfinished. Return the session's result."""
    turns.now.phase("preflight")
    try:
        return _until_decided(work, turns)
    finally:
        turns.now.close()


def _until_decided(work: Work[Ended, JudgementT], turns: Turns) -> Ended:
    prompt = work.brief(None)
    while True:
        ending = turns.run(work, prompt)
        turns.now.phase("judging")
        closed = work.closed()
        if closed is not None:
            return closed
        if ending is not None and not (work.policy.judges_cut_off and ending.reason in JUDGED_WHEN_CUT_OFF):
            turns.now.phase("settling")
            return work.unfinished(ending)
        ruling = work.ruling(turns.so_far, ending)
        turns.now.phase("settling")
        if ruling is None:
            return work.unfinished(ending or Ending(reason="no_claim"))
        if ruling.accepted:
            return work.accepted(ruling)
        if ruling.asks and turns.so_far.asked:
            return work.unfinished(Ending(reason="no_evidence"))
        cut_off = ending is not None and ending.reason != "error"
        last = not ruling.asks and turns.so_far.fix_rounds >= work.policy.fix_rounds
        if ruling.final or cut_off or last:
            return work.rejected(ruling, ending)
        turns.next_round(asked=ruling.asks)
        prompt = work.brief(ruling)


JUDGED_WHEN_CUT_OFF = frozenset({"context_limit", "timeout", "stuck", "budget_exceeded", "over_limit", "error"})
"""Reasons for cutting off a turn after which the work may still be verified. A user's pause and a provider failure are
not included.
"""
