"""Writer for task lists, in the formats of other programs and of the harness. Source: ``docs/import.md``.

``reading.read`` reads the same items from the written list, except for the parts that ``not_carried`` names."""

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence

from agent_harness.backlog.items import BacklogItem, LeftOut
from agent_harness.kernel import clock
from agent_harness.kernel.json import JsonObject
from agent_harness.protocols.features.planning.new_tests import NewTestFiles
from agent_harness.protocols.features.records import FeatureList
from agent_harness.protocols.longtask.verbs.init import CONSTRAINT, id_of
from agent_harness.protocols.tasklist import planning

_MARKS = re.compile(r"^(?:(?:[-*+]|\d+[.)])\s+\[|#{1,6}\s|`{3}|~{3})")
_PROOF_MARK = re.compile(r"((?:proof|validate|verify):\s*)`", re.IGNORECASE)
_ORDER_MARK = re.compile(r"\((?=(?:depends on|needs|after)[: ])", re.IGNORECASE)
_RANKS = {0: "high", 1: "medium", 2: "low"}


def write(form: str, name: str, items: Sequence[BacklogItem]) -> str:
    """Return the items as the text of a list in the format ``form``. ``name`` is the project's name."""
    return WRITERS[form](name, items)


def not_carried(form: str, items: Sequence[BacklogItem]) -> Iterator[LeftOut]:
    """Yield the parts of the items that a list in the format ``form`` cannot represent."""
    for member, what in _MEMBERS.items():
        with_it = sum(getattr(each, member) not in (None, "", ()) for each in items)
        if with_it and member not in _CARRIED[form]:
            yield LeftOut(what=f"{what} of {with_it} {'item' if with_it == 1 else 'items'}", why=_WHY[form])
    for each in items:
        if form == "markdown" and each.proof and _has_lines(each.proof):
            yield LeftOut(what=f"the command that proves {each.id}", why="a checklist has one line for it")
        if each.done and form == "longtask":
            yield LeftOut(what=f"{each.id} {each.title}", why="proven here; a long task checks its criteria itself")
        elif each.done and form == "features" and not each.test_file:
            yield LeftOut(what=f"{each.id} {each.title}", why="proven here by a command; a feature is by its test file")


def _markdown(name: str, items: Sequence[BacklogItem]) -> str:
    lines = [f"# {name}", ""]
    for each in items:
        needs = f" (depends on {', '.join(each.needs)})" if each.needs else ""
        lines.append(f"- [{'x' if each.done else ' '}] {each.id}: {_without_order(each.title)}{needs}")
        said = [*each.text.splitlines(), *(line for step in each.steps for line in f"- {step}".splitlines())]
        lines += [f"  {_as_prose(line.strip())}" for line in said if line.strip()]
        if (proof := each.proof or each.test_file) and not _has_lines(proof):
            ticks = "``" if "`" in proof else "`"
            lines.append(f"  {'proof' if each.proof else 'test file'}: {ticks}{proof}{ticks}")
    return "\n".join([*lines, ""])


def _has_lines(command: str) -> bool:
    return command.splitlines() != [command]


def _as_prose(line: str) -> str:
    """Escape Markdown signs in the line, so that an import reads the line as plain text."""
    return _MARKS.sub(r"\\\g<0>", _PROOF_MARK.sub(r"\g<1>\\`", line))


def _without_order(title: str) -> str:
    """Escape the title, so that an import does not find a dependency in the title."""
    return _ORDER_MARK.sub(r"\\\g<0>", title)


def _taskmaster(name: str, items: Sequence[BacklogItem]) -> str:
    """Return a Task Master list. It numbers the tasks again, and stores their ids as metadata."""
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
    """Return a spec-kit list with the ids T001, T002 and so on."""
    number = {each.id: f"T{place:03d}" for place, each in enumerate(items, 1)}
    lines = [f"# Tasks: {name}", ""]
    for each in items:
        needs = [number[need] for need in each.needs if need in number]
        after = f" (depends on {', '.join(needs)})" if needs else ""
        # [P]: a task depends only on the tasks that its text lists
        lines.append(f"- [{'x' if each.done else ' '}] {number[each.id]} [P] {_without_order(each.title)}{after}")
    return "\n".join([*lines, ""])


# ---- the harness's own lists


def _tasklist(name: str, items: Sequence[BacklogItem]) -> str:
    tasks: list[JsonObject] = []
    for each in items:
        rank = each.priority if each.priority in (0, 1, 2) else 1
        made = planning.new_task(
            each.id, each.title, priority=f"P{rank}", depends_on=[*each.needs], validation=each.proof
        )
        made["validation"] |= _present(timeout_seconds=each.timeout_seconds, may_change=[*each.may_change])
        made |= _present(description=each.text, acceptance=[*each.steps])
        tasks.append({**made, "status": "completed" if each.done else "pending"})
    return _text({**planning.new_state(clock.now()), "name": name, "tasks": tasks})


def _features(name: str, items: Sequence[BacklogItem]) -> str:
    """Return a feature list. Each feature without a test file gets a new test file name."""
    named = all(each.id.isdecimal() for each in items) and len({int(each.id) for each in items}) == len(items)
    number = {each.id: int(each.id) if named else place for place, each in enumerate(items, 1)}
    known: list[JsonObject] = [{"test_file": each.test_file} for each in items if each.test_file]
    names = NewTestFiles(FeatureList({"features": known}))
    features: list[JsonObject] = []
    for each in items:
        feature: JsonObject = {
            "id": number[each.id],
            "category": "core",
            "description": each.title,
            "test_file": each.test_file or names.new(each.title),
            "verification_steps": [*each.steps],
        }
        needs = [number[need] for need in each.needs if need in number]
        rank = each.priority if each.rank is None else each.rank
        feature |= _present(details=each.text, priority=rank, depends_on=needs)
        feature |= _present(may_change=[*each.may_change])
        features.append({**feature, "passes": each.done and each.test_file is not None})
    return _text({"project": name, "generated_by": "export", "last_updated": clock.timestamp(), "features": features})


def _longtask(name: str, items: Sequence[BacklogItem]) -> str:
    """Return a long task with one criterion for each item."""
    criteria: list[JsonObject] = []
    for each in items:
        said = "\n".join([each.title, each.text, *(f"- {step}" for step in each.steps)])
        metric: JsonObject = {"metric": "command", "target": each.proof} if each.proof else {"metric": "manual"}
        criteria.append({"id": each.id, "description": said.strip(), **metric, "weight": 1})
    return _text(
        {
            "schemaVersion": 1,
            "id": id_of(name),
            "title": name,
            "domain": "coding",
            "objective": f"All {len(items)} criteria are met.",
            "successCriteria": criteria,
            "constraints": [CONSTRAINT],
            "context": {"summary": "\n".join(f"- {each.title}" for each in items), "files": [], "links": []},
            "scheduler": {"type": "manual"},
            "workerPolicy": {"preferred": "manual-review", "allowed": ["manual-review"]},
            "rateLimitPolicy": {"sources": [], "fallbackWaitSeconds": 14_400, "allowHandoffOnRateLimit": True},
            "createdAt": clock.timestamp(fraction=True),
        }
    )


def _present(**members: object) -> JsonObject:
    return {name: value for name, value in members.items() if value not in (None, "", [])}


def _text(found: JsonObject) -> str:
    return json.dumps(found, ensure_ascii=False, indent=2) + "\n"


WRITERS: dict[str, Callable[[str, Sequence[BacklogItem]], str]] = {
    "markdown": _markdown,
    "taskmaster": _taskmaster,
    "beads": _beads,
    "prd": _prd,
    "speckit": _speckit,
    "tasklist": _tasklist,
    "features": _features,
    "longtask": _longtask,
}

_MEMBERS = {
    "text": "the text",
    "steps": "what must hold",
    "priority": "the priority",
    "needs": "the order",
    "proof": "the command that proves it",
    "timeout_seconds": "the limit of that command",
    "test_file": "the test file",
    "may_change": "the protected files that may change",
}
_PROSE = ("text", "steps", "needs", "proof", "test_file")
_CARRIED: dict[str, Collection[str]] = {
    "markdown": _PROSE,
    "taskmaster": (*_PROSE, "priority"),
    "beads": (*_PROSE, "priority"),
    "prd": _PROSE,
    "speckit": ("needs",),
    "tasklist": _MEMBERS.keys() - {"test_file"},
    "features": _MEMBERS.keys() - {"proof", "timeout_seconds"},
    "longtask": ("text", "steps", "proof"),
}
_WHY = {
    "markdown": "a checklist cannot contain it",
    "taskmaster": "Task Master cannot contain it",
    "beads": "Beads cannot contain it",
    "prd": "prd.json cannot contain it",
    "speckit": "tasks.md cannot contain it",
    "tasklist": "a task is proven by a command",
    "features": "a feature is proven by its test file",
    "longtask": "a criterion of a long task cannot contain it",
}
