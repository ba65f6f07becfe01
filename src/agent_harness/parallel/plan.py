"""State of a parallel run: a pure value without a clock. ``RunPlan.apply`` adds one event of the ledger to the state.
The order of the events fully determines the state. A replay can therefore stop at any event and continue later.

An item is ``open`` unless an event has given the item another state. The project's own file decides whether an agent
may start an open item."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from agent_harness.errors import LimitInForce
from agent_harness.kernel.json import JsonObject
from agent_harness.parallel.batching import Search, Trial, next_size
from agent_harness.parallel.items import ACCEPTED, PARKED, PARTIAL, REJECTED

OPEN, WORKING, READY, LANDING, LANDED = "open", "working", "ready", "landing", "landed"
MOVES: dict[tuple[str, str], str] = {
    (OPEN, "ordered"): WORKING,
    (WORKING, ACCEPTED): READY,
    (WORKING, PARTIAL): OPEN,
    (WORKING, REJECTED): OPEN,
    (WORKING, PARKED): PARKED,
    (WORKING, "lost"): OPEN,
    (READY, "batched"): LANDING,
    (READY, "bounced"): OPEN,
    (READY, "dropped"): OPEN,
    (LANDING, "bounced"): OPEN,
    (LANDING, "released"): READY,
    (LANDING, "landed"): LANDED,
    (LANDED, "reopened"): OPEN,
}
"""Transitions of an item: a state and an event (or the result of an attempt) lead to a new state.

An event of a job that is not the item's last job changes nothing.
"""

LOST_TIMES = 3
"""Number of consecutive lost attempts after which an item waits for the user. An attempt is lost if it has no
result.
"""
BARREN = 3
"""Number of consecutive attempts that leave nothing to verify, after which the run stops because of the agent.

The number of workers is added to this number.
"""


@dataclass
class ItemProgress:
    """State of one item in the plan of a parallel run."""

    state: str = OPEN
    fence: int = 0  # of its last job
    job: str = ""
    slot: str = ""
    base: str = ""  # the commit that its job begins at
    commit: str = ""  # the candidate: of the last attempt that was accepted
    before: tuple[str, ...] = ()  # candidates before that, which did not land
    proven_on: str = ""  # the commit that the candidate began at
    touches: tuple[str, ...] = ()
    lost: int = 0  # in a row
    rejections: int = 0
    fix: JsonObject | None = None  # what its next attempt has to repair
    last_fix: JsonObject | None = None  # why it was rejected last, also if it starts again then
    own: str = ""  # the commit on the branch with its work, if that is to be fixed
    breaks: tuple[str, ...] = ()  # items that its landing has broken, until it lands again
    why: str = ""  # it is parked
    since: str = ""  # when its candidate was proven
    recalled: str = ""  # the job that a person has ended, or that the machine had no memory for


@dataclass
class LandingBatch:
    """Batch of candidates to be merged together."""

    id: int
    members: list[str]
    base: str  # the head that they are on
    # for each n, the commit with the first n members merged
    commits: list[str]
    vouched: bool  # one candidate on the very commit that it was proven on
    search: Search
    tip: str = ""  # the commit that the branch gets where all of them land
    landing: str = ""  # the commit that it gets, once that is written down
    count: int = 0  # members that land

    @property
    def may_land_whole(self) -> bool:
        search = self.search
        return not (search.high or search.contradicts or search.broken > 1)


@dataclass
class JoinedHead:
    """Merged commits that were rebased onto the remote's commits."""

    commit: str
    before: str  # the commit of the branch that it takes the place of
    renamed: dict[str, str]
    proven: bool = False


@dataclass
class RunPlan:
    """State of a parallel run after all its events so far."""

    run: str = ""
    engine: str = ""  # of its workers; empty: those of this machine
    branch: str = ""
    workers: int = 1
    asked: int = 0  # workers by the command line
    batch_max: int = 8
    mends: int = 2
    window: int = 1  # batches verified at once, each on top of the one before it
    head: str = ""  # of the branch, as far as it is trusted
    suspect: str = ""  # a head that another process made
    works: dict[str, ItemProgress] = field(default_factory=dict)
    busy: dict[str, None] = field(default_factory=dict)  # items that are neither open nor done
    queue: list[str] = field(default_factory=list)  # ready, in the order of landing
    held: dict[str, None] = field(default_factory=dict)  # items that a person keeps from landing
    batch: LandingBatch | None = None  # on the head
    ahead: list[LandingBatch] = field(default_factory=list)  # on top of the one before, should all of that land
    size: int = 8
    blocked: str = ""  # why nothing new starts: a question for a person
    blocked_at: str = ""  # the commit that the question is about
    blocked_by: tuple[str, ...] = ()  # what does not prove itself there
    shut: dict[str, str] = field(default_factory=dict)  # slots that cannot be set up -> the last lines of that
    barren: int = 0
    last_end: JsonObject = field(default_factory=dict)
    attempts: int = 0
    accepted: int = 0
    lost: int = 0
    rejections: int = 0
    batches: int = 0
    trials: int = 0
    spent_usd: float = 0.0
    landed: list[JsonObject] = field(default_factory=list)
    combined: bool = False  # something landed on work that it was not proven with
    audited: bool = False  # and everything was proven once more since
    unpushed: str = ""  # what landed last, and is to be pushed
    push_problem: str = ""  # why it cannot be: nothing lands on top of it in this run
    push_waits: str = ""  # which remote was away, and why: the next landing, or the next run, tries again
    joined: JoinedHead | None = None
    joins: int = 0  # since the remote took something last
    closed: bool = False

    def work(self, item: str) -> ItemProgress:
        return self.works.setdefault(item, ItemProgress())

    def in_state(self, *states: str) -> list[str]:
        """Return the items with one of the ``states``."""
        # does not support the states open and landed
        return [item for item in self.busy if self.works[item].state in states]

    def _set(self, item: str, state: str) -> ItemProgress:
        work = self.work(item)
        work.state = state
        if state in (OPEN, LANDED):
            self.busy.pop(item, None)
        else:
            self.busy[item] = None
        return work

    @property
    def under_way(self) -> list[LandingBatch]:
        """Batches that are now being verified or merged, in the order of their merges."""
        return [self.batch, *self.ahead] if self.batch else []

    # ---- folding

    def apply(self, event: JsonObject) -> None:
        getattr(self, f"_on_{event['type']}")(event)

    def _move(self, item: str, how: str) -> ItemProgress:
        return self._set(item, MOVES[self.work(item).state, how])

    def _on_run(self, event: JsonObject) -> None:
        if event["run"] != self.run or event["workers"] != self.asked:  # the same command continues the run
            self.workers = self.asked = event["workers"]
        self.run, self.branch, self.head = event["run"], event["branch"], event["head"]
        self.engine = event.get("engine", "")
        self.batch_max, self.mends = event["batch_max"], event["mends"]
        self.window = event.get("window", 1)
        self.size = min(self.size, self.batch_max) if self.works else self.batch_max
        self.blocked, self.suspect, self.barren, self.closed = "", "", 0, False
        self.shut = {}
        self.push_problem, self.push_waits = "", ""
        self.unpushed = event.get("unpushed") or self.unpushed
        self.spent_usd += event.get("spent_usd") or 0.0  # by the journal that this one replaces
        self.combined = self.combined or bool(event.get("unaudited"))
        if self.batch and not self.batch.landing:  # one of its members may have been rejected, and be worked on again
            self._on_released({"singly": False})
        self._give_up_ahead()
        for each in event.get("carried", ()):
            work = self.work(each["item"])
            work.fence, work.rejections, work.fix = each["fence"], each["bounces"], each["mend"]
            work.job, work.commit, work.proven_on = each["order"], each["commit"], each["base"]
            work.since, work.lost, work.own = each.get("since", ""), each.get("lost", 0), each.get("own", "")
            work.breaks = tuple(each.get("breaks", ()))
            if each.get("held"):
                self.held[each["item"]] = None
            if each["ready"]:
                self._set(each["item"], READY)
                self.queue.append(each["item"])

    def carried(self) -> list[JsonObject]:
        """Return a record for each item that the next run continues."""
        return [
            {
                "item": item,
                "fence": work.fence,
                "bounces": 0 if work.state == LANDED else work.rejections,
                "mend": None if work.state == LANDED else work.fix,
                "own": "" if work.state == LANDED else work.own,
                "breaks": [] if work.state == LANDED else [*work.breaks],
                "order": work.job,
                "base": work.proven_on,
                "commit": work.commit,
                "ready": work.state in (READY, LANDING),
                "since": work.since,
                "held": item in self.held,
            }
            for item, work in self._in_order_of_landing()
        ]

    def _in_order_of_landing(self) -> list[tuple[str, ItemProgress]]:
        first = [*(item for batch in self.under_way for item in batch.members), *self.queue]
        return [(item, self.works[item]) for item in dict.fromkeys([*first, *self.works])]

    def _on_ordered(self, event: JsonObject) -> None:
        work = self._move(event["item"], "ordered")
        work.fence, work.job, work.slot, work.base = event["fence"], event["order"], event["slot"], event["base"]
        work.touches = tuple(event["touches"])
        self.attempts += 1

    def _is_last(self, event: JsonObject) -> bool:
        work = self.work(event["item"])
        return (work.state, work.job) == (WORKING, event["order"])

    def _on_ended(self, event: JsonObject) -> None:
        self.spent_usd += event.get("cost_usd") or 0.0
        if not self._is_last(event):
            return
        status = event["status"]
        work = self._move(event["item"], PARTIAL if status not in (ACCEPTED, REJECTED, PARKED) else status)
        work.lost = 0
        self.last_end = event
        if status in (ACCEPTED, REJECTED) or event.get("recalled"):
            self.barren = 0
        elif event.get("reason") != LimitInForce.code or event.get("elsewhere"):  # of accounts here the run keeps count
            self.barren += 1
        if event.get("uncounted") or (work.recalled == event["order"] and work.state == OPEN and status != REJECTED):
            self.attempts -= 1
        if status == ACCEPTED:
            work.before += (work.commit,) if work.commit else ()
            work.commit, work.proven_on, work.fix = event["commit"], work.base, None
            work.since = event.get("at", "")
            self.accepted += 1
            self.queue.append(event["item"])
        elif status == PARKED:
            work.why = event.get("reason", "")

    def _on_lost(self, event: JsonObject) -> None:
        self.spent_usd += event.get("cost_usd") or 0.0
        if not self._is_last(event):
            return
        work = self._move(event["item"], "lost")
        self.attempts -= 1
        if event.get("with_coordinator"):
            return
        self.lost += 1
        work.lost += 1
        if work.lost >= LOST_TIMES:
            self._set(event["item"], PARKED).why = "attempt_lost"

    def _on_late_result(self, event: JsonObject) -> None:
        self.spent_usd += event.get("cost_usd") or 0.0

    def _on_home_touched(self, event: JsonObject) -> None:
        return

    def _on_parked(self, event: JsonObject) -> None:
        self._set(event["item"], PARKED).why = event["reason"]

    def _on_batched(self, event: JsonObject) -> None:
        members: list[str] = [*event["members"]]
        for item in members:
            self._move(item, "batched")
            self.queue.remove(item)
        self.batches += 1
        batch = LandingBatch(
            id=self.batches,
            members=members,
            base=event["base"],
            commits=[*event["commits"]],
            vouched=event["vouched"],
            search=Search(size=len(members)),
            tip=event.get("tip", ""),
        )
        if self.batch:
            self.ahead.append(batch)
        else:
            self.batch = batch

    def _on_verified(self, event: JsonObject) -> None:
        self.trials += 1
        batch = next((each for each in self.under_way if each.id == event["batch"]), None)
        if batch is None:
            return
        trial, result = Trial(prefix=event["prefix"], only=tuple(event["only"])), event["result"]
        whole = not trial.only and trial.prefix == batch.search.size
        batch.search = batch.search.after(trial, result, tuple(event["failing"]))
        if whole:
            self.size = next_size(self.size, self.batch_max, result)
        if batch is self.batch and not batch.may_land_whole:
            self._give_up_ahead()

    def _give_up_ahead(self) -> None:
        """Dissolve the batches on top of an abandoned batch, and put their items back into the queue."""
        members = [item for batch in self.ahead for item in batch.members]
        for item in members:
            self._move(item, "released")
        self.queue[:0] = members
        self.ahead = []

    def _on_bounced(self, event: JsonObject) -> None:
        item = event["item"]
        work = self._move(item, "bounced")
        if item in self.queue:
            self.queue.remove(item)
        elif self.batch and item in self.batch.members:
            self._give_up_ahead()
        work.rejections += 1
        self.rejections += 1
        work.last_fix = event["mend"]
        work.fix = event["mend"] if work.rejections <= self.mends else None
        if work.rejections > self.mends + 1:
            self._set(item, PARKED).why = "landing_failed"

    def _on_dropped(self, event: JsonObject) -> None:
        self._move(event["item"], "dropped")
        self.queue.remove(event["item"])
        self.held.pop(event["item"], None)

    def _on_released(self, event: JsonObject) -> None:
        self._give_up_ahead()
        batch, self.batch = self.batch, None
        if batch is None:
            return
        left = [item for item in batch.members if self.work(item).state == LANDING]
        for item in left:
            self._move(item, "released")
        self.queue[:0] = left
        if event["singly"]:
            self.size = 1

    def _on_landing(self, event: JsonObject) -> None:
        if self.batch:
            self.batch.landing, self.batch.count = event["commit"], event["count"]

    def _on_landed(self, event: JsonObject) -> None:
        batch = self.batch
        if batch is None:
            return
        for item, commit in zip(batch.members[: batch.count], batch.commits, strict=False):
            self._move(item, "landed")
            self.landed.append({"item": item, "commit": commit, "batch": batch.id})
        self.head = event["commit"]
        self.unpushed, self.push_waits = event["commit"] if event.get("push") else "", ""
        if not batch.vouched or event.get("may_break"):
            self.combined, self.audited = True, False
        if self.ahead and self.ahead[0].base == self.head:
            self.batch = self.ahead.pop(0)
        else:
            self._on_released({"singly": False})

    def _on_pushed(self, event: JsonObject) -> None:
        self.push_problem = event.get("problem") or ""
        away = event.get("away")
        self.push_waits = f"{event.get('remote') or 'the remote'} cannot be reached ({away})" if away else ""
        self.joined = None
        if not (self.push_problem or self.push_waits):
            self.unpushed, self.head, self.joins = "", event["head"], 0

    def _on_joined(self, event: JsonObject) -> None:
        self.joined = JoinedHead(commit=event["commit"], before=event["before"], renamed=event["renamed"])
        self.joins += 1
        self._on_released({"singly": False})

    def _on_join_proven(self, event: JsonObject) -> None:
        if self.joined and self.joined.commit == event["commit"]:
            self.joined.proven = True

    def _on_join_moved(self, event: JsonObject) -> None:
        self.head = self.unpushed = event["commit"]
        self.joined = None

    def _on_head_moved(self, event: JsonObject) -> None:
        self.suspect = event["head"]

    def _on_head_trusted(self, event: JsonObject) -> None:
        self.head, self.suspect = event["head"], ""
        self.audited = self.audited or bool(event.get("audit"))

    def _on_sought(self, _event: JsonObject) -> None:
        self.trials += 1

    def _on_reopened(self, event: JsonObject) -> None:
        commits = {each["item"]: each["commit"] for each in self.landed}
        for item in event["items"]:
            if self.work(item).state == LANDED:
                work = self._move(item, "reopened")
                work.own, work.fix = commits.get(item, ""), event.get("mend")
                work.last_fix, work.rejections = work.fix, work.rejections + bool(work.fix)
                failing = (work.fix or {}).get("failing") or ()
                work.breaks = tuple(each for each in failing if each not in event["items"])
        self.landed = [each for each in self.landed if each["item"] not in event["items"]]

    def _on_slot_shut(self, event: JsonObject) -> None:
        self.shut[event["slot"]] = event["tail"]

    # ---- requests of a person

    def _on_scaled(self, event: JsonObject) -> None:
        self.workers = event["workers"]

    def _on_recalled(self, event: JsonObject) -> None:
        self.work(event["item"]).recalled = event["order"]

    def _on_held(self, event: JsonObject) -> None:
        self.held[event["item"]] = None

    def _on_unheld(self, event: JsonObject) -> None:
        self.held.pop(event["item"], None)

    def _on_first(self, event: JsonObject) -> None:
        self.queue.remove(event["item"])
        self.queue.insert(0, event["item"])

    @property
    def moving(self) -> tuple[str, str] | None:
        """Old and new commit of a branch move that may be incomplete, or None."""
        if self.batch and self.batch.landing:
            return self.batch.base, self.batch.landing
        return (self.joined.before, self.joined.commit) if self.joined and self.joined.proven else None

    @property
    def broken(self) -> dict[str, tuple[str, ...]]:
        """Merged items that broke other items and are not fixed, mapped to the broken items."""
        return {item: work.breaks for item, work in self.works.items() if work.breaks and work.state != LANDED}

    @property
    def left_unpushed(self) -> JsonObject | None:
        """Last merged commit that is not pushed, with the reason, or None."""
        if not self.unpushed:
            return None
        why = self.push_problem or self.push_waits or "the run ended before"
        told = f"Not pushed: {why}; the next run pushes it: harness run"
        return {"commit": self.unpushed, "why": why, "message": self.push_problem or told}

    @property
    def shut_slots(self) -> list[str]:
        """Slots that get no jobs, because their workspace could not be set up."""
        return [slot for slot in self.shut if int(slot[1:]) <= self.workers]

    def _on_blocked(self, event: JsonObject) -> None:
        self.blocked, self.blocked_at = event["reason"], event.get("head", "")
        self.blocked_by = tuple(event.get("failing", ()))

    def _on_closed(self, event: JsonObject) -> None:
        self.closed = True


def fold(events: Iterable[JsonObject]) -> RunPlan:
    plan = RunPlan()
    for event in events:
        plan.apply(event)
    return plan
