"""Making a task list, adding to it, and a person's corrections. Source: ``tasklist.md`` 13.2, 13.3."""

from __future__ import annotations

import os
import shlex

from agent_harness.errors import ConfigurationError, Refused, StateDamaged, UsageError
from agent_harness.kernel import files, graph
from agent_harness.protocols.tasklist import progress, proven, records
from agent_harness.protocols.tasklist.layout import TaskListLayout
from agent_harness.protocols.tasklist.store import TaskStore, backup_is_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from agent_harness.protocols.tasklist.store import TaskListChange

    Record = dict[str, Any]

__all__ = ["FIELDS", "add", "create", "read_lines", "set_fields"]

IGNORED = (
    "harness-tasks.json",
    "harness-tasks.json.*",
    "harness-progress.txt",
    ".harness-active",
    ".harness-pause",
    ".harness-reflect",
    ".harness-lock",
    ".harness/",
)

INIT_SCRIPT = """\
#!/bin/sh
# Sets the environment up. Runs at every session start, so it must be safe to repeat.
set -e
if [ -f requirements.txt ]; then python3 -m pip install -q -r requirements.txt; fi
if [ -f package.json ]; then npm install --silent; fi
echo "Environment health check complete"
"""

FIELDS: dict[str, str] = {
    "title": "text",
    "status": "pending or failed",
    "priority": "P0, P1 or P2",
    "depends_on": "ids, with commas",
    "attempts": "number",
    "max_attempts": "number",
    "validation.command": "text",
    "validation.timeout_seconds": "number",
    "validation.may_change": "patterns, with commas",
    "on_failure.cleanup": "text",
}
"""What ``set`` may change, and of which kind it is."""


_KINDS = (
    ("id", str, "a text"),
    ("max_attempts", int, "a whole number"),
    ("validation", dict, 'an object: {"command": "…"}'),
    ("validation.command", str, "a text"),
    ("validation.timeout_seconds", (int, float), "a number"),
    ("validation.may_change", list, 'a list of patterns: ["tests/**"]'),
    ("on_failure", dict, 'an object: {"cleanup": "…"}'),
    ("on_failure.cleanup", str, "a text"),
)


def create(
    folder: str,
    *,
    mode: str = "exclusive",
    max_tasks: int = 20,
    max_sessions: int = 50,
    init_script: bool = False,
    gitignore: str = "exclude",
) -> Record:
    """Makes the files of a task list where they are missing; what is there stays as it is.

    ``gitignore`` is ``exclude`` (into ``.git/info/exclude``), ``gitignore`` (into ``.gitignore``) or ``none``.
    """
    layout = TaskListLayout(folder)
    if not os.path.isdir(layout.root):
        raise Refused(f"{layout.root} is not a folder", hint=f"mkdir -p {layout.root}")
    store = TaskStore(layout)
    _refuse_lost(layout)
    created: list[str] = []
    kept: list[str] = []
    with store.lock():
        state = records.new_state(store.now(), mode=mode, max_tasks=max_tasks, max_sessions=max_sessions)
        for name, make in (
            ("harness-tasks.json", lambda: store.create(state)),
            ("harness-progress.txt", lambda: _first_line(store)),
            ("harness-init.sh", lambda: init_script and _script(layout)),
        ):
            is_there = os.path.lexists(os.path.join(layout.root, name))
            if is_there:
                kept.append(name)
            elif make():
                created.append(name)
        (kept if store.active() else created).append(".harness-active")
        store.activate()
    ignored = _ignore(layout, gitignore)
    return {"root": layout.root, "created": created, "kept": kept, "ignored_in": ignored}


def _refuse_lost(layout: TaskListLayout) -> None:
    """``StateDamaged`` where a list is gone and its backup is there: a new list would soon take the backup's place."""
    if os.path.lexists(layout.tasks) or not os.path.lexists(layout.backup):
        return
    if backup_is_whole(layout):
        raise StateDamaged("harness-tasks.json is missing, and its backup is here", hint="harness task recover")
    raise StateDamaged(
        f"harness-tasks.json is missing, and {layout.backup} holds no task list",
        hint=f"look at it; to begin anew: rm {shlex.quote(layout.backup)}",
    )


def _first_line(store: TaskStore) -> bool:
    root = store.layout.root
    store.log(progress.entry("INIT", 0, text=f"Harness initialized for project {root}"))
    return True


def _script(layout: TaskListLayout) -> bool:
    files.replace(layout.init_script, INIT_SCRIPT, mode=0o755)
    return True


def _ignore(layout: TaskListLayout, where: str) -> str | None:
    """Adds the harness's files to the ignore rules; the file that was written, ``None`` when nothing was."""
    if where == "none":
        return None
    from agent_harness.kernel.git import Git

    git = Git(layout.root)
    if not git.is_repository:
        return None
    path = os.path.join(layout.root, ".gitignore") if where == "gitignore" else str(git.shared_dir() / "info/exclude")
    try:
        found = files.read_bytes(path).decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        found = ""
        os.makedirs(os.path.dirname(path), exist_ok=True)
    prefix = os.fsdecode(git.prefix()) if where != "gitignore" else ""
    wanted = [f"/{prefix}/{name}" if prefix else f"/{name}" for name in IGNORED]
    missing = [line for line in wanted if line not in found.splitlines()]
    if not missing:
        return None
    start = found if not found or found.endswith("\n") else f"{found}\n"
    files.replace(path, (start + "\n".join(missing) + "\n").encode("utf-8", "surrogateescape"))
    return path


# ---- adding ------------------------------------------------------------------------------------------------------


def add(store: TaskStore, tasks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Adds tasks with fresh ids (or the ids they bring), all or none; their ids.

    ``ConfigurationError`` for an unknown dependency, a circle or an id that is taken; ``UsageError`` for what is no
    task.
    """

    def act(change: TaskListChange) -> list[str]:
        found = change.state.raw["tasks"]
        taken = {task.id for task in change.state.tasks}
        new: list[Record] = []
        for each in tasks:
            _refuse_malformed(each)
            wanted = each.get("id") or _fresh_id([*found, *new])
            if wanted in taken:
                raise ConfigurationError(f"there is a task {wanted} already", hint="harness status")
            taken.add(wanted)
            new.append(_new_task(each, wanted))
        found.extend(new)
        _refuse_impossible(records.State(change.state.raw), {each["id"] for each in new})
        change.touch()
        return [each["id"] for each in new]

    return store.change(act)


def _fresh_id(found: Sequence[object]) -> str:
    numbers = [0]
    for each in found:
        name = each.get("id") if isinstance(each, dict) else None
        digits = name.removeprefix("task-") if isinstance(name, str) and name.startswith("task-") else ""
        if digits.isascii() and digits.isdecimal():
            numbers.append(int(digits))
    return f"task-{max(numbers) + 1:03d}"


def _new_task(given: Mapping[str, Any], task_id: str) -> Record:
    """A whole task from what was given; members that we do not know stay."""
    title = given.get("title") or given.get("description")
    if not isinstance(title, str) or not title.strip():
        raise UsageError("a task needs a title", hint='harness add "what is to be done" --validate "pytest -q"')
    task = records.new_task(task_id, " ".join(title.split()))
    for name, value in given.items():
        is_object = isinstance(value, dict) and isinstance(task.get(name), dict)
        task[name] = {**task[name], **value} if is_object else value
    task.update(id=task_id, title=" ".join(title.split()), status="pending", attempts=0)
    task.update(error_log=[], checkpoints=[], completed_at=None, started_at_commit=None)
    return task


def _refuse_malformed(given: Mapping[str, Any]) -> None:
    """``UsageError`` for members that cannot be written, or would not be read as they are meant."""
    _refuse_unwritable(given)
    for name, kinds, what in _KINDS:
        outer, _, inner = name.partition(".")
        value = given.get(outer)
        if inner and isinstance(value, dict):
            value = value.get(inner)
        elif inner:
            continue
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
            raise UsageError(f"{name} of a task is {what}, not {value!r}"[:300], hint="harness add --help")
    if given.get("priority") not in (None, "P0", "P1", "P2"):
        raise UsageError(f"priority {given['priority']!r} is none of P0, P1, P2"[:300], hint="harness add --help")


def _refuse_unwritable(given: Mapping[str, Any]) -> None:
    from agent_harness.kernel.json import jsontext

    try:
        jsontext.line(dict(given)).encode()
    except UnicodeEncodeError:
        raise UsageError("a task is UTF-8 text, and this is none", hint="harness add --help") from None
    except ValueError as error:
        raise UsageError(f"a task is JSON: {error}", hint="harness add --help") from None


def _refuse_impossible(state: records.State, new: set[str]) -> None:
    needs = {task.id: task.depends_on for task in state.tasks}
    wrong = next((name for name in new if needs[name] is None), None)
    if wrong:
        raise ConfigurationError(f"depends_on of {wrong} is no list", hint="harness add --help")
    known = {name: found or [] for name, found in needs.items()}
    for name, need in graph.missing(known):
        if name in new:
            raise ConfigurationError(f"{name} depends on {need}, which no task is called", hint="harness status")
    for path in graph.cycles(known):
        if new & {*path}:
            raise ConfigurationError(
                f"Circular dependency detected: {' -> '.join(path)}", hint="leave one of these dependencies out"
            )


def read_lines(text: str) -> list[Record]:
    """Tasks from JSON lines; ``UsageError`` names the line that is none."""
    from agent_harness.kernel.json import jsontext

    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = jsontext.loads(line)
        except ValueError as error:
            raise UsageError(f"line {number} is no JSON: {error}", hint='one task a line: {"title": "…"}') from None
        if not isinstance(value, dict):
            raise UsageError(f"line {number} is no JSON object", hint='one task a line: {"title": "…"}')
        found.append(value)
    return found


# ---- a person's corrections --------------------------------------------------------------------------------------


def set_fields(store: TaskStore, task_id: str, changes: Mapping[str, str]) -> Record:
    """Sets members of a task; its new record. ``completed`` is never set by hand: ``complete`` proves it."""

    def act(change: TaskListChange) -> Record:
        task = change.state.by_id.get(task_id)
        if task is None:
            raise UsageError(f"There is no task {task_id}", hint="harness status")
        if task.status == "in_progress" and "status" in changes:
            raise Refused(
                f"{task_id} is in progress by {task.claimed_by}", hint=f"harness task release {task_id} 'why'"
            )
        if task.status == "in_progress" and any(name.startswith("validation.") for name in changes):
            raise Refused(
                f"{task_id} is in progress; what proves it cannot change now",
                hint=f"harness task release {task_id} 'the proof must change'",
            )
        _refuse_unwritable(changes)
        for name, text in changes.items():
            _set(task.raw, name, _value(name, text))
        if "status" in changes:
            proven.forget(store.layout, task_id)
        if changes.get("status") == "pending":
            task.raw.update(completed_at=None, error_log=_without_dependency(task))
        _refuse_impossible(records.State(change.state.raw), {task_id} if "depends_on" in changes else set())
        text = f"a person set {', '.join(f'{name}={value}' for name, value in changes.items())}"
        change.log(progress.entry("WARN", change.state.session_count, at=change.now, task=task_id, text=text))
        change.touch()
        return dict(task.raw)

    return store.change(act)


def _without_dependency(task: records.Task) -> list[object]:
    """A task that a person makes pending again is not held by what blocked it before."""
    found = task.raw.get("error_log")
    return [each for each in found if not str(each).startswith("[DEPENDENCY]")] if isinstance(found, list) else []


def _value(name: str, text: str) -> object:
    kind = FIELDS.get(name)
    if kind is None:
        raise UsageError(f"{name} cannot be set", hint=f"one of: {', '.join(FIELDS)}")
    if name == "status" and text not in ("pending", "failed"):
        raise UsageError(f"status cannot be set to {text!r}", hint="a task is completed by its validation alone")
    if name == "priority" and text not in ("P0", "P1", "P2"):
        raise UsageError(f"priority {text!r} is none of P0, P1, P2", hint=f"harness task set {name}=P1")
    if name in ("depends_on", "validation.may_change"):
        return [each.strip() for each in text.split(",") if each.strip()]
    if kind == "number":
        return _number(name, text)
    return text or None


def _number(name: str, text: str) -> int | float:
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number < float("inf"):
        raise UsageError(f"{name} is a number, not {text!r}", hint=f"{name}=3")
    return int(number) if number == int(number) else number


def _set(raw: Record, name: str, value: object) -> None:
    outer, dot, inner = name.partition(".")
    if not dot:
        raw[name] = value
        return
    found = raw.get(outer)
    raw[outer] = {**(found if isinstance(found, dict) else {}), inner: value}
