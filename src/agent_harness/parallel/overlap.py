"""Learned overlap between items. It delays items that would probably conflict, but never leaves a slot idle.

    learned.json    {"v": 1, "paths": {"5": ["src/api.py"]}, "pairs": [["4", "5"]]}

``paths`` contains the files that earlier attempts at an item changed, ``pairs`` the items that could not be merged
together. The file is not trusted: it may be missing, outdated or forged. In the worst case items start in another
order. SC-7.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from agent_harness.kernel.json import JsonObject

MOST_ITEMS, MOST_PATHS, MOST_PAIRS = 2000, 200, 2000


@dataclass
class LearnedOverlap:
    """Pairs of items that conflicted, and the files that each item has changed."""

    paths: dict[str, frozenset[str]] = field(default_factory=dict)
    pairs: dict[frozenset[str], None] = field(default_factory=dict)

    @classmethod
    def from_record(cls, record: JsonObject) -> "LearnedOverlap":
        """Build the learned overlap from the valid parts of a record."""
        known, met = record.get("paths"), record.get("pairs")
        found = cls()
        for item, paths in known.items() if isinstance(known, dict) else ():
            if isinstance(paths, list):
                found.learn(item, (each for each in paths if isinstance(each, str)))
        for pair in met if isinstance(met, list) else ():
            if isinstance(pair, list) and len(pair) == 2 and all(isinstance(each, str) for each in pair):
                found.note_rejected(pair[0], pair[1:])
        return found

    def as_record(self) -> JsonObject:
        paths = {item: sorted(each) for item, each in self.paths.items()}
        return {"v": 1, "paths": paths, "pairs": [sorted(pair) for pair in self.pairs]}

    def learn(self, item: str, paths: Iterable[str]) -> None:
        """Record that an attempt at the item changed these paths. Beyond a limit, the oldest items are dropped from the
        record.
        """
        found = frozenset(sorted({*self.paths.pop(item, ()), *paths})[:MOST_PATHS])
        if found:
            self.paths[item] = found
        while len(self.paths) > MOST_ITEMS:
            del self.paths[next(iter(self.paths))]

    def note_rejected(self, item: str, met: Iterable[str]) -> None:
        """Record that the item could not be merged together with these other items."""
        for other in met:
            if other != item:
                self.pairs[frozenset((item, other))] = None
        while len(self.pairs) > MOST_PAIRS:
            del self.pairs[next(iter(self.pairs))]

    def forget(self, item: str) -> None:
        """Delete the record of an item that is merged."""
        self.paths.pop(item, None)
        self.pairs = {pair: None for pair in self.pairs if item not in pair}

    def met(self, item: str, others: Iterable[str]) -> str | None:
        """Return why the item should not run concurrently with these other items; None if no reason is known."""
        own = self.paths.get(item, frozenset())
        for other in others if own or self.pairs else ():
            if frozenset((item, other)) in self.pairs:
                return f"it could not be merged together with {other} before"
            if both := own & self.paths.get(other, frozenset()):
                return f"attempts at it and at {other} have changed {min(both)}"
        return None
