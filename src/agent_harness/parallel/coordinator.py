"""The one writer of a parallel run: gives orders to hands, takes results in, lands what is verified.

    fold the ledger -> [ ask the plan -> carry its steps out, each event on the disk first -> wait for hands ]* -> close

Hands are processes on lifelines of this one: whatever ends it ends them. The next coordinator folds the same ledger:
a result that is there counts, an order without one is lost and its item open again, a landing that was written down is
carried out to its end.
"""

import os
import queue
import shutil
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from itertools import count

from agent_harness.errors import Busy, HarnessError, LimitInForce, NothingEligible, Refused, UnsafeTree
from agent_harness.kernel import clock, files, host, owner, process
from agent_harness.kernel.git import Git
from agent_harness.kernel.git.joining import PushTarget, on_top_of
from agent_harness.kernel.git.status import shown
from agent_harness.kernel.host import HostSeat
from agent_harness.kernel.json import JsonObject
from agent_harness.kernel.lock import LockFile
from agent_harness.kernel.rate_limits import sentence
from agent_harness.kernel.redact import redact
from agent_harness.parallel import equipment, landing, places, plan, requests, slots
from agent_harness.parallel.batching import Trial
from agent_harness.parallel.budget import SharedBudget
from agent_harness.parallel.engine import UNKNOWN, Engine, LocalEngine
from agent_harness.parallel.equipment import PortBlocks, SetUp
from agent_harness.parallel.hands import ORDER, RESULT
from agent_harness.parallel.items import (
    ACCEPTED,
    ATTEMPT,
    BROKEN,
    GREEN,
    NOT_SET_UP,
    PARKED,
    PARTIAL,
    RED,
    VERIFY,
    Home,
    Landing,
    OpenItem,
    WorkOrder,
    result_of,
)
from agent_harness.parallel.ledger import VERSION, Ledger, project_id
from agent_harness.parallel.mailbox import Mailbox
from agent_harness.parallel.overlap import LearnedOverlap
from agent_harness.parallel.people import queue_rows
from agent_harness.parallel.places import Workplace
from agent_harness.parallel.snapshot import RunSnapshot
from agent_harness.session.parallel_settings import ParallelSettings
from agent_harness.supervision.dispatch import RefusalPolicy
from agent_harness.supervision.interruption import Stop

_HELD = (plan.WORKING, plan.READY, plan.LANDING)
LOOK_SECONDS = 0.5
IN_THE_WAY_SECONDS = 60.0
MAIL_SECONDS = 1.0
SAVE_SECONDS = 10.0
LEARNED = "learned.json"
PHASES = {"preflight": "setup", "agent": "working", "settling": "saving"}
"""What a phase of a session is called among those of the others."""
JOINS = 3
"""So often in a row what has landed is put on top of what the remote has meanwhile."""
AUDITS = 2
"""So often what fails in the proof of everything at the end of a run is opened again; then a person is asked."""


@dataclass(frozen=True, kw_only=True)
class RunTerms:
    """Under which a parallel run goes on."""

    workers: int
    say: Callable[[str], None]
    stop: Stop
    max_attempts: int | None = None
    max_cost_usd: float | None = None
    settings: ParallelSettings
    sandbox: object = None  # of a set-up, as the project's settings have it
    only_land: bool = False  # what is proven lands, and no attempt is begun
    engine: Engine | None = None  # that carries attempts out; none named: processes of this machine
    accounts: tuple[str, ...] = ()  # of the agents, in their order: the first that may begin does
    policy: RefusalPolicy = field(default_factory=RefusalPolicy)


@dataclass(kw_only=True)
class _Under:
    """An order under way."""

    order: WorkOrder
    recalled: bool = False
    title: str = ""
    batch: int = 0
    since: str = field(default_factory=clock.timestamp)
    trial: Trial | None = None
    head: str = ""


class Coordinator:
    """One run, from its ledger in ``folder`` to its end."""

    def __init__(self, home: Home, git: Git, folder: str, branch: str, terms: RunTerms) -> None:
        self._home = home
        self._git = git
        self._folder = folder
        self._branch = branch
        self._terms = terms
        self._say = terms.say
        self._ended_orders: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._here: Engine = LocalEngine()
        self._engine = terms.engine or self._here
        self._ports = PortBlocks(terms.settings.ports)
        self._lend: tuple[str, ...] = ()
        self._money = SharedBudget(folder)
        self._learned = learned_in(folder)
        self._save_at = 0.0  # of the monotonic clock, when what was learned may be written again
        self._under: dict[str, _Under] = {}
        self._ordered: list[tuple[_Under, str]] = []  # with the reason; in the ledger, and not begun yet
        self._of_host: dict[str, HostSeat] = {}  # what orders have of this machine
        memory = terms.settings.min_free_mb << 20
        self._seats = slots.RunSeats(folder, memory, terms.accounts, terms.policy, terms.say)
        self._memory = slots.MemoryWatch(memory)
        self._mailbox = Mailbox(folder)
        self._snapshot = RunSnapshot(home.snapshot)
        self._mail_at = 0.0
        self._began = time.monotonic()
        self._in_the_way = ""
        self._try_again_at = 0.0
        self._audits = 0
        self._failures: dict[int, str] = {}  # what the first check printed that failed on a batch
        self._apart: tuple[str, frozenset[str]] = ("", frozenset())  # what does not combine with this commit
        most = host.limits()[host.TESTS]
        self._test_runs = min(terms.settings.test_runs or most, most)

    # ---- the ledger

    def _note(self, kind: str, **members: object) -> JsonObject:
        event = self._ledger.append(kind, **members)
        self._plan.apply(event)
        return event

    def _open(self) -> None:
        self._ledger = Ledger(self._folder)
        self._plan = self._ledger.folded()
        if self._plan.branch not in ("", self._branch) and self._plan.in_state(*_HELD):
            name = self._plan.branch.removeprefix("refs/heads/")
            told = f"the run before this one goes on on the branch {name}, where its work is to land"
            raise UnsafeTree(told, hint=f"git switch {name}, then: harness run --workers N")
        head = self._git.commit_of(self._branch)
        run = self._plan.run
        carried: list[JsonObject] = []
        unpushed = self._plan.unpushed if self._plan.branch == self._branch else ""
        if self._plan.closed or not self._plan.run:
            run = process.new_run_id()[:8]
            carried = [each for each in self._plan.carried() if self._is_left(each)]
            self._ledger.put_away()
            self._plan = plan.RunPlan()
        self._forget_orders({each["order"] for each in carried} | {work.order for work in self._plan.works.values()})
        known = {"v": VERSION, "run": run, "branch": self._branch, "workers": self._terms.workers, "carried": carried}
        known["project"] = project_id(self._folder)
        wished = self._terms.settings
        settings = {"batch_max": wished.batch_max, "mends": wished.mends}
        settings["window"] = min(wished.window or 2, self._test_runs)
        known |= {"unpushed": unpushed} if unpushed else {}
        self._note("run", **known, **settings, head=self._plan.head if self._plan.batch else head)
        self._home.adopt([self._plan.work(item).order for item in self._plan.in_state(*_HELD)])
        self._money.begin(self._plan.spent_usd)
        self._take_over()

    def _is_left(self, carried: JsonObject) -> bool:
        """Whether an item of the run before is to be known; a candidate that is nobody's any more is rescued."""
        if not carried["ready"] or self._home.holds(carried["order"], carried["item"]):
            return True
        self._set_aside(carried["order"], carried["commit"])
        return False

    def _set_aside(self, order: str, commit: str) -> str:
        ref = places.free_ref(self._git, f"{places.RESCUE_REFS}/{order.split('/')[1]}")
        self._git.update_ref(ref, commit)
        return ref

    def _forget_orders(self, kept: set[str]) -> None:
        with suppress(FileNotFoundError):
            for entry in os.scandir(os.path.join(self._folder, "orders")):
                is_kept = entry.name in {_folder_name(each) for each in kept if each}
                if not is_kept and entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path, ignore_errors=True)

    def _take_over(self) -> None:
        """Ends what a coordinator that was killed left running, rescues it, and takes its orders in."""
        rescues: dict[str, list[str]] = {}
        for place in places.existing(os.path.join(self._folder, "places")):
            record = _read(place.record)
            process.end_orphans(record.get("process") or {})
            if place.name.startswith("w") and not place.at_rest:
                name = str(record.get("name") or place.name)
                rescues[str(record.get("order"))] = self._rescued(place, name)
        at_work = self._plan.in_state(plan.WORKING)
        orders = [found for item in at_work if (found := self._submitted(self._plan.work(item).order))]
        known = self._engine.known(orders)
        still = {each.id: each for each in orders if known.get(each.id, UNKNOWN) != UNKNOWN}
        for item in at_work:
            work = self._plan.work(item)
            if _read(os.path.join(self._order_folder(work.order), RESULT)):
                self._take(item, work.order, work.fence)
            elif order := still.get(work.order):
                self._say(f"{work.slot} {item}: goes on ({self._engine.name})")
                self._money.allow(order.id, order.allowance_usd)
                self._begin(_Under(order=order))
            else:
                self._lose(item, work.order, work.fence, rescues.get(work.order, []), with_coordinator=True)

    def _submitted(self, order_id: str) -> WorkOrder | None:
        """The order as it was written down; none where nothing of it is there."""
        record = _read(os.path.join(self._order_folder(order_id), ORDER))
        return WorkOrder.from_record(record) if record.get("id") == order_id else None

    def _rescued(self, place: Workplace, name: str) -> list[str]:
        until = time.monotonic() + 30.0
        while True:
            try:
                with place.locked():
                    found = place.rescue(self._git, name, self._home.own)
                    place.at_rest = True
                    return found
            except Busy:
                if time.monotonic() > until:
                    raise
                time.sleep(0.05)

    def _order_folder(self, order: str) -> str:
        return os.path.join(self._folder, "orders", _folder_name(order))

    def _result(self, order: str) -> JsonObject:
        return result_of(_read(os.path.join(self._order_folder(order), RESULT)))

    # ---- the loop

    def run(self) -> JsonObject:
        """Works until nothing can be done; what was done, why it ended, and the ``exit_code``."""
        os.makedirs(os.path.join(self._folder, "places"), mode=0o700, exist_ok=True)
        lock = LockFile(os.path.join(self._folder, "run.lock"))
        if holder := lock.try_take():
            raise Busy(f"a parallel run is under way here ({holder})", hint="wait for it, or end it by Ctrl-C")
        try:
            self._here.open(self._ended_orders)
            self._engine.open(self._ended_orders)
            self._open()
            wished = self._terms.settings
            self._lend = equipment.lendable_in(self._git, wished.lent, self._home.own, installed=wished.lend)
            reason = self._loop()
            return self._closed(*reason)
        except KeyboardInterrupt:
            for under in self._under.values():
                self._recall(under, "a person ends the run")
            raise
        finally:
            self._engine.close()
            self._here.close()
            self._ports.close()
            for each in self._of_host.values():
                each.release()
            lock.release()

    def _loop(self) -> tuple[int, str, str]:
        while True:
            self._home.keep()
            self._read_mail()
            self._snapshot.show(self._picture)
            self._ease_memory()
            ending = self._why_not()
            moved = False
            self._seats.begin_round()
            is_over = ending is not None and ending[0] in (130, 5)
            steps = plan.decide(self._plan, self._facts(ending is None))
            with self._git.view() if steps else nullcontext():
                for step in steps:
                    if not (is_over and isinstance(step, plan.CombineCandidates)):  # what is ready stays in the queue
                        moved = self._do(step) or moved
                self._begin_ordered()
            for under in self._under.values():
                if is_over and under.order.kind == ATTEMPT:
                    self._recall(under, "the run ends")
                elif under.batch and all(under.batch != each.id for each in self._plan.under_way):
                    self._recall(under, "it will not land so")
            if moved:
                continue
            if not self._under and not self._waits(ending):
                return ending or self._all_refused() or self._nothing_left()
            with suppress(queue.Empty):
                self._ended(self._ended_orders.get(timeout=LOOK_SECONDS))
                while True:
                    self._ended(self._ended_orders.get_nowait())

    def _recall(self, under: _Under, why: str) -> None:
        if not under.recalled:
            under.recalled = True
            (self._engine if under.order.kind == ATTEMPT else self._here).recall(under.order.id, why)

    def _facts(self, may_begin: bool) -> plan.Facts:
        attempts = [each for each in self._under.values() if each.order.kind == ATTEMPT]
        checks = [each for each in self._under.values() if each.order.kind == VERIFY]
        known = self._plan.under_way
        is_due = any(each.head or (known and each.batch == known[0].id) for each in checks)
        return plan.Facts(
            items=self._home.items() if may_begin and not self._terms.only_land else [],
            slots=self._plan.workers - len(attempts) - len(self._plan.shut_slots),
            checking=is_due or time.monotonic() < self._try_again_at,
            test_runs=self._test_runs - len(checks),
            ahead=frozenset(each.batch for each in checks),
            learned=self._learned,
            apart=self._apart[1] if known and self._apart[0] == known[-1].tip else frozenset(),
            may_begin=may_begin,
            most_attempts=self._terms.max_attempts,
        )

    def _why_not(self) -> tuple[int, str, str] | None:
        """Exit code, reason and message where nothing new may be begun."""
        stop = self._terms.stop
        if stop.requested():
            code = 130 if stop.signalled else 5
            return code, "user_pause", "Stopped by a person."
        if self._plan.blocked:
            return 3, self._plan.blocked, f"{self._plan.blocked}: a person decides; harness status says more."
        if said := self._home.stopped():
            return said[0], "stopped", said[1]
        if len(self._plan.shut_slots) >= self._plan.workers:
            return 4, NOT_SET_UP, f"No place could be set up: {[*self._plan.shut.values()][-1]}"
        return None if self._terms.only_land else self._limit_reached()

    def _limit_reached(self) -> tuple[int, str, str] | None:
        most = self._terms.max_cost_usd
        if most is not None and (self._plan.spent_usd >= most or not (self._under or self._can_pay())):
            return 9, "budget", f"${self._plan.spent_usd:.2f} of ${most:.2f} are spent; a call may cost what is left."
        if self._plan.barren >= plan.BARREN + self._plan.workers:
            last = self._plan.last_end
            told = f"Nothing came of the last attempts: {last.get('message')}"
            return last.get("exit_code") or 1, "agent_fails", told
        return None

    def _can_pay(self) -> bool:
        """Whether the budget has room for the first call of one more attempt."""
        most = self._terms.max_cost_usd
        return most is None or self._money.left(most) >= -1e-9

    def _waits(self, ending: tuple[int, str, str] | None) -> bool:
        """Whether a landing that a person's files are in the way of is to be tried again, or no agent may begin yet."""
        return (bool(self._in_the_way) or self._seats.waits) and ending is None

    def _all_refused(self) -> tuple[int, str, str] | None:
        refused = self._seats.refused
        return (LimitInForce.exit_code, LimitInForce.code, sentence(refused.as_notice())) if refused else None

    def _nothing_left(self) -> tuple[int, str, str]:
        failed, still = self._home.left()
        limit = self._terms.max_attempts
        parked = self._plan.in_state(PARKED)
        held = [item for item in self._plan.in_state(plan.READY) if item in self._plan.held]
        if parked or held:
            told = (
                f"{', '.join(held)}: held by a person; to let it land: harness queue release {held[0]}" if held else ""
            )
            names = ", ".join(parked)
            decides = f"{names}: a person decides; harness status says more."
            return (3, "parked", decides) if parked else (3, "held", told)
        if self._terms.only_land or not (failed or still):
            return 0, "done", "Everything has landed."
        if still and limit is not None and self._plan.attempts >= limit:
            return 9, "max_tasks", f"{self._plan.attempts} attempts of {limit} were made."
        if failed:
            return 1, "failed", f"{len(failed)} failed for good: {', '.join(failed[:5])}."
        if self._plan.attempts and not self._plan.landed:
            return 1, "nothing_landed", "Attempts were made, and nothing landed."
        return (0, "done", "What could land has.") if self._plan.landed else (7, "waiting", "Nothing can be begun now.")

    # ---- what is shown

    def _picture(self) -> JsonObject:
        known, attempts = self._plan, [each for each in self._under.values() if each.order.kind == ATTEMPT]
        attempts.sort(key=lambda each: int(each.order.slot[1:]))
        heard = self._home.heard([each.order for each in attempts])
        elsewhere = self._engine.heard()
        for each in attempts:
            if spent := elsewhere.get(each.order.id, {}).get("spent_usd"):
                self._money.hear(each.order.id, float(spent))
        heard |= {each.order.item: elsewhere[each.order.id] for each in attempts if each.order.id in elsewhere}
        spent, reserved = self._money.standing()
        return {
            "run": known.run,
            "engine": self._engine.name,
            "owner": owner.current().as_record(),
            "at": clock.timestamp(),
            "workers": [_shown(each, heard.get(each.order.item, {})) for each in attempts],
            "queue": queue_rows(known),
            "landed": len(known.landed),
            "bounced": known.bounces,
            "lost": known.lost,
            "parked": [{"item": item, "reason": known.work(item).why} for item in known.in_state(PARKED)],
            "limits": self._seats.why,
            "budget": {"spent": spent, "reserved": reserved, "limit": self._terms.max_cost_usd},
            "hands": {"have": known.workers - len(known.shut_slots), "busy": len(attempts)},
            "blocked": known.blocked or known.push_problem or self._in_the_way or None,
        }

    # ---- what people ask for

    def _read_mail(self, *, at_end: bool = False) -> None:
        """Answers what people have asked for, at most once a second."""
        if time.monotonic() < self._mail_at and not at_end:
            return
        self._mail_at = time.monotonic() + MAIL_SECONDS
        for request in self._mailbox.taken(self._say):
            try:
                known = (each for each in self._ledger.events if each.get("request") == request["id"])
                event = next(known, None) or self._granted(request, at_end=at_end)
                found: JsonObject = {"ok": True, "event": event}
            except HarnessError as error:
                refusal = {"exit_code": error.exit_code, "message": error.message, "hint": error.hint}
                found = {"ok": False, "error": refusal}
            self._mailbox.answer(request["id"], found)

    def _granted(self, request: JsonObject, *, at_end: bool) -> JsonObject:
        """The event that a request has led to; it is on the disk before it is carried out."""
        if at_end and request["verb"] not in requests.OF_QUEUE:
            raise NothingEligible("the parallel run is over", hint="harness status")
        kind, members = requests.granted(self._plan, request["verb"], request["args"])
        if kind == "dropped":
            members["rescue"] = self._set_aside(members["order"], members["commit"])
        event = self._note(kind, **members, request=request["id"])
        self._say(f"A person: {requests.told(event)}")
        if kind == "dropped":
            given_back = {"status": PARTIAL, "reason": "dropped", "message": "dropped from the queue by a person"}
            self._home.ended(members["order"], members["item"], given_back, [members["rescue"]])
        elif kind == "recalled" and (under := self._under.get(members["order"])):
            self._recall(under, "recalled by a person")
        return event

    def _closed(self, code: int, reason: str, message: str) -> JsonObject:
        self._read_mail(at_end=True)
        for item in self._plan.in_state(PARKED):
            told = self._plan.work(item).why
            self._home.question(item, told, f"{item} waits: {told}")
        if self._plan.blocked:
            self._home.question(None, self._plan.blocked, message)
        found = self._plan
        if found.push_problem and code not in (130, 4):
            code, reason, message = 5, "landing_blocked", found.push_problem
        if self._in_the_way and code in (0, 7):
            code, reason, message = 5, "landing_blocked", self._in_the_way
        failed, still = self._home.left()
        if found.last_end and not found.landed and code != 130:
            last = f"{found.last_end['item']}: {found.last_end.get('message') or found.last_end['status']}"
            message = f"Nothing has landed; the last attempt was at {last}. {message}"
        self._save_learned(now=True)
        self._note("closed", reason=reason, exit_code=code)
        self._ledger.close()
        if found.in_state(plan.READY, plan.LANDING, PARKED):
            self._snapshot.show(self._picture, now=True)
        else:
            self._snapshot.close()
        self._home.close(found.push_problem)
        self._say(message)
        return {
            "run": found.run,
            "landed": found.landed,
            "failed": failed,
            "parked": [{"item": item, "reason": found.work(item).why} for item in found.in_state(PARKED)],
            "open": still,
            "batches": found.batches,
            "bounces": found.bounces,
            "checks": found.trials,
            "attempts": found.attempts,
            "lost": found.lost,
            "seconds": round(time.monotonic() - self._began, 1),
            "cost_usd": round(found.spent_usd, 4),
            "reason": reason,
            "message": message,
            "exit_code": code,
        }

    # ---- steps

    def _do(self, step: plan.Step) -> bool:
        """Carries a step out; whether the plan knows more now."""
        match step:
            case plan.StartAttempt():
                return self._order(step)
            case plan.CombineCandidates():
                return self._combine_ahead(step.items, step.on) if step.on else self._combine(step.items)
            case plan.RunChecks():
                return self._check_head(step.head) if step.trial is None else self._check(step.batch, step.trial)
            case plan.LandBatch():
                return self._land(step.count)
            case plan.PushLanded():
                return self._push()
            case plan.BounceItem():
                self._bounce(step.item)
            case plan.ReleaseBatch():
                self._note("released", singly=step.singly)
            case plan.AskPerson():
                self._note("blocked", reason=step.reason)
        return True

    def _order(self, step: plan.StartAttempt) -> bool:
        if not self._can_pay():
            return False
        is_beside = any(each.order.kind == ATTEMPT for each in self._under.values())
        told = self._of_order(step.item.id)
        seated = self._seats.for_agent(told, is_beside=is_beside) if self._engine.is_local else None
        if self._engine.is_local and seated is None:
            return False
        item, work = step.item, self._plan.work(step.item.id)
        busy = {each.order.slot for each in self._under.values()} | {*self._plan.shut}
        slot = next(f"w{n}" for n in range(1, self._plan.workers + 1) if f"w{n}" not in busy)
        base = str(self._git.commit_of(self._branch))
        mend = self._seeded(work, item, base) if work.mend else None
        papers = self._home.papers(item.id, mend)
        if seated:
            papers |= seated[1]
        fence = work.fence + 1
        order = self._written(ATTEMPT, item.id, item.name, fence=fence, slot=slot, base=base, papers=papers)
        if not self._engine.is_local:
            order = self._with_allowance(order, len(busy))
        known = {"item": item.id, "order": order.id, "fence": fence, "slot": slot, "base": base}
        self._note("ordered", **known, touches=[*item.touches], reason=step.reason)
        if order.allowance_usd is None:
            self._money.elsewhere(order.id, 0.0)
        if seated:
            self._of_host[order.id] = seated[0]
        self._under[order.id] = under = _Under(order=order, title=item.title)
        self._ordered.append((under, step.reason))
        return True

    def _begin_ordered(self) -> None:
        """Shows all that was ordered as worked on, by one change of the project's state; then the hands begin."""
        ordered = [*self._ordered]
        self._ordered.clear()
        if ordered:
            self._home.claim([under.order for under, _ in ordered])
        for under, reason in ordered:
            self._begin(under)
            self._say(f"{under.order.slot} {under.order.item}: {under.title} ({reason})")

    def _with_allowance(self, order: WorkOrder, busy: int) -> WorkOrder:
        """Whoever works elsewhere sees no spending but its own: what it may spend is reserved before it begins."""
        most = self._terms.max_cost_usd
        if most is None:
            return order
        allowance = max(0.0, self._money.left(most)) / max(1, self._plan.workers - busy)
        self._money.allow(order.id, allowance)
        return replace(order, allowance_usd=allowance, elsewhere_usd=most - allowance)

    def _of_order(self, item: str) -> JsonObject:
        """What ``harness limits --host`` says of a seat."""
        return {"project": os.fspath(self._git.top()), "run": self._plan.run, "item": item}

    def _ease_memory(self) -> None:
        """Takes the youngest attempt back where memory is scarce for a minute, unless it is the only one. SC-41."""
        if not self._memory.is_due(slots.free_memory(), time.monotonic() / clock.time_scale()):
            return
        at_work = [each for each in self._under.values() if each.order.kind == ATTEMPT and not each.recalled]
        if len(at_work) > 1 and self._engine.is_local:
            order = at_work[-1].order
            self._note("recalled", item=order.item, order=order.id, slot=order.slot, why="memory")
            self._say(f"{order.slot} {order.item}: is taken back, since memory is scarce; its work is kept")
            self._recall(at_work[-1], "memory is scarce")

    def _seeded(self, work: plan.ItemProgress, item: OpenItem, base: str) -> JsonObject:
        """What the next attempt has to repair, with the tree that it begins with: its work merged into the head."""
        found = self._home.merged(base, work.proven_on, work.commit, item.id, proven=False)
        seed = self._git.commit_tree(found.tree, [base], f"Work on {item.name}, to be mended")
        self._git.update_ref(f"refs/harness/mend/{item.name}", seed)
        named = [shown(os.fsencode(each)) for each in found.conflicts]
        return {**(work.mend or {}), "files": named, "seed": found.tree, "work": work.commit}

    def _written(
        self, kind: str, item: str, name: str, *, fence: int, slot: str, base: str, papers: JsonObject
    ) -> WorkOrder:
        return WorkOrder(
            id=f"{self._plan.run}/{name}/{fence}",
            kind=kind,
            item=item,
            name=name,
            fence=fence,
            place=os.path.join(self._folder, "places", slot),
            home=os.fspath(self._git.top()),
            base=base,
            branch=self._branch,
            hands=self._home.hands,
            own=self._home.own,
            lend=self._lend,
            fresh=kind == ATTEMPT and self._terms.settings.fresh,
            set_up=SetUp.of(self._terms.settings, self._terms.sandbox).as_record(),
            papers=papers,
            paper_files=tuple(name for name in self._home.paper_files if name in papers),
            paper_folders=tuple(name for name in self._home.paper_folders if name in papers),
        )

    def _begin(self, under: _Under) -> None:
        told = {**self._ports.variables(under.order.slot, self._plan.workers)}
        told["HARNESS_HOME_REPOSITORY"] = os.fspath(self._git.top())
        self._under[under.order.id] = under
        engine = self._engine if under.order.kind == ATTEMPT else self._here
        engine.submit(under.order, self._order_folder(under.order.id), told)

    def _combine(self, items: Sequence[str]) -> bool:
        head = str(self._git.commit_of(self._branch))
        if head != self._plan.head:
            self._note("head_moved", head=head)
            self._say(f"{self._branch} was moved by somebody else to {head[:10]}; it is verified first")
            return True
        if gone := self._not_ours(items):
            for item in gone:
                work = self._plan.work(item)
                ref = self._set_aside(work.order, work.commit)
                self._note("dropped", item=item)
                self._say(f"{item}: somebody else has it now; what was proven is in {ref}")
            return True
        members, commits, apart = self._combined(items, head)
        for item, files_of in apart.items():
            before = items[: items.index(item)]
            met = [each for each in members if each in before]
            self._bounced(item, {"why": "conflict", "files": files_of, "met": met})
        if not members:
            return True
        is_same = len(items) == 1 and self._plan.work(members[0]).proven_on == head
        vouched = is_same and self._is_ours(members[0]) and not self._home.checks_each
        self._batch(members, commits, head, vouched=vouched)
        return True

    def _combine_ahead(self, items: Sequence[str], on: str) -> bool:
        """The same on top of what is under check; what does not go together with that waits for what becomes of it."""
        if gone := self._not_ours(items):
            items = [each for each in items if each not in gone]
        members, commits, apart = self._combined(items, on)
        known = self._apart[1] if self._apart[0] == on else frozenset()
        self._apart = (on, known | {*apart, *gone})
        if members:
            self._batch(members, commits, on, vouched=False)
        return True

    def _combined(self, items: Sequence[str], head: str) -> tuple[list[str], list[str], dict[str, list[str]]]:
        """(members, their commits on top of one another, and of each item that does not go on top: the files)."""
        members: list[str] = []
        commits: list[str] = []
        apart: dict[str, list[str]] = {}
        for item in items:
            work = self._plan.work(item)
            on = commits[-1] if commits else head
            found = self._home.merged(on, work.proven_on, work.commit, item, proven=True)
            if found.conflicts:
                apart[item] = [*found.conflicts]
                continue
            commits.append(landing.put_on(self._git, on, self._candidate(item, work), found.tree))
            members.append(item)
        return members, commits, apart

    def _batch(self, members: list[str], commits: list[str], base: str, *, vouched: bool) -> None:
        tip = landing.tip_of(self._git, base, commits, members)
        self._git.update_ref(landing.HEAD_REF, tip)
        self._note("batched", members=members, commits=commits, base=base, vouched=vouched, tip=tip)

    def _is_ours(self, item: str) -> bool:
        """Whether it was proven on this machine: what another one has found is looked at here before it lands."""
        return not self._result(self._plan.work(item).order).get("host")

    def _not_ours(self, items: Sequence[str]) -> list[str]:
        """Candidates of items that the project does not show as theirs any more: a person has taken them back."""
        return [item for item in items if not self._home.holds(self._plan.work(item).order, item)]

    def _candidate(self, item: str, work: plan.ItemProgress) -> landing.Candidate:
        result = self._result(work.order)
        said = self._git.text("log", "-1", "--no-show-signature", "--format=%B", work.commit)
        told = str(result.get("subject") or said).rstrip()
        trailers = {landing.ITEM_TRAILER: item, "Harness-Attempt": work.order, "Harness-Candidate": work.commit}
        lines = [f"{name}: {' '.join(value.split())}" for name, value in trailers.items()]
        return landing.Candidate(commit=work.commit, message="\n".join([told, "", *lines, ""]))

    def _check(self, number: int, trial: Trial) -> bool:
        batches = self._plan.under_way
        at = next(at for at, each in enumerate(batches) if each.id == number)
        batch, commit = batches[at], batches[at].commits[trial.prefix - 1]
        before = {item: sha for each in batches[:at] for item, sha in zip(each.members, each.commits, strict=True)}
        checks = self._home.checks(batch.base, commit, batch.members[: trial.prefix], before)
        if trial.only:
            checks = [each for each in checks if each["name"] in trial.only]
        if not checks:
            self._verified(batch.id, trial, GREEN, ())
            return True
        self._order_checks(f"batch-{batch.id}", commit, checks, trial=trial, batch=batch.id)
        return False

    def _check_head(self, head: str) -> bool:
        joined = self._plan.joined
        checks = self._home.checks(joined.before if joined else head, head, None)
        if not checks and joined:
            self._judge_joined({}, GREEN, [])
            return True
        if not checks:
            self._note("head_trusted", head=head, audit=True)
            return True
        self._order_checks("head", head, checks, head=head)
        return False

    def _order_checks(self, name: str, commit: str, checks: list[JsonObject], **what: object) -> None:
        seat = self._seats.for_checks(self._of_order(name))
        if seat is None:
            return
        papers = self._home.check_papers(checks)
        number = len(self._ledger.events)
        busy = {each.order.slot for each in self._under.values()}
        slot = next(each for n in count(1) if (each := f"v{n}") not in busy)
        order = self._written(VERIFY, "", name, fence=number, slot=slot, base=commit, papers=papers)
        self._of_host[order.id] = seat
        self._begin(_Under(order=order, **what))  # type: ignore[arg-type]

    def _verified(self, batch: int, trial: Trial, result: str, failing: Sequence[str]) -> None:
        known = {"batch": batch, "prefix": trial.prefix, "only": [*trial.only]}
        self._note("verified", **known, result=result, failing=[*failing])

    def _bounce(self, item: str) -> None:
        batch = self._plan.batch
        assert batch is not None
        met = batch.members[: batch.members.index(item)]
        found = {
            "why": "red",
            "failing": [*batch.search.failing],
            "output": self._failures.get(batch.id, ""),
            "met": met,
        }
        self._bounced(item, found)

    def _bounced(self, item: str, mend: JsonObject) -> None:
        self._note("bounced", item=item, mend=mend)
        self._learned.bounced(item, mend.get("met") or ())
        work = self._plan.work(item)
        self._learn(item, work.proven_on, [work.commit])
        what = ", ".join(mend.get("files") or mend.get("failing") or [])
        self._say(f"{item}: does not land ({mend['why']}: {what})")
        self._home.ended(work.order, item, {"status": PARTIAL, "reason": "bounced"}, [])

    def _land(self, most: int) -> bool:
        batch = self._plan.batch
        assert batch is not None
        if not batch.landing:
            if self._not_ours(batch.members[:most]):
                self._note("released", singly=False)
                return True
            tip = batch.tip if most == len(batch.members) else ""
            if not tip:
                tip = landing.tip_of(self._git, batch.base, batch.commits[:most], batch.members[:most])
                self._git.update_ref(landing.HEAD_REF, tip)
            self._note("landing", batch=batch.id, commit=tip, count=most, expected=batch.base)
        try:
            with self._terms.stop.held():
                self._carry_landing_out(batch)
        except landing.InTheWay as error:
            return self._landing_waits(error)
        except UnsafeTree as error:
            if self._git.commit_of(self._branch) == batch.base:
                raise
            self._say(f"Not landed: {error.message}")
            self._note("released", singly=False)
        self._in_the_way, self._try_again_at = "", 0.0
        return True

    def _carry_landing_out(self, batch: plan.LandingBatch) -> None:
        tip = self._git.commit_of(self._branch)
        if not (tip and self._git.ancestor(batch.landing, tip)):  # else it is done, and more came on top of it
            landing.move(self._git, self._branch, batch.base, batch.landing)
        pairs = [*zip(batch.members[: batch.count], batch.commits, strict=False)]
        orders = {item: self._plan.work(item).order for item, _ in pairs}
        results = {item: self._result(order) for item, order in orders.items()}
        self._home.settle(
            [Landing(item=item, order=orders[item], commit=sha, result=results[item]) for item, sha in pairs]
        )
        self._note("landed", batch=batch.id, commit=batch.landing, push=self._home.push_target is not None)
        for item, _ in pairs:
            self._learned.forget(item)
        if not self._plan.under_way:
            self._git.update_ref(landing.HEAD_REF, None)
        self._say(f"Landed {', '.join(item for item, _ in pairs)} as {batch.landing[:10]}")

    def _push(self) -> bool:
        """What has landed goes to the remote; where it cannot, nothing lands on top of it, and agents go on. SC-39."""
        with self._terms.stop.held():
            if joined := self._plan.joined:
                return self._take_joined(joined)
            commit, target = self._plan.unpushed, self._home.push_target
            tip = self._git.commit_of(self._branch)
            if target is None or not (tip and self._git.ancestor(commit, tip)):
                self._note("pushed", head=self._plan.head)  # nobody asks for it any more
                return True
            done = target.push(self._git, commit)
            if done.ok:
                self._note("pushed", head=self._plan.head)
                self._home.note_push("pushed", commit, f"Pushed {commit[:10]}.")
                return True
            self._home.note_push("push_failed", commit, done.message)
            if done.rejected:
                self._join(commit, target, done.message)
            else:
                self._note("pushed", head=self._plan.head, away=done.message)
                self._say(f"Push failed: {done.message}")
            return True

    def _join(self, commit: str, target: PushTarget, said: str) -> None:
        """Puts what has landed on top of what the remote has, as objects; it is verified before the branch has it."""
        try:
            theirs = target.incoming(self._git, places.free_ref(self._git, "refs/harness/incoming"))
            if self._git.ancestor(theirs, commit) or self._plan.joins >= JOINS:
                raise UnsafeTree(said)
            found = on_top_of(self._git, theirs, commit)
            if found.problem:
                raise UnsafeTree(found.problem)
            self._home.refuse_joined(found.tip)
        except HarnessError as error:
            self._give_push_up(commit, error.message)
            return
        self._git.update_ref(landing.JOINED_REF, found.tip)
        self._note("joined", commit=found.tip, before=commit, base=theirs, renamed=dict(found.renamed))
        self._say(f"The remote has more; what has landed is verified on top of it, as {found.tip[:10]}.")

    def _take_joined(self, joined: plan.JoinedHead) -> bool:
        """The branch gets what was verified on top of what the remote has; each step can be repeated."""
        tip = self._git.commit_of(self._branch)
        try:
            if not (tip and self._git.ancestor(joined.commit, tip)):
                landing.move(self._git, self._branch, joined.before, joined.commit)
        except landing.InTheWay as error:
            return self._landing_waits(error)
        except UnsafeTree as error:
            self._give_push_up(joined.before, error.message)
            return True
        self._home.joined(joined.renamed, joined.commit, _read(os.path.join(self._folder, "joined.json")))
        self._note("join_moved", commit=joined.commit)
        self._git.update_ref(landing.JOINED_REF, None)
        self._home.note_push("pulled", joined.commit, f"{joined.before[:10]} is {joined.commit[:10]} now")
        self._in_the_way, self._try_again_at = "", 0.0
        return True

    def _judge_joined(self, found: JsonObject, result: str, failing: list[str]) -> None:
        joined = self._plan.joined
        assert joined is not None
        if result == GREEN:
            files.write_json(os.path.join(self._folder, "joined.json"), {**found, "commit": joined.commit})
            self._note("join_proven", commit=joined.commit)
            return
        told = f"it fails there: {', '.join(failing)}" if result == RED else "it could not be verified there"
        self._give_push_up(joined.before, told)

    def _give_push_up(self, commit: str, problem: str) -> None:
        told = " ".join(redact(problem).split())[:300]
        paused = f"The push of {commit[:10]} was rejected, and on top of what the remote has: {told}"
        self._note("pushed", head=self._plan.head, problem=paused)
        self._home.note_push("push_given_up", commit, paused)
        self._say(f"{paused}\nIt stays on its branch, not pushed. Pull and push by hand, then: harness resume")

    def _landing_waits(self, why: landing.InTheWay) -> bool:
        """A person's files are where the branch is to go: tried again in a minute."""
        if why.message != self._in_the_way:
            self._say(f"Landing waits: {why.message}")
        self._in_the_way, self._try_again_at = why.message, time.monotonic() + clock.scaled(IN_THE_WAY_SECONDS)
        return False

    # ---- results

    def _ended(self, order_id: str) -> None:
        under = self._under.pop(order_id)
        if seat := self._of_host.pop(order_id, None):
            seat.release()
        order = under.order
        if order.kind == VERIFY:
            self._take_checks(under)
            return
        if not _read(os.path.join(self._order_folder(order_id), RESULT)):
            rescues = self._rescued(Workplace(order.place), order.name)
            self._lose(order.item, order_id, order.fence, rescues, with_coordinator=under.recalled)
            return
        self._take(order.item, order_id, order.fence, recalled=under.recalled)

    def _take(self, item: str, order: str, fence: int, *, recalled: bool = False) -> None:
        """Takes a result in: books first, which may be repeated, then the event that says so."""
        work = self._plan.work(item)
        if work.order != order:
            self._note("late_result", item=item, order=order, fence=fence)
            self._money.settle(order, 0.0)
            return
        result = self._result(order)
        status, commit = str(result.get("status")), str(result.get("commit") or "")
        ref = f"{places.WORK_REFS}/{order.split('/')[1]}/{fence}"
        if status == ACCEPTED and not (self._git.commit_of(ref) == commit and self._git.ancestor(work.base, commit)):
            result |= {"status": PARTIAL, "reason": "no_candidate", "message": f"{ref} is not what the result says"}
            status = PARTIAL
        files_of_mend = [*(work.mend or {}).get("files", [])]
        self._home.ended(order, item, result, result.get("rescues") or [])
        known = {"item": item, "order": order, "fence": fence, "status": status, "commit": commit}
        known |= {name: result.get(name) for name in ("reason", "message", "exit_code", "uncounted")}
        known["cost_usd"] = self._money.settle(order, float(result.get("cost_usd") or 0.0))
        known |= {} if self._engine.is_local else {"elsewhere": True}
        self._note("ended", **known, recalled=recalled)
        if status != ACCEPTED:
            self._learn(item, work.base, result.get("rescues") or [])
        elif self._learned.paths:  # by whose files it may be met until it has landed
            self._learn(item, work.base, [commit])
        if result.get("reason") == NOT_SET_UP:
            tail = "; ".join([str(result.get("message")), *(result.get("output") or [])[-3:]])
            self._note("slot_shut", slot=work.slot, tail=tail)
            self._say(f"{work.slot} is closed: {tail}")
        self._say(f"{work.slot} {item}: {status} ({result.get('message') or result.get('reason') or ''})")
        if status == ACCEPTED and (left := landing.marked(self._git, commit, files_of_mend)):
            self._bounced(item, {"why": "conflict_markers", "files": left, "met": []})

    def _learn(self, item: str, base: str, tips: Sequence[str]) -> None:
        """Keeps which files an attempt has changed, for the choice of what begins beside it; SC-7."""
        tip = next((sha for each in tips if (sha := self._git.commit_of(each))), None)
        if tip:
            paths = map(shown, self._git.differences(base, tip))
            self._learned.learn(item, (each for each in paths if each not in self._home.common))
            self._save_learned()

    def _save_learned(self, *, now: bool = False) -> None:
        if time.monotonic() >= self._save_at or now:
            self._save_at = time.monotonic() + SAVE_SECONDS
            with suppress(HarnessError, OSError):
                files.write_json(os.path.join(self._folder, LEARNED), self._learned.as_record(), follow=False)

    def _lose(self, item: str, order: str, fence: int, rescues: list[str], *, with_coordinator: bool) -> None:
        self._home.ended(order, item, None, rescues)
        known = {"item": item, "order": order, "fence": fence, "with_coordinator": with_coordinator}
        self._note("lost", **known, cost_usd=self._money.settle(order, 0.0))
        kept = f"; its work is in {', '.join(rescues)}" if rescues else ""
        self._say(f"{item}: nothing came back of {order}{kept}")

    def _take_checks(self, under: _Under) -> None:
        found = _read(os.path.join(self._order_folder(under.order.id), RESULT))
        shutil.rmtree(self._order_folder(under.order.id), ignore_errors=True)
        result = found.get("status")
        result = result if result in (GREEN, RED) else BROKEN
        failing = [str(each) for each in found.get("failing") or []]
        if under.trial:
            batch = next((each for each in self._plan.under_way if each.id == under.batch), None)
            if batch is None:
                return  # it is verified on a head that there will not be
            if result == RED:
                self._failures = {under.batch: str(found.get("output") or "")[-4000:], **self._failures}
            self._say(f"Batch {batch.id}, {under.trial.prefix} of {len(batch.members)}: {result} {' '.join(failing)}")
            self._verified(batch.id, under.trial, str(result), failing)
        elif self._plan.joined:
            self._judge_joined(found, str(result), failing)
        elif self._plan.suspect:
            self._judge_head(under.head, str(result), failing)
        else:
            self._audit(under.head, str(result), failing)

    def _judge_head(self, head: str, result: str, failing: list[str]) -> None:
        if result == GREEN:
            self._note("head_trusted", head=head)
        else:
            self._note("blocked", reason="head_red" if result == RED else "landing_broken")
            self._say(f"{self._branch} at {head[:10]} does not prove {', '.join(failing) or 'anything'}")

    def _audit(self, head: str, result: str, failing: list[str]) -> None:
        """What was proven once more at the end: what fails is opened again."""
        self._audits += 1
        if result == BROKEN:
            self._note("blocked", reason="landing_broken")
            return
        if result == RED and self._audits > AUDITS:
            self._note("blocked", reason="head_red")
            return
        if result == RED:
            self._home.reopen(failing, "it fails on the head, together with what has landed since")
            self._note("reopened", items=failing)
            self._say(f"Open again, since it fails on the head: {', '.join(failing)}")
        self._note("head_trusted", head=head, audit=True)


def _shown(under: _Under, heard: JsonObject) -> JsonObject:
    """An attempt, with what its session says that it does."""
    order = under.order
    known = {"slot": order.slot, "host": owner.current().host, "item": order.item, "title": under.title}
    phase = str(heard.get("phase", "setup"))
    known |= {"order": order.id, "phase": PHASES.get(phase, phase), "since": heard.get("since", under.since)}
    return known | {name: heard.get(name) for name in ("tokens", "cost_usd", "last")}


def learned_in(folder: str) -> LearnedOverlap:
    """What earlier attempts have said of items that change the same; the file may be gone, or anybody's."""
    return LearnedOverlap.from_record(_read(os.path.join(folder, LEARNED)))


def _folder_name(order: str) -> str:
    return order.replace("/", ".")


def _read(path: str) -> JsonObject:
    try:
        return files.read_json(path)
    except (OSError, HarnessError):
        return {}


def state_folder(place: str | None) -> str:
    """The folder of parallel runs, in the project's folder outside of it. ``Refused`` where there is none."""
    if place is None:
        raise Refused("no folder outside the project can be written", hint="set XDG_STATE_HOME")
    return os.path.join(place, "parallel")
