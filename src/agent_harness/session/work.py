"""Interface of one piece of work, which each protocol implements, and the differences between kinds of work.

    kind      fix rounds   rate limit   cut off      unfinished work
    feature   3            waits        handed off   a local WIP commit, continued by the next session
    cleanup   0            waits        handed off   all of it is rolled back, kept in a rescue ref
    plan      1            waits        rejected     stays in the folder, for the same command again
    review    0            ends         reported     none: its folder is thrown away
    task      2            ends         verified     all of it is rolled back, kept in a rescue ref
    slice     0            ends         verified     stays; the checkpoint has its progress

All kinds have the five monitors, the retry table for providers, the transcript, the recording and the budget. The
column "cut off" describes work whose turn a monitor ended. If the table says "ends" for a rate limit, the session ends.
The run or scheduler then waits without a lock. Source: docs/architecture.md, "The way of a session"."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol, TypeVar

from agent_harness.agents.base import Brief
from agent_harness.agents.events import Event
from agent_harness.agents.usage import Totals
from agent_harness.kernel.json import JsonObject
from agent_harness.session.provider_retry import ALL_RETRIED, ProviderFailure
from agent_harness.supervision.monitors import NO_FACTS, ProjectFacts
from agent_harness.supervision.supervisor import Outcome

__all__ = ["Ending", "Judgement", "POLICIES", "Policy", "TurnRequest", "TurnSoFar", "Work"]

Ended_co = TypeVar("Ended_co", covariant=True)
Kind = Literal["feature", "cleanup", "plan", "review", "task", "slice"]


@dataclass(frozen=True, kw_only=True)
class Policy:
    """Rules that differ between kinds of work."""

    kind: Kind
    fix_rounds: int  # further turns in which the agent may repair rejected work
    retried: frozenset[str] = ALL_RETRIED  # failures of the provider after which a turn is tried again
    judges_cut_off: bool  # work that a monitor ended is verified like work that the agent ended
    unfinished: Literal["wip", "restored", "stays"]  # what becomes of work that is neither accepted nor rejected


RUN_WAITS = ALL_RETRIED - {"rate_limited"}
SCHEDULER_WAITS = ALL_RETRIED - {"rate_limited", "overloaded"}

POLICIES: Mapping[str, Policy] = {
    "feature": Policy(kind="feature", fix_rounds=3, judges_cut_off=False, unfinished="wip"),
    "cleanup": Policy(kind="cleanup", fix_rounds=0, judges_cut_off=False, unfinished="restored"),
    "plan": Policy(kind="plan", fix_rounds=1, judges_cut_off=False, unfinished="stays"),
    "review": Policy(kind="review", fix_rounds=0, judges_cut_off=False, unfinished="stays", retried=SCHEDULER_WAITS),
    "task": Policy(kind="task", fix_rounds=2, judges_cut_off=True, unfinished="restored", retried=RUN_WAITS),
    "slice": Policy(kind="slice", fix_rounds=0, judges_cut_off=True, unfinished="stays", retried=SCHEDULER_WAITS),
}


class Judgement(Protocol):
    @property
    def accepted(self) -> bool: ...

    @property
    def final(self) -> bool:
        """True if the agent gets no further turn to fix the work."""
        ...

    @property
    def asks(self) -> bool:
        """True if only a demonstration is missing, which the harness requests once."""
        ...


JudgementT = TypeVar("JudgementT", bound=Judgement)


@dataclass(frozen=True, kw_only=True)
class Ending:
    """Reason why a session ends before its work is accepted or rejected.

    ``reason`` is a value of ``Outcome.reason`` or one of these:

        error          the agent failed and left nothing to verify
        refused        the provider refused the agent
        overloaded     the provider was overloaded
        rate_limited   the provider limited the request rate
        no_claim       the agent ended normally without claiming its work
        no_evidence    the agent was asked to demonstrate its claim and did not"""

    reason: str
    message: str = ""
    outcome: Outcome | None = None
    provider: ProviderFailure | None = None


@dataclass(frozen=True, kw_only=True)
class TurnSoFar:
    fix_rounds: int = 0  # in which the agent was to repair rejected work
    asked: bool = False  # whether it was asked to show what its claim needs
    conversation: str | None = None  # reported by the latest turn, for agents that resume
    message: str = ""  # with which the latest turn ended
    evidence_shown: bool = False  # in any of the turns
    used: Totals = field(default_factory=Totals)
    turns: int = 0  # starts of the agent, also those that were tried again
    models: tuple[str, ...] = ()  # that the agent says it has used
    interventions: tuple[str, ...] = ()  # messages of monitors to it, and reasons of ended turns
    told: tuple[JsonObject, ...] = ()  # messages of a person to it: time, name and text, secrets masked

    @property
    def model(self) -> str | list[str] | None:
        """Name of the model that the session used, or a list of several names."""
        return list(self.models) if len(self.models) > 1 else next(iter(self.models), None)

    @property
    def round(self) -> int:
        """Number of the turn's round, counted from 0."""
        return self.fix_rounds + self.asked


@dataclass(frozen=True, kw_only=True)
class TurnRequest:
    """Request for one turn of the agent."""

    brief: Brief
    on_started: Callable[[Mapping[str, object]], None] = lambda _process: (
        None
    )  # gets the process record, before any event
    on_event: Callable[[Event], None] | None = None
    on_ended: Callable[[Outcome], None] = lambda _outcome: None
    facts: Callable[[], ProjectFacts] = lambda: NO_FACTS  # the changed files, for the stall monitor
    test_file: str | None = None  # whose run counts as evidence
    suite: str = ""  # the command of a suite that contains this file


class Work(Protocol[Ended_co, JudgementT]):
    """One piece of work for an agent: a feature, cleanup, plan, review, task or slice of a long task."""

    @property
    def name(self) -> str:
        """Name of the piece of work in messages, such as "Feature #3" or "task-001"."""
        ...

    @property
    def policy(self) -> Policy:
        """Policy for this kind of work. It contains the number of fix rounds from the settings."""
        ...

    def brief(self, ruling: JudgementT | None) -> str:
        """Return the prompt for the next turn. With a ``ruling``, the turn is a fix round."""
        ...

    def request(self, prompt: str, so_far: TurnSoFar) -> TurnRequest: ...

    def claimed(self) -> bool:
        """Return True if the agent claimed in this turn that the work is done."""
        ...

    def ruling(self, so_far: TurnSoFar, ending: Ending | None) -> JudgementT | None:
        """Return the verdict on the work after a turn, or None without a claim."""
        ...

    def closed(self) -> Ended_co | None:
        """Return the session's result if the item no longer needs work, otherwise None."""
        ...

    def accepted(self, ruling: JudgementT) -> Ended_co:
        """Complete a session whose work was accepted, and return the session's result."""
        ...

    def rejected(self, ruling: JudgementT, ending: Ending | None) -> Ended_co:
        """Complete a session with rejected work for which no fix round is left. Return the session's result."""
        ...

    def unfinished(self, ending: Ending) -> Ended_co:
        """Complete a session whose work is neither accepted nor rejected, and return its result."""
        ...
