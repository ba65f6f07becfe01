"""The one way that every session goes, whatever it works on.

    brief -> turn -> closed? -> cut off? -> ruling -> accepted | fix round | rejected | unfinished

Source: docs/architecture.md, "The way of a session"; ``features.md`` C03; ``tasklist.md`` 12.
"""

from typing import TypeVar

from agent_harness.session.turn import Turns
from agent_harness.session.work import Ending, Judgement, Work

__all__ = ["walk"]

Ended = TypeVar("Ended")
JudgementT = TypeVar("JudgementT", bound=Judgement)


def walk(work: Work[Ended, JudgementT], turns: Turns) -> Ended:
    """Runs turns of the agent until one of them decides; exactly one of the work's settlements has run by then.

    A turn that was cut off ends the session, unless the policy has such work judged; then no further turn follows. A
    refusal that is not final goes back to the agent while fix rounds are left; a claim that lacks only what the agent
    must show is asked for that once.
    """
    prompt = work.brief(None)
    while True:
        ending = turns.run(work, prompt)
        closed = work.closed()
        if closed is not None:
            return closed
        if ending is not None and not (work.policy.judges_cut_off and ending.reason in JUDGED_WHEN_CUT_OFF):
            return work.unfinished(ending)
        ruling = work.ruling(turns.so_far, ending)
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


JUDGED_WHEN_CUT_OFF = frozenset({"context_limit", "timeout", "stuck", "budget_exceeded", "error"})
"""Endings that say nothing about the work itself; a person's pause and a provider that refuses are never judged."""
