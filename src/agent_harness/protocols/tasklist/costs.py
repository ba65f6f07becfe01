"""Costs of the agents that ``harness run`` started, with one row for each attempt. If an agent does not report a cost
and no price list covers its model, the cost stays unknown."""

from __future__ import annotations

from collections.abc import Sequence

from agent_harness.agents import usage
from agent_harness.agents.usage import Totals
from agent_harness.kernel import clock, files, journal
from agent_harness.kernel.json import JsonObject, dollars
from agent_harness.protocols.tasklist import selection, status
from agent_harness.protocols.tasklist.layout import TaskListLayout
from agent_harness.protocols.tasklist.records import State


def note_cost(
    layout: TaskListLayout,
    *,
    session: int,
    task_id: str,
    result: str,
    used: Totals,
    agent: str | None = None,
    attempt: JsonObject | None = None,
) -> None:
    known = used.reported and used.cost_usd is not None
    files.own_place(layout.costs, layout.root)
    journal.append(
        layout.costs,
        {
            "at": clock.timestamp(),
            "session": session,
            "task_id": task_id,
            "result": result,
            "agent": agent,
            **(attempt or {}),
            "input_tokens": used.input_tokens,
            "output_tokens": used.output_tokens,
            "cached_tokens": used.cached_tokens,
            "cache_write_tokens": used.cache_write_tokens,
            "cost_usd": used.cost_usd if known else None,
            **({} if known else {"assumed_usd": round(used.budget_usd(), 4)}),
        },
    )


def paid(rows: Sequence[JsonObject]) -> float:
    return sum(dollars(row.get("cost_usd")) or dollars(row.get("assumed_usd")) or 0.0 for row in rows)


def note_lost(layout: TaskListLayout, *, session: int, task_id: str, order: str, spent_usd: float) -> None:
    """Append a cost row for a killed attempt of a parallel run."""
    counted = {row.get("run") for row in journal.tail(layout.costs, 1000)}
    heard = [each for each in status.now_records(layout) if not each["alive"] and each.get("item") == task_id]
    nothing: JsonObject = {}
    record = next((each for each in heard if each.get("run") not in counted), nothing)
    # no agent was started
    if spent_usd <= 0.0 and not record.get("run"):
        return
    used = record.get("tokens") or {}
    is_known = spent_usd > 0.0 and not record.get("cost_unknown")
    row: JsonObject = {"at": clock.timestamp(), "session": session, "task_id": task_id, "result": "interrupted"}
    row |= {name: record.get(name) for name in ("agent", "model", "run", "turn")}
    row |= {f"{name}_tokens": used.get(name) or 0 for name in ("input", "output", "cached")}
    row |= {"cache_write_tokens": 0, "cost_usd": spent_usd if is_known else None, "order": order}
    journal.append(layout.costs, row | ({} if is_known else {"assumed_usd": round(spent_usd, 4)}))


def note_killed(layout: TaskListLayout) -> list[str]:
    """Append a cost row for each killed attempt, and return the ids of the tasks."""
    dead = [each for each in status.now_records(layout) if not each["alive"] and each.get("run")]
    if not dead:
        return []
    rows = list(journal.read(layout.costs))
    noted: list[str] = []
    for record in dead:
        task_id, began = str(record.get("item")), str(record.get("began"))[:19]
        if any(row.get("task_id") == task_id and str(row.get("at"))[:19] >= began for row in rows):
            continue
        used = record.get("tokens") or {}
        tokens = [used.get(name) or 0 for name in ("input", "output", "cached")]
        unpriced = bool(record.get("cost_unknown"))
        note_cost(
            layout,
            session=record.get("session") or 0,
            task_id=task_id,
            result="interrupted",
            used=Totals(
                input_tokens=tokens[0],
                output_tokens=tokens[1],
                cached_tokens=tokens[2],
                calls=int(bool(used)),
                priced_usd=dollars(record.get("cost_usd")) or 0.0,
                unpriced_calls=int(unpriced),
                unpriced_input_tokens=tokens[0] if unpriced else 0,
                unpriced_output_tokens=tokens[1] if unpriced else 0,
            ),
            agent=record.get("agent"),
            attempt={name: record.get(name) for name in ("model", "run", "turn")},
        )
        noted.append(task_id)
    return noted


def estimate(layout: TaskListLayout, state: State) -> JsonObject:
    paid = status.costs(layout, state)
    by_task: dict[str, float | None] = paid["by_task"] if paid else {}
    done = [task.id for task in state.tasks if task.status == "completed"]
    return usage.estimate(
        left=selection.open_count(state),
        proven=[by_task[task_id] for task_id in done if task_id in by_task],
        spent_usd=paid["total_usd"] if paid else 0.0,
        tried=paid is not None,
    )
