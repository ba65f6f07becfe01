"""A task list without git, a clock that stands where it is put, and the command line in this very process."""

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, TypeVar

from agent_harness.cli import app
from agent_harness.kernel import files
from agent_harness.protocols.tasklist import progress, records
from agent_harness.protocols.tasklist.claims import claim
from agent_harness.protocols.tasklist.layout import TaskListLayout
from agent_harness.protocols.tasklist.records import State, Task
from agent_harness.protocols.tasklist.store import TaskListChange, TaskStore
from agent_harness.protocols.tasklist.workers.worker import Worker
from agent_harness.testing.repo import Repo

__all__ = ["NOON", "SEED", "Desk", "Ran", "Shop", "after", "state_of", "task"]

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SEED = Path(__file__).parent.parent / "golden/tasklist/2/seed"
"""The example of the document that the protocol comes from."""

T = TypeVar("T")


def after(seconds: float) -> datetime:
    """So many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def task(task_id: str, **members: Any) -> dict[str, Any]:
    """A pending task; ``members`` win."""
    return {**records.new_task(task_id, f"Title of {task_id}", validation="true"), **members}


def state_of(*tasks: Any, **members: Any) -> State:
    """A state in memory."""
    return State({**records.new_state(NOON), "tasks": [*tasks], **members})


class Desk:
    """A task list in a folder of its own, and workers of this process."""

    def __init__(self, root: Path, *tasks: Any, mode: str = "exclusive", **members: Any) -> None:
        self.root = root
        root.mkdir(parents=True, exist_ok=True)
        self.layout = TaskListLayout(root)
        state = records.new_state(NOON, mode=mode) | {"session_count": 1, "tasks": [*tasks], **members}
        files.write_json(self.layout.tasks, state)
        self.now: datetime | None = NOON

    def worker(self, name: str | None = "me", *, session: str | None = "s1", **words: Any) -> Worker:
        """A worker whose clock stands at ``now``."""
        given: dict[str, Any] = {"now": self.now, "cwd": str(self.root), "environ": {}, **words}
        return Worker.open(self.layout, worker_id=name, session_id=session, **given)

    def claim(self, name: str | None = "me", **words: Any) -> Worker:
        """A worker that has claimed a task, and holds its token."""
        worker = self.worker(name)
        worker.token = claim.claim(worker, **words)["token"]
        return worker

    @property
    def store(self) -> TaskStore:
        """The store, at the desk's time."""
        return TaskStore(self.layout, now=self.now, lock_timeout_seconds=0.5)

    def change(self, act: Callable[[TaskListChange], T]) -> T:
        """A change that is written."""

        def touched(change: TaskListChange) -> T:
            change.touch()
            return act(change)

        return self.store.change(touched)

    def edit(self, task_id: str | None = None, **members: Any) -> None:
        """Changes members of a task, or of the whole, without the lock, as a person does."""
        raw = self.raw
        (raw if task_id is None else next(each for each in raw["tasks"] if each["id"] == task_id)).update(members)
        files.write_json(self.layout.tasks, raw)

    @property
    def raw(self) -> dict[str, Any]:
        """The file."""
        return json.loads(self.text)

    @property
    def text(self) -> str:
        """The file, byte for byte."""
        return Path(self.layout.tasks).read_text(encoding="utf-8")

    def task(self, task_id: str) -> Task:
        """A task as it is now."""
        return self.store.read().by_id[task_id]

    def statuses(self) -> list[str]:
        """The tasks' statuses, in the order of the file."""
        return [each.status for each in self.store.read().tasks]

    def log(self, *lines: str) -> list[str]:
        """The lines of the log without their time, after these were added."""
        for line in lines:
            self.store.log(line)
        return [line.partition("] ")[2] or line for line in progress.tail(self.layout, 200)]

    def files(self) -> dict[str, bytes]:
        """Every file below the root but the lock and the clock."""
        found = (each for each in self.root.rglob("*") if each.is_file() and ".git/" not in f"{each}")
        return {str(each.relative_to(self.root)): each.read_bytes() for each in found if each.name not in BY_THE_WAY}


BY_THE_WAY = (".harness-lock", "now")


class Ran:
    """What one command gave back."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code = code
        self.out = out
        self.err = err
        assert "Traceback" not in out + err, out + err

    @property
    def json(self) -> Any:
        """The one object on stdout."""
        return json.loads(self.out)

    def __repr__(self) -> str:
        return f"exit {self.code}\n{self.out}\n{self.err}"


class Shop(Desk):
    """A task list that is worked on by commands; in a repository where ``git`` is true."""

    def __init__(self, root: Path, *tasks: Any, git: bool = False, **words: Any) -> None:
        super().__init__(root, *tasks, **words)
        self.now = None
        self.repo: Repo = Repo(root, user_settings=True) if git else None  # type: ignore[assignment]
        if git:
            (root / ".git/info/exclude").write_text("harness-*\n.harness*\n")
            self.repo.write("app.py", "one\n").commit("First")

    def harness(self, *words: str, **environment: str) -> Ran:
        """Runs a command in this process, in the root, with these variables besides."""
        out, err = io.StringIO(), io.StringIO()
        before, there = dict(os.environ), os.getcwd()
        os.environ.update(environment)
        os.chdir(self.root)
        try:
            with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
                code = app.main([*words])
        finally:
            os.chdir(there)
            os.environ.clear()
            os.environ.update(before)
        return Ran(code, out.getvalue(), err.getvalue())

    @contextlib.contextmanager
    def start(self, *words: str, cwd: Path | None = None, **environment: str) -> "Iterator[subprocess.Popen[str]]":
        """A command in a process of its own, which is gone at the end of the block."""
        with subprocess.Popen(
            [sys.executable, "-m", "agent_harness.cli.main", *words],
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
        """A shell script as an agent; ``harness`` in it is this harness."""
        tools = self.root.parent / "tools"
        tools.mkdir(exist_ok=True)
        script = tools / name
        harness = f'harness() {{ "{sys.executable}" -m agent_harness.cli.main "$@"; }}\n'
        script.write_text(f'cat > "{tools}/prompt.$HARNESS_TASK_ID.$HARNESS_ROUND"\n{harness}{text}\n')
        return f"command:sh {script}"

    def prompt(self, task_id: str, number: int = 0) -> str:
        """What the agent was told."""
        return (self.root.parent / f"tools/prompt.{task_id}.{number}").read_text()

    def seed(self) -> "Shop":
        """Puts the example of the protocol's document in place."""
        for each in SEED.iterdir():
            shutil.copy(each, self.root / each.name)
        return self
