"""Each answer against a slow and obvious one, and against 100,000 items."""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent_harness.kernel import graph

Work = Mapping[int, list[int]]

_works = st.integers(0, 7).flatmap(
    lambda size: st.permutations(range(size)).flatmap(
        lambda items: st.fixed_dictionaries(
            {item: st.lists(st.integers(0, size), max_size=3) for item in items}  # the number after the last is unknown
        )
    )
)
_some = st.sets(st.integers(0, 8))


def reached(work: Work, start: int) -> set[int]:
    """What an item needs, however indirectly, by repeating until nothing changes."""
    found = set(work.get(start, ()))
    while more := {need for item in found for need in work.get(item, ())} - found:
        found |= more
    return found


@given(_works, _some)
def test_ready_is_what_needs_nothing_more(work: Work, done: set[int]) -> None:
    found = graph.ready(work, done)
    assert found == [item for item in work if item not in done and set(work[item]) <= done]


@given(_works)
def test_missing_names_item_and_dependency(work: Work) -> None:
    assert graph.missing(work) == [(item, need) for item in work for need in work[item] if need not in work]


@given(_works, _some)
def test_blocked_names_the_nearest_failure(work: Work, failed: set[int]) -> None:
    found = graph.blocked(work, failed)
    assert list(found) == [item for item in work if item not in failed and reached(work, item) & failed]
    for item, reason in found.items():
        layers, seen = [{item}], {item}
        while not layers[-1] & failed:
            layers.append({need for one in layers[-1] for need in work.get(one, ())} - seen)
            seen |= layers[-1]
        assert reason in layers[-1] & failed


@given(_works, st.integers(0, 8))
def test_dependents_are_all_that_reach_it(work: Work, of: int) -> None:
    assert graph.dependents(work, of) == [item for item in work if item != of and of in reached(work, item)]


@given(_works)
def test_order_puts_dependencies_first_and_loses_nothing(work: Work) -> None:
    found = graph.order(work)
    assert sorted(found) == sorted(work)
    place = {item: number for number, item in enumerate(found)}
    for item in work:
        for need in set(work[item]) & set(work):
            assert place[need] < place[item] or item in reached(work, need)


@given(_works)
def test_an_order_that_is_right_already_stays(work: Work) -> None:
    sorted_work = {item: work[item] for item in graph.order(work)}
    if not graph.cycles(work):
        assert graph.order(sorted_work) == list(sorted_work)


@given(_works)
def test_cycles_are_true_simple_and_complete(work: Work) -> None:
    paths = graph.cycles(work)
    for path in paths:
        assert path[0] == path[-1]
        assert len(set(path)) == len(path) - 1
        assert all(need in work[item] for item, need in pairwise(path))
    on_a_circle = {item for item in work if item in reached(work, item)}
    assert {item for path in paths for item in path} == on_a_circle
    assert bool(paths) == bool(on_a_circle)


def test_the_seeds_example() -> None:
    assert graph.cycles({"task-A": ["task-B"], "task-B": ["task-A"]}) == [["task-A", "task-B", "task-A"]]
    assert graph.cycles({"a": ["a"], "b": ["c"], "c": []}) == [["a", "a"]]
    work: dict[str, list[str]] = {"a": [], "b": ["a"], "c": ["b"], "d": ["x"]}
    assert graph.blocked(work, {"a"}) == {"b": "a", "c": "a"}
    assert graph.blocked(work, {"x"}) == {"d": "x"}


# ---- 100,000 items


SIZE = 100_000


def _chain(items: Iterable[int] = range(SIZE)) -> Work:
    return {item: [item - 1] if item else [] for item in items}


_SHAPES: dict[str, Callable[[], Work]] = {
    "chain": _chain,
    "chain backwards": lambda: _chain(reversed(range(SIZE))),
    "ring": lambda: {**_chain(), 0: [SIZE - 1]},
    "pairs in a row": lambda: {item: [(item + 1) % SIZE, item - 1] if item else [1] for item in range(SIZE)},
    "everything needs one": lambda: {item: [0] for item in range(SIZE)},
    "one needs everything": lambda: {0: list(range(SIZE)), **{item: [] for item in range(1, SIZE)}},
    "all with all": lambda: {item: list(range(300)) for item in range(300)},
    "many small rings": lambda: {item: [item ^ 1] for item in range(SIZE)},
}


@pytest.mark.exhaustive
@pytest.mark.scenario
@pytest.mark.parametrize("shape", _SHAPES)
def test_a_hundred_thousand_items_take_neither_recursion_nor_long_answers(shape: str) -> None:
    work = _SHAPES[shape]()
    graph.ready(work, set())
    graph.missing(work)
    graph.blocked(work, {0})
    graph.dependents(work, 0)
    assert len(graph.order(work)) == len(work)
    assert sum(map(len, graph.cycles(work))) <= 3 * len(work)
