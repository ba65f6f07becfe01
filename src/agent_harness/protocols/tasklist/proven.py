"""What the harness itself has proven, kept where no agent is told to look: outside the project.

    $XDG_STATE_HOME/agent-harness/projects/NAME/
        proven.json              the tasks that the harness completed; others that say so are proven again
        claims/ID.KEY.json       the proof as it was when the task was claimed, and which files have passed it
        red-before.json          what validations said of the code before, by tree and command
        said.json                what is said once of a list, and was

A list that has no folder here yet, made by somebody else or moved here, is believed as it is found. Source:
``tasklist.md`` 8, 11.4, 11.5.
"""

from __future__ import annotations

import os

from agent_harness.errors import ConfigurationError, HarnessError
from agent_harness.kernel import digest, files, trusted_state
from agent_harness.protocols.tasklist.layout import safe_name, written

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.protocols.tasklist.layout import TaskListLayout
    from agent_harness.protocols.tasklist.records import State, Task

    Record = dict[str, Any]

__all__ = [
    "ProofChanged",
    "adopt",
    "begin",
    "first_time",
    "forget",
    "hand_over",
    "note_pass",
    "passed",
    "prove",
    "red_before_file",
    "refuse_changed",
    "terms",
    "unproven",
]

PROVEN = "proven.json"
RED_BEFORE = "red-before.json"
SAID = "said.json"


class ProofChanged(ConfigurationError):
    """Somebody changed what proves a task while it was in progress; category CONFIG."""

    code = "proof_changed"


def _home(layout: TaskListLayout, *, make: bool) -> str | None:
    if make:
        return trusted_state.make(layout.tasks, layout.root)[0]
    return trusted_state.existing(layout.tasks, layout.root)


def _read(path: str) -> Record:
    try:
        return files.read_json(path)
    except (OSError, HarnessError):
        return {}


# ---- the tasks that were proven --------------------------------------------------------------------------------------


def adopt(layout: TaskListLayout, state: State) -> None:
    """Believes the completed tasks of a list that is seen for the first time. Call it under the lock."""
    home = _home(layout, make=True)
    if home and not os.path.isfile(os.path.join(home, PROVEN)):
        done = [task.id for task in state.tasks if task.status == "completed"]
        files.write_json(os.path.join(home, PROVEN), {"root": written(layout.root), "proven": done})


def prove(layout: TaskListLayout, state: State, task_id: str) -> None:
    """Notes that the harness has proven a task; before the state says so, under the lock."""
    adopt(layout, state)
    home = _home(layout, make=False)
    if home:
        path = os.path.join(home, PROVEN)
        files.write_json(path, {"root": written(layout.root), "proven": sorted({*_proven(home), task_id})}, backup=True)


def forget(layout: TaskListLayout, task_id: str) -> None:
    """Takes the note back: the task is to be proven again. Call it under the lock."""
    home = _home(layout, make=False)
    if home and os.path.isfile(os.path.join(home, PROVEN)):
        rest = sorted({*_proven(home)} - {task_id})
        files.write_json(os.path.join(home, PROVEN), {"root": written(layout.root), "proven": rest}, backup=True)


def unproven(layout: TaskListLayout, state: State) -> list[Task]:
    """Completed tasks that the harness has not completed; none for a list that it has not seen yet."""
    done = [task for task in state.tasks if task.status == "completed"]
    home = _home(layout, make=False) if done else None
    if not home or not os.path.isfile(os.path.join(home, PROVEN)):
        return []
    proven = {*_proven(home)}
    return [task for task in done if task.id not in proven]


def _proven(home: str) -> list[str]:
    path = os.path.join(home, PROVEN)
    found = (_read(path) or _read(f"{path}.bak")).get("proven")
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []


# ---- the proof of a claim --------------------------------------------------------------------------------------------


def begin(layout: TaskListLayout, state: State, task: Task, *, kept: Record | None = None) -> None:
    """Writes down what proves a task that has just been claimed, and forgets its earlier claims. Under the lock.

    ``kept`` is what decides in a folder of which git keeps nothing.
    """
    home = _home(layout, make=True)
    if not home:
        return
    folder = os.path.join(home, "claims")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    for name in os.listdir(folder):
        if name.rpartition(".json")[0].rpartition(".")[0] == safe_name(task.id):
            os.unlink(os.path.join(folder, name))
    record: Record = {"task": task.id, "command": task.validation_command, "may_change": task.may_change}
    record |= {"isolation": state.isolation, "requires_red": state.requires_red}
    files.write_json(_claim(home, task), {**record, "files": kept} if kept else record)


def hand_over(layout: TaskListLayout, task: Task, token: str) -> None:
    """Carries what was written down for a claim over to the token that takes its place. Under the lock."""
    home, found = _home(layout, make=False), _claim_record(layout, task)
    if home and found:
        found.pop("passed", None)
        files.write_json(_claim_path(home, task.id, token), found)


def refuse_changed(layout: TaskListLayout, task: Task) -> None:
    """``ProofChanged`` when the validation is not the one that the task was claimed with."""
    found = _claim_record(layout, task)
    for name, now in (("command", task.validation_command), ("may_change", task.may_change)):
        if name in found and found[name] != now:
            raise ProofChanged(
                f"validation.{name} of {task.id} was changed while the task was in progress; it was: {found[name]}",
                hint=f"harness task release {task.id} 'the proof was changed'   and let a person decide",
                task_id=task.id,
            )


def terms(layout: TaskListLayout, state: State, task: Task) -> Record:
    """``isolation`` and ``requires_red`` as they were at the claim, else as they are now; ``files`` that were kept."""
    now = {"isolation": state.isolation, "requires_red": state.requires_red, "files": None}
    found = _claim_record(layout, task)
    return {name: found.get(name, value) for name, value in now.items()}


def red_before_file(layout: TaskListLayout) -> str | None:
    """Where it is remembered what validations said of the code before; ``None`` without a place outside the project."""
    home = _home(layout, make=True)
    return os.path.join(home, RED_BEFORE) if home else None


def first_time(layout: TaskListLayout, name: str) -> bool:
    """True once for each name and list: for what is said once. False without a place to remember it."""
    home = _home(layout, make=True)
    if not home:
        return False
    known = _read(path := os.path.join(home, SAID))
    if name in known:
        return False
    files.write_json(path, {**known, name: True})
    return True


def note_pass(layout: TaskListLayout, task: Task, record: Record) -> None:
    """Notes which files have passed the validation, for this claim."""
    home = _home(layout, make=True)
    if home:
        os.makedirs(os.path.join(home, "claims"), mode=0o700, exist_ok=True)
        files.write_json(_claim(home, task), {"task": task.id, **_claim_record(layout, task), "passed": record})


def passed(layout: TaskListLayout, task: Task) -> Record:
    """What ``note_pass`` noted for this claim; empty when there is nothing."""
    found = _claim_record(layout, task).get("passed")
    return found if isinstance(found, dict) else {}


def _claim_record(layout: TaskListLayout, task: Task) -> Record:
    home = _home(layout, make=False)
    return _read(_claim(home, task)) if home and task.claim_token else {}


def _claim(home: str, task: Task) -> str:
    return _claim_path(home, task.id, task.claim_token or "")


def _claim_path(home: str, task_id: str, token: str) -> str:
    key = digest.blake2b(token.encode("utf-8", "surrogatepass"), 8)
    return os.path.join(home, "claims", f"{safe_name(task_id)}.{key}.json")
