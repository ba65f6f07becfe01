"""Callers of the task list commands: how the harness identifies them, and how they renew their claims.

A worker without an id is identified by its session. A session without an id is identified by the process in which the
session runs. This process is the nearest ancestor that is not a shell, because an agent starts each command in a new
shell. If a user types the commands, the process is the shell of the user's terminal. Source: ``tasklist.md`` 7.3, 10,
10.2."""

from __future__ import annotations

import os
import time

from agent_harness.errors import Busy, LeaseLost, NotOwner, StateDamaged, UsageError
from agent_harness.kernel import lease
from agent_harness.kernel.json import JsonObject, members_of
from agent_harness.protocols.tasklist import lifecycle
from agent_harness.protocols.tasklist.claims import leases
from agent_harness.protocols.tasklist.layout import written
from agent_harness.protocols.tasklist.records import DEFAULT_LEASE_SECONDS, Task
from agent_harness.protocols.tasklist.store import TaskStore

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from agent_harness.kernel.git import Git
    from agent_harness.kernel.owner import Owner
    from agent_harness.protocols.tasklist.layout import TaskListLayout
    from agent_harness.protocols.tasklist.records import State
    from agent_harness.protocols.tasklist.store import TaskListChange


_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "fish", "ksh", "timeout", "env", "harness"))
_MOST_ANCESTORS = 32
_SOON_SECONDS = 1.0
_TAIL_LINES = 40


class ClaimRecord:
    """Content of ``.harness/claims/ID.json``: the state at a task's last claim, and notes about the claim."""

    __slots__ = ("attempt", "branch", "head", "record", "ref", "task_id", "tree")

    def __init__(self, record: JsonObject) -> None:
        self.record = record
        self.task_id = record.get("task")
        self.attempt = record.get("attempt")
        ref, head, branch, tree = (record.get(name) for name in ("ref", "head", "branch", "tree"))
        self.ref = ref if isinstance(ref, str) else None  # of the snapshot
        self.head = head if isinstance(head, str) else None  # the commit that was checked out
        self.branch = branch if isinstance(branch, str) else None
        self.tree = tree if isinstance(tree, str) else None  # as ``layout.written`` writes it

    @property
    def snapshot(self) -> JsonObject:
        return members_of(self.record.get("snapshot"))

    def is_of(self, task: Task) -> bool:
        return (self.task_id, self.attempt, self.ref) == (task.id, task.attempts + 1, task.base_ref)

    def noted(self, name: str, claim: str) -> JsonObject:
        found = members_of(self.record.get(name))
        return found if found.get("claim") == claim else {}


class Caller:
    """Worker or user who calls the task list. The state must confirm the caller's id and token."""

    __slots__ = (
        *("_git", "_process", "cwd", "environ", "first_look", "goes_on", "id", "layout", "session_id", "store"),
        "token",
    )

    def __init__(
        self,
        layout: TaskListLayout,
        store: TaskStore,
        *,
        worker_id: str | None,
        session_id: str | None,
        token: str | None,
        cwd: str,
        environ: Mapping[str, str],
        process: Owner | None = None,
    ) -> None:
        self.layout = layout
        self.store = store
        self.id = worker_id  # None: nobody has named this worker
        self.session_id = session_id  # None: known by its process
        self.token = token
        self.cwd = cwd
        self.environ = dict(environ)
        self.goes_on = ""  # the name of a run that makes one attempt after the other, and closes the last
        self.first_look: tuple[str, str, str] | None = None  # file, run and workspace, of a run with several agents
        self._git: list[Git | None] = []
        self._process: list[Owner | None] = [process] if process else []

    @classmethod
    def open(
        cls,
        layout: TaskListLayout,
        *,
        worker_id: str | None = None,
        session_id: str | None = None,
        token: str | None = None,
        lock_timeout_seconds: float = 5.0,
        cwd: str | None = None,
        environ: Mapping[str, str] | None = None,
        now: datetime | None = None,
        process: Owner | None = None,
    ) -> Caller:
        """Return a caller. Environment variables replace missing arguments."""
        found = os.environ if environ is None else environ

        def given(value: str | None, *names: str) -> str | None:
            named = (each.strip() for each in (value, *map(found.get, names)) if each)
            text = next(filter(None, named), None)
            return text.encode("utf-8", "replace").decode() if text else None

        return cls(
            layout,
            TaskStore(layout, lock_timeout_seconds=lock_timeout_seconds, now=now),
            worker_id=given(worker_id, "HARNESS_WORKER_ID"),
            session_id=given(session_id, "HARNESS_SESSION_ID", "CLAUDE_CODE_SESSION_ID", "CODEX_THREAD_ID"),
            token=given(token, "HARNESS_CLAIM_TOKEN"),
            cwd=os.path.realpath(cwd or os.getcwd()),
            environ=found,
            process=process,
        )

    @property
    def process(self) -> Owner | None:
        """Process in which the session runs, or ``None`` if this process is unknown."""
        if not self._process:
            self._process.append(_program_above())
        return self._process[0]

    @property
    def session_owner(self) -> str:
        if self.session_id:
            return self.session_id
        return f"{os.uname().nodename}:{self.process.pid if self.process else os.getppid()}"

    @property
    def owner(self) -> str:
        if self.id:
            return self.id
        if not self.session_id:
            return self.session_owner
        return f"{os.uname().nodename}:{self.session_id}"

    @property
    def git(self) -> Git | None:
        """Git client for this caller's work tree, or ``None`` outside a git repository."""
        if not self._git:
            self._git.append(self._find_git())
        return self._git[0]

    def _find_git(self) -> Git | None:
        if not _in_a_repository(self.cwd):
            return None
        from agent_harness.kernel.git import Git

        git = Git(self.cwd)
        return Git(git.top()) if git.is_repository else None

    @property
    def tree(self) -> str:
        """Real path of the work tree or, outside a git repository, of the working directory."""
        git = self.git
        return os.path.realpath(git.top()) if git else self.cwd

    @property
    def tree_name(self) -> str:
        return written(self.tree)

    def own(self, state: State, task_id: str, now: datetime) -> Task:
        """Return the task in progress that this caller has claimed, and renew the session lease."""
        leases.keep(state, self, now)
        task = self.find(state, task_id)
        if task.status != "in_progress":
            raise NotOwner(
                f"{task_id} is {task.status}, not in progress", hint="harness task claim", status=task.status
            )
        self.check_token(task)
        held = task.lease
        if held and lease.expired(held, now):
            raise LeaseLost(f"The lease on {task_id} expired. Stop changing its files", hint="harness task claim")
        return task

    def find(self, state: State, task_id: str) -> Task:
        task = state.by_id.get(task_id)
        if task is None:
            raise UsageError(f"There is no task {task_id}", hint="harness status")
        return task

    def check_token(self, task: Task) -> None:
        """Raise ``LeaseLost`` or ``NotOwner`` unless the caller owns the task's present claim."""
        if self.token is not None:
            if self.token != task.claim_token:
                raise LeaseLost(
                    f"{task.id} is now claimed by {task.claimed_by or 'another worker'} under another token. Stop "
                    "changing its files",
                    hint="harness task claim",
                )
        # an agent that lost its token can continue under its name
        elif task.claimed_by not in (None, self.owner):
            raise NotOwner(f"{task.id} belongs to {task.claimed_by}", hint="harness task claim", owner=task.claimed_by)

    # -- records of claims -------------------------------------------------------------------------------------------

    def claim_record(self, task_id: str) -> ClaimRecord:
        from agent_harness.errors import HarnessError
        from agent_harness.kernel import files

        try:
            return ClaimRecord(files.read_json(self.layout.claim(task_id)))
        except (OSError, HarnessError):
            return ClaimRecord({})

    def keep_claim_record(self, task_id: str, record: JsonObject) -> None:
        """Write the claim record of a task. The caller must hold the lock or own the claim."""
        from agent_harness.kernel import files

        files.own_place(self.layout.claim(task_id), self.layout.root)
        files.write_json(self.layout.claim(task_id), record)


def renew(caller: Caller, task_id: str, *, lease_seconds: float = DEFAULT_LEASE_SECONDS) -> JsonObject:
    def act(change: TaskListChange) -> JsonObject:
        task = caller.own(change.state, task_id, change.now)
        lifecycle.renew(task, change.now, lease_seconds)
        change.touch(task)
        return {"task_id": task.id, "lease_expires_at": task.raw.get("lease_expires_at")}

    return caller.store.change(act)


def checkpoint(caller: Caller, task_id: str, step: int, total: int, description: str) -> JsonObject:
    from agent_harness.protocols.tasklist import progress

    if not 0 < step <= total:
        raise UsageError(
            f"step must be 1 to {total}, got {step}", hint='harness task checkpoint ID 2/4 "what was done"'
        )

    said = " ".join(description.split()).encode("utf-8", "replace").decode()

    def act(change: TaskListChange) -> JsonObject:
        task = caller.own(change.state, task_id, change.now)
        lifecycle.checkpoint(task, step, total, said, change.now)
        held = task.lease
        lifecycle.renew(task, change.now, held.seconds if held else DEFAULT_LEASE_SECONDS)
        change.note("CHECKPOINT", f"step={step}/{total} {progress.quoted(said)}", task=task.id)
        change.touch(task)
        return {
            "task_id": task.id,
            "step": step,
            "total": total,
            "checkpoints": len(task.checkpoints_of_attempt),
            "lease_expires_at": task.raw.get("lease_expires_at"),
        }

    return caller.store.change(act)


class LeaseKeeper:
    """Callback that renews a task's lease during a long operation, or raises ``LeaseLost``."""

    def __init__(self, caller: Caller, task: Task) -> None:
        self._caller = caller
        self._task_id = task.id
        self._seconds = task.lease.seconds if task.lease and task.lease.seconds > 0 else DEFAULT_LEASE_SECONDS
        self._next = time.monotonic() + self._seconds / 3

    def __call__(self) -> bool:
        if time.monotonic() < self._next:
            return False
        self._caller.store.take_links_away()
        try:
            self._caller.store.change(self._renew)
        except (Busy, StateDamaged):  # the end of the turn restores a list that was removed
            self._next = time.monotonic() + _SOON_SECONDS
        else:
            self._next = time.monotonic() + self._seconds / 3
        return False

    def _renew(self, change: TaskListChange) -> None:
        lifecycle.renew(self._caller.own(change.state, self._task_id, change.now), change.now, self._seconds)
        change.touch()


def run_step(caller: Caller, task_id: str, command: Sequence[str], *, timeout_seconds: float) -> JsonObject:
    """Run a long command, and renew the claim meanwhile. Raise ``LeaseLost`` if the claim is lost."""
    from agent_harness.kernel import process
    from agent_harness.kernel.redact import redact

    task = caller.own(caller.store.read(), task_id, caller.store.now())
    done = process.run(
        command,
        cwd=caller.cwd,
        env=caller.environ,
        timeout_seconds=timeout_seconds,
        stop=LeaseKeeper(caller, task),
    )
    lines = redact(done.output.decode("utf-8", "replace")).splitlines()
    return {
        "task_id": task_id,
        "exit": None if done.timed_out else done.exit_code,
        "seconds": round(done.seconds, 3),
        "tail": lines[-_TAIL_LINES:],
    }


def _in_a_repository(folder: str) -> bool:
    """Return True if the folder is in a git repository, without starting git."""
    # sandboxes of agents leave an empty .git in /tmp, which does not count
    while not _marks_a_work_tree(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above
    return True


def _marks_a_work_tree(entry: str) -> bool:
    try:
        return os.path.lexists(os.path.join(entry, "HEAD")) or (os.path.isfile(entry) and os.path.getsize(entry) > 0)
    except OSError:
        return False


def _program_above() -> Owner | None:
    """Return the process of the agent or, in a terminal, of the user's shell."""
    from agent_harness.kernel import owner

    pid = os.getppid()
    for _ in range(_MOST_ANCESTORS):
        name, above, is_at_terminal = _look(pid)
        if above <= 1 or name.lstrip("-") not in _SHELLS or is_at_terminal:
            break
        pid = above
    return owner.of(pid)


def _look(pid: int) -> tuple[str, int, bool]:
    """Return a process's name, its parent's process id, and whether the process leads a terminal session."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            before, _, after = file.read().rpartition(")")
        fields = after.split()
        return before.partition("(")[2], int(fields[1]), int(fields[3]) == pid and fields[4] != "0"
    except (OSError, ValueError, IndexError):
        return "", 0, False
