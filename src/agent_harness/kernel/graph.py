"""Dependency graph of items: which items are ready, blocked or missing, all cycles, and a possible order. ``work`` maps
each item to the items that it depends on. A dependency that is not in ``work`` is unknown. The run time is linear in
items and dependencies. For ``cycles``, it is also linear in the length of the result. No function recurses, so a chain
of 100,000 items is possible. Source: ``tasklist.md`` 7.1."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container, Hashable, Iterable, Iterator, Mapping
    from typing import TypeVar

    K = TypeVar("K", bound=Hashable)


def ready(work: Mapping[K, Iterable[K]], done: Container[K]) -> list[K]:
    """Return the unfinished items whose dependencies are all done, in the order of ``work``."""
    return [item for item, needs in work.items() if item not in done and all(need in done for need in needs)]


def missing(work: Mapping[K, Iterable[K]]) -> list[tuple[K, K]]:
    """Return each item with a dependency that is not in ``work``, as a pair."""
    return [(item, need) for item, needs in work.items() for need in needs if need not in work]


def blocked(work: Mapping[K, Iterable[K]], failed: Container[K]) -> dict[K, K]:
    """Return the items that depend on a failed item, each mapped to the nearest failed item."""
    # the caller leaves done items out: they no longer need their dependencies
    users = _users(work)
    front = [item for item in users if item in failed]
    reason = {item: item for item in front}
    for item in front:
        for user in users[item]:
            if user not in reason:
                reason[user] = reason[item]
                front.append(user)
    return {item: reason[item] for item in work if item in reason and item not in failed}


def dependents(work: Mapping[K, Iterable[K]], of: K) -> list[K]:
    """Return the items that depend on the item ``of``, directly or through other items."""
    users = _users(work)
    front, seen = [of], {of}
    for item in front:
        new = [user for user in users.get(item, ()) if user not in seen]
        seen.update(new)
        front.extend(new)
    return [item for item in work if item in seen and item != of]


def order(work: Mapping[K, Iterable[K]]) -> list[K]:
    """Return all items in the order of ``work``, but each item after its dependencies."""
    placed: list[K] = []
    seen: set[K] = set()
    for start in work:
        if start in seen:
            continue
        seen.add(start)
        path = [(start, iter(work[start]))]
        while path:
            item, needs = path[-1]
            deeper = next((need for need in needs if need in work and need not in seen), None)
            if deeper is None:
                placed.append(item)
                path.pop()
            else:
                seen.add(deeper)
                path.append((deeper, iter(work[deeper])))
    return placed


def cycles(work: Mapping[K, Iterable[K]]) -> list[list[K]]:
    """Return dependency cycles, each as a path that starts and ends at the same item."""
    users = _users(work)
    paths = []
    for knot in _knots(work, users):
        members = set(knot)
        root = knot[0]
        to_root = _tree(root, users, members)
        from_root = _tree(root, work, members)
        # every member of a cycle gets into a path
        covered: set[K] = set()
        for item in knot:
            if item not in covered:
                path = _through_root(root, work, to_root) if item == root else _through(item, to_root, from_root)
                covered.update(path)
                paths.append(path)
    return paths


def _users(work: Mapping[K, Iterable[K]]) -> dict[K, list[K]]:
    users: dict[K, list[K]] = {item: [] for item in work}
    for item, needs in work.items():
        for need in needs:
            users.setdefault(need, []).append(item)
    return users


def _knots(work: Mapping[K, Iterable[K]], users: Mapping[K, Iterable[K]]) -> Iterator[list[K]]:
    # Kosaraju's algorithm
    knot_of: dict[K, K] = {}
    for first in reversed(order(work)):
        if first in knot_of:
            continue
        knot_of[first] = first
        front = [first]
        for item in front:
            for user in users[item]:
                if user not in knot_of:
                    knot_of[user] = first
                    front.append(user)
    knots: dict[K, list[K]] = {}
    for item in work:
        knots.setdefault(knot_of[item], []).append(item)
    return (knot for knot in knots.values() if len(knot) > 1 or knot[0] in work[knot[0]])


def _tree(root: K, links: Mapping[K, Iterable[K]], members: set[K]) -> dict[K, K]:
    before: dict[K, K] = {}
    front = [root]
    for item in front:
        for other in links[item]:
            if other in members and other != root and other not in before:
                before[other] = item
                front.append(other)
    return before


def _through_root(root: K, work: Mapping[K, Iterable[K]], to_root: Mapping[K, K]) -> list[K]:
    path = [root, next(need for need in work[root] if need == root or need in to_root)]
    while path[-1] != root:
        path.append(to_root[path[-1]])
    return path


def _through(item: K, to_root: Mapping[K, K], from_root: Mapping[K, K]) -> list[K]:
    # to the root and back, with a short cut at the first item that both ways contain
    ahead, behind = {item: None}, {item: None}
    here = there = item
    while True:
        here = to_root.get(here, here)
        ahead.setdefault(here)
        if here != item and here in behind:
            break
        there = from_root.get(there, there)
        behind.setdefault(there)
        if there != item and there in ahead:
            here = there
            break
    start, end = list(ahead), list(behind)
    return [*start[: start.index(here) + 1], *reversed(end[: end.index(here)])]
