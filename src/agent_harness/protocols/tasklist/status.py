"""Status of a task list, read only from its files and without a lock. Source: ``tasklist.md`` 13.2."""

from __future__ import annotations

import os

from agent_harness.kernel import clock, journal, trusted_state
from agent_harness.kernel.json import dollars
from agent_harness.kernel.rate_limits import LimitClock, sentence
from agent_harness.kernel.terminal import printable, quoted, shortened
from agent_harness.protocols.tasklist import (
    progress,
    proven,
    selection,
    store,
)
from agent_harness.protocols.tasklist.claims import leases
from agent_harness.protocols.tasklist.records import ADD, BROKEN
from agent_harness.session import needs, now, run_snapshot, status_summary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from agent_harness.kernel.json import JsonObject
    from agent_harness.protocols.tasklist.layout import TaskListLayout
    from agent_harness.protocols.tasklist.records import State, Task


def read(layout: TaskListLayout, *, tail: int = 5, tasks: bool = True) -> JsonObject:
    """Return the answer of ``harness status``. Raise ``StateDamaged`` if the state cannot be parsed."""
    state = store.read(layout)
    facts = ListFacts(layout, state)
    holder, following = leases.holder(state, clock.now()), selection.next_task(state)
    at_work = any(each["alive"] for each in facts.now) or run_snapshot.at_work(facts.parallel)
    return {
        "kind": "tasklist",
        "root": layout.root,
        "active": os.path.isfile(layout.marker),
        "paused": facts.paused,
        "halt": state.halt,
        "mode": "concurrent" if state.config.concurrent else "exclusive",
        "isolation": state.config.isolation,
        "requires_red": state.config.requires_red,
        "counts": {**selection.counts(state), "blocked": selection.blocked_count(state)},
        "stats": selection.stats(state),
        "work_left": selection.work_left(state),
        "session_count": state.session_count,
        "max_sessions": state.config.max_sessions,
        "last_session": state.raw.get("last_session"),
        "session": {name: holder.record.get(name) for name in ("n", "owner", "started_at", "expires_at")}
        if holder
        else None,
        "in_progress": [_claim_of(task) for task in selection.in_progress(state)],
        "left_by_run": _left_by_run(state),
        "next_task": {"id": following.id, "title": following.title} if following else None,
        "rescues": sum(len(task.rescues) for task in state.tasks),
        "green_before": [task.id for task in state.tasks if task.proof.get("red_before") == "green"],
        "unproven": facts.unproven,
        "checked": {task.id: facts.checked[task.id] for task in state.tasks if task.id in facts.checked},
        "questions": [
            {**task.question, "task_id": task.id, "answer": answer_of_question(task)}
            for task in state.tasks
            if task.question
        ],
        "findings": [each.as_json() for each in state.findings()],
        "costs": costs(layout, state),
        "limits": [each.as_notice() for each in LimitClock().all()],
        "now": facts.now,
        "parallel": facts.parallel,
        "log": progress.tail(layout, tail),
        "claims": status_summary.claims(proven.ledger(layout, make=False)),
        **({"tasks": [_row(task, facts.standing(task)) for task in state.tasks]} if tasks else {}),
        "needs": [each._asdict() for each in facts.needs],
        "next": status_summary.AT_WORK if at_work and not facts.comes_first else facts.next,
    }


class ListFacts:
    """Facts about a task list that ``harness status`` and all other views show."""

    def __init__(self, layout: TaskListLayout, state: State) -> None:
        self.unproven = [task.id for task in proven.unproven(layout, state)]
        self.checked = proven.checked(layout)
        self.paused = os.path.lexists(layout.pause)
        self.now = now_records(layout)
        self.parallel = parallel_of(layout)
        held, last_run = run_snapshot.held(self.parallel), self._last_run(layout, state)
        self.needs = _needs(state, held, last_run)
        self.next = next_command(state, paused=self.paused, held=held, last_run=last_run, is_proven=not self.unproven)
        """Command to type while no agent works."""
        self.comes_first = bool(state.halt or self.paused or leases.left_by_run(state))
        """True if the user must type the command before anything else can start."""
        self._marked = {*self.unproven}

    def _last_run(self, layout: TaskListLayout, state: State) -> JsonObject:
        """Return why the last run ended, or an empty object if the user need not act."""
        home = trusted_state.existing(layout.tasks, layout.root, writable=False)
        if not selection.work_left(state):
            return needs.looks_of(needs.read_end(home))
        end = needs.now_or_end_of(layout.root, home, under_way=bool(selection.in_progress(state)))
        is_held = leases.holder(state, clock.now()) is not None and not any(each["alive"] for each in self.now)
        return {} if end.get("reason") == needs.HELD and not is_held else end

    def standing(self, task: Task) -> str:
        """Return the word with which all views show the status of a task."""
        if task.question:
            return status_summary.NEEDS_YOU
        if task.id in self._marked:
            return status_summary.UNPROVEN
        if task.status == "failed" and task.given_up and task.blocked_only:
            return status_summary.BLOCKED
        if task.status == "completed" and task.id in self.checked:
            return status_summary.CHECKED
        return _STANDINGS.get(task.status, status_summary.OPEN)


_STANDINGS = {
    "completed": status_summary.PROVEN,
    "in_progress": status_summary.WORKING,
    "failed": status_summary.FAILED,
}


def _needs(state: State, held: Sequence[str], last_run: JsonObject) -> tuple[needs.Need, ...]:
    halt = state.halt
    asked = [(f"halted, {halt.get('category')}: {halt.get('message')}", answer_of_halt(state))] if halt else []
    asked += [(str(task.question["message"]), answer_of_question(task)) for task in state.tasks if task.question]
    given_up = (task for task in state.tasks if task.status == "failed" and task.given_up and not task.question)
    failed = [task.id for task in given_up if not task.blocked_only]
    return needs.of(asked, held=held, failed=failed, last_run=last_run)


def now_records(layout: TaskListLayout) -> list[JsonObject]:
    path = proven.now_path(layout)
    return now.told(os.path.dirname(path) if path else None)


def parallel_of(layout: TaskListLayout) -> JsonObject | None:
    return None if layout.linked() else run_snapshot.told(layout.parallel)


def next_command(
    state: State,
    *,
    paused: bool = False,
    held: Sequence[str] = (),
    last_run: JsonObject | None = None,
    is_proven: bool = True,
) -> str:
    """Return the command that the user should type now."""
    removes = (last_run or {}).get("command")
    if state.halt or paused or removes:
        return answer_of_halt(state) if state.halt or paused else str(removes)
    if left := leases.left_by_run(state):
        waits_for_a_person = bool(held) and {task.id for task in left} <= {*held}
        return f"harness queue release {held[0]}" if waits_for_a_person else leases.command_of_run(left)
    following = selection.next_task(state)
    if state.findings() and not following:
        return "harness task set ID FIELD=VALUE"
    if following and not following.validation_command:  # a run would end there, with nothing done
        return _name_proof(following.id)
    if selection.work_left(state) or not is_proven:
        return "harness run"
    return _over(state)


def _over(state: State) -> str:
    asked = [task for task in state.tasks if task.question]
    failed = selection.counts(state).get("failed", 0)
    if asked and len(asked) == failed:
        return f"harness why {quoted(asked[0].id)}"
    return "harness task reset --failed" if failed else ADD


def answer_of_halt(state: State) -> str:
    task = state.by_id.get(str((state.halt or {}).get("task_id")))
    is_unprovable = task is not None and task.status != "completed" and not task.validation_command
    return _name_proof(task.id) if task and is_unprovable else "harness resume"


def answer_of_question(task: Task) -> str:
    named = quoted(task.id)
    if (task.question or {}).get("kind") == BROKEN:
        other = (task.question or {}).get("takes_back")
        return f"harness task reset {named}" + (f", or: {other}" if isinstance(other, str) else "")
    return f"harness task accept {named}, or: harness task reset {named}"


def _name_proof(task_id: str) -> str:
    return f"harness task set {quoted(task_id)} validation.command='...'"


def _left_by_run(state: State) -> JsonObject | None:
    """Return the proven and the unfinished tasks of a dead parallel run, or None."""
    left = leases.left_by_run(state)
    proven_ids = [task.id for task in left if task.raw.get("landing") is not None]
    return (
        {"proven": proven_ids, "under_way": [task.id for task in left if task.id not in proven_ids]} if left else None
    )


def _claim_of(task: Task) -> JsonObject:
    return {
        "id": task.id,
        "title": task.title,
        "claimed_by": task.claimed_by,
        "lease_expires_at": task.raw.get("lease_expires_at"),
        "checkpoints": len(task.checkpoints_of_attempt),
    }


def _row(task: Task, standing: str) -> JsonObject:
    return {
        "id": task.id,
        "title": task.title,
        "status": task.status,
        "state": standing,
        "priority": task.priority,
        "attempts": task.attempts_made,
        "max_attempts": task.max_attempts,
        "is_retried": task.status == "failed" and not task.given_up,
        "proof": task.proof or None,
        "question": str(task.question["message"]) if task.question else None,
        "last_error": task.error_log[-1] if task.error_log and task.status == "failed" else None,
    }


def head(found: JsonObject) -> list[str]:
    several, rescues = run_snapshot.at_work(found["parallel"]), found["rescues"]
    alive = [each for each in found["now"] if each["alive"]]
    heard = alive or [each for each in found["now"] if found["in_progress"]]
    return status_summary.lines(
        found,
        **_counted(found),
        doing=[f"{several}."] if several else now.lines(heard) or ["Paused."] * found["paused"],
        cost=_cost(found["costs"]),
        kept_line=f"{rescues} rolled back: harness rescue list" if rescues else None,
    )


def glance(found: JsonObject) -> str:
    costs, counted = found["costs"], _counted(found)
    is_done = bool(counted["total"]) and counted["proven"] + counted["checked"] == counted["total"]
    unknown = costs and costs["attempts_of_unknown_cost"] == costs["attempts"]
    return status_summary.glance(
        **counted,
        doing=status_summary.doing(found, stops=bool(found["halt"]), is_done=is_done, unnamed="task"),
        cost="cost unknown" if unknown else f"${costs['total_usd']:.2f}" if costs else None,
    )


def _counted(found: JsonObject) -> JsonObject:
    counts, checked = found["counts"], len(found["checked"])
    proven_now = int(counts.get("completed", 0)) - len({*found["unproven"], *found["checked"]})
    name = os.path.basename(found["root"])
    return {"name": name, "proven": proven_now, "checked": checked, "total": counts["total"]}


def _cost(costs: JsonObject | None) -> str | None:
    if costs is None:
        return None
    count, unknown = costs["attempts"], costs["attempts_of_unknown_cost"]
    if unknown == count:
        return f"{status_summary.NOT_REPORTED}; counted as ${costs['assumed_usd']:.2f}"
    least = "at least " if costs["attempts_of_unknown_cost"] else ""
    each = f", {least}${costs['per_completed_usd']:.2f} for each proven" if costs["completed"] else ""
    silent = f"; {unknown} of {count} attempts without a cost, counted as ${costs['assumed_usd']:.2f}"
    return f"{least}${costs['total_usd']:.2f}{each}{silent if unknown else ''}"


MOST_TASKS = 12
"""Maximum number of task lines that ``harness status`` shows by default."""
MOST_OF_A_KIND = 4
MOST_NAMED = 5
MOST_FINDINGS = 3
COLUMNS = 100
"""Maximum width of a task's line, in characters. The limit does not apply if all tasks are shown."""


def lines(
    found: JsonObject, *, everything: bool = False, columns: int = 0, hooks: Callable[[], bool] = lambda: True
) -> list[str]:
    """Return the answer of ``harness status`` as lines of text."""
    parked = len(found["questions"])
    counts = {**found["counts"], "parked": parked}
    counts["failed"] = counts.get("failed", 0) - parked
    words = ("completed", "failed", "in_progress", "pending", "blocked", *(["parked"] if parked else []))
    summary = ", ".join(f"{counts.get(word, 0)} {word.replace('_', ' ')}" for word in words)
    last = f", last ended {found['last_session']}" if found["last_session"] else ""
    text = [
        *map(sentence, found["limits"]),
        *head(found),
        "",
        f"Tasks: {summary}, {counts['total']} in all",
        f"Sessions: {found['session_count']} of {found['max_sessions'] or 'any number'}{last}",
    ]
    below = [each.get("item") for each in run_snapshot.workers(found["parallel"])]
    heard = [each for each in found["now"] if each["alive"] or found["in_progress"]]
    if heard := [each for each in heard if each.get("item") not in below]:
        told = [f"Now: {line}" for line in now.lines(heard)]
        text += status_summary.first_of(told, MOST_NAMED, everything=everything)
    text += run_snapshot.lines(found["parallel"], most=None if everything else run_snapshot.MOST_AGENTS)
    text += _warnings(found, everything=everything, hooks=hooks)
    text += _task_lines(found, columns or COLUMNS, everything=everything)
    if found["log"] and not columns:  # agents read it there; a person has ``harness log``
        text += ["", "Last lines of harness-progress.txt:", *found["log"]]
    return [printable(line) for line in text]


def _task_lines(found: JsonObject, columns: int, *, everything: bool) -> list[str]:
    rows = found.get("tasks", [])
    if everything or len(rows) <= MOST_TASKS:
        return [_task_line(row) for row in rows]
    chosen = _what_matters(found, rows)
    said = f"... and {len(rows) - len(chosen)} more" if chosen else f"All {len(rows)}"
    return [*(_task_line(row, columns) for row in chosen), f"{said}: {status_summary.ALL}"]


def _what_matters(found: JsonObject, rows: list[JsonObject]) -> list[JsonObject]:
    unproven, following = {*found["unproven"]}, (found["next_task"] or {}).get("id")
    at_work = [row for row in rows if row["status"] == "in_progress"]
    wrong = [row for row in rows if row["status"] == "failed" or row["id"] in unproven]
    waiting = [row for row in rows if row["status"] == "pending"]
    waiting.sort(key=lambda row: (row["id"] != following, str(row["priority"])))
    chosen = [*at_work[:MOST_OF_A_KIND], *wrong[:MOST_OF_A_KIND]]
    return [*chosen, *waiting[: MOST_TASKS - len(chosen)]]


def _task_line(row: JsonObject, columns: int = 0) -> str:
    is_parked = row["state"] == status_summary.NEEDS_YOU
    begin = f"[{'parked' if is_parked else row['status']}] {row['id']}: "
    end = f" ({row['attempts']}/{row['max_attempts']})"
    if row["state"] == status_summary.FAILED:
        end += "  will be retried" if row["is_retried"] else "  failed for good"
    elif row["status"] in ("completed", "failed") and not is_parked:
        end += f"  {row['state']}"
    if columns:
        return f"{begin}{shortened(printable(row['title']), max(20, columns - len(begin) - len(end)))}{end}"
    said = row["question"] if is_parked else row["last_error"]
    why = f": {said[:100]}" if said else ""
    return f"{begin}{row['title']}{end}{why}"


def _warnings(found: JsonObject, *, everything: bool, hooks: Callable[[], bool]) -> list[str]:
    def names(ids: list[str]) -> str:
        return status_summary.names(ids, MOST_NAMED, everything=everything)

    text = []
    if session := found["session"]:
        text.append(f"A session is active: {session['owner']} until {session['expires_at']}")
    if left := found["left_by_run"]:
        told = [f"{name.replace('_', ' ')}: {names(tasks)}" for name, tasks in left.items() if tasks]
        text.append(f"A run with several agents left items, which the next run merges or retries: {'; '.join(told)}")
    if unproven := found["unproven"]:
        text.append(f"Completed, but not proven by the harness: {names(unproven)}. To verify: harness session start")
    checked = [f"Checked, not proven: {name}: {why}" for name, why in found["checked"].items()]
    text += status_summary.first_of(checked, MOST_NAMED, everything=everything)
    if not found["active"] and found["work_left"] and hooks():
        text.append("Hooks are off in this project. To turn them on: harness activate")
    findings = [f"CONFIG {each['field']}: {each['message']}" for each in found["findings"]]
    return [*text, *status_summary.first_of(findings, MOST_FINDINGS, everything=everything), ""]


# ---- costs


def costs(layout: TaskListLayout, state: State) -> JsonObject | None:
    """Return the cost of all attempts so far, or ``None`` if no agent was started."""
    rows = list(journal.read(layout.costs))
    if not rows:
        return None
    known = [cost for row in rows if (cost := dollars(row.get("cost_usd"))) is not None]
    done = {task.id for task in state.tasks if task.status == "completed"}
    completed = done & {str(row.get("task_id")) for row in rows if row.get("result") == "completed"}
    total = round(sum(known), 4)
    return {
        "total_usd": total,
        "attempts": len(rows),
        "attempts_of_unknown_cost": len(rows) - len(known),
        "assumed_usd": round(sum(dollars(row.get("assumed_usd")) or 0.0 for row in rows), 4),
        "completed": len(completed),
        "per_completed_usd": round(total / len(completed), 4) if completed else None,
        "by_task": _by_task(rows),
    }


def _by_task(rows: list[JsonObject]) -> dict[str, float | None]:
    found: dict[str, float | None] = {}
    for row in rows:
        task, cost = str(row.get("task_id")), dollars(row.get("cost_usd"))
        before = found.get(task, 0.0)
        found[task] = None if cost is None or before is None else round(before + cost, 4)
    return found
