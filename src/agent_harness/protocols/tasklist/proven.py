"""Proof records of a task list. The harness stores them outside the project, and agents do not learn the folder's path.

    $XDG_STATE_HOME/agent-harness/projects/NAME/
      proven.json              the tasks that the harness completed, and which of them are only checked;
                               other completed tasks are proven again
      harness-tasks.json       a copy of the list as the harness last wrote it
      proofs.jsonl             the check of each task that a command added or changed; the last line counts
      claims/ID.KEY.json       the check of a task when it was claimed, and the files that passed this check
      red-before.json          results of validations on earlier code, by tree and command
      installed.json           packages that were installed before an attempt; of a worker: installed-WORKER.json
      starts.jsonl             each start of an agent: ``supervision/dispatch.py``
      verdicts.jsonl           the verdict on each claim, kept forever: ``session/ledger.py``
      said.json                messages that are printed once per list
      undo.json                an undo in progress

A list has no such folder if another program created the list, or if the user moved it. The harness then trusts the
tasks that the list calls completed. Source: ``tasklist.md`` 8, 11.4, 11.5."""

from __future__ import annotations

import os

from agent_harness.errors import ConfigurationError, HarnessError
from agent_harness.kernel import digest, files, journal, trusted_state
from agent_harness.kernel.json import json_object, jsontext, members_of, texts
from agent_harness.protocols.tasklist.layout import STATE_FILE, safe_name, written
from agent_harness.protocols.tasklist.records import ACCEPT, CHECKED, Task

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.tasklist.layout import TaskListLayout
    from agent_harness.protocols.tasklist.records import State


PROVEN = "proven.json"
PROOFS = "proofs.jsonl"
CLAIMS = "claims"
RED_BEFORE = "red-before.json"
SAID = "said.json"
LEDGER = "verdicts.jsonl"
_LIST_REQUIRES = "list_requires"  # in the record of a claim, whose ``requires`` is the task's own
REVERSAL = "undo.json"


class ProofChanged(ConfigurationError):
    """Error of category CONFIG: the check of a task was changed while an attempt was in progress."""

    code = "proof_changed"


class ClaimTerms:
    """Settings with which the harness verifies the work of a claim."""

    __slots__ = ("files", "isolation", "requires", "requires_red", "sandbox", "trust")

    def __init__(
        self,
        isolation: str,
        requires_red: str,
        files: JsonObject | None = None,
        *,
        trust: str = "normal",
        sandbox: object = None,
        requires: str = CHECKED,
    ) -> None:
        self.requires = requires
        self.sandbox = sandbox  # as ``session_config`` has it
        self.isolation = isolation
        self.requires_red = requires_red
        self.trust = trust
        self.files = files  # deciding files at the claim, in a folder outside git


class PassOnRecord:
    """Stored record of a validation that passed during the present claim."""

    __slots__ = ("basis", "command", "grade", "red_before", "seconds", "trees", "where")

    def __init__(self, record: JsonObject) -> None:
        self.command = record.get("command")
        self.trees = texts(record.get("trees"))  # trees that have passed it
        self.where = record.get("where")
        self.red_before = record.get("red_before")
        grade, basis = record.get("grade"), record.get("basis")
        self.grade = grade if isinstance(grade, str) else None
        self.basis = basis if isinstance(basis, str) else None
        self.seconds = record.get("seconds")


def ledger(layout: TaskListLayout, *, make: bool = True) -> str:
    """Return the path of the verdict ledger. With ``make=False``, create no folder."""
    return os.path.join(_home(layout, make=make) or layout.logs, LEDGER)


def _home(layout: TaskListLayout, *, make: bool) -> str | None:
    if make:
        return trusted_state.make(layout.tasks, layout.root)[0]
    return trusted_state.existing(layout.tasks, layout.root)


def now_path(layout: TaskListLayout, caller: str | None = None, *, make: bool = False) -> str | None:
    home = _home(layout, make=make)
    return os.path.join(home, f"now-{safe_name(caller)}.json" if caller else "now.json") if home else None


def reversal_path(layout: TaskListLayout) -> str | None:
    home = _home(layout, make=True)
    return os.path.join(home, REVERSAL) if home else None


def installed_path(layout: TaskListLayout, caller: str | None = None, *, make: bool = False) -> str | None:
    """Return the path of the record of installed packages, or ``None`` without a state folder."""
    home = _home(layout, make=True) if make else trusted_state.existing(layout.tasks, layout.root, writable=False)
    return os.path.join(home, f"installed-{safe_name(caller)}.json" if caller else "installed.json") if home else None


# ---- proven tasks ----------------------------------------------------------------------------------------------------


def adopt(layout: TaskListLayout, state: State) -> None:
    """Record the completed tasks of a new list as proven. The caller must hold the lock."""
    home = _home(layout, make=True)
    if home and not os.path.isfile(os.path.join(home, PROVEN)):
        done = [task.id for task in state.tasks if task.status == "completed"]
        files.write_json(os.path.join(home, PROVEN), {"root": written(layout.root), "proven": done})


def prove(layout: TaskListLayout, state: State, task_id: str, *, only: str | None = None) -> None:
    """Record that a task is proven, before the task's status changes. The caller must hold the lock."""
    adopt(layout, state)
    if home := _home(layout, make=False):
        _write_proven(layout, home, {*_proven(home), task_id}, {task_id: only})


def checked(layout: TaskListLayout) -> dict[str, str]:
    home = _home(layout, make=False)
    return _checked(home) if home else {}


def elsewhere(layout: TaskListLayout) -> str | None:
    """Return a warning if the proof records are not in their usual folder, or None."""
    line = trusted_state.make(layout.tasks, layout.root)[1]
    return f"{line} A session that can use that folder proves the task again." if line else None


def forget(layout: TaskListLayout, task_id: str) -> None:
    """Delete the proof record of a task. The caller must hold the lock."""
    home = _home(layout, make=False)
    if home and os.path.isfile(os.path.join(home, PROVEN)):
        _write_proven(layout, home, {*_proven(home)} - {task_id}, {task_id: None})


def _write_proven(layout: TaskListLayout, home: str, done: set[str], news: dict[str, str | None]) -> None:
    kept = {name: why for name, why in {**_checked(home), **news}.items() if why is not None and name in done}
    record: JsonObject = {"root": written(layout.root), "proven": sorted(done)}
    record |= {"checked": dict(sorted(kept.items()))} if kept else {}
    files.write_json(os.path.join(home, PROVEN), record, backup=True)


def unproven(layout: TaskListLayout, state: State) -> list[Task]:
    """Return the completed tasks without a proof record, or [] if the list has no proof records at all."""
    done = [task for task in state.tasks if task.status == "completed"]
    home = _home(layout, make=False) if done else None
    if not home or not os.path.isfile(os.path.join(home, PROVEN)):
        return []
    proven = {*_proven(home)}
    return [task for task in done if task.id not in proven]


def _proven(home: str) -> list[str]:
    return texts(_proven_record(home).get("proven"))


def _checked(home: str) -> dict[str, str]:
    return {name: str(why) for name, why in members_of(_proven_record(home).get("checked")).items()}


def _proven_record(home: str) -> JsonObject:
    path = os.path.join(home, PROVEN)
    return files.read_json_if_any(path) or files.read_json_if_any(f"{path}.bak")


# ---- a copy of the list ----------------------------------------------------------------------------------------------


def keep_list(layout: TaskListLayout, read: Callable[[], bytes]) -> None:
    """Save a copy of the task list outside the project. The caller must hold the lock."""
    home = _home(layout, make=False)
    if not home:
        return
    path = os.path.join(home, STATE_FILE)
    try:
        with open(f"{path}.new", "wb") as copy:
            copy.write(read())
        os.replace(f"{path}.new", path)
    except (OSError, HarnessError):  # a full disk, which the list itself has reported
        return


def kept_list(layout: TaskListLayout) -> State | None:
    """Return the state in the list's saved copy, or ``None`` if the copy is unreadable."""
    from agent_harness.kernel import root
    from agent_harness.protocols.tasklist.records import State

    try:
        return State(files.read_json(root.kept_copy(layout.root) or ""))
    except (OSError, HarnessError):
        return None


# ---- the check of a task ---------------------------------------------------------------------------------------------


def keep_proof(layout: TaskListLayout, *tasks: Task) -> None:
    """Record the checks of these tasks. The caller must hold the lock."""
    if home := _home(layout, make=True):
        for task in tasks:
            journal.append(os.path.join(home, PROOFS), {"task": task.id, **_proof_of(task)})


def put_back(layout: TaskListLayout, task: Task, *, claimed: bool, found: JsonObject | None = None) -> str | None:
    """Restore the task's check if it was changed, and return a message. The caller must hold the lock."""
    kept = _claim_record(layout, task) if claimed else _kept_proof(layout, task.id)
    changed = _restore(task, kept or found or {})
    if not kept:
        keep_proof(layout, task)
    if not changed:
        return None
    now = _proof_of(task)
    said = "; ".join(f"validation.{name} was changed in the file; restored to: {now[name]}" for name in changed)
    return f"{said} (to change it: harness task set {task.id} validation.{changed[0]}=...)"


def proofs_of(tasks: Iterable[Task]) -> dict[str, JsonObject]:
    return {task.id: _proof_of(task) for task in tasks}


def as_kept(layout: TaskListLayout, tasks: Iterable[Task], found: Mapping[str, JsonObject]) -> list[Task]:
    home, copies = _home(layout, make=False), [Task(each.copy()) for each in tasks]
    kept = {row.get("task"): row for row in journal.read(os.path.join(home, PROOFS))} if home else {}
    for each in copies:
        _restore(each, kept.get(each.id) or found.get(each.id, {}))
    return copies


def _restore(task: Task, kept: JsonObject) -> list[str]:
    """Restore the task's recorded check, and return the names of the changed members."""
    changed = [name for name, now in _proof_of(task).items() if name in kept and kept[name] != now]
    if not changed:
        return []
    found = task.raw.get("validation")
    validation = dict(found) if isinstance(found, dict) else {}
    for name in changed:
        validation[name] = kept[name]
        if name != "command" and not kept[name]:
            del validation[name]
    task.raw["validation"] = validation
    return changed


def commands_of(layout: TaskListLayout, task: Task) -> list[str]:
    both = (task.validation_command, _kept_proof(layout, task.id).get("command"))
    return [each for each in both if isinstance(each, str) and each.strip()]


def _proof_of(task: Task) -> JsonObject:
    return {
        "command": task.validation_command,
        "may_change": task.may_change,
        "requires": task.requires,
        "unchanged": ACCEPT if task.accepts_unchanged else None,
    }


def _kept_proof(layout: TaskListLayout, task_id: str) -> JsonObject:
    home = _home(layout, make=False)
    try:
        text = files.read_bytes(os.path.join(home, PROOFS)) if home else b""
    except OSError:
        return {}
    start = text.rfind(jsontext.line({"task": task_id}).removesuffix("}").encode() + b",")
    if start < 0:
        return {}
    try:
        found = jsontext.loads(text[start : text.find(b"\n", start)].decode())
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


# ---- the proof of a claim --------------------------------------------------------------------------------------------


def begin(
    layout: TaskListLayout, state: State, task: Task, *, kept: JsonObject | None = None, base: object = None
) -> None:
    """Record the task's check at a new claim. The caller must hold the lock."""
    home = _home(layout, make=True)
    if not home:
        return
    folder = trusted_state.made_inside(home, CLAIMS)
    for name in os.listdir(folder):
        if name.rpartition(".json")[0].rpartition(".")[0] == safe_name(task.id):
            os.unlink(os.path.join(folder, name))
    record: JsonObject = {"task": task.id, **_proof_of(task)}
    config = state.config
    record |= {"isolation": config.isolation, "requires_red": config.requires_red, "trust": config.trust}
    record |= {"sandbox": config.sandbox, _LIST_REQUIRES: config.requires}
    record |= {"base": base, "base_ref": task.base_ref} if base else {}
    files.write_json(_claim(home, task), {**record, "files": kept} if kept else record)


def hand_over(layout: TaskListLayout, task: Task, token: str) -> None:
    """Store a copy of the claim's record under the claim's new token. The caller must hold the lock."""
    home, found = _home(layout, make=False), _claim_record(layout, task)
    if home and found:
        found.pop("passed", None)
        files.write_json(_claim_path(home, task.id, token), found)


def refuse_changed(layout: TaskListLayout, task: Task) -> None:
    """Raise ``ProofChanged`` if the task's check has changed since the task was claimed."""
    found = _claim_record(layout, task)
    for name, now in _proof_of(task).items():
        if name in found and found[name] != now:
            raise ProofChanged(
                f"validation.{name} of {task.id} was changed while the task was in progress; it was: {found[name]}",
                hint="the check is restored; see harness-progress.txt, then: harness resume",
                task_id=task.id,
            )


def terms(layout: TaskListLayout, state: State, task: Task) -> ClaimTerms:
    """Return the claim's recorded verification settings or, without a record, the present settings."""
    found, now = _claim_record(layout, task), state.config
    isolation, red = found.get("isolation", now.isolation), found.get("requires_red", now.requires_red)
    return ClaimTerms(
        isolation,
        red,
        json_object(found.get("files")),
        trust=str(found.get("trust", now.trust)),
        sandbox=found.get("sandbox", now.sandbox),
        requires=str(found.get(_LIST_REQUIRES, now.requires)),
    )


def put_terms_back(layout: TaskListLayout, state: State, task: Task) -> str | None:
    """Restore the claim's verification settings, and return a message or None. The caller must hold the lock."""
    found, now = _claim_record(layout, task), state.config
    kept = {name: found[name] for name in ("isolation", "requires_red", "sandbox") if name in found}
    kept |= {"requires": found[_LIST_REQUIRES]} if _LIST_REQUIRES in found else {}
    # only the user may change them, and only while no task is in progress
    changed = [name for name, value in kept.items() if value != getattr(now, name)]
    if not changed:
        return None
    given = members_of(state.raw.get("session_config")) | {name: kept[name] for name in changed}
    state.raw["session_config"] = {name: value for name, value in given.items() if name != "sandbox" or value}
    said = "; ".join(f"session_config.{name} was changed in the file; restored to: {kept[name]}" for name in changed)
    return f"{said} (change it yourself while no task is in progress)"


def base_of(layout: TaskListLayout, task: Task) -> tuple[str, str] | None:
    """Return the recorded ref and commit of the claim's baseline, or None."""
    found = _claim_record(layout, task)
    ref, base = found.get("base_ref"), found.get("base")
    return (ref, base) if isinstance(ref, str) and isinstance(base, str) else None


def red_before_file(layout: TaskListLayout) -> str | None:
    """Return the path of the file that stores check results on earlier commits, or ``None``."""
    home = _home(layout, make=True)
    return os.path.join(home, RED_BEFORE) if home else None


def first_time(layout: TaskListLayout, name: str) -> bool:
    """Return True at the first call with this ``name`` for the list, otherwise False."""
    home = _home(layout, make=True)
    if not home:
        return False
    known = files.read_json_if_any(path := os.path.join(home, SAID))
    if name in known:
        return False
    files.write_json(path, {**known, name: True})
    return True


def note_claim(layout: TaskListLayout, task: Task, **members: object) -> None:
    home = _home(layout, make=True)
    if home:
        known = _claim_record(layout, task)
        trusted_state.made_inside(home, CLAIMS)
        files.write_json(_claim(home, task), {"task": task.id, **known, **members})


def noted(layout: TaskListLayout, task: Task, name: str) -> JsonObject:
    """Return the object that ``note_claim`` stored as ``name`` for the present claim, or an empty object."""
    return members_of(_claim_record(layout, task).get(name))


def passed(layout: TaskListLayout, task: Task) -> PassOnRecord | None:
    found = json_object(_claim_record(layout, task).get("passed"))
    return PassOnRecord(found) if found else None


def _claim_record(layout: TaskListLayout, task: Task) -> JsonObject:
    home = trusted_state.existing(layout.tasks, layout.root, writable=False)
    if not home or not task.claim_token or os.path.islink(os.path.join(home, CLAIMS)):
        return {}
    return files.read_json_if_any(_claim(home, task))


def _claim(home: str, task: Task) -> str:
    return _claim_path(home, task.id, task.claim_token or "")


def _claim_path(home: str, task_id: str, token: str) -> str:
    key = digest.blake2b(token.encode("utf-8", "surrogatepass"), 8)
    return os.path.join(home, CLAIMS, f"{safe_name(task_id)}.{key}.json")
