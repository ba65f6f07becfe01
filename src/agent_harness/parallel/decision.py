"""Next steps of a parallel run, computed by a pure function of the plan, without a clock.

``decide`` returns the steps that the plan allows now. The caller first writes the event of a step to disk, and then
calls ``decide`` again. If a coordinator is killed, the next coordinator replays the ledger, calls ``decide``, and
continues.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from agent_harness.parallel.batching import Trial
from agent_harness.parallel.items import OpenItem
from agent_harness.parallel.plan import LANDING, OPEN, READY, WORKING, ItemProgress, LandingBatch, RunPlan


@dataclass(frozen=True, kw_only=True)
class StartAttempt:
    item: OpenItem
    reason: str


@dataclass(frozen=True, kw_only=True)
class CombineCandidates:
    """Step of a run: merge candidates onto the head or onto an earlier batch."""

    items: tuple[str, ...]
    on: str = ""  # a commit that lands before; empty: the head


@dataclass(frozen=True, kw_only=True)
class RunChecks:
    batch: int = 0
    trial: Trial | None = None
    head: str = ""


@dataclass(frozen=True, kw_only=True)
class RejectItem:
    item: str


@dataclass(frozen=True, kw_only=True)
class LandBatch:
    """Step of a run: move the target branch to the commit with the batch's first ``count`` members."""

    count: int


@dataclass(frozen=True, kw_only=True)
class ReleaseBatch:
    """Step of a run: dissolve the batch. The members of the batch stay in the merge queue."""

    singly: bool


@dataclass(frozen=True, kw_only=True)
class AskPerson:
    """Step of a run: ask the user a question, and start no job before the answer."""

    reason: str


@dataclass(frozen=True, kw_only=True)
class PushLanded:
    """Step of a run: push the merged commits to the remote."""


Step = PushLanded | StartAttempt | CombineCandidates | RunChecks | RejectItem | LandBatch | ReleaseBatch | AskPerson


@dataclass(frozen=True, kw_only=True)
class Facts:
    """Facts that a decision needs but that the plan does not contain."""

    items: Sequence[OpenItem]  # that may be worked on, in the protocol's job
    slots: int  # free places for attempts
    checking: bool  # a run of checks is under way that the next step of the landing waits for
    may_begin: bool  # no stop was asked for, and no limit is reached
    pushing: bool = False  # a push goes on
    most_attempts: int | None = None
    test_runs: int = 1  # runs of checks that can be under way at once, less those that are
    ahead: frozenset[int] = frozenset()  # batches ahead that are under check
    apart: frozenset[str] = frozenset()  # items that do not combine with those that land before them
    held_up: frozenset[str] = frozenset()  # items that a person's files are in the way of


def decide(plan: RunPlan, facts: Facts) -> list[Step]:
    """Return the steps that the run can take now."""
    left = facts.slots
    if facts.most_attempts is not None:
        left = min(left, facts.most_attempts - plan.attempts)
    nothing_begins = not facts.items or (left <= 0 < facts.slots)
    landing = _landing_step(plan, at_rest=facts.may_begin and nothing_begins, held_up=facts.held_up)
    if facts.checking and (plan.joined or not isinstance(landing, PushLanded)):
        landing = None
    if facts.pushing and isinstance(landing, PushLanded):
        landing = None
    steps: list[Step] = [landing] if landing else []
    # attempts begin only after the merge, so that they contain the merged work
    if landing and not isinstance(landing, RunChecks):
        return steps
    free = facts.test_runs - len(steps)
    if ahead := _ahead_step(plan, facts) if free > 0 else None:
        steps.append(ahead)
    if facts.may_begin and not plan.blocked:
        steps += pick(plan, facts.items, left)
    return steps


def _landing_step(plan: RunPlan, *, at_rest: bool, held_up: frozenset[str]) -> Step | None:
    if plan.unpushed and not (plan.push_problem or plan.push_waits or (plan.batch and plan.batch.landing)):
        joined = plan.joined
        return RunChecks(head=joined.commit) if joined and not joined.proven else PushLanded()
    if plan.batch:
        return _batch_step(plan, plan.batch)
    if plan.blocked or plan.push_problem:
        return None
    if plan.suspect:
        return RunChecks(head=plan.suspect)
    if lands := [item for item in plan.queue if item not in plan.held and item not in held_up]:
        return CombineCandidates(items=tuple(lands[: plan.size]))
    is_due = at_rest and plan.combined and not plan.audited and not plan.in_state(WORKING)
    return RunChecks(head=plan.head) if is_due else None


def _ahead_step(plan: RunPlan, facts: Facts) -> Step | None:
    """Return the next step for the batches on top of an unverified batch, or None."""
    known = plan.under_way
    if not known or known[0].vouched or plan.blocked or plan.push_problem or plan.joined:
        return None
    if not all(each.may_land_whole and each.tip for each in known):
        return None
    for each in plan.ahead:
        trial = each.search.next_trial()
        if trial and each.id not in facts.ahead:
            return RunChecks(batch=each.id, trial=trial)
    lands = [item for item in plan.queue if item not in {*plan.held, *facts.apart, *facts.held_up}]
    if len(known) < plan.window and lands:
        return CombineCandidates(items=tuple(lands[: plan.size]), on=known[-1].tip)
    return None


def _batch_step(plan: RunPlan, batch: LandingBatch) -> Step | None:
    search = batch.search
    trial = None if batch.vouched else search.next_trial()
    if batch.landing:
        return LandBatch(count=batch.count)
    if plan.push_problem:
        return ReleaseBatch(singly=False)
    if trial:
        return RunChecks(batch=batch.id, trial=trial)
    if search.contradicts or search.broken > 1:
        is_question = search.size == 1 and search.broken > 1
        return (
            (None if plan.blocked else AskPerson(reason="landing_broken")) if is_question else ReleaseBatch(singly=True)
        )
    failing_change = batch.members[search.failing_change - 1] if search.failing_change else None
    if failing_change and plan.work(failing_change).state == LANDING:
        return RejectItem(item=failing_change)
    return LandBatch(count=search.green or 1) if search.green or batch.vouched else ReleaseBatch(singly=False)


@dataclass(frozen=True, kw_only=True)
class ItemChoice:
    """Decision to start an item now or to wait, with the reason."""

    item: OpenItem
    starts: bool
    reason: str


def pick(plan: RunPlan, items: Sequence[OpenItem], count: int) -> list[StartAttempt]:
    """Return the next ``count`` attempts to start, each with its reason."""
    # SC-7, SC-8
    if count <= 0:
        return []
    chosen = islice((each for each in choices(plan, items, count) if each.starts), count)
    return [StartAttempt(item=each.item, reason=each.reason) for each in chosen]


def choices(plan: RunPlan, items: Iterable[OpenItem], count: int) -> Iterator[ItemChoice]:
    """Yield the decision for each item, in the protocol's order."""
    busy = {item: plan.work(item).touches for item in plan.in_state(WORKING, READY, LANDING)}
    left = count
    for item in items:
        work = plan.works.get(item.id, ItemProgress())
        if work.state != OPEN:
            reason = f"it is {work.state}" + (f": {work.why}" if work.why else "")
        elif found := _excluded(item, busy) or _awaited(plan, work):
            reason = found
        elif left <= 0:
            reason = "it waits for a free slot"
        else:
            left -= 1
            busy[item.id] = item.touches
            yield ItemChoice(item=item, starts=True, reason=_told(work))
            continue
        yield ItemChoice(item=item, starts=False, reason=reason)


def _told(work: ItemProgress) -> str:
    again = f", to fix a rejected change ({work.fix['why']})" if work.fix else ""
    return f"next in order, attempt {work.fence + 1} of this run{again}"


def _excluded(item: OpenItem, busy: Mapping[str, Sequence[str]]) -> str | None:
    """Return why ``item`` must wait for an item in ``busy``, or None."""
    met = next((other for other, touches in busy.items() if meet(item.touches, touches)), None)
    return None if met is None else f"it waits for {met}: both declare changes to {_where(item.touches, busy[met])}"


def meet(some: Sequence[str], others: Sequence[str]) -> bool:
    """Return True if the same file may match a pattern in ``some`` and a pattern in ``others``."""
    # only the text before the first wildcard is compared
    left, right = ([_literal(glob) for glob in globs] for globs in (some, others))
    return "" in left or "" in right or any(a.startswith(b) or b.startswith(a) for a in left for b in right)


def _awaited(plan: RunPlan, work: ItemProgress) -> str | None:
    """Return why the fix of a rejected item must wait for another item's merge, or None."""
    # SC-31: the fix needs the changes of the item with which it conflicts
    met = work.fix.get("met") if work.fix else None
    lands = (each for each in plan.in_state(READY, LANDING) if each in met and each not in plan.held) if met else ()
    other = next(iter(lands), None)
    return None if other is None else f"its fix waits until {other} is merged, because the two items conflict"


def _where(some: Sequence[str], others: Sequence[str]) -> str:
    """Return the patterns in ``others`` that overlap with ``some``, separated by commas."""
    return ", ".join(glob for glob in others if meet(some, (glob,))) or ", ".join(some)


def _literal(glob: str) -> str:
    return glob[: min((glob.find(sign) for sign in "*?[" if sign in glob), default=len(glob))]
