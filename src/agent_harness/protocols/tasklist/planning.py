"""Creation of a task list, addition of tasks, and manual corrections. Source: ``tasklist.md`` 13.2, 13.3."""

from __future__ import annotations

import os
import shlex
from contextlib import suppress

from agent_harness.errors import Busy, ConfigurationError, Refused, StateDamaged, UsageError
from agent_harness.kernel import clock, files, graph, root, trusted_state
from agent_harness.kernel.json import JsonObject, members_of
from agent_harness.protocols.tasklist import progress, proven, records
from agent_harness.protocols.tasklist.layout import HARNESS_FILES, TaskListLayout
from agent_harness.protocols.tasklist.records import DEFAULT_MAX_ATTEMPTS, DEFAULT_TIMEOUT_SECONDS, VERSION, WORKTREE
from agent_harness.protocols.tasklist.store import TaskStore, backup_is_whole, copy_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from typing import Any

    from agent_harness.protocols.tasklist.store import TaskListChange


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
    "depends_on": "ids separated by commas",
    "attempts": "number",
    "max_attempts": "number",
    "validation.command": "text",
    "validation.timeout_seconds": "number",
    "validation.may_change": "patterns separated by commas",
    "validation.requires": "proven or checked",
    "validation.unchanged": "accept or ask",
    "on_failure.cleanup": "text",
}
"""Task members that ``set`` may change, with the types of their values."""
_CHOICES = {
    "validation.requires": (records.PROVEN, records.CHECKED),
    "validation.unchanged": (records.ACCEPT, records.ASK),
}


_KINDS = (
    ("id", str, "a text"),
    ("max_attempts", int, "a whole number"),
    ("validation", dict, 'an object: {"command": "…"}'),
    ("validation.command", str, "a text"),
    ("validation.timeout_seconds", (int, float), "a number"),
    ("validation.may_change", list, 'a list of patterns: ["tests/**"]'),
    ("validation.requires", str, "proven or checked"),
    ("validation.unchanged", str, "accept or ask"),
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
) -> JsonObject:
    """Create the missing files of a task list, and return their names."""
    layout = TaskListLayout(folder)
    if not os.path.isdir(layout.root):
        raise Refused(f"{layout.root} is not a folder", hint=f"mkdir -p {layout.root}")
    store = TaskStore(layout)
    _refuse_lost(layout)
    created: list[str] = []
    kept: list[str] = []
    with store.lock():
        aside = None if os.path.lexists(layout.tasks) else trusted_state.set_aside(layout.tasks, layout.root)
        state = new_state(store.now(), mode=mode, max_tasks=max_tasks, max_sessions=max_sessions)
        first = progress.entry("INIT", 0, text=f"Harness initialized for project {layout.root}")
        makers: dict[str, Callable[[], object]] = {
            "harness-tasks.json": lambda: store.create(state),
            "harness-progress.txt": lambda: store.log(first),
            "harness-init.sh": lambda: files.replace(layout.init_script, INIT_SCRIPT, mode=0o755),
        }
        for name, make in makers.items():
            if os.path.lexists(os.path.join(layout.root, name)):
                kept.append(name)
            elif init_script or name != "harness-init.sh":
                make()
                created.append(name)
        if "harness-tasks.json" in created:
            proven.adopt(layout, records.State(state))
        (kept if store.active() else created).append(".harness-active")
        store.activate()
    ignored = _ignore(layout, gitignore)
    found = {"root": layout.root, "created": created, "kept": kept, "ignored_in": ignored}
    return found | ({"set_aside": aside} if aside else {})


def _refuse_lost(layout: TaskListLayout) -> None:
    """Raise ``StateDamaged`` if a new list would overwrite the backup or copy of a lost list."""
    if os.path.lexists(layout.tasks):
        return
    if not os.path.lexists(layout.backup):
        if (copy := copy_of(layout)) and copy.tasks:
            path = shlex.quote(str(root.kept_copy(layout.root)))
            told = f"The file of a list with {len(copy.tasks)} tasks is missing, but a copy of the list is kept"
            raise StateDamaged(told, hint=f"harness task recover  # or, to start a new list: rm {path}")
        return
    if backup_is_whole(layout):
        raise StateDamaged("harness-tasks.json is missing, but its backup exists", hint="harness task recover")
    raise StateDamaged(
        f"harness-tasks.json is missing, and {layout.backup} is not a task list",
        hint=f"correct that file, or delete it to start a new list: rm {shlex.quote(layout.backup)}",
    )


def _ignore(layout: TaskListLayout, where: str) -> str | None:
    if where == "none":
        return None
    from agent_harness.kernel.git import Git, own_output

    git = Git(layout.root)
    if not git.is_repository:
        return None
    path = os.path.join(layout.root, ".gitignore") if where == "gitignore" else str(git.shared_dir() / "info/exclude")
    wanted = _ignored_lines(os.fsdecode(git.prefix()) if where != "gitignore" else "")
    return path if own_output.add(path, wanted) else None


def _ignored_lines(prefix: str) -> list[str]:
    return [f"/{prefix}/{name}" if prefix else f"/{name}" for name in IGNORED]


def traces(layout: TaskListLayout) -> JsonObject:
    """Return the files and ignore lines that the harness added. Raise an error while a task is in progress."""
    from glob import escape, glob

    from agent_harness.kernel.git import Git
    from agent_harness.kernel.lock import LOCK_FILE
    from agent_harness.protocols.tasklist.claims import leases

    store = TaskStore(layout)
    with suppress(StateDamaged):  # then no session is known
        state, now = store.read(), store.now()
        for task in (each for each in state.tasks if each.status == "in_progress"):
            if leases.is_live(task, state, now):
                raise Busy(f"An agent is working on {task.id}", hint="harness pause  # then the same command")
            raise Refused(
                f"{task.id} was interrupted, and its work is still in the folder", hint="harness task recover"
            )
    git = Git(layout.root)
    prefix = os.fsdecode(git.prefix()) if git.is_repository else ""
    patterns = [name for name in HARNESS_FILES if name not in ("harness-tasks.json", "harness-init.sh")]
    found = [path for name in patterns for path in sorted(glob(os.path.join(escape(layout.root), name)))]
    own = [path for path in (layout.init_script,) if _is_template(path)]
    return {
        "kind": "tasklist",
        "files": [*found, *own, *(path for path in (layout.tasks,) if os.path.lexists(path))],
        "excluded": _ignored_lines(prefix),
        "gitignore": _ignored_lines(""),
        "place": layout.tasks,
        "lock": {"file": LOCK_FILE, "compatible": True},
    }


def _is_template(path: str) -> bool:
    try:
        return files.read_bytes(path) == INIT_SCRIPT.encode()
    except OSError:
        return False


def new_state(at: datetime, *, mode: str = "exclusive", max_tasks: int = 20, max_sessions: int = 50) -> JsonObject:
    return {
        "version": VERSION,
        "created": clock.timestamp(at),
        "session_config": {
            "concurrency_mode": mode,
            "max_tasks_per_session": max_tasks,
            "max_sessions": max_sessions,
            "isolation": WORKTREE,
        },
        "tasks": [],
        "session_count": 0,
        "last_session": None,
    }


def new_task(
    task_id: str,
    title: str,
    *,
    priority: str | None = None,
    depends_on: list[str] | None = None,
    validation: str | None = None,
) -> JsonObject:
    """Return a pending task that has every member of the task format."""
    return {
        "id": task_id,
        "title": title,
        "status": "pending",
        "priority": priority or "P1",
        "depends_on": depends_on or [],
        "attempts": 0,
        "max_attempts": DEFAULT_MAX_ATTEMPTS,
        "started_at_commit": None,
        "validation": {"command": validation, "timeout_seconds": int(DEFAULT_TIMEOUT_SECONDS)},
        "on_failure": {"cleanup": None},
        "error_log": [],
        "checkpoints": [],
        "completed_at": None,
    }


# ---- adding ----------------------------------------------------------------------------------------------------------


def add(store: TaskStore, tasks: Sequence[Mapping[str, Any]]) -> list[str]:
    """Add tasks to the task list, and return their ids. If a task is invalid, add none."""

    def act(change: TaskListChange) -> list[str]:
        new = _taken_in(change.state, tasks)
        whole = records.State(change.state.raw)
        proven.adopt(store.layout, whole)
        known = whole.by_id
        proven.keep_proof(store.layout, *(known[task_id] for task_id in new))
        if new:
            change.touch()
        return new

    return store.change(act)


def check_first(tasks: Sequence[Mapping[str, Any]]) -> None:
    _taken_in(records.State(new_state(clock.now())), tasks)


def _taken_in(state: records.State, tasks: Sequence[Mapping[str, Any]]) -> list[str]:
    taken = {task.id for task in state.tasks}
    came = by_source(state)
    last = _last_number(taken)
    new: list[JsonObject] = []
    for each in tasks:
        _refuse_malformed(each)
        source = each.get("source")
        source = source if isinstance(source, str) else None
        if source in came:
            continue
        wanted = each.get("id")
        if not wanted:
            wanted = f"task-{last + 1:03d}"
        if wanted in taken:
            raise ConfigurationError(f"a task with the id {wanted} already exists", hint="harness status")
        taken.add(wanted)
        last = max(last, _last_number([wanted]))
        if source is not None:
            came[source] = wanted
        new.append(_new_task(each, wanted))
    for each in new:
        if isinstance(each["depends_on"], list):
            each["depends_on"] = [
                came.get(need, need) if isinstance(need, str) else need for need in each["depends_on"]
            ]
    state.raw["tasks"].extend(new)
    _refuse_impossible(records.State(state.raw), {each["id"] for each in new})
    return [each["id"] for each in new]


def by_source(state: records.State) -> dict[str, str]:
    return {task.raw["source"]: task.id for task in state.tasks if isinstance(task.raw.get("source"), str)}


def _last_number(ids: Iterable[str]) -> int:
    digits = [name.removeprefix("task-") for name in ids if name.startswith("task-")]
    return max((int(each) for each in digits if each.isascii() and each.isdecimal()), default=0)


def _new_task(given: Mapping[str, Any], task_id: str) -> JsonObject:
    title = given.get("title") or given.get("description")
    if not isinstance(title, str) or not title.strip():
        raise UsageError("a task needs a title", hint='harness add "what is to be done" --validate "pytest -q"')
    task = new_task(task_id, " ".join(title.split()))
    for name, value in given.items():
        is_object = isinstance(value, dict) and isinstance(task.get(name), dict)
        task[name] = {**task[name], **value} if is_object else value
    task.update(id=task_id, title=" ".join(title.split()), status="pending", attempts=0)
    task.update(error_log=[], checkpoints=[], completed_at=None, started_at_commit=None)
    return task


def _refuse_malformed(given: Mapping[str, Any]) -> None:
    """Raise ``UsageError`` if a member of a task has the wrong type or cannot be stored."""
    _refuse_unwritable(given)
    for name, kinds, what in _KINDS:
        outer, _, inner = name.partition(".")
        value = given.get(outer)
        if inner and isinstance(value, dict):
            value = value.get(inner)
        elif inner:
            continue
        if value is not None and (isinstance(value, bool) or not isinstance(value, kinds)):
            raise UsageError(f"{name} of a task must be {what}, got {value!r}"[:300], hint="harness add --help")
    for name, allowed in _CHOICES.items():
        value = (given.get("validation") or {}).get(name.partition(".")[2])
        if value not in (None, *allowed):
            raise UsageError(f"{name} of a task must be {FIELDS[name]}, got {value!r}"[:300], hint="harness add --help")
    if given.get("priority") not in (None, "P0", "P1", "P2"):
        raise UsageError(f"priority {given['priority']!r} must be P0, P1 or P2"[:300], hint="harness add --help")


def _refuse_unwritable(given: Mapping[str, Any]) -> None:
    from agent_harness.kernel.json import jsontext

    try:
        jsontext.line(dict(given)).encode()
    except UnicodeEncodeError:
        raise UsageError("a task must be UTF-8 text", hint="harness add --help") from None
    except ValueError as error:
        raise UsageError(f"a task must be valid JSON: {error}", hint="harness add --help") from None


def _refuse_impossible(state: records.State, new: set[str]) -> None:
    needs = {task.id: task.depends_on for task in state.tasks}
    wrong = next((name for name in new if needs[name] is None), None)
    if wrong:
        raise ConfigurationError(f"depends_on of {wrong} is not a list", hint="harness add --help")
    known = {name: found or [] for name, found in needs.items()}
    for name, need in graph.missing(known):
        if name in new:
            raise ConfigurationError(f"{name} depends on {need}, which is not a task", hint="harness status")
    for path in graph.cycles(known):
        if new & {*path}:
            raise ConfigurationError(
                f"Circular dependency detected: {' -> '.join(path)}", hint="remove one of these dependencies"
            )


def read_lines(text: str) -> list[JsonObject]:
    """Parse a text with one JSON object per line, and return these tasks. Raise ``UsageError`` if a line is invalid."""
    from agent_harness.kernel.json import jsontext

    found = []
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            value = jsontext.loads(line)
        except ValueError as error:
            raise UsageError(
                f"line {number} is not JSON: {error}", hint='write one task per line: {"title": "…"}'
            ) from None
        if not isinstance(value, dict):
            raise UsageError(f"line {number} is not a JSON object", hint='write one task per line: {"title": "…"}')
        found.append(value)
    return found


# ---- a person's corrections ------------------------------------------------------------------------------------------


def set_fields(store: TaskStore, task_id: str, changes: Mapping[str, str]) -> JsonObject:
    """Change members of a task, and return the changed task."""
    said_by = _speaker()

    def act(change: TaskListChange) -> JsonObject:
        task = change.state.by_id.get(task_id)
        if task is None:
            raise UsageError(f"There is no task {task_id}", hint="harness status")
        if task.status == "in_progress" and "status" in changes:
            raise Refused(
                f"{task_id} is in progress by {task.claimed_by}", hint=f"harness task release {task_id} 'why'"
            )
        if task.status == "in_progress" and any(name.startswith("validation.") for name in changes):
            raise Refused(
                f"{task_id} is in progress, so its check cannot change now",
                hint=f"harness task release {task_id} 'the proof must change'",
            )
        # only a proof can set the status completed
        _refuse_unwritable(changes)
        before = task.validation_command
        if task.status == "completed" and "status" in changes:
            _take_back(store, task, f"status={changes['status']}", change.state.revision)
        for name, text in changes.items():
            _set(task.raw, name, _value(name, text))
        if "status" in changes:
            proven.forget(store.layout, task_id)
        if changes.get("status") == "pending":
            _open(task)
        _refuse_impossible(records.State(change.state.raw), {task_id} if "depends_on" in changes else set())
        if any(name.startswith("validation.") for name in changes):
            proven.keep_proof(store.layout, records.State(change.state.raw).by_id[task_id])
        said = ", ".join(f"{name}={value}" for name, value in changes.items())
        was = f" (validation.command was: {before})" if "validation.command" in changes else ""
        change.note("WARN", f"set by {said_by}: {said}{was}", task=task_id)
        change.touch()
        return dict(task.raw)

    return store.change(act)


def reset(store: TaskStore, task_ids: Sequence[str], *, failed: bool = False) -> list[str]:
    """Make failed tasks pending, set their attempt counts to 0, and return their ids."""

    def act(change: TaskListChange) -> list[str]:
        by_id = change.state.by_id
        for task_id in task_ids:
            if task_id not in by_id:
                raise UsageError(f"There is no task {task_id}", hint="harness status")
            if by_id[task_id].status != "failed":
                raise Refused(f"{task_id} is {by_id[task_id].status}, not failed", hint="harness status")
        chosen = [
            each
            for each in change.state.tasks
            if each.id in task_ids or (failed and each.given_up and not each.question)
        ]
        for task in chosen:
            task.raw.update(status="pending", attempts=0)
            _unblock(task)
            proven.forget(store.layout, task.id)
            change.note("WARN", f"reset by {said_by}: status=pending, attempts=0", task=task.id)
        if chosen:
            change.touch()
        return [each.id for each in chosen]

    said_by = _speaker()
    if failed == bool(task_ids):
        raise UsageError(
            "Give the ids of failed tasks, or --failed for all of them", hint="harness task reset --failed"
        )
    return store.change(act)


_CLIENTS = ("CLAUDECODE", "CODEX_SANDBOX", "CODEX_SANDBOX_NETWORK_DISABLED", "GEMINI_CLI")
"""Environment variables that clients set for the commands of their agents."""


def _take_back(store: TaskStore, task: records.Task, word: str, revision: int) -> None:
    from agent_harness.session import ledger

    path = proven.ledger(store.layout)
    last = ledger.last_about(path, task.id)
    # a repeated call makes the same id, and writes no second line
    line = ledger.ClaimVerdict(
        id=f"{task.id}, {word} at revision {revision}",
        item=task.id,
        verdict=ledger.REJECTED,
        by="person",
        word=word,
        of=last.n if last else None,
    )
    ledger.write(path, line)


def _speaker() -> str:
    return "an agent's command" if any(os.environ.get(name) for name in _CLIENTS) else "command"


def _open(task: records.Task) -> None:
    asked = members_of(task.raw.get("question"))
    _unblock(task)
    # the real number, which is lower while a task waits for the user
    if "attempts" in asked:
        task.raw["attempts"] = records.whole(asked["attempts"], task.attempts)


def _unblock(task: records.Task) -> None:
    log = task.raw.get("error_log")
    kept = [each for each in log if not str(each).startswith("[DEPENDENCY]")] if isinstance(log, list) else []
    task.raw.update(completed_at=None, error_log=kept)
    task.raw.pop("question", None)


def _value(name: str, text: str) -> object:
    kind = FIELDS.get(name)
    if kind is None:
        raise UsageError(f"{name} cannot be set", hint=f"one of: {', '.join(FIELDS)}")
    if name == "status" and text not in ("pending", "failed"):
        raise UsageError(f"status cannot be set to {text!r}", hint="only a passing validation completes a task")
    if name == "priority" and text not in ("P0", "P1", "P2"):
        raise UsageError(f"priority {text!r} must be P0, P1 or P2", hint=f"harness task set {name}=P1")
    if name in _CHOICES and text not in ("", *_CHOICES[name]):
        raise UsageError(f"{name} must be {kind}, got {text!r}", hint=f"harness task set ID {name}={_CHOICES[name][0]}")
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
        raise UsageError(f"{name} must be a number, got {text!r}", hint=f"{name}=3")
    return int(number) if number == int(number) else number


def _set(raw: JsonObject, name: str, value: object) -> None:
    outer, dot, inner = name.partition(".")
    if not dot:
        raw[name] = value
        return
    raw[outer] = {**members_of(raw.get(outer)), inner: value}
