"""Selection of the completed tasks that a change may break. The harness runs the checks of these tasks before it
accepts the change.

The harness cannot know all files that a check needs. It selects a completed task if the change belongs to a task that
depends on it. It also selects a task whose check mentions a changed file, or whose own work changed such a file. Runs
with one agent and runs with several agents use the same selection."""

import os
import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from agent_harness.kernel.git import GitFailed

if TYPE_CHECKING:
    from agent_harness.kernel.git import Git
    from agent_harness.protocols.tasklist.records import Task

MOST = 20
"""Maximum number of completed tasks to check for one change. The check at the end of the run finds other breakage."""
LOOKED_BACK = 1000
"""Number of recently completed tasks to consider in addition to the changed task's dependencies."""

_NAMED_PATHS = 200  # maximum of changed paths that git gets by name; above it git lists all
_WORDS = re.compile(r"[\w./+@%-]+")
_WHOLE_ID = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def concerned(
    git: "Git",
    tasks: Iterable["Task"],
    changed: Collection[bytes],
    *,
    needed: Collection[str] = (),
    besides: Collection[str] = (),
    under_way: Mapping[str, str] | None = None,
) -> list["Task"]:
    """Return the completed tasks that a change to the files ``changed`` may break."""
    commits = under_way or {}
    done = [task for task in tasks if (task.status == "completed" or task.id in commits) and task.id not in besides]
    if not changed or not done:
        return []
    done.sort(key=lambda task: str(task.raw.get("completed_at") or "~"), reverse=True)
    needs = [task for task in done if task.id in needed]
    recent = [task for task in done[:LOOKED_BACK] if task.id not in needed]
    named = {os.fsdecode(path) for path in changed}
    named |= {path.rpartition("/")[2] for path in named}
    met = _touching(git, {task.id: _span(task, commits) for task in recent}, changed)
    near = [task for task in recent if task.id in met or _names(task, named)]
    return [*needs, *near][:MOST]


def _names(task: "Task", named: Collection[str]) -> bool:
    words = _WORDS.findall(task.validation_command or "")
    return any(word.removeprefix("./") in named for word in words)


def _span(task: "Task", commits: Mapping[str, str]) -> tuple[str, str]:
    """Return the commit that contains the task's work, and the commit before it."""
    if task.id in commits:
        return commits[task.id], ""
    return task.completed_commit or "", task.started_at_commit or ""


def _touching(git: "Git", spans: Mapping[str, tuple[str, str]], changed: Collection[bytes]) -> set[str]:
    known = {task: span for task, span in spans.items() if _WHOLE_ID.fullmatch(span[0]) and span[0] != span[1]}
    if not known:
        return set()
    with_bases = {task: f"{now} {was}" if _WHOLE_ID.fullmatch(was) else now for task, (now, was) in known.items()}
    alone = {task: now for task, (now, _) in known.items()}
    for lines in (with_bases, alone):  # a commit that is gone ends git
        try:
            found = _differing(git, lines.values(), changed)
        except GitFailed:
            continue
        return {task for task, (now, _) in known.items() if now in found}
    return set()


def _differing(git: "Git", lines: Iterable[str], changed: Collection[bytes]) -> set[str]:
    paths = [os.fsdecode(path) for path in changed] if len(changed) <= _NAMED_PATHS else []
    words = ("diff-tree", "--stdin", "-r", "--root", "--name-only", "-z", "--pretty=format:%x01%H", "--", *paths)
    asked = "".join(f"{line}\n" for line in dict.fromkeys(lines)).encode()
    rows = git.run(*words, input=asked, env={"GIT_LITERAL_PATHSPECS": "1"}).split(b"\x01")
    found = set()
    for row in rows[1:]:
        commit, _, names = row.partition(b"\n")
        if paths or not {*names.split(b"\0")}.isdisjoint(changed):
            found.add(commit.decode())
    return found
