"""Selection of the next tasks and the remaining tasks of a list, and measures of the list's progress.

The functions are pure. Their running time is linear in the number of tasks and dependencies. Source: ``tasklist.md``
6.3, 6.5, 7.1, 13.1."""

from __future__ import annotations

from agent_harness.kernel import graph
from agent_harness.protocols.tasklist import lifecycle
from agent_harness.protocols.tasklist.records import STATUSES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime
    from typing import TypeGuard

    from agent_harness.protocols.tasklist.records import State, Task

    FailureTime = Callable[[str], datetime | None]


def natural_key(task_id: str) -> tuple[tuple[bool, int, str], ...]:
    """Return a sort key by which ``task-999`` comes before ``task-1000``."""
    parts: list[tuple[bool, int, str]] = []
    run, digits = "", False
    for letter in task_id:
        is_digit = "0" <= letter <= "9"
        if run and is_digit != digits:
            parts.append(_part(run, digits))
            run = ""
        run, digits = run + letter, is_digit
    return (*parts, _part(run, digits)) if run else tuple(parts)


def _part(run: str, digits: bool) -> tuple[bool, int, str]:
    stripped = run.lstrip("0") if digits else ""
    return (not digits, len(stripped), stripped) if digits else (True, 0, run)  # longer numbers are larger


class Marked:
    """Task that failed because of its dependencies, with the message for its error log."""

    __slots__ = ("message", "task")

    def __init__(self, task: Task, message: str) -> None:
        self.task = task
        self.message = message


def finalize(state: State, at: datetime) -> list[Marked]:
    """Set the status of tasks that can never start to failed, and return these tasks."""
    return [*_mark_circles(state, at), *_mark_blocked(state, at)]


def _mark_circles(state: State, at: datetime) -> list[Marked]:
    if _is_in_order(state):
        return []
    marked = []
    for path in graph.cycles(_needs(state)):
        for start, item in enumerate(path[:-1]):
            task = state.by_id[item]
            if task.status == "pending":
                walk = [*path[start:-1], *path[:start], item]
                marked.append(_mark(task, f"Circular dependency detected: {' -> '.join(walk)}", at))
    return marked


def _mark_blocked(state: State, at: datetime) -> list[Marked]:
    lost = _lost(state)
    if not lost:
        return []
    needs = {item: task.depends_on or [] for item, task in state.by_id.items() if task.status in ("pending", "failed")}
    blocked = graph.blocked(needs, lost)
    marked = []
    for item in blocked:
        task = state.by_id[item]
        if task.status == "pending":
            nearest = next(need for need in needs[item] if need in lost or need in blocked)
            marked.append(_mark(task, f"Blocked by failed {nearest}", at))
    return marked


def _is_in_order(state: State) -> bool:
    """Return True if every unfinished task depends only on completed or earlier tasks."""
    known = _completed(state)
    for task in unfinished(state):
        raw = task.raw
        needs = raw.get("depends_on")
        if needs and not _are_known(needs, known):
            return False
        if isinstance(item := raw.get("id"), str):
            known.add(item)
    return True


def _completed(state: State) -> set[str]:
    found = [task.raw.get("id") for task in state.tasks if task.raw.get("status") == "completed"]
    return {*found} if _are_texts(found) else {item for item in found if isinstance(item, str)}


def _are_texts(found: list[object]) -> TypeGuard[list[str]]:
    return {*map(type, found)} <= {str}


def _lost(state: State) -> set[str]:
    failed = with_status(state, "failed")
    return {task.id for task in failed if state.by_id[task.id] is task and _over(state, task)}


def _mark(task: Task, message: str, at: datetime) -> Marked:
    lifecycle.mark(task, message, at)
    return Marked(task, message)


def _needs(state: State) -> dict[str, list[str]]:
    return {item: task.depends_on or [] for item, task in state.by_id.items() if task.status != "completed"}


def eligible(state: State, failure_time: FailureTime | None = None) -> list[Task]:
    """Return the tasks that can be claimed: pending tasks, then failed tasks with attempts left."""
    fresh, again = _candidates(state)
    fresh.sort(key=_urgency)

    def order(task: Task) -> tuple[object, ...]:
        found = task.failed_at or (failure_time(task.id) if failure_time else None)
        return task.rank, found.timestamp() if found else 0.0, natural_key(task.id)

    return [*fresh, *sorted(again, key=order)]


def next_task(state: State, failure_time: FailureTime | None = None) -> Task | None:
    """Return the task that ``eligible`` would return first, or None."""
    fresh, again = _candidates(state)
    if fresh:
        best = min(task.rank for task in fresh)
        return min((task for task in fresh if task.rank == best), key=_urgency)
    return eligible(state, failure_time)[0] if again else None


def _urgency(task: Task) -> tuple[int, object]:
    return task.rank, natural_key(task.id)


def _candidates(state: State) -> tuple[list[Task], list[Task]]:
    """Return the pending and the retryable tasks whose dependencies are completed."""
    done = _completed(state)
    wrong = _ambiguous(state)
    fresh: list[Task] = []
    again: list[Task] = []
    # hooks run this on every turn, so it must be fast
    for task in unfinished(state):
        raw = task.raw
        needs = raw.get("depends_on")
        if needs and not _are_known(needs, done):
            continue
        status = raw.get("status") or "pending"
        if status not in ("pending", "failed"):
            continue
        if not task.id or task.id in wrong or task.depends_on is None:
            continue
        if status == "pending":
            fresh.append(task)
        elif task.attempts < task.max_attempts and (not task.given_up or task.blocked_only):
            again.append(task)
    return fresh, again


def _are_known(needs: object, known: set[str]) -> bool:
    try:
        return isinstance(needs, list) and known.issuperset(needs)
    except TypeError:  # one of them is a list or an object itself
        return False


def _ambiguous(state: State) -> set[str]:
    ids = [task.raw.get("id") for task in state.tasks]
    if _are_texts(ids) and len({*ids}) == len(ids):
        return set()
    seen: set[str] = set()
    return {task.id for task in state.tasks if task.id in seen or seen.add(task.id)}  # type: ignore[func-returns-value]


def in_progress(state: State) -> list[Task]:
    return with_status(state, "in_progress")


def unfinished(state: State) -> list[Task]:
    return [task for task in state.tasks if task.raw.get("status") != "completed"]


def with_status(state: State, status: str) -> list[Task]:
    # not for pending: a task without a status is pending, too
    return [task for task in state.tasks if task.raw.get("status") == status]


def work_left(state: State) -> bool:
    """Return True if work on a task is possible now, or after the user acts."""
    # tasklist.md 6.5
    rest = unfinished(state)
    if not rest:
        return False
    if in_progress(state):
        return True
    open_ones = [task for task in rest if not _over(state, task)]
    if not open_ones:
        return False
    dead = _unreachable(state)
    return any(task.id not in dead for task in open_ones)


def open_count(state: State) -> int:
    """Return the number of tasks that are not completed but can still be completed."""
    dead = _unreachable(state)
    return sum(1 for task in unfinished(state) if not _over(state, task) and task.id not in dead)


def finished(state: State) -> bool:
    return bool(state.tasks) and not work_left(state)


def retryable(state: State, task_id: str) -> bool:
    return any(each.id == task_id for each in _candidates(state)[1])


def _over(state: State, task: Task) -> bool:
    """Return True if the task stays failed. A task that failed only because of dependencies stays failed until
    all of them are completed."""
    if task.raw.get("status") != "failed" or not task.given_up:
        return False
    if not task.blocked_only or task.attempts >= task.max_attempts:
        return True
    known = state.by_id
    return not all(need in known and known[need].status == "completed" for need in task.depends_on or [])


def _unreachable(state: State) -> set[str]:
    """Return the ids of the tasks that can never start or continue."""
    lost = {task.id for task in with_status(state, "failed") if _over(state, task)}
    if _is_in_order(state):
        return lost | graph.blocked(_needs(state), lost).keys() if lost else lost
    needs = _needs(state)
    lost.update(item for path in graph.cycles(needs) for item in path)
    return lost | graph.blocked(needs, lost).keys()


def counts(state: State) -> dict[str, int]:
    written = [task.raw.get("status") for task in state.tasks]
    found = {status: count for status in STATUSES if (count := written.count(status))}
    if sum(found.values()) < len(written):
        found = {}
        for task in state.tasks:
            found[task.status] = found.get(task.status, 0) + 1
    return {**dict(sorted(found.items())), "total": len(state.tasks)}


def stats(state: State) -> dict[str, int]:
    found = counts(state)
    done, failed, total = found.get("completed", 0), found.get("failed", 0), found["total"]
    return {
        "tasks_total": total,
        "completed": done,
        "failed": failed,
        "pending": total - done - failed,
        "blocked": blocked_count(state),
        "attempts_total": sum(task.attempts_made for task in state.tasks),
        "checkpoints": sum(len(task.checkpoints) for task in state.tasks if task.raw.get("checkpoints")),
    }


def blocked_count(state: State) -> int:
    """Return the number of pending tasks that depend, directly or indirectly, on a finally failed task."""
    lost = _lost(state)
    if not lost:
        return 0
    return sum(state.by_id[item].status == "pending" for item in graph.blocked(_needs(state), lost))


def signature(state: State) -> str:
    """Return a digest of the status, attempts and checkpoints of all tasks."""
    from agent_harness.kernel import digest

    lines = []
    for task in state.tasks:
        get = task.raw.get
        steps = min(len(task.checkpoints_of_attempt), lifecycle.MAX_CHECKPOINTS) if get("checkpoints") else 0
        lines.append(f"{get('id')}\0{get('status')}\0{get('attempts')}\0{steps}")
    return digest.blake2b("\n".join(lines).encode("utf-8", "surrogatepass"), 16)
