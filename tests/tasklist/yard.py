"""A task list in a real repository, and workers that claim its tasks by hand."""

import os
from pathlib import Path
from typing import Any

from agent_harness.kernel import files, lease
from agent_harness.protocols.tasklist import lifecycle, progress, records
from agent_harness.protocols.tasklist.attempts import rollback
from agent_harness.protocols.tasklist.layout import TaskListLayout
from agent_harness.protocols.tasklist.records import State, Task
from agent_harness.protocols.tasklist.workers.worker import Worker
from agent_harness.testing.repo import Repo

__all__ = ["Yard"]

TASK = "task-001"


class Yard:
    """A repository with one commit, and a task list in it (or wherever ``root`` says)."""

    def __init__(self, tmp_path: Path, *, root: Path | None = None, git: bool = True, mode: str = "exclusive") -> None:
        self.path = tmp_path / "project"
        if git:
            self.repo = Repo(self.path, user_settings=True).write("app.py", "one\n").write("lib/b.py", "two\n")
            self.repo.ignore("*.o", "build/").commit("First")
        self.root = root or self.path
        self.root.mkdir(parents=True, exist_ok=True)
        self.layout = TaskListLayout(self.root)
        self.mode = mode
        self.tasks: list[dict[str, Any]] = []

    def add(self, task_id: str = TASK, *, validation: str | None = "true", **members: Any) -> "Yard":
        """One more task."""
        made = records.new_task(task_id, f"Title of {task_id}", validation=validation)
        self.tasks.append({**made, **members})
        state = records.new_state(self.now, mode=self.mode) | {"tasks": self.tasks, "session_count": 1}
        files.write_json(self.layout.tasks, state)
        return self

    @property
    def now(self) -> Any:
        """The time of the disk."""
        return Worker.open(self.layout, worker_id="clock", cwd=str(self.root), environ={}).store.now()

    def worker(self, name: str = "me", *, cwd: Path | None = None, token: str | None = None, **words: Any) -> Worker:
        """A worker in the work tree."""
        return Worker.open(self.layout, worker_id=name, token=token, cwd=str(cwd or self.path), environ={}, **words)

    def claim(
        self, task_id: str = TASK, *, name: str = "me", cwd: Path | None = None, seconds: float = 600.0
    ) -> Worker:
        """A worker that holds the task, as the verb leaves it."""
        worker = self.worker(name, cwd=cwd, token=lease.new_token())
        attempt = worker.store.read().by_id[task_id].attempts + 1
        base = rollback.take_baseline(worker, task_id, attempt)

        def start(change: Any) -> None:
            lifecycle.start(
                change.state.by_id[task_id],
                owner=worker.owner,
                token=str(worker.token),
                at=change.now,
                lease_seconds=seconds,
                head=base["head"] if base else None,
                branch=base["branch"] if base else None,
                base_ref=base["ref"] if base else None,
            )
            change.state.by_id[task_id].raw["worktree"] = worker.tree
            change.touch()

        if base:
            worker.keep_claim_record(task_id, base)
        worker.store.change(start)
        return worker

    def leave_own_work(self) -> None:
        """A person's staged, dirty, deleted, intended, untracked and ignored files."""
        repo = self.repo
        repo.write("gone.py", "g\n").write("half.py", "h\n").stage("gone.py", "half.py").commit("Second", stage=False)
        repo.write("staged.py", "staged\n").stage("staged.py").write("half.py", "staged\n").stage("half.py")
        repo.write("half.py", "staged\nand more\n").write("lib/b.py", "my edit\n").remove("gone.py")
        repo.write("intended", "i\n").git("add", "--intent-to-add", "intended")
        repo.write("notes.txt", "untracked\n").write("x.o", "ignored\n")

    def edit(self, task_id: str = TASK, **members: Any) -> None:
        """Changes members of a task by hand."""
        raw = files.read_json(self.layout.tasks)
        next(each for each in raw["tasks"] if each["id"] == task_id).update(members)
        files.write_json(self.layout.tasks, raw)

    @property
    def state(self) -> State:
        """The state as it is now."""
        return self.worker().store.read()

    def task(self, task_id: str = TASK) -> Task:
        """A task as it is now."""
        return self.state.by_id[task_id]

    def log(self) -> list[str]:
        """The lines of the log, without their time."""
        lines = progress.tail(self.layout, 100)
        return [line.partition("] ")[2] for line in lines]

    def status(self) -> list[str]:
        """The lines of ``git status``, but for the harness's own files."""
        return [line for line in self.repo.status() if not is_harness(line[3:])]

    def seen(self) -> tuple[Any, ...]:
        """What a person sees of the repository: files (but the harness's own), staged content, status, branch."""
        ours = {path: text for path, text in self.repo.files().items() if not is_harness(path)}
        status = self.status()
        staged = [line for line in self.repo.git("ls-files", "-s").splitlines() if not is_harness(line.split("\t")[1])]
        return ours, status, staged, self.repo.head, self.repo.git("rev-parse", "--abbrev-ref", "HEAD")


def is_harness(path: str) -> bool:
    """Whether a path is the harness's own."""
    return any(part.startswith((".harness", "harness-")) for part in path.split(os.sep))
