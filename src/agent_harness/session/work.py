"""What a protocol answers about one piece of work, how the kinds of work differ, and the values of both.

    kind      fix rounds   rate limit   cut off      unfinished work
    feature   3            waits        handed off   a local WIP commit, continued by the next session
    cleanup   0            waits        handed off   all of it goes back, kept in a rescue ref
    plan      1            waits        refused      stays in the folder, for the same command again
    review    0            ends         told         there is none: its folder is thrown away
    task      2            ends         judged       all of it goes back, kept in a rescue ref
    slice     0            ends         judged       stays; the checkpoint says how far it came

All of them have the five monitors, the retry table for providers, the transcript, the recording and the budget. A run
that dispatches, or a scheduler, waits out what "ends" in the table, and holds nothing meanwhile.
Source: docs/architecture.md, "The way of a session".
"""

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
    "review": Policy(kind="review", fix_rounds=0, judges_cut_off=False, unfinished="stays", retried=SCHEDULER_WAITS),
    "task": Policy(kind="task", fix_rounds=2, judges_cut_off=True, unfinished="restored", retried=RUN_WAITS),
    "slice": Policy(kind="slice", fix_rounds=0, judges_cut_off=True, unfinished="stays", retried=SCHEDULER_WAITS),
}


class Judgement(Protocol):
    """The answer of a protocol's judge to one claim."""

    @property
    def accepted(self) -> bool:
        """The work is proven."""
        ...

    @property
    def final(self) -> bool:
        """Rejected for good; otherwise the agent may repair it in a fix round."""
        ...

    @property
    def asks(self) -> bool:
        """Nothing is wrong but that the agent has not shown what it must; it is asked once, beside the fix rounds."""
        ...


JudgementT = TypeVar("JudgementT", bound=Judgement)


@dataclass(frozen=True, kw_only=True)
class Ending:
    """Why a session ends before its work is accepted or rejected.

    ``reason``: one of ``Outcome.reason``, or ``error`` (the agent ended badly and left nothing to judge), ``refused``,
    ``overloaded``, ``rate_limited`` (the provider did not serve it), ``no_claim`` (it ended well and claims nothing) or
    ``no_evidence`` (it was asked to show what its claim needs, and did not).
    """

    reason: str
    message: str = ""
    outcome: Outcome | None = None
    provider: ProviderFailure | None = None


@dataclass(frozen=True, kw_only=True)
class TurnSoFar:
    """What the session's earlier turns came to, for the brief of the next one."""

    fix_rounds: int = 0  # in which the agent was to repair what was refused
    asked: bool = False  # whether it was asked to show what its claim needs
    conversation: str | None = None  # what the latest turn reported, for agents that resume
    message: str = ""  # with which the latest turn ended
    evidence_shown: bool = False  # in any of the turns
    used: Totals = field(default_factory=Totals)
    turns: int = 0  # starts of the agent, also those that were tried again
    models: tuple[str, ...] = ()  # that the agent says it has used
    interventions: tuple[str, ...] = ()  # what monitors have told it, and what ended a turn
    told: tuple[JsonObject, ...] = ()  # what a person has said to it: when, who, and what, secrets masked

    @property
    def model(self) -> str | list[str] | None:
        """For the record of the session: the model, or a list where there were several."""
        return list(self.models) if len(self.models) > 1 else next(iter(self.models), None)

    @property
    def round(self) -> int:
        """0 for the first turn of the session, then one more for each further one."""
        return self.fix_rounds + self.asked


def _ignore_outcome(_outcome: Outcome) -> None:
    return


def _ignore_process(_process: Mapping[str, object]) -> None:
    return


@dataclass(frozen=True, kw_only=True)
class TurnRequest:
    """One turn as a protocol wants it: what the agent is given, and who hears of what it does."""

    brief: Brief
    on_started: Callable[[Mapping[str, object]], None] = _ignore_process  # gets the process record before any event
    on_event: Callable[[Event], None] | None = None
    on_ended: Callable[[Outcome], None] = _ignore_outcome
    facts: Callable[[], ProjectFacts] = lambda: NO_FACTS  # the changed files, for the stall monitor
    test_file: str | None = None  # whose run counts as evidence


class Work(Protocol[Ended_co, JudgementT]):
    """One piece of work of a protocol: a feature, a cleanup, a plan, a task's attempt, a slice."""

    @property
    def name(self) -> str:
        """For people: "Feature #3", "task-001"."""
        ...

    @property
    def policy(self) -> Policy:
        """The row of the table, with the fix rounds that the settings give."""
        ...

    def brief(self, ruling: JudgementT | None) -> str:
        """The prompt of the first turn, or of a fix round after this ruling."""
        ...

    def request(self, prompt: str, so_far: TurnSoFar) -> TurnRequest:
        """One turn with this prompt."""
        ...

    def claimed(self) -> bool:
        """Whether the agent says that it is done, although its turn was cut off or ended badly."""
        ...

    def ruling(self, so_far: TurnSoFar, ending: Ending | None) -> JudgementT | None:
        """What the work is worth after a turn; ``None`` when nothing is claimed. Judged by the harness alone."""
        ...

    def closed(self) -> Ended_co | None:
        """The end of a session whose work item was closed, or whose checkpoint vanished, while the agent worked."""
        ...

    def accepted(self, ruling: JudgementT) -> Ended_co:
        """Settles work that is proven."""
        ...

    def rejected(self, ruling: JudgementT, ending: Ending | None) -> Ended_co:
        """Settles work that is refused, for good or after its last fix round."""
        ...

    def unfinished(self, ending: Ending) -> Ended_co:
        """Settles work that is neither: handed off, given back, or left as it is."""
        ...
