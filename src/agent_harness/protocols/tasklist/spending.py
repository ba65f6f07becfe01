"""What the agents of ``harness run`` have cost on a task list: one row an attempt, summed up for ``harness status``.

A cost that an agent did not report, and that no price list knows, stays unknown. Imports stay on the hot path.
"""

from __future__ import annotations

from agent_harness.kernel import journal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from agent_harness.agents.usage import Totals
    from agent_harness.protocols.tasklist.layout import TaskListLayout

    Record = dict[str, Any]

__all__ = ["lines", "note", "read"]


def note(layout: TaskListLayout, *, session: int, task_id: str, result: str, used: Totals) -> None:
    """Adds the row of one attempt; ``cost_usd`` is ``None`` where it is not known, or nothing was reported."""
    known = used.reported and used.cost_usd is not None
    journal.append(
        layout.costs,
        {
            "session": session,
            "task_id": task_id,
            "result": result,
            "input_tokens": used.input_tokens,
            "output_tokens": used.output_tokens,
            "cached_tokens": used.cached_tokens,
            "cache_write_tokens": used.cache_write_tokens,
            "cost_usd": used.cost_usd if known else None,
            **({} if known else {"assumed_usd": round(used.budget_usd(), 4)}),
        },
    )


def read(layout: TaskListLayout) -> Record | None:
    """The sum of all attempts so far; ``None`` when the harness has started no agent here.

    ``per_completed_usd`` is all that was paid, for failed attempts too, over the tasks that were completed so.
    """
    rows = list(journal.read(layout.costs))
    if not rows:
        return None
    known = [cost for row in rows if (cost := _dollars(row, "cost_usd")) is not None]
    completed = {str(row.get("task_id")) for row in rows if row.get("result") == "completed"}
    total = round(sum(known), 4)
    return {
        "total_usd": total,
        "attempts": len(rows),
        "attempts_of_unknown_cost": len(rows) - len(known),
        "assumed_usd": round(sum(_dollars(row, "assumed_usd") or 0.0 for row in rows), 4),
        "completed": len(completed),
        "per_completed_usd": round(total / len(completed), 4) if completed else None,
        "by_task": _by_task(rows),
    }


def _by_task(rows: list[Record]) -> dict[str, float | None]:
    """What each task has cost; ``None`` as soon as one of its attempts is unknown."""
    found: dict[str, float | None] = {}
    for row in rows:
        task, cost = str(row.get("task_id")), _dollars(row, "cost_usd")
        before = found.get(task, 0.0)
        found[task] = None if cost is None or before is None else round(before + cost, 4)
    return found


def lines(found: Record | None) -> list[str]:
    """The same for a person."""
    if found is None:
        return []
    unknown, completed = found["attempts_of_unknown_cost"], found["completed"]
    each = f"; ${found['per_completed_usd']:.2f} for each of {completed} completed" if completed else ""
    least = "at least " if unknown else ""
    text = [f"Costs: {least}${found['total_usd']:.2f}{each}"]
    if unknown:
        told = f"{unknown} of {found['attempts']} attempts"
        text.append(f"Unknown cost: {told}; counted as ${found['assumed_usd']:.2f} against the budget of their run")
    return text


def _dollars(row: Record, name: str) -> float | None:
    value = row.get(name)
    return (
        float(value) if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e12 else None
    )
