"""Writes a list of work in the forms that other programs read. Source: ``docs/import.md``.

What is written is read again by ``reading.read`` as the same items.
"""

import json
from collections.abc import Callable, Sequence

from agent_harness.backlog.items import BacklogItem
from agent_harness.kernel import clock
from agent_harness.kernel.json import JsonObject

_RANKS = {0: "high", 1: "medium", 2: "low"}


def write(form: str, name: str, items: Sequence[BacklogItem]) -> str:
    """The text of a list of this form; ``name`` is the project's."""
    return WRITERS[form](name, items)


def _markdown(name: str, items: Sequence[BacklogItem]) -> str:
    lines = [f"# {name}", ""]
    for each in items:
        needs = f" (depends on {', '.join(each.needs)})" if each.needs else ""
        lines.append(f"- [{'x' if each.done else ' '}] {each.id}: {each.title}{needs}")
        lines += [f"  {line.strip()}" for line in each.text.splitlines() if line.strip()]
        lines += [f"  - {step}" for step in each.steps]
        if proof := each.proof or each.test_file:
            ticks = "``" if "`" in proof else "`"
            lines.append(f"  proof: {ticks}{proof}{ticks}")
    return "\n".join([*lines, ""])


def _taskmaster(name: str, items: Sequence[BacklogItem]) -> str:
    """Task Master counts its tasks; the id that an item had is in its metadata."""
    number = {each.id: place for place, each in enumerate(items, 1)}
    tasks = [
        {
            "id": number[each.id],
            "title": each.title,
            "description": each.text or each.title,
            "status": "done" if each.done else "pending",
            "dependencies": [number[need] for need in each.needs if need in number],
            "priority": _RANKS.get(each.priority or 0, "low") if each.priority is not None else "medium",
            "details": "\n".join(f"- {step}" for step in each.steps),
            "testStrategy": each.proof or each.test_file or "",
            "metadata": {"id": each.id},
        }
        for each in items
    ]
    return _text({"master": {"tasks": tasks, "metadata": {"description": name}}})


def _beads(name: str, items: Sequence[BacklogItem]) -> str:
    lines: list[str] = []
    now = clock.timestamp()
    for each in items:
        row: JsonObject = {
            "id": each.id,
            "title": each.title,
            "description": each.text,
            "acceptance_criteria": "\n".join(f"- {step}" for step in each.steps),
            "notes": f"proof: {each.proof or each.test_file}" if each.proof or each.test_file else "",
            "status": "closed" if each.done else "open",
            "priority": {0: 1, 1: 2}.get(each.priority, 3) if each.priority is not None else 2,
            "issue_type": "task",
            "created_at": now,
            "updated_at": now,
            "closed_at": now if each.done else "",
            "dependencies": [{"issue_id": each.id, "depends_on_id": need, "type": "blocks"} for need in each.needs],
        }
        lines.append(
            json.dumps({key: value for key, value in row.items() if value not in ("", [])}, ensure_ascii=False)
        )
    return "".join(f"{line}\n" for line in lines)


def _prd(name: str, items: Sequence[BacklogItem]) -> str:
    stories = [
        {
            "id": each.id,
            "title": each.title,
            "description": each.text or each.title,
            "acceptanceCriteria": [
                *each.steps,
                *([f"`{proof}` passes"] if (proof := each.proof or each.test_file) else []),
            ],
            "priority": place,
            "passes": each.done,
            "notes": "",
            "dependsOn": list(each.needs),
        }
        for place, each in enumerate(items, 1)
    ]
    return _text({"name": name, "userStories": stories})


def _speckit(name: str, items: Sequence[BacklogItem]) -> str:
    """spec-kit names its tasks T001 and so on; one after the other, each waits for those that it names."""
    number = {each.id: f"T{place:03d}" for place, each in enumerate(items, 1)}
    lines = [f"# Tasks: {name}", ""]
    for each in items:
        needs = [number[need] for need in each.needs if need in number]
        after = f" (depends on {', '.join(needs)})" if needs else ""
        lines.append(f"- [{'x' if each.done else ' '}] {number[each.id]} [P] {each.title}{after}")
    return "\n".join([*lines, ""])


def _text(found: JsonObject) -> str:
    return json.dumps(found, ensure_ascii=False, indent=2) + "\n"


WRITERS: dict[str, Callable[[str, Sequence[BacklogItem]], str]] = {
    "markdown": _markdown,
    "taskmaster": _taskmaster,
    "beads": _beads,
    "prd": _prd,
    "speckit": _speckit,
}
