"""How the kinds of work differ, as one literal table; whatever is not in it is the same for all of them.

    kind      fix rounds   rate limit   cut off      unfinished work
    feature   3            waits        handed off   a local WIP commit, continued by the next session
    cleanup   0            waits        handed off   all of it goes back, kept in a rescue ref
    plan      1            waits        refused      stays in the folder, for the same command again
    task      2            ends         judged       all of it goes back, kept in a rescue ref
    slice     0            ends         judged       stays; the checkpoint says how far it came

All of them have the five monitors, the retry table for providers, the limit on silence, the transcript, the recording
and the budget. A run that dispatches, or a scheduler, waits out what "ends" in the table, and holds nothing meanwhile.
Source: docs/architecture.md, "The way of a session".
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

__all__ = ["POLICIES", "Policy"]

Kind = Literal["feature", "cleanup", "plan", "task", "slice"]


ALL_RETRIED = frozenset({"rate_limited", "overloaded", "network", "no_response", "malformed"})
"""What a session may be kept open for, by ``provider_retry``."""


@dataclass(frozen=True, kw_only=True)
class Policy:
    """One row of the table; a protocol's settings replace ``fix_rounds``."""

    kind: Kind
    fix_rounds: int  # further turns in which the agent may repair what was refused
    retried: frozenset[str] = ALL_RETRIED  # failures of the provider after which a turn is tried again
    judges_cut_off: bool  # work that a monitor ended is judged like work that the agent ended
    unfinished: Literal["wip", "restored", "stays"]  # what becomes of work that is neither accepted nor rejected


RUN_WAITS = ALL_RETRIED - {"rate_limited"}
SCHEDULER_WAITS = ALL_RETRIED - {"rate_limited", "overloaded"}

POLICIES: Mapping[str, Policy] = {
    "feature": Policy(kind="feature", fix_rounds=3, judges_cut_off=False, unfinished="wip"),
    "cleanup": Policy(kind="cleanup", fix_rounds=0, judges_cut_off=False, unfinished="restored"),
    "plan": Policy(kind="plan", fix_rounds=1, judges_cut_off=False, unfinished="stays"),
    "task": Policy(kind="task", fix_rounds=2, judges_cut_off=True, unfinished="restored", retried=RUN_WAITS),
    "slice": Policy(kind="slice", fix_rounds=0, judges_cut_off=True, unfinished="stays", retried=SCHEDULER_WAITS),
}
