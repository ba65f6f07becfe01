"""Reader for a GSD roadmap (``.planning/ROADMAP.md``). It reads the phases and their plans from the roadmap's
checklist.

The number of a plan (``02-01``, ``02.1-01``) names its phase. A phase becomes an item only if it has no plans. If a
phase contains ``**Depends on**: Phase 1``, its items depend on all items of phase 1. Source: ``docs/import.md``."""

import re
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain

from agent_harness.backlog.items import BacklogItem, LeftOut, Sorter

_PHASE = re.compile(r"\**Phase\s+(?P<number>\d+(?:\.\d+)?)\b[:\s]*(?P<rest>.*)", re.IGNORECASE)
_PLAN = re.compile(r"(?P<number>\d+(?:\.\d+)?)-\d+[\w.]*")
_HEADING = re.compile(r"#{2,6}\s+(?P<text>.*)")
_DEPENDS = re.compile(r"\**Depends on\**:?\**\s*(?P<phases>.*)", re.IGNORECASE)
_PLACEHOLDER = re.compile(r"\**(?:TBD|\[[^\]]*\])\**(?:\s*[-:].*)?", re.IGNORECASE)


def is_roadmap(items: Iterable[BacklogItem]) -> bool:
    return any(_PHASE.match(each.title) for each in items)


def by_phase(items: list[BacklogItem], text: str, sorter: Sorter) -> list[BacklogItem]:
    """Return the items of a roadmap: its plans, and each phase without plans."""
    phases: dict[str, list[BacklogItem]] = {}
    others: list[BacklogItem] = []
    whole: list[tuple[str, BacklogItem]] = []
    for each in items:
        phase, plan = _PHASE.match(each.title), _PLAN.fullmatch(each.id)
        if _PLACEHOLDER.fullmatch(phase["rest"] if phase else each.title):
            sorter.left_out.append(LeftOut(what=f"{each.id} {each.title}", why="a placeholder, no work yet"))
        elif phase:
            whole.append((_plain(phase["number"]), each))
        elif plan:
            phases.setdefault(_plain(plan["number"]), []).append(each)
        else:
            others.append(each)
    for number, each in whole:
        if phases.get(number):
            sorter.left_out.append(LeftOut(what=each.title, why="its plans contain the work"))
        else:
            phases[number] = [each]
    first = _waits(text)
    before = {
        number: [each.id for wanted in first.get(number, ()) for each in phases.get(wanted, ())] for number in phases
    }
    kept = [
        replace(each, needs=tuple(dict.fromkeys((*each.needs, *before[number]))))
        for number, found in phases.items()
        for each in found
    ]
    place = {each.id: at for at, each in enumerate(items)}
    return sorted(chain(kept, others), key=lambda each: place[each.id])


def _waits(text: str) -> dict[str, list[str]]:
    """Return, for each phase, the numbers of the phases on which it depends."""
    found: dict[str, list[str]] = {}
    number = ""
    for line in text.splitlines():
        if heading := _HEADING.match(line.strip()):
            phase = _PHASE.match(heading["text"])
            number = _plain(phase["number"]) if phase else ""
        elif number and (said := _DEPENDS.match(line.strip())):
            found[number] = [_plain(each) for each in re.findall(r"\d+(?:\.\d+)?", said["phases"])]
    return found


def _plain(number: str) -> str:
    return number.lstrip("0") or "0"
