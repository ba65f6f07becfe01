"""The end state of the policy ``hard``: the work tree as HEAD has it, with nothing lost.

It comes after an ordinary way back, so that only the person's own changes are left to clear. They are in a rescue
before the first file is touched, and what is untracked is moved, not deleted. Ignored files and the harness's own stay.
Source: ``tasklist.md`` 11.3.
"""

import os
from typing import TYPE_CHECKING

from agent_harness.kernel.git.status import joined
from agent_harness.kernel.snapshot.set_aside import Aside
from agent_harness.protocols.tasklist.attempts.attempt import RESCUE_REFS, Attempt, ref_folder

if TYPE_CHECKING:
    from agent_harness.protocols.tasklist.records import Task
    from agent_harness.protocols.tasklist.workers.worker import Worker

__all__ = ["clear"]


def clear(worker: "Worker", task: "Task", attempt: Attempt) -> str | None:
    """Takes away what the person had not committed at the claim; the ref of its rescue, ``None`` if there was nothing.

    Safe to repeat after a crash.
    """
    git = attempt.place.git
    tracked, untracked = _own_changes(attempt)
    if not tracked and not untracked:
        return None
    ref = f"{ref_folder(RESCUE_REFS, task.id)}/own-{attempt.snapshot.commit[:12]}"
    git.update_ref(ref, attempt.snapshot.commit)
    aside = Aside(git, worker.layout.rescue_files(task.id, 0))
    for path in untracked:
        aside.move(path)
    if tracked:
        words = ("restore", "--source=HEAD", "--staged", "--worktree", "--pathspec-from-file=-", "--pathspec-file-nul")
        git.run(*words, input=joined(tracked), env={"GIT_LITERAL_PATHSPECS": "1"})
    return ref


def _own_changes(attempt: Attempt) -> tuple[list[bytes], list[bytes]]:
    """What is not as in HEAD: paths that HEAD or the index has, and paths that only the work tree has."""
    tracked: list[bytes] = []
    untracked: list[bytes] = []
    for status, name in attempt.place.git.status():
        path = os.fsencode(name)
        if not attempt.place.is_ours(path) and not name.endswith("/"):
            (untracked if status == "??" else tracked).append(path)
    return tracked, untracked
