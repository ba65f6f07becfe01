"""The rules of a parallel run: its moves row by row, and whole runs of the real rules under a virtual clock."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from agent_harness.kernel.json import JsonObject
from agent_harness.parallel import decision, plan
from agent_harness.parallel.batching import Search, Trial, next_size
from agent_harness.parallel.decision import Facts
from agent_harness.parallel.items import ACCEPTED, BROKEN, GREEN, PARKED, PARTIAL, RED, REJECTED, OpenItem
from agent_harness.parallel.plan import LANDED, LANDING, MOVES, OPEN, READY, WORKING, RunPlan

from .simulated import Simulated, World


def begun(**settings: Any) -> RunPlan:
    found = RunPlan()
    known = {"batch_max": 8, "mends": 2, "workers": 2} | settings
    found.apply({"type": "run", "run": "r", "branch": "main", "head": "h", **known})
    return found


def ordered(found: RunPlan, item: str = "a", fence: int = 1) -> RunPlan:
    job = {"item": item, "order": f"r/{item}/{fence}", "fence": fence, "slot": "w1", "base": "h", "touches": ()}
    found.apply({"type": "ordered", **job})
    return found


def ended(found: RunPlan, status: str, item: str = "a", fence: int = 1) -> RunPlan:
    event = {"type": "ended", "item": item, "order": f"r/{item}/{fence}", "status": status, "commit": f"c-{item}"}
    found.apply({**event, "reason": "why"})
    return found


def batched(found: RunPlan, *items: str) -> RunPlan:
    found.apply({"type": "batched", "members": [*items], "commits": [*items], "base": "h", "vouched": False})
    return found


def landed(found: RunPlan, count: int) -> RunPlan:
    found.apply({"type": "landing", "batch": 1, "commit": "n", "count": count})
    found.apply({"type": "landed", "batch": 1, "commit": "n"})
    return found


def ready(*items: str) -> RunPlan:
    found = begun()
    for item in items:
        ended(ordered(found, item), ACCEPTED, item)
    return found


BOUNCED: JsonObject = {"type": "bounced", "item": "a", "mend": {"why": "conflict"}}
LOST: JsonObject = {"type": "lost", "item": "a", "order": "r/a/1", "with_coordinator": False}
ROWS = [
    (OPEN, "ordered", lambda: ordered(begun())),
    (WORKING, ACCEPTED, lambda: ready("a")),
    (WORKING, PARTIAL, lambda: ended(ordered(begun()), PARTIAL)),
    (WORKING, REJECTED, lambda: ended(ordered(begun()), REJECTED)),
    (WORKING, PARKED, lambda: ended(ordered(begun()), PARKED)),
    (WORKING, "lost", lambda: applied(ordered(begun()), LOST)),
    (READY, "batched", lambda: batched(ready("a"), "a")),
    (READY, "bounced", lambda: applied(ready("a"), BOUNCED)),
    (READY, "dropped", lambda: applied(ready("a"), {"type": "dropped", "item": "a"})),
    (LANDING, "bounced", lambda: applied(batched(ready("a"), "a"), BOUNCED)),
    (LANDING, "released", lambda: applied(batched(ready("a"), "a"), {"type": "released", "singly": False})),
    (LANDING, "landed", lambda: landed(batched(ready("a"), "a"), 1)),
    (LANDED, "reopened", lambda: applied(landed(batched(ready("a"), "a"), 1), {"type": "reopened", "items": ["a"]})),
]


def applied(found: RunPlan, *events: JsonObject) -> RunPlan:
    for event in events:
        found.apply(event)
    return found


@pytest.mark.parametrize(("state", "how", "made"), ROWS, ids=[f"{row[0]}-{row[1]}" for row in ROWS])
def test_a_move(state: str, how: str, made: Callable[[], RunPlan]) -> None:
    """SC-5, SC-9."""
    assert made().work("a").state == MOVES[state, how]


def test_every_move_has_its_row() -> None:
    assert {(state, how) for state, how, _ in ROWS} == {*MOVES}


def test_a_result_of_an_order_that_is_not_the_last_changes_nothing() -> None:
    """SC-29."""
    found = ordered(applied(ordered(begun()), LOST), fence=2)
    ended(found, ACCEPTED, fence=1)
    assert (found.work("a").state, found.queue) == (WORKING, [])


def test_what_is_lost_three_times_in_a_row_waits_for_a_person_and_the_coordinators_own_death_is_no_loss() -> None:
    found = begun()
    for fence in range(1, 6):
        ordered(found, fence=fence)
        found.apply({**LOST, "order": f"r/a/{fence}", "with_coordinator": True})
    assert (found.work("a").state, found.attempts) == (OPEN, 0)
    for fence in range(6, 9):
        ordered(found, fence=fence)
        found.apply({**LOST, "order": f"r/a/{fence}"})
    assert (found.work("a").state, found.work("a").why) == (PARKED, "attempt_lost")


def test_a_bounce_is_mended_twice_then_made_anew_then_it_waits() -> None:
    found = begun()
    seen = []
    for fence in range(1, 5):
        ended(ordered(found, fence=fence), ACCEPTED, fence=fence)
        found.apply(BOUNCED)
        seen.append((found.work("a").state, bool(found.work("a").fix)))
    assert seen == [(OPEN, True), (OPEN, True), (OPEN, False), (PARKED, False)]
    assert found.work("a").why == "landing_failed"


def test_a_candidate_keeps_what_it_was_proven_on_while_a_later_attempt_at_its_mend_is_lost() -> None:
    found = applied(ready("a"), BOUNCED)
    job = {"item": "a", "order": "r/a/2", "fence": 2, "slot": "w1", "base": "later", "touches": ()}
    applied(found, {"type": "ordered", **job}, {**LOST, "order": "r/a/2"})
    assert (found.work("a").commit, found.work("a").proven_on) == ("c-a", "h")


def test_those_who_did_not_land_keep_their_place_in_the_queue() -> None:
    found = landed(batched(ready("a", "b", "c", "d"), "a", "b", "c"), 1)
    assert found.queue == ["b", "c", "d"]


def test_what_a_run_leaves_is_carried_into_the_next() -> None:
    found = applied(ready("a", "b"), BOUNCED)
    later = RunPlan()
    known = {"run": "s", "branch": "main", "head": "h", "workers": 1, "batch_max": 8, "mends": 2}
    later.apply({"type": "run", **known, "carried": found.carried()})
    assert later.queue == ["b"]
    assert (later.work("a").fix, later.work("a").commit, later.work("a").fence) == ({"why": "conflict"}, "c-a", 1)


def test_what_was_being_verified_when_a_run_ended_is_ready_in_the_next_before_the_rest() -> None:
    """SC-5: it is proven already, so no agent does it a second time."""
    found = batched(ready("a", "b", "c"), "c")
    later = RunPlan()
    known = {"run": "s", "branch": "main", "head": "h", "workers": 1, "batch_max": 8, "mends": 2}
    later.apply({"type": "run", **known, "carried": found.carried()})
    assert (later.queue, later.work("c").commit) == (["c", "a", "b"], "c-c")


def test_what_no_proof_of_everything_has_seen_is_proven_once_the_next_run_rests() -> None:
    """The run before was ended first; if no attempt is left, nothing begins any more, and the run rests too."""
    found = landed(batched(ready("a"), "a"), 1)
    later = RunPlan()
    known = {"run": "s", "branch": "main", "head": "n", "workers": 2, "batch_max": 8, "mends": 2}
    later.apply({"type": "run", **known, "unaudited": found.combined and not found.audited})
    open_items = [OpenItem(id="b", name="b")]
    facts = Facts(items=open_items, slots=2, checking=False, may_begin=True, most_attempts=0)
    assert decision.decide(later, facts) == [decision.RunChecks(head="n")]
    assert [type(each) for each in decision.decide(later, replace(facts, most_attempts=1))] == [decision.StartAttempt]
    later.apply({"type": "head_trusted", "head": "n", "audit": True})
    assert decision.decide(later, facts) == []


# ---- picking ---------------------------------------------------------------------------------------------------------


def items(*declared: tuple[str, tuple[str, ...]]) -> list[OpenItem]:
    return [OpenItem(id=name, name=name, touches=touches) for name, touches in declared]


def test_items_that_say_that_they_touch_the_same_wait_for_one_another() -> None:
    """SC-7, SC-8."""
    wanted = items(("a", ("src/api/*",)), ("b", ("src/api/x.py",)), ("c", ("docs/**",)), ("d", ()), ("all", ("**",)))
    picked = decision.pick(begun(), wanted, 5)
    assert [each.item.id for each in picked] == ["a", "c", "d"]
    assert all(each.reason for each in picked)


def test_of_each_item_it_is_said_why_it_begins_or_waits() -> None:
    """SC-7, SC-8: one that says that it changes everything waits for those that say nothing, too."""
    found = ready("r")
    wanted = items(("r", ()), ("a", ("src/*",)), ("b", ("src/x.py",)), ("all", ("**",)), ("d", ()), ("e", ()))
    told = {each.item.id: (each.starts, each.reason) for each in decision.choices(found, wanted, 2)}
    assert [name for name, (starts, _) in told.items() if starts] == ["a", "d"]
    assert told["r"][1] == "it is ready"
    assert told["b"][1] == "it waits for a: both declare changes to src/*"
    assert told["all"][1].startswith("it waits for r: ")
    assert told["e"][1] == "it waits for a free slot"
    alone = decision.pick(begun(), items(("all", ("**",)), ("d", ())), 2)
    assert [each.item.id for each in alone] == ["all"]


def test_nothing_is_begun_beyond_slots_limits_and_questions() -> None:
    def begin(found: RunPlan, *, may_begin: bool = True, most: int | None = None) -> int:
        wanted = items(*((name, ()) for name in "abc"))
        facts = Facts(items=wanted, slots=2, checking=False, may_begin=may_begin, most_attempts=most)
        return len(decision.decide(found, facts))

    assert (begin(begun()), begin(begun(), most=1), begin(begun(), may_begin=False)) == (2, 1, 0)
    assert begin(applied(begun(), {"type": "blocked", "reason": "head_red"})) == 0


# ---- batches ---------------------------------------------------------------------------------------------------------


@given(some.integers(1, 64), some.data())
def test_a_red_batch_costs_so_many_runs_and_names_the_culprit(size: int, data: some.DataObject) -> None:
    """SC-34."""
    failing_change = data.draw(some.integers(1, size))
    search, runs = Search(size=size), 0
    while trial := search.next_trial():
        runs += 1
        is_red = trial.prefix >= failing_change
        search = search.after(trial, RED if is_red else GREEN, ("t",) if is_red else ())
    assert search.failing_change == failing_change
    assert search.green == (failing_change - 1)
    assert runs <= 2 + math.ceil(math.log2(size)) if size > 1 else runs == 1


def test_a_search_that_contradicts_itself_ends_in_batches_of_one() -> None:
    """SC-34: the batch fails as a whole, and the prefix before the failing change fails for another reason."""
    search = Search(size=2)
    for result, failing in ((RED, ("t",)), (GREEN, ()), (RED, ("other",))):
        trial = search.next_trial()
        assert trial
        search = search.after(trial, result, failing)
    assert search.contradicts
    assert search.next_trial() is None


def test_what_the_machine_does_is_repeated_once_and_convicts_nobody() -> None:
    """SC-35."""
    search = Search(size=3)
    first = search.next_trial()
    assert first
    search = search.after(first, BROKEN, ())
    assert search.next_trial() == first
    search = search.after(first, BROKEN, ())
    assert (search.next_trial(), search.failing_change) == (None, None)


def test_the_size_of_a_batch() -> None:
    assert [next_size(8, 8, RED), next_size(1, 8, RED), next_size(4, 8, GREEN), next_size(8, 8, GREEN)] == [4, 1, 5, 8]
    assert next_size(4, 8, BROKEN) == 4


# ---- whole runs ------------------------------------------------------------------------------------------------------

PAIRS = some.frozensets(some.tuples(some.integers(0, 19), some.integers(0, 19)).filter(lambda pair: pair[0] != pair[1]))


@given(
    some.builds(
        World,
        size=some.integers(1, 20),
        workers=some.integers(1, 9),
        seed=some.integers(0, 10_000),
        conflicts=PAIRS,
        breaks=PAIRS,
        rejected=some.floats(0, 0.2),
        deaths=some.floats(0, 0.2),
        broken=some.sampled_from([0.0, 0.0, 0.1]),
        window=some.integers(1, 4),
        test_runs=some.integers(1, 3),
        batch_max=some.integers(1, 8),
        check_seconds=some.sampled_from([1.0, 9.0]),
    )
)
def test_whatever_conflicts_breaks_and_dies_everything_lands_once(world: World) -> None:
    """SC-5, SC-29, SC-31: the real rules; an item is parked only after more rejections than fixes can repair."""
    done = Simulated(world).run()
    parked = done.plan.in_state(PARKED)
    assert len(done.landed) == len({*done.landed})
    if done.plan.blocked:
        assert (done.plan.blocked, world.broken > 0) == ("landing_broken", True)
        return
    assert {*done.landed} | {*parked} | _behind(parked, world) == {f"i{n}" for n in range(world.size)}
    assert all(done.plan.work(item).rejections > 3 for item in parked)


def _behind(parked: list[str], world: World) -> set[str]:
    """Return the items that depend on a parked item."""
    found: set[str] = set()
    for number in range(2, world.size):
        if number % 7 == 0 and f"i{number - 2}" in {*parked, *found}:
            found.add(f"i{number}")
    return found


@given(some.integers(0, 10_000), some.data())
def test_folding_a_part_and_then_the_rest_is_folding_the_whole(seed: int, data: some.DataObject) -> None:
    """SC-5."""
    pairs = {"conflicts": frozenset({(1, 2), (3, 4)}), "breaks": frozenset({(0, 6), (5, 7)})}
    ahead = {"window": 2, "test_runs": 2, "check_seconds": 9.0}
    done = Simulated(World(size=8, workers=3, seed=seed, rejected=0.1, deaths=0.05, **pairs, **ahead)).run()
    at = data.draw(some.integers(0, len(done.events)))
    part = plan.fold(done.events[:at])
    for event in done.events[at:]:
        part.apply(event)
    assert part == plan.fold(done.events) == done.plan


@pytest.mark.parametrize(("conflicts", "most"), [(frozenset(), 1.35), (None, 1.8)])
def test_eight_workers_are_as_fast_as_they_can_be(conflicts: frozenset[tuple[int, int]] | None, most: float) -> None:
    """The bars of 200 tasks of six seconds, under the virtual clock: independent, and every third pair in conflict."""
    pairs = frozenset((n, n + 1) for n in range(0, 199, 6)) if conflicts is None else conflicts
    done = Simulated(World(size=200, workers=8, conflicts=pairs)).run()
    assert len(done.landed) == 200
    assert done.now <= most * 150


def test_runs_of_checks_per_item_when_some_are_bad() -> None:
    bad = frozenset((n, n + 1) for n in range(0, 200, 20))
    done = Simulated(World(size=200, workers=8, breaks=bad)).run()
    assert len(done.landed) == 200
    assert done.checks / 200 <= 0.6


@pytest.mark.slow
def test_a_list_of_two_thousand_is_planned_and_folded() -> None:
    done = Simulated(World(size=2000, workers=8)).run()
    assert len(done.landed) == 2000
    assert plan.fold(done.events) == done.plan


def test_what_has_landed_is_pushed_first_and_nothing_lands_on_what_could_not_be() -> None:
    """SC-39: agents go on; the next run tries again."""
    items = [OpenItem(id="c", name="c")]
    facts = Facts(items=items, slots=1, checking=False, may_begin=True)
    found = batched(ready("a", "b"), "a")
    found.apply({"type": "landing", "batch": 1, "commit": "n", "count": 1})
    found.apply({"type": "landed", "batch": 1, "commit": "n", "push": True})
    assert decision.decide(found, facts) == [decision.PushLanded()]
    found.apply({"type": "pushed", "head": "n", "problem": "refused"})
    assert [type(each) for each in decision.decide(found, facts)] == [decision.StartAttempt]
    found.apply({"type": "run", "run": "r", "branch": "main", "head": "n", "batch_max": 8, "mends": 2, "workers": 2})
    assert decision.decide(found, facts) == [decision.PushLanded()]
    found.apply({"type": "pushed", "head": "m", "problem": None})
    assert found.head == "m"
    assert decision.CombineCandidates(items=("b",)) in decision.decide(found, facts)


def test_what_goes_on_top_of_the_remote_is_verified_before_the_branch_has_it() -> None:
    """SC-39: the branch moves once to a verified commit, which is pushed; a failing one is given up; agents go on."""
    facts = Facts(items=[], slots=0, checking=False, may_begin=True)
    found = batched(ready("a", "b"), "a")
    found.apply({"type": "landing", "batch": 1, "commit": "n", "count": 1})
    found.apply({"type": "landed", "batch": 1, "commit": "n", "push": True})
    joined = {"type": "joined", "commit": "j", "before": "n", "base": "theirs", "renamed": {"n": "j"}}
    found.apply(joined)
    assert (decision.decide(found, facts), found.moving) == ([decision.RunChecks(head="j")], None)
    found.apply({"type": "join_proven", "commit": "another"})
    assert decision.decide(found, facts) == [decision.RunChecks(head="j")]
    found.apply({"type": "join_proven", "commit": "j"})
    assert (decision.decide(found, facts), found.moving) == ([decision.PushLanded()], ("n", "j"))
    found.apply({"type": "join_moved", "commit": "j"})
    assert (found.head, found.unpushed, found.moving) == ("j", "j", None)
    found.apply({"type": "pushed", "head": "j", "away": "no route"})
    assert decision.decide(found, facts) == [decision.CombineCandidates(items=("b",))]
    run = {"run": "s", "branch": "main", "head": "j", "batch_max": 8, "mends": 2, "workers": 2}
    after = RunPlan()
    after.apply({"type": "run", **run, "unpushed": found.unpushed, "carried": found.carried()})
    assert decision.decide(after, facts) == [decision.PushLanded()]
    after.apply({**joined, "before": "j", "commit": "k"})
    after.apply({"type": "pushed", "head": "j", "problem": "it fails there"})
    assert (decision.decide(after, facts), after.joined) == ([], None)


# ---- batches ahead ---------------------------------------------------------------------------------------------------


def ahead(*, window: int = 2) -> RunPlan:
    """Return a plan in which a is being checked on h, b on top of it, and c waits."""
    found = ready("a", "b", "c")
    found.window = window
    first = {"type": "batched", "members": ["a"], "commits": ["ca"], "base": "h", "vouched": False, "tip": "ta"}
    found.apply(first)
    found.apply({**first, "members": ["b"], "commits": ["cb"], "base": "ta", "tip": "tb"})
    return found


def verified(found: RunPlan, batch: int, result: str, *failing: str) -> RunPlan:
    found.apply({"type": "verified", "batch": batch, "prefix": 1, "only": [], "result": result, "failing": [*failing]})
    return found


def steps(found: RunPlan, **facts: Any) -> list[decision.Step]:
    known: dict[str, Any] = {"items": [], "slots": 0, "checking": True, "may_begin": True, "test_runs": 1}
    return decision.decide(found, Facts(**{**known, **facts}))


def test_the_next_batch_is_combined_and_verified_on_top_of_the_one_under_check() -> None:
    found = ready("a", "b", "c")
    found.window, found.size = 2, 1
    found.apply({"type": "batched", "members": ["a"], "commits": ["ca"], "base": "h", "vouched": False, "tip": "ta"})
    assert steps(found, test_runs=0) == []
    assert steps(found) == [decision.CombineCandidates(items=("b",), on="ta")]
    assert steps(found, apart=frozenset("b")) == [decision.CombineCandidates(items=("c",), on="ta")]
    found.window = 1
    assert steps(found) == []
    found = ahead()
    assert steps(found) == [decision.RunChecks(batch=2, trial=Trial(prefix=1))]
    assert steps(found, ahead=frozenset({2})) == []
    assert steps(ahead(window=3), ahead=frozenset({2})) == [decision.CombineCandidates(items=("c",), on="tb")]


def test_a_verdict_on_top_counts_once_its_base_is_the_head() -> None:
    found = verified(ahead(), 2, GREEN)
    assert steps(found, checking=False) == [decision.RunChecks(batch=1, trial=Trial(prefix=1))]
    found = landed(verified(found, 1, GREEN), 1)  # as another commit than b was verified on
    assert (found.batch, found.queue) == (None, ["b", "c"])
    found = verified(verified(ahead(), 2, GREEN), 1, GREEN)
    found.apply({"type": "landing", "batch": 1, "commit": "ta", "count": 1})
    found.apply({"type": "landed", "batch": 1, "commit": "ta"})
    assert steps(found, checking=False) == [decision.LandBatch(count=1)]


def test_a_red_first_batch_throws_away_the_verdict_above_it() -> None:
    found = verified(verified(ahead(), 2, GREEN), 1, RED, "x")
    assert (found.ahead, found.queue, found.work("b").state) == ([], ["b", "c"], READY)
    assert steps(found, checking=False) == [decision.RejectItem(item="a")]
    assert verified(found, 2, GREEN).under_way == [found.batch]  # what comes back of it later says nothing
    found = verified(ahead(), 2, RED, "x")
    assert steps(found, checking=False) == [decision.RunChecks(batch=1, trial=Trial(prefix=1))]
    assert found.work("b").rejections == 0


def test_a_window_of_two_takes_less_time_than_one_batch_after_the_other() -> None:
    world = World(size=60, workers=8, seconds=1.0, check_seconds=9.0)
    one, two = Simulated(world).run(), Simulated(replace(world, window=2, test_runs=2)).run()
    assert len(one.landed) == len(two.landed) == 60
    assert two.now < 0.75 * one.now


def test_a_batch_of_which_a_member_has_bounced_does_not_outlive_its_coordinator() -> None:
    """SC-5: the member is worked on again, and the batch still has its old commit."""
    found = batched(ready("a", "b"), "a", "b")
    found.apply({"type": "verified", "batch": 1, "prefix": 2, "only": [], "result": RED, "failing": ["x"]})
    found.apply({"type": "verified", "batch": 1, "prefix": 1, "only": ["x"], "result": RED, "failing": ["x"]})
    found.apply(BOUNCED)
    run = {"run": "r", "branch": "main", "head": "h", "batch_max": 8, "mends": 2, "workers": 2}
    found.apply({"type": "run", **run})
    assert (found.batch, found.queue) == (None, ["b"])


def test_what_a_landing_broke_is_known_until_its_item_lands_again_also_by_the_next_run() -> None:
    found = landed(batched(ready("a", "b"), "a", "b"), 2)
    assert found.broken == {}
    fix = {"why": "red", "failing": ["a"], "met": ["a"]}
    applied(found, {"type": "reopened", "items": ["b"], "mend": fix})
    assert found.broken == {"b": ("a",)}
    ended(ordered(found, "b", 2), ACCEPTED, "b", 2)
    applied(found, {"type": "bounced", "item": "b", "mend": {"why": "conflict"}})
    assert found.broken == {"b": ("a",)}
    following = begun(carried=found.carried())
    assert following.broken == {"b": ("a",)}


def test_what_fails_by_itself_has_broken_nothing() -> None:
    found = landed(batched(ready("a"), "a"), 1)
    applied(found, {"type": "reopened", "items": ["a"], "mend": {"why": "red", "failing": ["a"]}})
    assert found.broken == {}
