"""What was learned of items that may change the same: a rule, which only delays, and never leaves a slot idle.

    learned.json    {"v": 1, "paths": {"5": ["src/api.py"]}, "pairs": [["4", "5"]]}

Paths are those that earlier attempts at an item have changed; pairs did not land together. Whoever reads it believes
nothing of it: the file may be gone, old or another's at any time, and at worst items begin in another order. SC-7.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

from agent_harness.kernel.json import JsonObject

MOST_ITEMS, MOST_PATHS, MOST_PAIRS = 2000, 200, 2000


@dataclass
class LearnedOverlap:
    """Which items have met, or have changed the same files."""

    paths: dict[str, frozenset[str]] = field(default_factory=dict)
    pairs: dict[frozenset[str], None] = field(default_factory=dict)

    @classmethod
    def from_record(cls, record: JsonObject) -> "LearnedOverlap":
        """What of the record is what it should be."""
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
        """As ``learned.json`` has it."""
        paths = {item: sorted(each) for item, each in self.paths.items()}
        return {"v": 1, "paths": paths, "pairs": [sorted(pair) for pair in self.pairs]}

    def learn(self, item: str, paths: Iterable[str]) -> None:
        """An attempt at the item has changed these; the newest items are kept."""
        found = frozenset(sorted({*self.paths.pop(item, ()), *paths})[:MOST_PATHS])
        if found:
            self.paths[item] = found
        while len(self.paths) > MOST_ITEMS:
            del self.paths[next(iter(self.paths))]

    def note_rejected(self, item: str, met: Iterable[str]) -> None:
        """The item did not land together with these."""
        for other in met:
            if other != item:
                self.pairs[frozenset((item, other))] = None
        while len(self.pairs) > MOST_PAIRS:
            del self.pairs[next(iter(self.pairs))]

    def forget(self, item: str) -> None:
        """The item has landed."""
        self.paths.pop(item, None)
        self.pairs = {pair: None for pair in self.pairs if item not in pair}

    def met(self, item: str, others: Iterable[str]) -> str | None:
        """Why the item should rather not be worked on beside these; ``None`` where nothing is known against it."""
        own = self.paths.get(item, frozenset())
        for other in others if own or self.pairs else ():
            if frozenset((item, other)) in self.pairs:
                return f"it did not land together with {other} before"
            if both := own & self.paths.get(other, frozenset()):
                return f"attempts at it and at {other} have changed {min(both)}"
        return None
