"""Reader for task lists of other programs. The content of a file determines its format.

    taskmaster   tasks.json of Task Master, with or without tags
    beads        issues.jsonl of Beads
    prd          prd.json of the Ralph family
    speckit      tasks.md of spec-kit
    markdown     a checklist: ``- [ ] text``
    features, tasklist, longtask   the harness's own formats

If a list cannot be read, the reader raises ``Refused``. A reader never guesses the command that proves an item. Source:
``docs/import.md``."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import chain, count
from pathlib import Path
from shlex import quote
from typing import Any

from agent_harness.backlog.items import Backlog, BacklogItem, LeftOut, Sorter, one_line
from agent_harness.backlog.roadmap import by_phase, is_roadmap
from agent_harness.errors import Refused, UsageError
from agent_harness.kernel.json import JsonObject, number_below
from agent_harness.protocols.tasklist.records import DEFAULT_MAX_ATTEMPTS

MOST_BYTES = 64 * 1024 * 1024
MOST_WAITED_FOR = 20  # of a section's parallel tasks, by each task of the next section

PLACES = (
    ".taskmaster/tasks/tasks.json",
    ".beads/issues.jsonl",
    ".beads/beads.jsonl",
    "prd.json",
    "tasks/prd.json",
    "tasks/tasks.json",
    "specs/*/tasks.md",
    "tasks.md",
    ".planning/ROADMAP.md",
    "features.json",
    "harness-tasks.json",
    "task.json",
    "[Tt][Oo][Dd][Oo].md",
)
"""Paths below a project's folder in which the harness looks for task lists of other programs."""

Found = tuple[str, Iterable[BacklogItem]]
"""Result of the reader for one format: the scope of the ids, and the items."""


OWN = ("features.json", "harness-tasks.json", "task.json")
"""Names of the state files of the harness's own projects."""


def read(
    path: Path, *, wanted: str | None = None, tag: str | None = None, with_done: bool = False, into: str | None = None
) -> Backlog:
    """Return the work items of the task list in a file or folder."""
    here = Path(into).resolve() if into else None
    file = _file_in(path, here) if path.is_dir() else path
    if here and file.name in OWN and file.resolve().parent == here:
        raise Refused(f"{file} is this project's own state file, so it cannot be imported", hint="harness status")
    text = _text(file)
    form = wanted or _format(file, text)
    if tag and form != "taskmaster":
        raise UsageError(f"{file} is a {form} list, so its items have no tags", hint=f"harness import {file}")
    sorter = Sorter()
    scope, items = READERS[form](text, file, sorter, tag)
    found = sorter.sorted([*items], with_done=with_done)
    if not (found or sorter.left_out):
        raise Refused(f"{file} contains no items", hint=f"harness import {file} --from FORMAT")
    return Backlog(format=form, scope=scope, items=tuple(found), left_out=tuple(sorter.left_out))


def _file_in(folder: Path, here: Path | None) -> Path:
    places = [each for each in PLACES if each not in OWN] if folder.resolve() == here else PLACES
    found = [each for place in places for each in sorted(folder.glob(place)) if each.is_file()]
    if not found:
        raise Refused(f"{folder} contains no known task list", hint="harness import FILE")
    if len(found) > 1:
        names = ", ".join(str(each.relative_to(folder)) for each in found[:6])
        raise UsageError(f"{folder} contains several lists: {names}", hint=f"harness import {found[0]}")
    return found[0]


def _text(file: Path) -> str:
    try:
        with file.open("rb") as source:
            content = source.read(MOST_BYTES + 1)
    except OSError as error:
        raise Refused(f"{file}: {error.strerror or error}", hint="harness import --help") from None
    if len(content) > MOST_BYTES:
        raise Refused(f"{file} is larger than {MOST_BYTES // 2**20} MiB", hint="harness import --help")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Refused(f"{file} is not UTF-8 text", hint="harness import --help") from None


def _format(file: Path, text: str) -> str:
    if file.suffix == ".jsonl":
        return "beads"
    if file.suffix in (".md", ".markdown", ".txt"):
        named = [_SPECKIT_TEXT.match(said) is not None for _, _, said, _, _ in _boxes(text)]
        in_specs = file.name == "tasks.md" and file.resolve().parent.parent.name == "specs"
        return "speckit" if any(named) and (in_specs or 2 * sum(named) > len(named)) else "markdown"
    raw = _json(text, file)
    found = next((form for form, is_one in _SHAPES if is_one(raw)), None)
    if found is None:
        raise Refused(f"{file} is not a task list in a known format", hint=f"harness import {file} --from FORMAT")
    return found


def _lists(raw: Any, *names: str) -> bool:
    return isinstance(raw, dict) and any(isinstance(raw.get(name), list) for name in names)


_SHAPES: tuple[tuple[str, Callable[[Any], bool]], ...] = (
    ("prd", lambda raw: isinstance(raw, list) or _lists(raw, "userStories", "stories")),
    ("features", lambda raw: _lists(raw, "features")),
    ("longtask", lambda raw: _lists(raw, "successCriteria")),
    ("tasklist", lambda raw: _lists(raw, "tasks") and "session_config" in raw),
    (
        "taskmaster",
        lambda raw: (
            _lists(raw, "tasks") or (isinstance(raw, dict) and any(_lists(each, "tasks") for each in raw.values()))
        ),
    ),
)


def _json(text: str, file: Path) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Refused(f"{file} is not JSON: {error}", hint="harness import --help") from None


def _object(text: str, file: Path) -> JsonObject:
    raw = _json(text, file)
    if not isinstance(raw, dict):
        raise Refused(f"{file} is not a task list", hint="harness import --help")
    return raw


def _objects(found: object, sorter: Sorter, what: str) -> Iterator[JsonObject]:
    for number, each in enumerate(found if isinstance(found, list) else [], 1):
        if isinstance(each, dict):
            yield each
        else:
            sorter.left_out.append(LeftOut(what=f"{what} {number}", why="it is not an object"))


def _said(raw: JsonObject, *parts: tuple[str, str]) -> str:
    found = []
    for name, heading in parts:
        text = raw.get(name)
        if isinstance(text, str) and text.strip():
            found.append(f"{heading}\n{text.strip()}" if heading else text.strip())
    return "\n\n".join(found)


def _ids(found: object) -> tuple[str, ...]:
    listed = found if isinstance(found, list) else []
    return tuple(str(each).strip() for each in listed if isinstance(each, str | int) and str(each).strip())


def _texts(found: object) -> tuple[str, ...]:
    if isinstance(found, str):
        return tuple(line.strip(" -*\t") for line in found.splitlines() if line.strip(" -*\t"))
    return (
        tuple(" ".join(each.split()) for each in found if isinstance(each, str) and each.strip())
        if isinstance(found, list)
        else ()
    )


# ---- Task Master


def _taskmaster(text: str, file: Path, sorter: Sorter, tag: str | None) -> Found:
    raw = _object(text, file)
    if isinstance(raw.get("tasks"), list):
        return "", _taskmaster_items(raw["tasks"], sorter)
    tags = {name: each["tasks"] for name, each in raw.items() if isinstance(each, dict) and "tasks" in each}
    chosen = tag or ("master" if "master" in tags or len(tags) != 1 else next(iter(tags)))
    if chosen not in tags:
        one, *others = sorted(tags) or ["NAME"]
        hint = f"harness import {quote(str(file))} --tag {quote(one)}"
        hint += f"  # or {', '.join(others)}" if others else ""
        raise UsageError(f"{file} has no tag {chosen!r}", hint=hint)
    for other in tags:
        if other != chosen:
            sorter.left_out.append(LeftOut(what=f"the tag {other}", why=f"--tag {other} imports it"))
    return chosen, _taskmaster_items(tags[chosen], sorter)


def _taskmaster_items(found: object, sorter: Sorter) -> Iterator[BacklogItem]:
    for raw in _objects(found, sorter, "task"):
        name = str(raw.get("id", ""))
        children = [*_objects(raw.get("subtasks"), sorter, f"subtask of {name}")]
        ids = {str(child.get("id", "")): f"{name}.{child.get('id', '')}" for child in children}
        if item := _taskmaster_item(raw, name, {}, sorter, parts=tuple(ids.values())):
            yield item
        for child in children:
            if item := _taskmaster_item(child, ids[str(child.get("id", ""))], ids, sorter, above=raw):
                yield item


def _taskmaster_item(
    raw: JsonObject,
    name: str,
    beside: dict[str, str],
    sorter: Sorter,
    *,
    parts: tuple[str, ...] = (),
    above: JsonObject | None = None,
) -> BacklogItem | None:
    status = str(raw.get("status") or "pending")
    title = one_line(raw.get("title") or raw.get("description") or "")
    if status in ("cancelled", "deferred"):
        sorter.left_out.append(LeftOut(what=f"{name} {title}", why=f"{status} there"))
        return None
    text = _said(raw, ("description", ""), ("details", "Details:"), ("testStrategy", "How it is to be tested:"))
    if above is not None:
        text = f"Part of {above.get('id')}: {one_line(above.get('title') or '')}\n\n{text}".strip()
    rank = (raw if raw.get("priority") else above or raw).get("priority")
    return BacklogItem(
        id=name,
        title=title,
        text=text,
        priority={"critical": 0, "high": 0, "medium": 1, "low": 2}.get(str(rank)),
        needs=tuple(beside.get(each, each) for each in _ids(raw.get("dependencies"))),
        parts=parts,
        done=status in ("done", "completed"),
    )


# ---- Beads


_BEADS_NO_WORK = frozenset({"agent", "event", "gate", "merge-request", "message"})
"""Types of Beads issues that carry messages between programs and are not work items."""

_BEADS_GONE = ("deferred", "tombstone", "pinned")
_BEADS_FIRST = ("blocks", "conditional-blocks", "waits-for")


def _beads(text: str, file: Path, sorter: Sorter, _tag: str | None) -> Found:
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError):
            raise Refused(f"{file}:{number} is not JSON", hint="bd export, then the same command") from None
    found = [*_objects(rows, sorter, "line")]
    parts: dict[str, list[str]] = {}
    for raw in found:
        for link in _objects(raw.get("dependencies"), sorter, "a dependency"):
            if link.get("type") == "parent-child":
                parts.setdefault(str(link.get("depends_on_id")), []).append(str(raw.get("id")))
    return "", _beads_items(found, parts, sorter)


def _beads_items(found: list[JsonObject], parts: dict[str, list[str]], sorter: Sorter) -> Iterator[BacklogItem]:
    for raw in found:
        name, title = str(raw.get("id", "")), one_line(raw.get("title") or "")
        status = str(raw.get("status") or "open")
        kind = str(raw.get("issue_type") or "")
        if status in _BEADS_GONE or kind in _BEADS_NO_WORK or raw.get("is_template") or raw.get("ephemeral"):
            what_it_is = kind if kind in _BEADS_NO_WORK else "a template or a message"
            why = f"{status} there" if status in _BEADS_GONE else f"{what_it_is}, no work"
            sorter.left_out.append(LeftOut(what=f"{name} {title}", why=why))
            continue
        links = [each for each in raw.get("dependencies") or [] if isinstance(each, dict)]
        for link in links:
            if (linked := str(link.get("type") or "blocks")) not in (*_BEADS_FIRST, "parent-child"):
                what = f"{name} {linked} {link.get('depends_on_id')}"
                sorter.left_out.append(LeftOut(what=what, why="the link does not order the work"))
        rank = raw.get("priority")
        yield BacklogItem(
            id=name,
            title=title,
            text=_said(raw, ("description", ""), ("design", "Design:"), ("notes", "Notes:")),
            steps=_texts(raw.get("acceptance_criteria")),
            priority={0: 0, 1: 0, 2: 1, 3: 2, 4: 2}.get(rank) if isinstance(rank, int) else None,
            needs=tuple(
                str(link.get("depends_on_id")) for link in links if str(link.get("type") or "blocks") in _BEADS_FIRST
            ),
            parts=tuple(parts.get(name, ())),
            done=status == "closed",
        )


# ---- the Ralph family


def _prd(text: str, file: Path, sorter: Sorter, _tag: str | None) -> Found:
    if isinstance(rows := _json(text, file), list):
        return file.name, _prd_items(rows, sorter)
    raw = _object(text, file)
    scope = str(raw.get("branchName") or raw.get("name") or raw.get("project") or file.name)
    return one_line(scope, 80), _prd_items(raw.get("userStories") or raw.get("stories"), sorter)


def _prd_items(found: object, sorter: Sorter) -> Iterator[BacklogItem]:
    stories = [*_objects(found, sorter, "story")]
    ranked = [each.get("priority") for each in stories]
    if all(isinstance(each, int) for each in ranked):  # 1 comes first; an order of work, not a class of priority
        stories.sort(key=lambda each: each["priority"])
    for number, raw in enumerate(stories, 1):
        criteria = raw.get("acceptanceCriteria") or raw.get("acceptance_criteria") or raw.get("steps")
        yield BacklogItem(
            id=str(raw.get("id") or f"story-{number}"),
            title=one_line(raw.get("title") or raw.get("description") or ""),
            text=_said(raw, ("description", ""), ("notes", "Notes:")),
            steps=_texts(criteria),
            priority={"high": 0, "medium": 1, "low": 2}.get(str(raw.get("priority"))),
            needs=_ids(raw.get("dependsOn") or raw.get("depends_on") or raw.get("blockedBy")),
            done=raw.get("passes") is True or raw.get("status") in ("done", "completed"),
        )


# ---- Markdown


_BOX = re.compile(r"^(?P<indent>\s*)(?:[-*+]|\d+[.)])\s+\[(?P<mark>[ xX~-])\]\s+(?P<text>.+?)\s*$")
_SPECKIT_TEXT = re.compile(r"\**(?P<id>T\d+[a-z]?)\**\s+(?P<rest>.*)")
_PROOF = re.compile(r"\(?(?:proof|validate|verify):\s*(?P<tick>`+)(?P<command>.+?)(?P=tick)\)?\s*$", re.IGNORECASE)
_NEEDS = re.compile(r"(?<!\\)\((?:depends on|needs|after)[: ]+(?P<ids>[^()]*)\)", re.IGNORECASE)
_ESCAPED = re.compile(r"^\\(?=[-*+#`~\d])")
_NAMED = re.compile(r"^\**(?P<id>[A-Za-z]+-?\d[\w.-]*|\d[\w.]*(?:-\d[\w.]*)*|#\d+)\**(?::|\s+-|\.)\s+(?=\S)")


def _boxes(text: str) -> Iterator[tuple[int, str, str, str, list[str]]]:
    """Yield each checkbox outside code blocks as (indent, mark, text, heading above, lines below)."""
    fence, heading = "", ""
    last: tuple[int, str, str, str, list[str]] | None = None
    for line in [*text.splitlines(), "# end"]:
        bare = line.strip()
        if mark := re.match(r"(`{3,}|~{3,})", bare):
            fence = "" if fence and bare.startswith(fence) else fence or mark[1]
            continue
        box = _BOX.match(line) if not fence else None
        title = re.match(r"#{1,6}\s+(.+?)\s*#*$", bare) if not fence else None
        if (box or title) and last is not None:
            yield last
            last = None
        if box:
            below: list[str] = []
            last = (len(box["indent"].expandtabs(4)), box["mark"], box["text"], heading, below)
        elif title:
            heading = title[1]
        elif last is not None and bare and line[:1].isspace():
            last[4].append(_ESCAPED.sub("", bare))


def _speckit(text: str, file: Path, sorter: Sorter, _tag: str | None) -> Found:
    return file.resolve().parent.name, _speckit_items(text, sorter)


def _speckit_items(text: str, sorter: Sorter) -> Iterator[BacklogItem]:
    """Yield the tasks of a spec-kit list, each with its dependencies."""
    # adjacent tasks with [P] do not depend on each other; each section depends on the one before it
    before: tuple[str, ...] = ()  # dependencies of the next one with [P]
    since: list[str] = []  # dependencies of the next one without
    section = None
    for _, mark, said, heading, below in _boxes(text):
        named = _SPECKIT_TEXT.match(said)
        if named is None:
            sorter.left_out.append(LeftOut(what=one_line(said), why="it has no number (T001)"))
            continue
        rest = named["rest"]
        tags: list[str] = []
        while tag := re.match(r"\[([^\]]+)\]\s*", rest):
            tags.append(tag[1])
            rest = rest[tag.end() :]
        if heading != section and len(since) <= MOST_WAITED_FOR:
            before = tuple(since) or before
            since.clear()
        beside = "P" in tags and (heading == section or not since)
        section = heading
        first = before if beside else tuple(since) or before
        if beside:
            since.append(named["id"])
        else:
            before, since = (named["id"],), [named["id"]]
        explicit = _NEEDS.search(rest)
        wanted = re.findall(r"T\d+[a-z]?", explicit["ids"]) if explicit else []
        story = next((f"story {each}" for each in tags if re.fullmatch(r"US\d+", each)), "")
        about = ", ".join(each for each in (heading, story) if each)
        rest = (_NEEDS.sub("", rest).strip() or rest).replace("\\(", "(")
        title = one_line(rest)
        yield BacklogItem(
            id=named["id"],
            title=title,
            text="\n\n".join(each for each in (rest if title.endswith("…") else "", about, "\n".join(below)) if each),
            needs=tuple(dict.fromkeys([*wanted, *first])),
            done=mark in "xX",
        )


def _markdown(text: str, file: Path, sorter: Sorter, _tag: str | None) -> Found:
    found: list[BacklogItem] = []
    parts: dict[str, list[str]] = {}
    above: list[tuple[int, str, str]] = []
    seen: set[str] = set()
    for indent, mark, said, heading, below in _boxes(text):
        proof = next((hit["command"] for line in (said, *below) if (hit := _PROOF.search(line))), None)
        bare = _PROOF.sub("", said).strip()
        wanted = _NEEDS.search(bare)
        needs = tuple(each for each in re.split(r"[\s,]+", wanted["ids"]) if each) if wanted else ()
        bare = _NEEDS.sub("", bare).strip().replace("\\(", "(")
        named = _NAMED.match(bare)
        while above and above[-1][0] >= indent:
            above.pop()
        if named and named["id"] in seen:
            named = None
        name = named["id"] if named else _slug(bare, above[-1][1] if above else "", seen)
        seen.add(name)
        title = one_line(bare[named.end() :] if named else bare)
        if mark in "~-":
            sorter.left_out.append(LeftOut(what=f"{name} {title}", why="crossed out there"))
            continue
        if above:
            parts.setdefault(above[-1][1], []).append(name)
        about = [f"Part of: {above[-1][2]}"] if above else [heading] if heading else []
        rest = [line for line in below if not _PROOF.search(line)]
        found.append(
            BacklogItem(
                id=name,
                title=title,
                text="\n".join([*about, *([bare] if title.endswith("…") else []), *rest]),
                needs=needs,
                proof=proof,
                done=mark in "xX",
            )
        )
        above.append((indent, name, title))
    items = [replace(each, parts=tuple(parts.get(each.id, ()))) for each in found]
    return file.name, by_phase(items, text, sorter) if is_roadmap(items) else items


def _slug(text: str, above: str, seen: set[str]) -> str:
    words = "-".join(re.findall(r"\w+", text.lower()))[:60].strip("-") or "item"
    name = f"{above}/{words}" if above else words
    return next(each for each in chain((name,), (f"{name}~{n}" for n in count(2))) if each not in seen)


# ---- the harness's own lists


def _features(text: str, file: Path, sorter: Sorter, _tag: str | None) -> Found:
    raw = _object(text, file)
    return one_line(raw.get("project") or "", 80), _feature_items(raw.get("features"), sorter)


_Members = Mapping[str, tuple[str, tuple[object, ...]]]
_OF_FEATURES: _Members = {
    "category": ("the category", (None, "", "core")),
    "verification_type": ("the kind of verification", (None, "automated")),
    "automated_checks": ("the automated checks", (None, [])),
    "manual_checks": ("what a person looks at", (None, [])),
    "visual_verification": ("the visual verification", (None,)),
    "requires_red": ("that its tests need not fail before", (None, True)),
}
_OF_TASKS: _Members = {
    "max_attempts": ("the limit on attempts", (None, DEFAULT_MAX_ATTEMPTS)),
    "on_failure": ("the command after a failure", (None, {}, {"cleanup": None})),
    "touches": ("the files that it touches", (None, [])),
}
"""Members of the harness's task format that the common form does not have, each with its meaning and its default
value.
"""


def _tell_uncarried(listed: list[JsonObject], own: _Members, sorter: Sorter) -> None:
    for name, (what, usual) in own.items():
        if count := sum(raw.get(name) not in usual for raw in listed):
            of = f"{what} of {count} {'item' if count == 1 else 'items'}"
            sorter.left_out.append(LeftOut(what=of, why="it stays with its own project"))


def _feature_items(found: object, sorter: Sorter) -> Iterator[BacklogItem]:
    """Yield the features in the order of their priority. Features without a priority come last."""
    listed = [*_objects(found, sorter, "feature")]
    listed.sort(key=lambda raw: raw["priority"] if isinstance(raw.get("priority"), int) else float("inf"))
    _tell_uncarried(listed, _OF_FEATURES, sorter)
    for raw in listed:
        if isinstance(raw.get("skipped"), dict):
            what = f"{raw.get('id')} {one_line(raw.get('description') or '')}"
            sorter.left_out.append(LeftOut(what=what, why="skipped there"))
            continue
        file, title = raw.get("test_file"), one_line(raw.get("description") or "")
        yield BacklogItem(
            id=str(raw.get("id", "")),
            title=title,
            text=_said(raw, *([("description", "")] if title.endswith("…") else []), ("details", "")),
            steps=_texts(raw.get("verification_steps")),
            rank=rank if isinstance(rank := raw.get("priority"), int) else None,
            needs=_ids(raw.get("depends_on")),
            test_file=file if isinstance(file, str) and file else None,
            may_change=_texts(raw.get("may_change")),
            done=raw.get("passes") is True,
        )


def _tasklist(text: str, file: Path, sorter: Sorter, _tag: str | None) -> Found:
    return file.resolve().parent.name, _task_items(_object(text, file).get("tasks"), sorter)


def _task_items(found: object, sorter: Sorter) -> Iterator[BacklogItem]:
    listed = [*_objects(found, sorter, "task")]
    _tell_uncarried(listed, _OF_TASKS, sorter)
    for raw in listed:
        validation = each if isinstance(each := raw.get("validation"), dict) else {}
        proof, seconds = validation.get("command"), validation.get("timeout_seconds")
        yield BacklogItem(
            id=str(raw.get("id", "")),
            title=one_line(raw.get("title") or raw.get("description") or ""),
            text=_said(raw, ("description", "")) if raw.get("title") else "",
            steps=_texts(raw.get("acceptance")),
            priority={"P0": 0, "P1": 1, "P2": 2}.get(str(raw.get("priority"))),
            needs=_ids(raw.get("depends_on")),
            proof=proof if isinstance(proof, str) and proof.strip() else None,
            timeout_seconds=seconds if number_below(seconds, float("inf")) else None,
            may_change=_texts(validation.get("may_change")),
            done=raw.get("status") == "completed",
        )


def _longtask(text: str, file: Path, sorter: Sorter, _tag: str | None) -> Found:
    """Return a long task as one item. The commands of all criteria prove this item."""
    raw = _object(text, file)
    steps: list[str] = []
    commands: list[str] = []
    for number, each in enumerate(raw.get("successCriteria") or [], 1):
        criterion = each if isinstance(each, dict) else {"description": each}
        steps.append(" ".join(str(criterion.get("description") or criterion.get("id") or "").split()))
        target = criterion.get("target")
        command = target.get("command") if isinstance(target, dict) else target
        if isinstance(command, str) and command.strip() and criterion.get("metric") == "command":
            commands.append(command)
        else:
            why = "no command proves it; it is imported as text"
            sorter.left_out.append(LeftOut(what=f"criterion {criterion.get('id') or number}", why=why))
    item = BacklogItem(
        id=str(raw.get("id") or file.resolve().parent.name),
        title=one_line(raw.get("title") or raw.get("objective") or ""),
        text=_said(raw, ("objective", "")),
        steps=tuple(each for each in steps if each),
        proof=_all_of(commands),
    )
    return file.resolve().parent.name, [item]


def _all_of(commands: list[str]) -> str | None:
    """Return a command that succeeds only if all commands succeed, or None if there are no commands."""
    if len(commands) < 2:
        return commands[0] if commands else None
    return " && ".join(f"( {each}\n)" if "\n" in each or "#" in each else f"( {each} )" for each in commands)


READERS: dict[str, Callable[[str, Path, Sorter, str | None], Found]] = {
    "taskmaster": _taskmaster,
    "beads": _beads,
    "prd": _prd,
    "speckit": _speckit,
    "markdown": _markdown,
    "features": _features,
    "tasklist": _tasklist,
    "longtask": _longtask,
}
