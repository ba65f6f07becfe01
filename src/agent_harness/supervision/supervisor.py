"""Supervision of one agent turn, from its start to its ``Outcome``. When the turn ends, all its processes have ended.

An agent that cannot be steered gets no messages. ``Outcome.not_delivered`` lists the undelivered messages. Such an
agent is stopped only at the hard limits (context 100 %, timeout, budget, the second stuck check). Source: features.md
UAH-328..356, C18, C27."""

import re
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from agent_harness.agents import usage
from agent_harness.agents.base import Agent, Brief, Turn
from agent_harness.agents.events import Event, Finished, RateLimited, Text, ToolCall, ToolResult, Usage
from agent_harness.agents.markers import run_result
from agent_harness.errors import HarnessError
from agent_harness.kernel import clock
from agent_harness.kernel.rate_limits import LimitClock, RateLimit
from agent_harness.kernel.redact import redact
from agent_harness.supervision.messages import PersonMessage, PersonsMessages
from agent_harness.supervision.monitors import NO_FACTS, Intervention, Monitor, ProjectFacts, Watch
from agent_harness.supervision.recording import KeyMask, Recording, TextTail, Transcript

TRANSCRIPT_BYTES = 8_000_000


@dataclass(frozen=True, slots=True)
class Evidence:
    """Evidence in the agent's output that a test file was run."""

    test_file: str  # as the feature names it; a ``::node`` part does not belong to the file's name
    suite: str = ""  # the command of a suite that contains the file, even if its output does not name the file
    named: bool = False
    result: str | None = None  # e.g. "4 passed in 0.12s"

    @property
    def shown(self) -> bool:
        """True if the output contains the test file's name and a test runner's result line."""
        return self.named and self.result is not None

    @property
    def passed(self) -> bool:
        return " passed" in f" {self.result or ''}" and not re.search(r"failed|error", self.result or "")

    def after(self, event: Event) -> "Evidence":
        if isinstance(event, ToolCall):
            texts = [value for value in event.input.values() if isinstance(value, str)]
            return self._naming("\n".join(texts)) if not self.named else self
        text = event.text if isinstance(event, Text) else event.output if isinstance(event, ToolResult) else ""
        results = [result for result in map(run_result, text.split("\n")) if result]
        return (replace(self, result=results[-1]) if results else self)._naming(text)

    def _naming(self, text: str) -> "Evidence":
        path = self.test_file.split("::", 1)[0].removeprefix("./")
        if self.named or not path:
            return self
        found = path in text and re.search(rf"(?<![\w-]){re.escape(path)}(?!\w)", text)
        return replace(self, named=True) if found or self._starts_suite(text) else self

    def _starts_suite(self, text: str) -> bool:
        """Return True if a line of ``text`` starts the command of the suite. Its options may differ."""
        suite = _without_options(self.suite)
        return bool(suite) and suite[0] in text and any(_without_options(each) == suite for each in _PARTS.split(text))


_PARTS = re.compile(r"&&|[;|\n]")


def _without_options(command: str) -> list[str]:
    command = command.removeprefix("[CMD:RUN]").strip(" \t$>`")
    return [word for word in command.split() if not word.startswith(("-", "2>", ">"))]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """Result and usage of one turn. An ``Outcome`` does not say whether the work is good.

    ``reason`` is one of:

          finished          the agent ended by itself; ``ok`` is False if it failed
          rate_limited      the provider refused the agent's requests
          context_limit     the context window was full
          timeout           the time limit was reached
          stuck             the session made no progress
          budget_exceeded   a cost limit was exceeded
          user_pause        the user requested a pause or a stop
          no_response       the agent was silent for too long
          over_limit        the agent used more of the machine's resources than allowed
          error             the adapter failed"""

    reason: str
    ok: bool  # finished by itself, and well
    exit_code: int | None
    message: str
    usage: usage.Totals
    steered: tuple[str, ...]  # messages that the agent got
    not_delivered: tuple[str, ...]  # messages that it should have got
    text_tail: str  # the last text, redacted
    evidence: Evidence | None
    rate_limit: RateLimited | None  # the last refusal, with the moment of the reset if it is known
    conversation: str | None
    seconds: float  # real ones
    problems: tuple[str, ...]  # what could not be written or found out on the way
    said: tuple[PersonMessage, ...] = ()  # messages of a person that it got
    limit: RateLimit | None = None  # until when the agent's account is refused, as the durable clock has it

    @property
    def evidence_shown(self) -> bool:
        return self.evidence is not None and self.evidence.shown


def supervise(
    agent: Agent,
    brief: Brief,
    *,
    monitors: Sequence[Monitor[Any]] | Watch,
    transcript: Path,
    on_started: Callable[[Mapping[str, object]], None],  # gets the process record before any event is read
    # Called once a second; a text ends the turn. After ``user_pause``, an open tool call may end first.
    stop_requested: Callable[[], str | None] = lambda: None,
    facts: Callable[[], ProjectFacts] = lambda: NO_FACTS,  # called only if a monitor needs the changed files
    on_event: Callable[[Event], None] | None = None,
    test_file: str | None = None,
    suite: str = "",
    wrap_up_seconds: float = 120.0,
    grace_seconds: float = 5.0,
    session_began: float | None = None,  # of ``time.monotonic``; the same for all turns of a session
    silence_seconds: float | None = None,  # without an event or an open tool call, until the turn ends
    recording: Recording | None = None,
    messages: PersonsMessages | None = None,  # sent within a second to an agent that can be steered
) -> Outcome:
    """Run one agent turn, and return the outcome after all agent processes have exited."""
    # a refusal that ends the turn goes to the rate-limit clock; a successful turn removes it
    began_at = clock.now()
    watch = monitors if isinstance(monitors, Watch) else Watch(monitors)
    if recording is not None:
        recording.begin(agent.name, brief)
    turn = agent.start(brief)
    try:
        on_started(turn.process or {})
        with closing(Transcript(transcript, TRANSCRIPT_BYTES)) as record:
            terms = TurnTerms(
                steerable=agent.capabilities.steer,
                interruptible=agent.capabilities.interrupt,
                watch=watch,
                transcript=record,
                recording=recording,
                on_event=on_event,
                facts=facts,
                stop_requested=stop_requested,
                wrap_up_seconds=clock.scaled(wrap_up_seconds),
                grace_seconds=grace_seconds,
                session_began=session_began,
                silence_seconds=None if silence_seconds is None else clock.scaled(silence_seconds),
                messages=messages or PersonsMessages(None),
            )
            outcome = Listening(turn, terms, Heard(brief.model, test_file, suite)).to_the_end()
    finally:
        turn.stop(grace_seconds)
    outcome = _kept(agent.account, outcome, began_at)
    if recording is None:
        return outcome
    recording.close(outcome.reason, ok=outcome.ok, message=outcome.message)
    return replace(outcome, problems=(*outcome.problems, recording.problem)) if recording.problem else outcome


def _kept(account: str, outcome: Outcome, began_at: datetime) -> Outcome:
    """Update the account's stored rate limit after a turn, and return the outcome."""
    if outcome.ok:
        LimitClock().forget(account, noted_before=began_at)
    refused = outcome.rate_limit
    if outcome.reason != "rate_limited" or refused is None:
        return outcome
    limit = LimitClock().note(
        account,
        said=refused.message or outcome.message,
        resets_at=refused.resets_at,
        retry_after_seconds=refused.retry_after_seconds,
    )
    return replace(outcome, limit=limit)


SILENT_TEXT = "The agent showed no activity for {seconds:g} s."


class Silence:
    """Limit on the time without events, except during an open tool call."""

    def __init__(self, limit_seconds: float | None, now: float) -> None:
        self._limit = limit_seconds
        self._since = now
        self._working = False

    def heard(self, now: float, *, open_calls: int) -> None:
        self._since = now
        self._working = open_calls > 0

    @property
    def ends_at(self) -> float | None:
        """Time (``time.monotonic``) at which the silence exceeds its limit, or None."""
        return None if self._limit is None or self._working else self._since + self._limit


TAIL_CHARACTERS = 8192


class Heard:
    """State of a turn so far, from the events of the agent."""

    def __init__(self, model: str | None, test_file: str | None, suite: str) -> None:
        self._model = model
        self._tail = TextTail(TAIL_CHARACTERS)
        self._tail_mask = KeyMask()
        self._said_since = self._worked_since = False  # since the refusal
        self.evidence = Evidence(test_file, suite) if test_file else None
        self.totals = usage.Totals()
        self.open_calls = 0
        self.refused: RateLimited | None = None  # the last refusal of the provider
        self.finished: Finished | None = None

    def take(self, event: Event) -> None:
        if self.evidence is not None:
            self.evidence = self.evidence.after(event)
        if isinstance(event, Text):
            self._said_since = True
            self._tail.add(self._tail_mask.mask(event.text))
        elif isinstance(event, Usage):
            self.totals = usage.add(self.totals, event, self._model)
        elif isinstance(event, ToolCall):
            self._worked_since = True
            self.open_calls += 1
        elif isinstance(event, ToolResult):
            self._worked_since = True
            self.open_calls = max(0, self.open_calls - 1)
        elif isinstance(event, RateLimited):
            self.refused = _with_reset(event)
            self._said_since = self._worked_since = False
        else:
            self.finished = event

    def tail(self) -> str:
        """Return the end of the agent's text, with secrets redacted."""
        return self._tail.text()

    def own_ending(self) -> tuple[str, str]:
        """Return the reason and the message for a turn that the agent ended itself."""
        # ``rate_limited``: the agent did not continue to work after the refusal
        finished = self.finished
        if finished is None:
            return "error", "the agent exited without ending its turn"
        went_on = self._worked_since or (finished.ok and self._said_since)
        if self.refused is not None and not went_on:
            return "rate_limited", self.refused.message or finished.message or "the provider refuses requests for now"
        if finished.ok:
            return "finished", finished.message
        last_line = self.tail().strip().rsplit("\n", 1)[-1][:500]
        return "finished", finished.message or last_line or "the agent gave no reason"


def _with_reset(refused: RateLimited) -> RateLimited:
    # computed from the waiting time, if the provider reported only that
    if clock.parse(refused.resets_at) or refused.retry_after_seconds is None:
        return refused
    seconds = min(refused.retry_after_seconds, 366 * 86_400.0)
    return replace(refused, resets_at=clock.timestamp(clock.now() + timedelta(seconds=seconds)))


PAUSE = "user_pause"  # the one request that lets the operation at hand end first
POLL_SECONDS = 1.0  # how long a request to stop may go unseen
_DRAINED_EVENTS = 20_000  # read after a stop at most: more than the buffers of a dead agent hold


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnTerms:
    """Settings of one turn. Durations are already scaled by ``HARNESS_TIME_SCALE``."""

    steerable: bool
    interruptible: bool
    watch: Watch
    transcript: Transcript
    recording: Recording | None
    on_event: Callable[[Event], None] | None
    facts: Callable[[], ProjectFacts]
    stop_requested: Callable[[], str | None]
    wrap_up_seconds: float
    grace_seconds: float
    session_began: float | None  # of the monotonic clock; ``None`` means with this turn
    silence_seconds: float | None
    messages: PersonsMessages


class Listening:
    def __init__(self, turn: Turn, terms: TurnTerms, heard: Heard) -> None:
        self._turn = turn
        self._terms = terms
        self._heard = heard
        self._started = time.monotonic()
        self._began = self._started if terms.session_began is None else terms.session_began
        self._silence = Silence(terms.silence_seconds, self._started)
        self._facts = NO_FACTS
        self._steered: list[str] = []
        self._not_delivered: list[str] = []
        self._said: list[PersonMessage] = []
        self._problems: list[str] = []
        self._ending: tuple[str, str] | None = None  # reason and message, once the end is requested
        self._must_end_at: float | None = None  # of the monotonic clock, once the end is near
        self._next_poll = self._started

    def to_the_end(self) -> Outcome:
        try:
            self._listen()
        except HarnessError as error:
            self._ending = ("error", error.message)
            self._problems.append(error.message)
        if self._heard.finished is None:
            self._end_it()
        return self._outcome()

    # -- listening -------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        while not self._over():
            event = self._turn.next_event(self._wait())
            if event is not None:
                self._see(event)
            if self._heard.finished is None:
                self._mind_silence(event)
                if self._terms.watch.wants_facts(event):
                    self._facts = self._fresh_facts()
                for intervention in self._terms.watch.step(event, self._at(), self._facts):
                    self._answer(intervention)
                self._poll()

    def _over(self) -> bool:
        if self._heard.finished is not None or self._turn.ended:
            return True
        return self._must_end_at is not None and time.monotonic() >= self._must_end_at

    def _mind_silence(self, event: Event | None) -> None:
        now = time.monotonic()
        if event is not None:
            self._silence.heard(now, open_calls=self._heard.open_calls)
        ends_at = self._silence_ends()
        if ends_at is not None and now >= ends_at:
            self._stop(
                "no_response", SILENT_TEXT.format(seconds=(self._terms.silence_seconds or 0) / clock.time_scale())
            )

    def _silence_ends(self) -> float | None:
        return self._silence.ends_at if self._ending is None else None

    def _at(self) -> float:
        return (time.monotonic() - self._began) / clock.time_scale()

    def _wait(self) -> float:
        now = time.monotonic()
        ends = [self._next_poll - now]
        deadline = self._terms.watch.deadline()
        if deadline is not None:
            ends.append((deadline - self._at()) * clock.time_scale() + 0.001)
        ends.extend(at - now for at in (self._must_end_at, self._silence_ends()) if at is not None)
        return max(0.0, min(ends))

    def _fresh_facts(self) -> ProjectFacts:
        try:
            return self._terms.facts()
        except HarnessError as error:
            self._problems.append(f"the changed files are not known: {error.message}")
            return self._facts

    def _see(self, event: Event) -> None:
        self._terms.transcript.event(event)
        if self._terms.recording is not None:
            self._terms.recording.event(event)
        self._heard.take(event)
        paused = self._ending is not None and self._ending[0] == PAUSE
        if paused and isinstance(event, ToolResult) and not self._heard.open_calls:
            self._must_end_at = time.monotonic()
        if self._terms.on_event is not None:
            self._terms.on_event(event)

    # -- answering -------------------------------------------------------------------------------------------------

    def _answer(self, asked: Intervention) -> None:
        if asked.kind == "stop":
            self._stop(asked.reason, asked.message)
            return
        delivered = self._tell(asked.message)
        if asked.final:
            self._ending = (asked.reason, asked.message)
            self._must_end_at = time.monotonic() + (self._terms.wrap_up_seconds if delivered else 0.0)

    def _tell(self, message: str) -> bool:
        delivered = self._terms.steerable and self._turn.steer(message)
        (self._steered if delivered else self._not_delivered).append(message)
        self._terms.transcript.note(f"{'to the agent' if delivered else 'not delivered'}: {message}")
        if delivered and self._terms.recording is not None:
            self._terms.recording.told(message)
        return delivered

    def _stop(self, reason: str, message: str) -> None:
        self._ending = (reason, message)
        self._must_end_at = time.monotonic()

    def _poll(self) -> None:
        now = time.monotonic()
        if now < self._next_poll:
            return
        self._next_poll = now + POLL_SECONDS
        request = self._terms.stop_requested()
        if self._terms.steerable and self._ending is None and request is None:
            self._pass_on()
        if request is None or (PAUSE, request) == self._ending:
            return
        self._stop(PAUSE, request)
        if request == PAUSE and self._heard.open_calls:
            self._must_end_at = now + self._terms.wrap_up_seconds

    def _pass_on(self) -> None:
        """Send pending messages to the agent in order, until the agent does not accept a message."""
        for message in self._terms.messages.waiting():
            if not self._turn.steer(message.told):
                return
            self._terms.messages.delivered(message)
            self._said.append(message)
            self._terms.transcript.note(f"to the agent: {message.told}")
            if self._terms.recording is not None:
                self._terms.recording.told(message.told)

    # -- ending ----------------------------------------------------------------------------------------------------

    def _end_it(self) -> None:
        self._terms.transcript.note("stopping the agent" + (f": {self._ending[1]}" if self._ending else ""))
        if self._terms.interruptible and not self._turn.ended and self._turn.interrupt():
            self._listen_on(time.monotonic() + self._terms.grace_seconds)
        with suppress(HarnessError):
            self._turn.stop(self._terms.grace_seconds)
            for _ in range(_DRAINED_EVENTS):
                event = None if self._heard.finished else self._turn.next_event(0.0)
                if event is None:
                    break
                self._see(event)

    def _listen_on(self, until: float) -> None:
        with suppress(HarnessError):
            while self._heard.finished is None and not self._turn.ended and time.monotonic() < until:
                event = self._turn.next_event(max(0.0, until - time.monotonic()))
                if event is not None:
                    self._see(event)

    def _outcome(self) -> Outcome:
        finished = self._heard.finished
        reason, message = self._ending or self._heard.own_ending()
        if self._ending is None and self._turn.over_limit and not (finished and finished.ok):
            reason, message = "over_limit", f"The agent {self._turn.over_limit}, and was stopped."
        written = self._terms.transcript.problem
        problems = [*self._problems, *([written] if written else [])]
        return Outcome(
            reason=reason,
            ok=reason == "finished" and finished is not None and finished.ok,
            exit_code=finished.exit_code if finished else None,
            message=redact(message),
            usage=self._heard.totals,
            steered=tuple(self._steered),
            not_delivered=tuple(self._not_delivered),
            said=tuple(self._said),
            text_tail=self._heard.tail(),
            evidence=self._heard.evidence,
            rate_limit=self._heard.refused,
            conversation=self._turn.conversation,
            seconds=time.monotonic() - self._started,
            problems=tuple(dict.fromkeys(problems)),
        )
