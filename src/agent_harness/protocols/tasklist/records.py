"""What ``harness-tasks.json`` holds, read safely whatever was written there.

The objects here are views: the dictionaries below them are what is written again, so that unknown members and entries
that are no objects stay as they are. Source: ``tasklist.md`` 1.1.
"""

from __future__ import annotations

from agent_harness.errors import StateDamaged
from agent_harness.kernel import clock
from agent_harness.kernel.lease import Lease

TYPE_CHECKING = False
if TYPE_CHECKING:
    from datetime import datetime
    from typing import Any

    Record = dict[str, Any]

__all__ = [
    "ADD",
    "CATEGORIES",
    "DEFAULT_LEASE_SECONDS",
    "DEFAULT_TIMEOUT_SECONDS",
    "VERSION",
    "ListMistake",
    "State",
    "Task",
    "natural_key",
    "new_state",
    "new_task",
]

VERSION = 2
ADD = 'harness add "what is to be done" --validate "a command that proves it"'
"""The command that an empty list needs."""
CATEGORIES = ("ENV_SETUP", "CONFIG", "TASK_EXEC", "TEST_FAIL", "TIMEOUT", "DEPENDENCY", "SESSION_TIMEOUT")
"""What kinds of failure an attempt at a task can have. ``tasklist.md`` 12.1."""

DEFAULT_LEASE_SECONDS = 1800.0
DEFAULT_TIMEOUT_SECONDS = 300.0
DEFAULT_MAX_ATTEMPTS = 3
WORKTREE, IN_PLACE = "worktree", "in_place"
"""Where a validation runs: in a checkout of the candidate commit, or in the folder as it is."""
DEFAULT_MAX_TASKS = 20
DEFAULT_MAX_SESSIONS = 50
STATUSES = ("pending", "in_progress", "completed", "failed")
_RANKS = {"P0": 0, "P1": 1, "P2": 2}
_LAST_RANK = 3


def whole(value: object, default: int) -> int:
    """A whole number that is not negative; the default for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return default
    try:
        return max(0, int(value))
    except (ValueError, OverflowError):  # NaN and infinity
        return default


def real(value: object) -> float | None:
    """A number that can be reckoned with; ``None`` for anything else."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < 1e300 else None  # NaN is smaller than nothing


def natural_key(task_id: str) -> tuple[tuple[bool, int, str], ...]:
    """Sorts ids as a person does: runs of digits as numbers, so that ``task-999`` comes before ``task-1000``."""
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


def _copied(value: object) -> object:
    if isinstance(value, dict):
        return {name: _copied(each) for name, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


class Task:
    """One task. Reading never fails; what is malformed reads as absent, and ``State.findings`` says so."""

    __slots__ = ("raw",)

    def __init__(self, raw: Record) -> None:
        self.raw = raw

    def __repr__(self) -> str:
        return f"Task({self.id!r}, {self.status!r})"

    def copy(self) -> Record:
        """What is written of it, to be kept."""
        return _copied(self.raw)  # type: ignore[return-value]

    def _text(self, name: str) -> str | None:
        found = self.raw.get(name)
        return found if isinstance(found, str) and found else None

    def _object(self, name: str) -> Record:
        found = self.raw.get(name)
        return found if isinstance(found, dict) else {}

    def _objects(self, name: str) -> list[Record]:
        found = self.raw.get(name)
        return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []

    def _texts(self, name: str) -> list[str]:
        found = self.raw.get(name)
        return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []

    @property
    def id(self) -> str:
        """Empty when the task has none."""
        return self._text("id") or ""

    @property
    def title(self) -> str:
        """On one line."""
        return " ".join((self._text("title") or self._text("description") or "").split())

    @property
    def status(self) -> str:
        """One of the four; a missing one is ``pending``, an unknown one stays as it is written."""
        found = self.raw.get("status") or "pending"
        return found if isinstance(found, str) else repr(found)

    @property
    def priority(self) -> str | None:
        return self._text("priority")

    @property
    def rank(self) -> int:
        """0 for P0 to 2 for P2, 3 for everything else."""
        return _RANKS.get(self.priority or "", _LAST_RANK)

    @property
    def depends_on(self) -> list[str] | None:
        """Ids, as written; ``None`` when this is neither a list nor absent. What is no text is an id nobody has."""
        found = self.raw.get("depends_on")
        if found is None:
            return []
        return [each if isinstance(each, str) else repr(each) for each in found] if isinstance(found, list) else None

    @property
    def attempts(self) -> int:
        """Finished attempts."""
        return whole(self.raw.get("attempts"), 0)

    @property
    def max_attempts(self) -> int:
        return whole(self.raw.get("max_attempts"), DEFAULT_MAX_ATTEMPTS)

    @property
    def validation_command(self) -> str | None:
        found = self._object("validation").get("command")
        return found if isinstance(found, str) and found.strip() else None

    @property
    def timeout_seconds(self) -> float:
        found = self._object("validation").get("timeout_seconds")
        seconds = real(found)
        return seconds if seconds is not None and seconds > 0 else DEFAULT_TIMEOUT_SECONDS

    @property
    def may_change(self) -> list[str]:
        """Patterns of files that the task may change although its validation names or loads them."""
        found = self._object("validation").get("may_change")
        return [each for each in found if isinstance(each, str) and each] if isinstance(found, list) else []

    @property
    def proof(self) -> Record:
        """How the task was proven when it was completed: ``where`` and ``red_before``."""
        return self._object("proof")

    @property
    def cleanup(self) -> str | None:
        found = self._object("on_failure").get("cleanup")
        return found if isinstance(found, str) and found.strip() else None

    @property
    def error_log(self) -> list[str]:
        return self._texts("error_log")

    @property
    def checkpoints(self) -> list[Record]:
        return self._objects("checkpoints")

    @property
    def checkpoints_of_attempt(self) -> list[Record]:
        """Those of the attempt under way; one that names no attempt belongs to it."""
        return [each for each in self.checkpoints if each.get("attempt") in (None, self.attempts + 1)]

    @property
    def claimed_by(self) -> str | None:
        return self._text("claimed_by")

    @property
    def claim_token(self) -> str | None:
        return self._text("claim_token")

    @property
    def last_claim_token(self) -> str | None:
        """The token of the claim whose outcome was recorded last."""
        return self._text("last_claim_token")

    @property
    def claimed_at(self) -> datetime | None:
        return clock.parse(self.raw.get("claimed_at"))

    @property
    def lease_expires_at(self) -> datetime | None:
        return clock.parse(self.raw.get("lease_expires_at"))

    @property
    def lease(self) -> Lease | None:
        """The claim as a lease; ``None`` when its end is missing or unreadable."""
        ends = self.lease_expires_at
        if ends is None:
            return None
        began = self.claimed_at
        seconds = real(self.raw.get("lease_seconds"))
        if seconds is None:
            seconds = (ends - began).total_seconds() if began else DEFAULT_LEASE_SECONDS
        return Lease(self.claimed_by or "", self.claim_token or "", began or ends, ends, seconds)

    @property
    def failed_at(self) -> datetime | None:
        return clock.parse(self.raw.get("failed_at"))

    @property
    def started_at_commit(self) -> str | None:
        return self._text("started_at_commit")

    @property
    def started_branch(self) -> str | None:
        return self._text("started_branch")

    @property
    def base_ref(self) -> str | None:
        return self._text("base_ref")

    @property
    def rescues(self) -> list[str]:
        return self._texts("rescues")

    @property
    def blocked_only(self) -> bool:
        """Failed for nothing but a dependency that failed: eligible again once all dependencies are completed."""
        reasons = [each for each in self.error_log if each.startswith("[DEPENDENCY]")]
        return bool(reasons) and all(each.startswith("[DEPENDENCY] Blocked by failed") for each in reasons)

    @property
    def given_up(self) -> bool:
        """Failed, and never tried again: no attempts left, or a dependency is the reason."""
        if self.status != "failed":
            return False
        return self.attempts >= self.max_attempts or any(each.startswith("[DEPENDENCY]") for each in self.error_log)


class ListMistake:
    """A mistake in the file that a person must fix: category CONFIG."""

    __slots__ = ("field", "message", "task_id")

    def __init__(self, task_id: str | None, field: str, message: str) -> None:
        self.task_id = task_id
        self.field = field
        self.message = message

    def as_json(self) -> Record:
        """The members of the JSON record."""
        return {"category": "CONFIG", "task_id": self.task_id, "field": self.field, "message": self.message}


class State:
    """The whole file. ``StateDamaged`` when ``tasks`` is not a list."""

    __slots__ = ("_by_id", "_findings", "raw", "tasks")

    def __init__(self, raw: Record) -> None:
        found = raw.get("tasks")
        if not isinstance(found, list):
            raise StateDamaged("harness-tasks.json has no list of tasks", hint="harness task recover")
        self.raw = raw
        self.tasks = [Task(each) for each in found if isinstance(each, dict)]
        self._by_id: dict[str, Task] | None = None
        self._findings: list[ListMistake] | None = None

    def copy(self) -> State:
        """A state whose tasks can be given other members without changing this one; what is in a member is shared."""
        tasks = [{**each} if isinstance(each, dict) else each for each in self.raw["tasks"]]
        return State({**self.raw, "tasks": tasks})

    @property
    def by_id(self) -> dict[str, Task]:
        """Tasks by id; the first of those that share one."""
        if self._by_id is None:
            self._by_id = {}
            for task in self.tasks:
                self._by_id.setdefault(task.id, task)
        return self._by_id

    def _config(self, name: str) -> object:
        found = self.raw.get("session_config")
        return found.get(name) if isinstance(found, dict) else None

    @property
    def version(self) -> int:
        return whole(self.raw.get("version"), VERSION)

    @property
    def concurrent(self) -> bool:
        return self._config("concurrency_mode") == "concurrent"

    @property
    def max_tasks(self) -> int:
        """Outcomes a session may record; 0 means any number."""
        return whole(self._config("max_tasks_per_session"), DEFAULT_MAX_TASKS)

    @property
    def max_sessions(self) -> int:
        """Sessions of the whole list; 0 means any number."""
        return whole(self._config("max_sessions"), DEFAULT_MAX_SESSIONS)

    @property
    def fix_rounds(self) -> int | None:
        """Further turns of ``harness run``'s agent after a failed proof; ``None`` where the list does not say."""
        found = self._config("fix_rounds")
        return found if isinstance(found, int) and not isinstance(found, bool) and found >= 0 else None

    @property
    def reflect_iterations(self) -> int:
        return whole(self._config("reflect_iterations"), 0)

    @property
    def isolation(self) -> str:
        """Where validations run; a list that does not say so was made before there was a choice."""
        return WORKTREE if self._config("isolation") == WORKTREE else IN_PLACE

    @property
    def requires_red(self) -> str:
        """What becomes of a validation that passes on the code before as well: ``off``, ``tell`` or ``reject``."""
        found = self._config("requires_red")
        return found if found in ("off", "tell", "reject") else "tell"  # type: ignore[return-value]

    @property
    def rollback_policy(self) -> str:
        found = self._config("rollback")
        return found if found in ("restore", "none", "hard") else "restore"  # type: ignore[return-value]

    @property
    def session_count(self) -> int:
        return whole(self.raw.get("session_count"), 0)

    @property
    def sessions_used_up(self) -> bool:
        return 0 < self.max_sessions <= self.session_count

    @property
    def revision(self) -> int:
        return whole(self.raw.get("revision"), 0)

    @property
    def halt(self) -> Record | None:
        """Why everything stopped for a person; ``None`` when it did not."""
        found = self.raw.get("halt")
        return found if isinstance(found, dict) else None

    @property
    def session(self) -> Record | None:
        """The session lease of exclusive mode."""
        found = self.raw.get("session")
        return found if isinstance(found, dict) else None

    def findings(self) -> list[ListMistake]:
        """What a person must fix: ids that are missing or double, malformed or unknown dependencies, odd statuses."""
        if self._findings is None:
            self._findings = [*self._id_findings(), *self._other_findings()]
        return self._findings

    def _id_findings(self) -> list[ListMistake]:
        seen: set[str] = set()
        found = []
        for number, task in enumerate(self.tasks):
            if not task.id:
                found.append(ListMistake(None, f"tasks[{number}].id", "the task has no id"))
            elif task.id in seen:
                found.append(ListMistake(task.id, "id", f"two tasks are called {task.id}"))
            seen.add(task.id)
        return found

    def _other_findings(self) -> list[ListMistake]:
        known = self.by_id
        found: list[ListMistake] = []
        for task in self.tasks:
            needs = task.depends_on
            if needs is None:
                found.append(ListMistake(task.id, "depends_on", f"depends_on of {task.id} is no list"))
            elif task.status in ("pending", "failed"):
                found += [
                    ListMistake(task.id, "depends_on", f"{task.id} depends on {need}, which no task is called")
                    for need in needs
                    if need not in known
                ]
            if task.status not in STATUSES:
                found.append(ListMistake(task.id, "status", f"{task.id} has the unknown status {task.status!r}"))
        return found


def new_state(at: datetime, *, mode: str = "exclusive", max_tasks: int = 20, max_sessions: int = 50) -> Record:
    """The state of an empty task list."""
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
    max_attempts: int = DEFAULT_MAX_ATTEMPTS,
    validation: str | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    cleanup: str | None = None,
) -> Record:
    """A pending task with every member that the protocol knows."""
    return {
        "id": task_id,
        "title": title,
        "status": "pending",
        "priority": priority or "P1",
        "depends_on": depends_on or [],
        "attempts": 0,
        "max_attempts": max_attempts,
        "started_at_commit": None,
        "validation": {
            "command": validation,
            "timeout_seconds": int(timeout_seconds) if timeout_seconds == int(timeout_seconds) else timeout_seconds,
        },
        "on_failure": {"cleanup": cleanup},
        "error_log": [],
        "checkpoints": [],
        "completed_at": None,
    }
