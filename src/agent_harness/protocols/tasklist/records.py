"""Typed records for the content of ``harness-tasks.json``. Reading them raises no error, whatever the file contains.

Each record wraps a dictionary that was read from the file, and this dictionary is written to the file again. Therefore,
unknown members stay unchanged, and so do entries that are not objects. Source: ``tasklist.md`` 1.1."""

from __future__ import annotations

import os

from agent_harness.errors import StateDamaged
from agent_harness.kernel import clock
from agent_harness.kernel.json import json_object, member, members_of, objects_in, texts

TYPE_CHECKING = False
if TYPE_CHECKING:
    from agent_harness.kernel.json import JsonObject
    from agent_harness.kernel.lease import Lease


VERSION = 2
ADD = 'harness add "what is to be done" --validate "a command that proves it"'
"""Command that adds a task. It is suggested to the user if the list is empty."""
CATEGORIES = ("ENV_SETUP", "CONFIG", "TASK_EXEC", "TEST_FAIL", "TIMEOUT", "DEPENDENCY", "SESSION_TIMEOUT")
"""Categories of failed attempts (``tasklist.md`` 12.1)."""

DEFAULT_LEASE_SECONDS = 1800.0
DEFAULT_TIMEOUT_SECONDS = 300.0
DEFAULT_MAX_ATTEMPTS = 3
WORKTREE, IN_PLACE = "worktree", "in_place"
"""Settings for the place where a validation runs: a checkout of the candidate commit, or the project folder itself."""
DEFAULT_MAX_TASKS = 20
DEFAULT_MAX_SESSIONS = 50
KNOWN_MEMBERS = frozenset(
    (
        *("id", "title", "status", "priority", "depends_on", "attempts", "max_attempts", "validation", "on_failure"),
        *("started_at_commit", "started_branch", "base_ref", "error_log", "checkpoints", "completed_at", "failed_at"),
        *("claimed_by", "claimed_at", "claimed_process", "claimed_session", "lease_expires_at", "lease_seconds"),
        *("claimed_run", "landing", "touches"),
        *("claim_token", "worktree", "last_claim_token", "last_owner", "last_session", "rescues", "proof"),
        "question",
    )
)
"""Members of a task that belong to the task format."""
BROKEN = "broken"
"""Kind of question about a completed task that no longer passes."""
PROVEN, CHECKED, ACCEPT, ASK = "proven", "checked", "accept", "ask"
"""Grades that a task can require, and settings for the case that its check passes without any change."""
STATUSES = ("pending", "in_progress", "completed", "failed")
_RANKS = {"P0": 0, "P1": 1, "P2": 2}
_LAST_RANK = 3


def whole(value: object, default: int = 0) -> int:
    """Return the number as an integer of at least 0, or the default."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return default
    try:
        return max(0, int(value))
    except (ValueError, OverflowError):  # NaN and infinity
        return default


def real(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < 1e300 else None  # NaN is smaller than nothing


def _copied(value: object) -> object:
    if isinstance(value, dict):
        return {name: _copied(each) for name, each in value.items()}
    return [_copied(each) for each in value] if isinstance(value, list) else value


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _command_of(value: object, name: str = "command") -> str | None:
    found = members_of(value).get(name)
    return found if isinstance(found, str) and found.strip() else None


class FinishedStep:
    __slots__ = ("attempt", "record", "step")

    def __init__(self, record: JsonObject) -> None:
        self.record = record
        self.step = record.get("step")
        self.attempt = record.get("attempt")

    def is_of(self, attempt: int) -> bool:
        return self.attempt in (None, attempt)


class Task:
    """Task of the task list. A malformed member counts as missing."""

    __slots__ = ("raw",)

    id = member("id", lambda found: found if isinstance(found, str) else "")
    _title = member("title", _text)
    _description = member("description", _text)
    priority = member("priority", _text)
    attempts = member("attempts", whole)
    max_attempts = member("max_attempts", lambda found: whole(found, DEFAULT_MAX_ATTEMPTS))
    _validation = member("validation", members_of)
    validation_command = member("validation", _command_of)
    cleanup = member("on_failure", lambda found: _command_of(found, "cleanup"))
    error_log = member("error_log", texts)
    rescues = member("rescues", texts)
    proof = member("proof", members_of)
    checkpoints = member("checkpoints", lambda found: [FinishedStep(each) for each in objects_in(found)])
    completed_commit = member("completed_commit", _text)
    failed_at = member("failed_at", clock.parse)
    worktree = member("worktree", _text)
    started_at_commit = member("started_at_commit", _text)
    started_branch = member("started_branch", _text)
    base_ref = member("base_ref", _text)
    claimed_by = member("claimed_by", _text)
    claimed_at = member("claimed_at", clock.parse)
    claimed_process = member("claimed_process", lambda found: found)
    claimed_run = member("claimed_run", json_object)
    claim_token = member("claim_token", _text)
    lease_expires_at = member("lease_expires_at", clock.parse)
    last_claim_token = member("last_claim_token", _text)
    last_owner = member("last_owner", _text)

    def __init__(self, raw: JsonObject) -> None:
        self.raw = raw

    def __repr__(self) -> str:
        return f"Task({self.id!r}, {self.status!r})"

    def copy(self) -> JsonObject:
        return _copied(self.raw)  # type: ignore[return-value]

    @property
    def title(self) -> str:
        return " ".join((self._title or self._description or "").split())

    @property
    def asked(self) -> str:
        return " ".join(filter(None, (self._title, self._description)))

    @property
    def status(self) -> str:
        """Status of the task in the file, or ``pending`` without a status."""
        found = self.raw.get("status") or "pending"
        return found if isinstance(found, str) else repr(found)

    @property
    def rank(self) -> int:
        """Priority of the task as a number: 0 for P0, 1 for P1, 2 for P2, and 3 for any other value."""
        return _RANKS.get(self.priority or "", _LAST_RANK)

    @property
    def depends_on(self) -> list[str] | None:
        """Ids of the tasks on which this task depends, or ``None`` if they are malformed."""
        found = self.raw.get("depends_on")
        if found is None:
            return []
        return [each if isinstance(each, str) else repr(each) for each in found] if isinstance(found, list) else None

    @property
    def attempts_made(self) -> int:
        """Number of attempts that agents have made, even if ``attempts`` is higher."""
        # ``attempts`` is higher while a task waits for the user, so that it is not retried
        return whole((self.question or {}).get("attempts"), self.attempts)

    @property
    def timeout_seconds(self) -> float:
        found = self._validation.get("timeout_seconds")
        seconds = real(found)
        return seconds if seconds is not None and seconds > 0 else DEFAULT_TIMEOUT_SECONDS

    @property
    def may_change(self) -> list[str]:
        """Patterns of files that the task may change although they belong to its check."""
        return [each for each in texts(self._validation.get("may_change")) if each]

    @property
    def requires(self) -> str | None:
        """Grade that the task requires, or None if the list's setting applies."""
        found = self._validation.get("requires")
        return found if found in (PROVEN, CHECKED) else None

    @property
    def accepts_unchanged(self) -> bool:
        """True if the user allows the harness to complete this task without any change."""
        return self._validation.get("unchanged") == ACCEPT

    @property
    def question(self) -> JsonObject | None:
        return json_object(self.raw.get("question")) if self.status == "failed" else None

    @property
    def rest(self) -> JsonObject:
        """Members that the task format does not define."""
        return {name: value for name, value in self.raw.items() if name not in KNOWN_MEMBERS}

    @property
    def checkpoints_of_attempt(self) -> list[FinishedStep]:
        """Checkpoints (finished steps) that the agent recorded during the present attempt."""
        return [each for each in self.checkpoints if each.is_of(self.attempts + 1)]

    @property
    def lease(self) -> Lease | None:
        """Lease of the task's claim, or ``None`` without a readable expiry time."""
        from agent_harness.kernel.lease import Lease

        ends = self.lease_expires_at
        if ends is None:
            return None
        began = self.claimed_at
        seconds = real(self.raw.get("lease_seconds"))
        if seconds is None:
            seconds = (ends - began).total_seconds() if began else DEFAULT_LEASE_SECONDS
        return Lease(self.claimed_by or "", self.claim_token or "", began or ends, ends, seconds)

    @property
    def blocked_only(self) -> bool:
        """True if the task failed only because of its dependencies."""
        reasons = [each for each in self.error_log if each.startswith("[DEPENDENCY]")]
        return bool(reasons) and all(each.startswith("[DEPENDENCY] Blocked by failed") for each in reasons)

    @property
    def given_up(self) -> bool:
        """True if the task has failed, and has no attempt left or a dependency error."""
        if self.status != "failed":
            return False
        return self.attempts >= self.max_attempts or any(each.startswith("[DEPENDENCY]") for each in self.error_log)


class ListMistake:
    """Mistake in the task list file that the user must correct."""

    __slots__ = ("field", "message", "task_id")

    def __init__(self, task_id: str | None, field: str, message: str) -> None:
        self.task_id = task_id
        self.field = field
        self.message = message

    def as_json(self) -> JsonObject:
        return {"category": "CONFIG", "task_id": self.task_id, "field": self.field, "message": self.message}


class SessionLease:
    """Session lease in exclusive mode. A lease without a readable expiry time counts as expired."""

    __slots__ = ("ends", "owner", "process", "record", "renewed")

    def __init__(self, record: JsonObject) -> None:
        self.record = record
        self.owner = record.get("owner")
        self.process = record.get("process")  # of the owner, for a proof of its death
        self.renewed = clock.parse(record.get("renewed_at"))
        self.ends = clock.parse(record.get("expires_at"))


class SessionConfig:
    """Settings in the member ``session_config`` of the task list."""

    __slots__ = (
        "concurrent",
        "fix_rounds",
        "isolation",
        "max_sessions",
        "max_starts",
        "max_tasks",
        "reflect_iterations",
        "report_after_run",
        "requires",
        "requires_red",
        "rollback_policy",
        "sandbox",
        "trust",
    )

    def __init__(self, record: JsonObject) -> None:
        get = record.get
        rounds, red, policy = get("fix_rounds"), get("requires_red"), get("rollback")
        is_number = isinstance(rounds, int) and not isinstance(rounds, bool) and rounds >= 0
        self.concurrent = get("concurrency_mode") == "concurrent"
        self.max_tasks = whole(get("max_tasks_per_session"), DEFAULT_MAX_TASKS)  # outcomes of a session; 0: any number
        self.max_sessions = whole(get("max_sessions"), DEFAULT_MAX_SESSIONS)  # of the whole list; 0: any number
        self.max_starts = whole(get("max_starts"), 0) or None  # of an agent for one task in a run; else the default
        self.reflect_iterations = whole(get("reflect_iterations"), 0)
        # Further turns of an agent of `harness run` after a failed proof; ``None`` if the list does not say.
        self.fix_rounds: int | None = rounds if is_number else None
        # Place of validations; a list without it was made before there was a choice.
        self.isolation = WORKTREE if get("isolation") == WORKTREE else IN_PLACE
        # Handling of a validation that passes on the earlier code as well.
        self.requires_red: str = red if red in ("off", "tell", "reject") else "tell"
        # Demand on a completion: a check that passes, or a proof. A task may override it.
        self.requires: str = PROVEN if get("requires") == PROVEN else CHECKED
        # Strictness of a proof; the variable is for the person who starts the run.
        trust = os.environ.get("HARNESS_VERIFICATION__TRUST") or get("trust")
        self.trust: str = trust if trust in ("strict", "fast") else "normal"
        # True if `harness run` ends with the page of `harness report`; as with ``trust``.
        report = get("report")
        asked = os.environ.get("HARNESS_REPORT__AFTER_RUN", "").lower()
        self.report_after_run = asked in ("true", "yes", "on", "1") or (
            not asked and isinstance(report, dict) and report.get("after_run") is True
        )
        self.sandbox = get("sandbox")  # as ``kernel.process.sandbox.settings_from`` reads it
        self.rollback_policy: str = policy if policy in ("restore", "none", "hard") else "restore"


class State:
    """Content of a whole task list file. The constructor raises ``StateDamaged`` if ``tasks`` is not a list."""

    __slots__ = ("_by_id", "_findings", "config", "raw", "tasks")

    version = member("version", lambda found: whole(found, VERSION))
    revision = member("revision", whole)
    session_count = member("session_count", whole)
    session = member("session", lambda found: SessionLease(found) if isinstance(found, dict) else None)
    worker_sessions = member("worker_sessions", members_of)  # concurrent mode: the running session of each worker
    halt = member("halt", json_object)  # why the list is halted; ``None``: it is not

    def __init__(self, raw: JsonObject) -> None:
        found = raw.get("tasks")
        if not isinstance(found, list):
            raise StateDamaged("harness-tasks.json has no list of tasks", hint="harness task recover")
        self.raw = raw
        self.config = SessionConfig(members_of(raw.get("session_config")))
        self.tasks = [Task(each) for each in found if isinstance(each, dict)]
        self._by_id: dict[str, Task] | None = None
        self._findings: list[ListMistake] | None = None

    def copy(self) -> State:
        """Return a copy. The caller may replace members of tasks, but must not change nested values."""
        tasks = [{**each} if isinstance(each, dict) else each for each in self.raw["tasks"]]
        return State({**self.raw, "tasks": tasks})

    @property
    def by_id(self) -> dict[str, Task]:
        """Tasks by id. If several tasks have the same id, only the first counts."""
        if self._by_id is None:
            self._by_id = {}
            for task in self.tasks:
                self._by_id.setdefault(task.id, task)
        return self._by_id

    @property
    def sessions_used_up(self) -> bool:
        return 0 < self.config.max_sessions <= self.session_count

    def findings(self) -> list[ListMistake]:
        """Return the mistakes in the task list, such as duplicate ids, invalid dependencies and unknown statuses."""
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
                found.append(ListMistake(task.id, "id", f"two tasks have the id {task.id}"))
            seen.add(task.id)
        return found

    def _other_findings(self) -> list[ListMistake]:
        known = self.by_id
        found: list[ListMistake] = []
        for task in self.tasks:
            needs = task.depends_on
            if needs is None:
                found.append(ListMistake(task.id, "depends_on", f"depends_on of {task.id} is not a list"))
            elif task.status in ("pending", "failed"):
                found += [
                    ListMistake(task.id, "depends_on", f"{task.id} depends on {need}, which is not a task")
                    for need in needs
                    if need not in known
                ]
            if task.status not in STATUSES:
                found.append(ListMistake(task.id, "status", f"{task.id} has the unknown status {task.status!r}"))
        return found
