"""The turns of one session's agent: each under all monitors, tried again while the provider does not serve it.

The only caller of ``supervise``. Source: docs/architecture.md; ``features.md`` sections K, N, Q, R.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from agent_harness.agents import usage
from agent_harness.agents.base import Agent
from agent_harness.session import provider_retry
from agent_harness.session.journal import Journal
from agent_harness.session.provider_retry import ProviderRetry
from agent_harness.session.work import Ending, TurnSoFar, Work
from agent_harness.supervision.interruption import Stop
from agent_harness.supervision.monitors import Watch
from agent_harness.supervision.outcome import Outcome
from agent_harness.supervision.recording import Recording
from agent_harness.supervision.supervisor import supervise

__all__ = ["AGAIN", "TRANSCRIPT_BYTES", "Turns"]

TRANSCRIPT_BYTES = 8_000_000
_SAID_ELSEWHERE = frozenset({"finished", "user_pause", "rate_limited", "no_response"})


AGAIN = """\
Your last turn was cut off before it ended, by no fault of yours. What you did in it is still there: look at
`git status`, `git log` and the files first, and go on from there.
"""


@dataclass(kw_only=True)
class Turns:
    """Runs the turns of one session and adds them up; one of these lives as long as its session."""

    agent: Agent
    journal: Journal
    stop: Stop
    watch: Watch
    transcript: Path
    timeout_seconds: float  # of the session; no wait for a provider goes beyond it
    spare: bool = False  # another agent can take over from one that is refused
    recording: Recording | None = None
    silence_seconds: float | None = None  # see ``provider_retry.silence_seconds``
    stop_requested: Callable[[], str | None] | None = None  # in place of the signal's, for a lease that may be lost
    grace_seconds: float = 5.0
    began: float = field(default_factory=time.monotonic)  # of the monotonic clock
    so_far: TurnSoFar = field(default_factory=TurnSoFar)

    def __post_init__(self) -> None:
        self._retry = ProviderRetry(self.journal, self.stop, self.began, self.timeout_seconds, self.spare)

    def next_round(self, *, asked: bool) -> None:
        """The next turn is a fix round, or the one in which the agent shows what its claim needs."""
        if asked:
            self.so_far = replace(self.so_far, asked=True)
        else:
            self.so_far = replace(self.so_far, fix_rounds=self.so_far.fix_rounds + 1)

    def run(self, work: Work[Any, Any], prompt: str) -> Ending | None:
        """Runs the agent on a prompt; ``None`` when it ended its turn by itself, else why the session ends here.

        A turn that ended badly, or that the provider did not serve to its end, counts as ended when the agent has
        claimed its work in it. The agent's processes are gone when this returns or raises.
        """
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
        return None if work.claimed() else Ending(reason="error", message=outcome.message, outcome=outcome)

    def _supervised(self, work: Work[Any, Any], prompt: str, *, again: bool) -> Outcome:
        request = work.request(prompt, self.so_far)
        if again and request.facts().changed:  # the turn that was cut off has left work
            request = replace(request, brief=replace(request.brief, prompt=AGAIN + prompt))
        with self.stop.listening():
            outcome = supervise(
                self.agent,
                request.brief,
                monitors=self.watch,
                transcript=self.transcript,
                transcript_limit_bytes=TRANSCRIPT_BYTES,
                on_started=request.on_started,
                stop_requested=self.stop_requested or self.stop.requested,
                facts=request.facts,
                on_event=request.on_event,
                test_file=request.test_file,
                session_began=self.began,
                silence_seconds=self.silence_seconds,
                recording=self.recording,
                grace_seconds=self.grace_seconds,
            )
        request.on_ended(outcome)
        self._add(outcome)
        return outcome

    def _add(self, outcome: Outcome) -> None:
        self.so_far = replace(
            self.so_far,
            conversation=outcome.conversation,
            message=outcome.message,
            evidence_shown=self.so_far.evidence_shown or outcome.evidence_shown,
            used=usage.merge(self.so_far.used, outcome.usage),
        )
        for kind, texts in (("agent_steered", outcome.steered), ("agent_not_told", outcome.not_delivered)):
            for text in texts:
                self.journal.event(kind, message=text)
        if outcome.reason not in _SAID_ELSEWHERE:
            self.journal.say(outcome.message)
