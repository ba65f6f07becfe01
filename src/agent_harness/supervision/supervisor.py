"""One turn of an agent under watch, from its start to its Outcome; nothing of it runs on afterwards.

The supervisor degrades, it does not pretend. An agent that cannot be steered is told nothing: what it should have been
told is in ``Outcome.not_delivered``, and it is stopped at the hard limits only (context 100 %, timeout, budget, the
second stuck check). Source: features.md UAH-328..356, C18, C27.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from agent_harness.agents.base import Agent, Brief
from agent_harness.agents.events import Event
from agent_harness.kernel import clock
from agent_harness.kernel.rate_limits import LimitClock
from agent_harness.supervision.monitors import NO_FACTS, Monitor, ProjectFacts, Watch
from agent_harness.supervision.outcome import Outcome
from agent_harness.supervision.recording import Recording
from agent_harness.supervision.transcript import Transcript
from agent_harness.supervision.turn_loop import Heard, Listening, TurnTerms


def supervise(
    agent: Agent,
    brief: Brief,
    *,
    monitors: Sequence[Monitor[Any]] | Watch,
    transcript: Path,
    on_started: Callable[[Mapping[str, object]], None],
    stop_requested: Callable[[], str | None] = lambda: None,
    facts: Callable[[], ProjectFacts] = lambda: NO_FACTS,
    on_event: Callable[[Event], None] | None = None,
    test_file: str | None = None,
    transcript_limit_bytes: int = 8_000_000,
    wrap_up_seconds: float = 120.0,
    grace_seconds: float = 5.0,
    session_began: float | None = None,
    silence_seconds: float | None = None,
    recording: Recording | None = None,
) -> Outcome:
    """Runs one turn to its end; the agent and all its processes are gone when this returns or raises.

    ``on_started`` gets the process record before any event is read. ``stop_requested`` is asked about once a second: a
    text ends the turn with reason ``user_pause``, and the text ``user_pause`` lets a tool call that is open end first,
    for ``wrap_up_seconds`` at most. ``facts`` is asked only when a monitor needs it. Hand in one ``Watch`` and
    ``session_began`` (of ``time.monotonic``) for all turns of a session, and one ``recording`` where it is to leave
    one. After ``silence_seconds`` without an event, while no tool call is open, the turn ends with reason
    ``no_response``. ``HARNESS_TIME_SCALE`` applies to the clock that monitors see and to this limit. A refusal of the
    provider that ends the turn is kept in the clock of the user (``kernel/rate_limits.py``), and forgotten by a turn
    that ends well. Raises what ``agent.start`` raises.
    """
    began_at = clock.now()
    watch = monitors if isinstance(monitors, Watch) else Watch(monitors)
    if recording is not None:
        recording.begin(agent.name, brief)
    turn = agent.start(brief)
    try:
        on_started(turn.process or {})
        with closing(Transcript(transcript, transcript_limit_bytes)) as record:
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
            )
            outcome = Listening(turn, terms, Heard(brief.model, test_file)).to_the_end()
    finally:
        turn.stop(grace_seconds)
    return _recorded(_kept(agent.account, outcome, began_at), recording)


def _recorded(outcome: Outcome, recording: Recording | None) -> Outcome:
    if recording is None:
        return outcome
    recording.close(outcome.reason, ok=outcome.ok, message=outcome.message)
    return replace(outcome, problems=(*outcome.problems, recording.problem)) if recording.problem else outcome


def _kept(account: str, outcome: Outcome, began_at: datetime) -> Outcome:
    """The outcome, once the clock of limits knows what it says about the account."""
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
