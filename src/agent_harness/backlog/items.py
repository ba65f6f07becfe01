"""Work items in the form that all imports share, and a list of such items with consistent dependencies.

An item is identified by its ``key``. The key is the same at each import of the list. If an import is repeated, no item
is added a second time. Source: ``docs/import.md``."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from agent_harness.kernel import graph
from agent_harness.kernel.json import JsonObject


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """Part of a list that the import leaves out, and the reason."""

    what: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BacklogItem:
    """Work item in a form that suits all list formats."""

    id: str  # as its list names it
    title: str  # on one line
    text: str = ""  # its description
    steps: tuple[str, ...] = ()  # acceptance criteria, in prose
    priority: int | None = None  # 0 comes first
    rank: int | None = None  # the lower, the sooner; items are listed in that order
    needs: tuple[str, ...] = ()  # ids of items that must be done before it
    parts: tuple[str, ...] = ()  # ids of its parts
    proof: str | None = None  # the command that proves it
    timeout_seconds: float | None = None  # of that command
    test_file: str | None = None  # the file of tests that prove it
    may_change: tuple[str, ...] = ()  # patterns of protected files that the work may change
    done: bool = False  # as its list claims


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Imported list of work items. An item's id is unique within ``scope``, such as a tag or repository."""

    format: str
    scope: str
    items: tuple[BacklogItem, ...]
    left_out: tuple[LeftOut, ...] = ()

    def key(self, item_id: str) -> str:
        """Return the key that identifies an item in the project that imports it."""
        return f"{self.format}:{self.scope}#{item_id}"

    def as_json(self) -> JsonObject:
        return {
            "format": self.format,
            "scope": self.scope,
            "left_out": [{"what": each.what, "why": each.why} for each in self.left_out],
        }


def one_line(text: object, most: int = 200) -> str:
    """Return the text on one line. Cut a long text at a word boundary."""
    line = " ".join(str(text).split())
    return line if len(line) <= most else line[:most].rsplit(" ", 1)[0] + "…"


def proof_for(item: BacklogItem, command: str | None) -> str | None:
    """Return the item's own command. If it has none, return ``command`` with the item's id in place of ``{id}``."""
    if item.proof or not command:
        return item.proof
    return command.replace("{id}", re.sub(r"[^\w.-]+", "_", item.id).lstrip(".-") or "_")


@dataclass(slots=True)
class Sorter:
    """Sorter of the items in one list. ``left_out`` records the omitted parts."""

    left_out: list[LeftOut] = field(default_factory=list)

    def sorted(self, found: Sequence[BacklogItem], *, with_done: bool) -> list[BacklogItem]:
        """Return the items to import in list order, with their dependencies."""
        items = self._unique(found)
        gone = {each.what.partition(" ")[0] for each in self.left_out}
        known = {each.id: each for each in items}
        open_items = {each.id: each for each in items if with_done or not each.done}
        for each in items:
            if each.id not in open_items:
                self.left_out.append(LeftOut(what=f"{each.id} {each.title}", why="already done in the source list"))
        for each in open_items.values():
            for need in each.needs:
                if need not in known:
                    why = f"{need} is left out" if need in gone else f"there is no {need}"
                    self.left_out.append(LeftOut(what=f"{each.id} waits for {need}", why=why))
        # an omitted item counts as done
        needs = {
            name: dict.fromkeys(need for need in each.needs if need in open_items and need != name)
            for name, each in open_items.items()
        }
        # an item depends on its parts, and each part on the item's dependencies
        for whole in open_items.values():
            parts = [part for part in whole.parts if part in open_items and part != whole.id]
            first = dict.fromkeys(need for need in needs[whole.id] if need not in parts)
            for part in parts:
                needs[part] |= first
            needs[whole.id] |= dict.fromkeys(parts)
        self._cut_circles(needs)
        return [replace(each, needs=tuple(needs[name])) for name, each in open_items.items()]

    def _unique(self, found: Iterable[BacklogItem]) -> list[BacklogItem]:
        known: dict[str, BacklogItem] = {}
        for each in found:
            if not each.title:
                self.left_out.append(LeftOut(what=each.id or "an entry", why="it has no title"))
            elif each.id in known:
                self.left_out.append(LeftOut(what=f"{each.id} {each.title}", why="its id occurs twice"))
            else:
                known[each.id] = each
        return [*known.values()]

    def _cut_circles(self, needs: dict[str, dict[str, None]]) -> None:
        place = {name: number for number, name in enumerate(graph.order(needs))}
        for name, first in needs.items():
            for need in [each for each in first if place[each] > place[name]]:
                del first[need]
                self.left_out.append(LeftOut(what=f"{name} waits for {need}", why="that would close a cycle"))
