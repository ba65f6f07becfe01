"""`ls`: the long tasks below a folder, each with its state and what is due. Source: ``longtask.md`` 19."""

from __future__ import annotations

import os

from agent_harness.errors import HarnessError
from agent_harness.kernel.terminal import one_line
from agent_harness.protocols.longtask import claim, log
from agent_harness.protocols.longtask.layout import LongTaskLayout
from agent_harness.protocols.longtask.store import LongTaskStore
from agent_harness.protocols.longtask.values import flag
from agent_harness.protocols.longtask.verbs import status

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    Record = dict[str, Any]

__all__ = ["ls"]

_SIGNS = ("task.json", "checkpoint.json")
_PASSED_OVER = frozenset(("node_modules", "__pycache__"))
_WIDEST_STEP = 60
_TITLES = ("TASK", "STATUS", "DUE", "NEXT STEP")


def ls(layout: LongTaskLayout, options: Mapping[str, object]) -> tuple[Record | str, int]:
    """Every task below a folder, by path; a table, or one object with ``json``.

    A task that does not load is listed with what is wrong. Links and hidden folders are not entered, nor the folders of
    a task. ``HarnessError`` when there is no such folder.
    """
    if not os.path.isdir(layout.root):
        raise HarnessError(f"there is no such folder: {layout.root}")
    tasks = [_row(layout.root, path) for path in _places(layout.root)]
    if flag(options, "json"):
        return {"folder": layout.root, "count": len(tasks), "tasks": tasks}, 0
    return _table(tasks) if tasks else f"no long tasks below {one_line(layout.root)}", 0


def _places(root: str) -> Iterator[str]:
    def skipped(error: OSError) -> None:
        log.warn(f"{error.filename} was passed over: {error.strerror}")

    for folder, names, files in os.walk(root, onerror=skipped):
        if all(sign in files for sign in _SIGNS):
            names.clear()
            yield folder
        names[:] = sorted(name for name in names if not name.startswith(".") and name not in _PASSED_OVER)


def _row(root: str, path: str) -> Record:
    layout = LongTaskLayout(path)
    store = LongTaskStore(layout)
    head = {"path": os.path.relpath(path, root), "taskId": store.task_id()}
    try:
        task, held = store.load()
        seen = claim.look(layout, held, store.now())
    except HarnessError as error:
        return {**head, "status": "invalid", "decision": None, "errors": getattr(error, "errors", [error.message])}
    return {
        **head,
        "title": task.title,
        "status": seen.checkpoint.status,
        "decision": seen.due.decision,
        "reason": seen.due.reason,
        "blockedUntil": seen.checkpoint.blocked_until,
        "waitSeconds": seen.due.wait_seconds,
        "nextStep": seen.checkpoint.next_step,
        "lease": status.lease_of(store),
    }


# ---- for people


def _table(tasks: list[Record]) -> str:
    rows = [_TITLES, *(_cells(each) for each in tasks)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_TITLES) - 1)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]).rstrip()
        for row in rows
    )


def _cells(task: Record) -> tuple[str, ...]:
    step = one_line(task["errors"][0] if "errors" in task else task["nextStep"])
    step = step if len(step) <= _WIDEST_STEP else f"{step[: _WIDEST_STEP - 3]}..."
    return one_line(task["path"]), task["status"], _due(task), step


def _due(task: Record) -> str:
    if task.get("lease") == "held":
        return "running"
    return f"wait {task['waitSeconds']} s" if task.get("waitSeconds") else task["decision"] or "-"
