"""Learned overlap delays an item, and never leaves a slot idle; whatever the file says. SC-7."""

from hypothesis import given
from hypothesis import strategies as some

from agent_harness.parallel import decision, overlap
from agent_harness.parallel.items import OpenItem
from agent_harness.parallel.overlap import LearnedOverlap

from .test_plan import begun, ordered

ITEMS = [f"i{n}" for n in range(8)]
LEARNED = some.builds(
    lambda paths, pairs: LearnedOverlap.from_record({"paths": paths, "pairs": pairs}),
    some.dictionaries(some.sampled_from(ITEMS), some.lists(some.sampled_from("xyz"), max_size=2)),
    some.lists(some.lists(some.sampled_from(ITEMS), min_size=2, max_size=2), max_size=6),
)
OPEN_ITEMS = some.lists(
    some.builds(
        lambda name, touches: OpenItem(id=name, name=name, touches=tuple(touches)),
        some.sampled_from(ITEMS),
        some.lists(some.sampled_from(["src/*", "docs/*", "src/a"]), max_size=1),
    ),
    unique_by=lambda each: each.id,
)
JSON = some.recursive(
    some.none() | some.integers() | some.text(max_size=3),
    lambda each: some.lists(each, max_size=3) | some.dictionaries(some.text(max_size=3), each, max_size=3),
)


@given(items=OPEN_ITEMS, learned=LEARNED, count=some.integers(0, 6))
def test_no_slot_is_idle_for_what_was_only_learned(items: list[OpenItem], learned: LearnedOverlap, count: int) -> None:
    found = ordered(begun(), "i0")
    picked = decision.pick(found, items, count, learned)
    names = [each.item.id for each in picked]
    assert len(names) == len({*names}) <= count
    assert all(each.reason for each in picked)
    busy = [(), *(each.item.touches for each in picked)]
    for each in items if len(picked) < count else ():
        fits = each.id != "i0" and not any(decision.meet(each.touches, touches) for touches in busy)
        assert each.id in names or not fits


@given(paths=JSON, pairs=JSON)
def test_what_the_file_says_is_believed_as_far_as_it_is_of_its_kind(paths: object, pairs: object) -> None:
    known = LearnedOverlap.from_record({"paths": paths, "pairs": pairs})
    assert LearnedOverlap.from_record(known.as_record()) == known
    known.met("a", ["b", "c"])


def test_it_gives_way_to_others_and_says_why() -> None:
    items = [OpenItem(id=each, name=each) for each in ("b", "c", "d")]
    learned = LearnedOverlap()
    learned.learn("a", ["src/api.py", "x"])
    learned.learn("b", ["src/api.py"])
    learned.note_rejected("c", ["a", "c"])
    chosen = [*decision.choices(ordered(begun()), items, 1, learned)]
    assert [(each.item.id, each.starts) for each in chosen] == [("d", True), ("b", False), ("c", False)]
    assert chosen[1].reason == "it gives way to others: attempts at it and at a have changed src/api.py"
    assert chosen[2].reason == "it gives way to others: it could not be merged together with a before"
    (_, second) = decision.pick(ordered(begun()), items, 2, learned)
    assert second.item.id == "b"
    assert second.reason.endswith("although attempts at it and at a have changed src/api.py: nothing else can start")
    learned.forget("a")
    assert decision.pick(ordered(begun()), items, 1, learned)[0].item.id == "b"


def test_the_oldest_goes_once_there_is_too_much() -> None:
    learned = LearnedOverlap()
    for number in range(overlap.MOST_ITEMS + 5):
        learned.learn(str(number), [f"{n}" for n in range(3)])
        learned.note_rejected(str(number), ["other"])
    assert len(learned.paths) == overlap.MOST_ITEMS and "0" not in learned.paths
    assert len(learned.pairs) == overlap.MOST_PAIRS
    learned.learn("many", (str(n) for n in range(1000)))
    assert len(learned.paths["many"]) == overlap.MOST_PATHS
