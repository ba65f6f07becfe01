"""Task lists for tests, each in a separate folder.

    project = TaskListProject(tmp_path / "list", task("task-001"), git=True)
    assert project.harness("task", "claim").code == 0
    assert project.task("task-001").status == "in_progress"

All actions use the files, the command line and the protocol's own rules. No test doubles are used."""

import contextlib
import copy
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Self, TypeVar

from agent_harness.cli import main
from agent_harness.kernel import files, lease
from agent_harness.protocols.tasklist import lifecycle, planning, progress
from agent_harness.protocols.tasklist.attempts import rollback
from agent_harness.protocols.tasklist.claims import claim
from agent_harness.protocols.tasklist.claims.caller import Caller
from agent_harness.protocols.tasklist.layout import TaskListLayout
from agent_harness.protocols.tasklist.records import State, Task
from agent_harness.protocols.tasklist.store import TaskListChange, TaskStore
from agent_harness.testing import HARNESS, NOON, CommandResult, run_in_process
from agent_harness.testing.repo import Repo

__all__ = ["NOON", "TASK", "CommandResult", "TaskListProject", "after", "state_of", "task"]

TASK = "task-001"
"""Id of the default task."""

T = TypeVar("T")


def after(seconds: float) -> datetime:
    """Return the time ``seconds`` seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def task(task_id: str, **members: Any) -> dict[str, Any]:
    """Return a pending task. ``members`` replace its default members."""
    return {**planning.new_task(task_id, f"Title of {task_id}", validation="true"), **members}


def state_of(*tasks: Any, **members: Any) -> State:
    return State({**planning.new_state(NOON), "tasks": [*tasks], **members})


class TaskListProject:
    """Test project with a task list and workers."""

    # path: the work tree of the tasks, by default `root`; now: the time that workers see (None: the real time)

    repo: Repo  # only if there is one

    def __init__(
        self,
        root: Path,
        *tasks: Any,
        git: bool = False,
        path: Path | None = None,
        mode: str = "exclusive",
        **members: Any,
    ) -> None:
        """Create a task list. With ``git``, also create a repository with one commit."""
        self.root, self.path = root, path or root
        self.now: datetime | None = None
        self._session: str | None = "s1"
        root.mkdir(parents=True, exist_ok=True)
        self.layout = TaskListLayout(root)
        state = planning.new_state(NOON, mode=mode) | {"session_count": 1, "tasks": [*tasks], **members}
        files.write_json(self.layout.tasks, state)
        if git:
            self.repo = Repo.with_files(root, {"app.py": "one\n"}, user_settings=True)
            (root / ".git/info/exclude").write_text("harness-*\n.harness*\n")

    @classmethod
    def at_noon(cls, root: Path, *tasks: Any, **words: Any) -> Self:
        """Create a project whose clock shows noon until a test sets ``now``."""
        made = cls(root, *tasks, **words)
        made.now = NOON
        return made

    @classmethod
    def with_sources(
        cls, tmp_path: Path, *, root: Path | None = None, git: bool = True, mode: str = "exclusive"
    ) -> Self:
        """Create an empty task list. With ``git``, also commit source files."""
        # the workers of the list belong to no session
        path = tmp_path / "project"
        repo = None
        if git:
            sources = {"app.py": "one\n", "lib/b.py": "two\n", ".gitignore": "*.o\nbuild/\n"}
            repo = Repo.with_files(path, sources, user_settings=True)
        path.mkdir(parents=True, exist_ok=True)
        made = cls(root or path, path=path, mode=mode)
        made._session = None
        if repo:
            made.repo = repo
        return made

    def copied(self, root: Path) -> Self:
        """Copy the project, and return the copy."""
        made = copy.copy(self)
        made.root = made.path = root
        made.layout = TaskListLayout(root)
        shutil.copytree(self.root, root, symlinks=True)
        if (root / ".git").is_dir():
            made.repo = Repo(root, user_settings=True)
        return made

    # ---- workers of this process -------------------------------------------------------------------------------

    def caller(self, name: str | None = "me", *, cwd: str | Path | None = None, **words: Any) -> Caller:
        """Return a worker in the work tree. By default, it belongs to the project's session."""
        given: dict[str, Any] = {"session": self._session, "now": self.now, "environ": {}, **words}
        given["session_id"] = given.pop("session")
        return Caller.open(self.layout, worker_id=name, cwd=str(cwd or self.path), **given)

    def claim(self, name: str | None = "me", **words: Any) -> Caller:
        """Return a worker that claimed a task and has the task's lease token."""
        caller = self.caller(name)
        caller.token = claim.claim(caller, **words)["token"]
        return caller

    def hold(self, task_id: str = TASK, *, name: str = "me", cwd: Path | None = None, seconds: float = 600.0) -> Caller:
        """Return a worker that holds this task. The task list's rules for claims do not apply."""
        caller = self.caller(name, cwd=cwd, token=lease.new_token())
        attempt = caller.store.read().by_id[task_id].attempts + 1
        base = rollback.take_baseline(caller, task_id, attempt)

        def start(change: TaskListChange) -> None:
            lifecycle.start(
                change.state.by_id[task_id],
                owner=caller.owner,
                token=str(caller.token),
                at=change.now,
                lease_seconds=seconds,
                head=base.head if base else None,
                branch=base.branch if base else None,
                base_ref=base.ref if base else None,
            )
            change.state.by_id[task_id].raw["worktree"] = caller.tree
            change.touch()

        if base:
            caller.keep_claim_record(task_id, base.record)
        caller.store.change(start)
        return caller

    @property
    def store(self) -> TaskStore:
        return TaskStore(self.layout, now=self.now, lock_timeout_seconds=0.5)

    def change(self, act: Callable[[TaskListChange], T]) -> T:
        """Call ``act`` on the locked task list and store the list. Return the result of ``act``."""

        def touched(change: TaskListChange) -> T:
            change.touch()
            return act(change)

        return self.store.change(touched)

    # ---- commands ----------------------------------------------------------------------------------------------

    def harness(self, *words: str, **environment: str) -> CommandResult:
        return run_in_process(main.main, "harness", *words, cwd=self.root, environ=environment)

    @contextlib.contextmanager
    def start(self, *words: str, cwd: Path | None = None, **environment: str) -> "Iterator[subprocess.Popen[str]]":
        """Start a ``harness`` command, and kill it at the end of the ``with`` block."""
        with subprocess.Popen(
            [*HARNESS, *words],
            cwd=cwd or self.root,
            env={**os.environ, **environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def agent(self, text: str, *, name: str = "agent.sh") -> str:
        """Write a shell script that acts as an agent, and return the agent's SPEC. The script can call ``harness``."""
        tools = self.root.parent / "tools"
        tools.mkdir(exist_ok=True)
        script = tools / name
        harness = f'harness() {{ "{sys.executable}" -m agent_harness.cli.main "$@"; }}\n'
        script.write_text(f'cat > "{tools}/prompt.$HARNESS_TASK_ID.$HARNESS_ROUND"\n{harness}{text}\n')
        return f"command:sh {script}"

    def prompt(self, task_id: str, number: int = 0) -> str:
        return (self.root.parent / f"tools/prompt.{task_id}.{number}").read_text()

    # ---- the list ----------------------------------------------------------------------------------------------

    def add(self, task_id: str = TASK, *, validation: str | None = "true", **members: Any) -> Self:
        made = planning.new_task(task_id, f"Title of {task_id}", validation=validation)
        self.edit(tasks=[*self.raw["tasks"], {**made, **members}])
        return self

    def edit(self, task_id: str | None = None, **members: Any) -> None:
        """Change members of a task, or of the whole list."""
        # without the lock, like a person with an editor
        raw = self.raw
        (raw if task_id is None else next(each for each in raw["tasks"] if each["id"] == task_id)).update(members)
        files.write_json(self.layout.tasks, raw)

    def holding(self, folder: Path) -> Self:
        """Copy the files of a folder into the project, and return the project."""
        for each in folder.iterdir():
            shutil.copy(each, self.root / each.name)
        return self

    @property
    def raw(self) -> dict[str, Any]:
        return json.loads(self.text)

    @property
    def text(self) -> str:
        return Path(self.layout.tasks).read_text(encoding="utf-8")

    @property
    def state(self) -> State:
        return self.store.read()

    def task(self, task_id: str = TASK) -> Task:
        return self.state.by_id[task_id]

    def statuses(self) -> list[str]:
        return [each.status for each in self.state.tasks]

    def log(self, *lines: str) -> list[str]:
        """Append lines to the log. Return all lines of the log without their times."""
        for line in lines:
            self.store.log(line)
        return [line.partition("] ")[2] or line for line in progress.tail(self.layout, 200)]

    # ---- the work tree -----------------------------------------------------------------------------------------

    def files(self) -> dict[str, bytes]:
        """Return the content of every file in the root folder, by path."""
        found = (each for each in self.root.rglob("*") if each.is_file() and ".git/" not in f"{each}")
        return {str(each.relative_to(self.root)): each.read_bytes() for each in found if each.name not in _BY_THE_WAY}

    def leave_own_work(self) -> None:
        """Leave uncommitted changes of each kind: staged, unstaged, deleted, intent-to-add, untracked and ignored."""
        repo = self.repo
        repo.write("gone.py", "g\n").write("half.py", "h\n").stage("gone.py", "half.py").commit("Second", stage=False)
        repo.write("staged.py", "staged\n").stage("staged.py").write("half.py", "staged\n").stage("half.py")
        repo.write("half.py", "staged\nand more\n").write("lib/b.py", "my edit\n").remove("gone.py")
        repo.write("intended", "i\n").git("add", "--intent-to-add", "intended")
        repo.write("notes.txt", "untracked\n").write("x.o", "ignored\n")

    def status(self) -> list[str]:
        """Return the lines of ``git status`` that are not about the harness's own files."""
        return [line for line in self.repo.status() if not _is_harness(line[3:])]

    def seen(self) -> tuple[Any, ...]:
        """Return the state of files, index and HEAD, which tests compare."""
        # without the harness's own files
        ours = {path: text for path, text in self.repo.files().items() if not _is_harness(path)}
        staged = [line for line in self.repo.git("ls-files", "-s").splitlines() if not _is_harness(line.split("\t")[1])]
        return ours, self.status(), staged, self.repo.head, self.repo.git("rev-parse", "--abbrev-ref", "HEAD")


_BY_THE_WAY = (".harness-lock", "now")


def _is_harness(path: str) -> bool:
    return any(part.startswith((".harness", "harness-")) for part in Path(path).parts)
