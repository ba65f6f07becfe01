"""Who is asking: a worker with its session, its claim token and its work tree.

A worker without an id is known by its session. A session without an id is known by the program that it runs in: the
nearest process above that is no shell, since an agent starts every command in a shell of its own; for a person at a
terminal, the shell of that terminal. Source:
``tasklist.md`` 7.3, 10.
"""

from __future__ import annotations

import os

from agent_harness.errors import LeaseLost, NotOwner, UsageError
from agent_harness.kernel import lease
from agent_harness.protocols.tasklist.layout import written
from agent_harness.protocols.tasklist.records import Task
from agent_harness.protocols.tasklist.store import TaskStore
from agent_harness.protocols.tasklist.workers import session_lease

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime
    from typing import Any

    from agent_harness.kernel.git import Git
    from agent_harness.kernel.owner import Owner
    from agent_harness.protocols.tasklist.layout import TaskListLayout
    from agent_harness.protocols.tasklist.records import State

    Record = dict[str, Any]

__all__ = ["Worker"]

_SHELLS = frozenset(("sh", "bash", "dash", "zsh", "fish", "ksh", "timeout", "env", "harness"))
_MOST_ANCESTORS = 32


class Worker:
    """One caller of the verbs. Nothing here is trusted but what the state confirms."""

    __slots__ = ("_git", "_process", "cwd", "environ", "id", "layout", "session_id", "store", "token")

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
    ) -> Worker:
        """A worker by what was given, else by the environment. Blank values name nobody.

        ``process`` is the program whose death ends the session, where that is not the one above.
        """
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
        """The program that the session runs in; ``None`` when it cannot be told."""
        if not self._process:
            self._process.append(_program_above())
        return self._process[0]

    @property
    def session_owner(self) -> str:
        """Who holds a session lease when this worker does."""
        if self.session_id:
            return self.session_id
        return f"{os.uname().nodename}:{self.process.pid if self.process else os.getppid()}"

    @property
    def owner(self) -> str:
        """Who holds a claim when this worker does: its id, else host and session."""
        if self.id:
            return self.id
        if not self.session_id:
            return self.session_owner
        return f"{os.uname().nodename}:{self.session_id}"

    @property
    def git(self) -> Git | None:
        """Git in this worker's own work tree; ``None`` outside of one."""
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
        """The top folder of the work tree, else the working directory; links resolved."""
        git = self.git
        return os.path.realpath(git.top()) if git else self.cwd

    @property
    def tree_name(self) -> str:
        """``tree`` as the state holds it."""
        return written(self.tree)

    def own(self, state: State, task_id: str, now: datetime) -> Task:
        """The task in progress of that id, when it is this worker's and its lease still stands; renews the session.

        ``UsageError`` for an unknown id, ``NotOwner`` for a task that is not in progress or somebody else's,
        ``LeaseLost`` for another token or an expired lease; a worker that slept past its lease can change nothing.
        """
        session_lease.keep(state, self, now)
        task = self.find(state, task_id)
        if task.status != "in_progress":
            raise NotOwner(
                f"{task_id} is {task.status}, not in progress", hint="harness task claim", status=task.status
            )
        self.check_token(task)
        held = task.lease
        if held and lease.expired(held, now):
            raise LeaseLost(f"The lease on {task_id} expired; stop touching its files", hint="harness task claim")
        return task

    def find(self, state: State, task_id: str) -> Task:
        """The task of that id; ``UsageError`` when there is none."""
        task = state.by_id.get(task_id)
        if task is None:
            raise UsageError(f"There is no task {task_id}", hint="harness status")
        return task

    def check_token(self, task: Task) -> None:
        """``LeaseLost`` or ``NotOwner`` unless the token is that of the present claim.

        Without a token the owner's name decides, so that an agent that lost it to a context reset can go on.
        """
        if self.token is not None:
            if self.token != task.claim_token:
                raise LeaseLost(
                    f"{task.id} was given to {task.claimed_by or 'somebody else'} under another token; "
                    "stop touching its files",
                    hint="harness task claim",
                )
        elif task.claimed_by not in (None, self.owner):
            raise NotOwner(f"{task.id} belongs to {task.claimed_by}", hint="harness task claim", owner=task.claimed_by)

    # -- what was there at a claim -----------------------------------------------------------------------------------

    def claim_record(self, task_id: str) -> Record:
        """What was kept when the task was claimed last; empty when there is nothing usable."""
        from agent_harness.errors import HarnessError
        from agent_harness.kernel import files

        try:
            return files.read_json(self.layout.claim(task_id))
        except (OSError, HarnessError):
            return {}

    def keep_claim_record(self, task_id: str, record: Record) -> None:
        """Keeps it; called under the lock when a claim is won, and by the owner of the claim later."""
        from agent_harness.kernel import files

        os.makedirs(self.layout.claims, exist_ok=True)
        files.write_json(self.layout.claim(task_id), record, follow=False)


def _in_a_repository(folder: str) -> bool:
    """A cheap look, which spares everybody outside of git the start of a program."""
    while not os.path.lexists(os.path.join(folder, ".git")):
        above = os.path.dirname(folder)
        if above == folder:
            return False
        folder = above
    return True


def _program_above() -> Owner | None:
    """The nearest process above that an agent does not start anew for every command."""
    from agent_harness.kernel import owner

    pid = os.getppid()
    for _ in range(_MOST_ANCESTORS):
        name, above, is_at_terminal = _look(pid)
        if above <= 1 or name.lstrip("-") not in _SHELLS or is_at_terminal:
            break
        pid = above
    return owner.of(pid)


def _look(pid: int) -> tuple[str, int, bool]:
    """(name, parent, whether it leads a session at a terminal, as a person's own shell does)."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            before, _, after = file.read().rpartition(")")
        fields = after.split()
        return before.partition("(")[2], int(fields[1]), int(fields[3]) == pid and fields[4] != "0"
    except (OSError, ValueError, IndexError):
        return "", 0, False
